"""Showing a tensor from Python: ours beside what people use.

A frame of h × w × 4 bytes on the GPU is shown again and again. Each row's last pixels are read back and compared: a row that
shows others is void. `.cpu()` and OpenGL need `moderngl` (and `cuda-python` for the interop by hand).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import framelane
import measure

SIZES = [(512, 512), (1920, 1080), (3840, 2160)]


def microseconds(show: Callable[[], Any], finish: Callable[[], Any], frames: int) -> float:
    for _ in range(10):
        show()
    finish()
    start = time.perf_counter()
    for _ in range(frames):
        show()
    finish()
    return (time.perf_counter() - start) / frames * 1e6


def check(shown: np.ndarray[Any, Any], frame: torch.Tensor) -> None:
    wrong = int((shown[..., :3] != frame.cpu().numpy()[..., :3]).any(-1).sum())
    if wrong:
        raise measure.Void(f"{wrong} pixels differ")


def ours(frame: torch.Tensor, width: int, height: int, calls: dict[str, float]) -> Callable[[], float]:
    display = framelane.Offscreen(width, height)

    def run() -> float:
        took = microseconds(lambda: display.show(frame), torch.cuda.synchronize, 1000)
        times = []
        for _ in range(1000):
            start = time.perf_counter()
            display.show(frame)
            times.append((time.perf_counter() - start) * 1e6)
            torch.cuda.synchronize()
        calls["p50"], calls["p99"] = statistics.median(times), statistics.quantiles(times, n=100)[98]
        check(np.asarray(display.image()), frame)
        calls["path"] = display["picture"].path  # type: ignore[assignment]
        return took

    return run


class OpenGl:
    """A texture that is drawn after each upload, headless."""

    def __init__(self, width: int, height: int) -> None:
        import moderngl

        self.context = moderngl.create_context(standalone=True, backend="egl")
        self.texture = self.context.texture((width, height), 4)
        self.target = self.context.framebuffer([self.context.texture((width, height), 4)])
        self.kind = moderngl.TRIANGLES
        program = self.context.program(
            vertex_shader="""#version 330
                out vec2 at;
                void main() { at = vec2((gl_VertexID << 1) & 2, gl_VertexID & 2); gl_Position = vec4(at * 2 - 1, 0, 1); }""",
            fragment_shader="""#version 330
                uniform sampler2D picture; in vec2 at; out vec4 colour;
                void main() { colour = texture(picture, at); }""",
        )
        self.quad = self.context.vertex_array(program, [])
        self.size = (height, width)

    def draw(self) -> None:
        self.target.use()
        self.texture.use(0)
        self.quad.render(self.kind, 3)

    def finish(self) -> None:
        torch.cuda.synchronize()
        self.context.finish()

    def read(self) -> np.ndarray[Any, Any]:
        return np.frombuffer(self.target.read(components=4), np.uint8).reshape(*self.size, 4)


def by_cpu(frame: torch.Tensor, width: int, height: int, pinned: bool) -> Callable[[], float]:
    def run() -> float:
        gl = OpenGl(width, height)
        staging = torch.empty(frame.shape, dtype=torch.uint8, pin_memory=pinned)

        def show() -> None:
            if pinned:
                staging.copy_(frame, non_blocking=True)
                torch.cuda.current_stream().synchronize()
                gl.texture.write(staging.numpy())
            else:
                # As it is done with a shared array between a worker and a viewer.
                array = frame.cpu().numpy()
                np.copyto(staging.numpy(), array)
                gl.texture.write(staging.numpy().copy())
            gl.draw()

        took = microseconds(show, gl.finish, 100 if pinned else 30)
        check(gl.read(), frame)
        return took

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "results")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    results, tables = {}, []
    for width, height in SIZES:
        frame = torch.randint(0, 255, (height, width, 4), dtype=torch.uint8, device="cuda")
        calls: dict[str, float] = {}
        rows: list[measure.Row] = [
            ("framelane", ours(frame, width, height, calls)),
            (".cpu(), copy, OpenGL", by_cpu(frame, width, height, pinned=False)),
            ("pinned copy, OpenGL", by_cpu(frame, width, height, pinned=True)),
        ]
        found = measure.rotate(rows, asked.rounds)
        results[f"{width}x{height}"] = {"rows": found, "call_us": calls}
        tables.append(measure.table(f"show, {width} × {height}", found, "µs a frame", "framelane"))
        tables.append(f"A call of `show` takes {calls.get('p50', 0):.1f} µs (p50), {calls.get('p99', 0):.1f} µs (p99), by {calls.get('path')}.")
    measure.write(asked.out, "peers-show", results, tables)


if __name__ == "__main__":
    main()
