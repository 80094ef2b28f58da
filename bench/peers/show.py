"""Showing a tensor from Python: ours beside what people use.

A frame of h × w × 4 bytes on the GPU is shown again and again. Each row's last pixels are read back and compared: a row that
shows others is void. OpenGL needs `moderngl`, and `cuda-python` for the interop by hand; Holoviz `holoscan-core-cu13`,
`holoscan-visualization-cu13` and `cupy`.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure

measure.needs_cuda()

import numpy as np  # noqa: E402
import torch  # noqa: E402

import framelane  # noqa: E402

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
        calls["path"] = display["picture"].path
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


def by_hand(frame: torch.Tensor, width: int, height: int) -> Callable[[], float]:
    """A texture that CUDA knows: mapped, copied into, unmapped and drawn, each time."""

    def run() -> float:
        from cuda.bindings import runtime as cuda

        def done(result: Any) -> Any:
            code, *rest = result
            if int(code) != 0:
                raise RuntimeError(f"CUDA says {code}")
            return rest[0] if rest else None

        gl = OpenGl(width, height)
        texture_2d, discard = 0x0DE1, cuda.cudaGraphicsRegisterFlags.cudaGraphicsRegisterFlagsWriteDiscard
        known = done(cuda.cudaGraphicsGLRegisterImage(gl.texture.glo, texture_2d, discard))
        stream, within = torch.cuda.current_stream().cuda_stream, cuda.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        row = width * 4

        def show() -> None:
            done(cuda.cudaGraphicsMapResources(1, known, stream))
            array = done(cuda.cudaGraphicsSubResourceGetMappedArray(known, 0, 0))
            done(cuda.cudaMemcpy2DToArrayAsync(array, 0, 0, frame.data_ptr(), row, row, height, within, stream))
            done(cuda.cudaGraphicsUnmapResources(1, known, stream))
            gl.draw()

        took = microseconds(show, gl.finish, 200)
        check(gl.read(), frame)
        done(cuda.cudaGraphicsUnregisterResource(known))
        return took

    return run


def holoviz(width: int, height: int) -> Callable[[], float]:
    """In a process of its own, which it does not leave cleanly."""

    def run() -> float:
        program = [sys.executable, str(Path(__file__).parent / "holoviz.py"), str(width), str(height)]
        done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
        found = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if not found:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise RuntimeError(said[-1] if said else f"it ended with {done.returncode}")
        answer = json.loads(found[-1])
        if "void" in answer:
            raise measure.Void(answer["void"])
        return float(answer["us"])

    return run


def main() -> None:
    parser = measure.arguments(__doc__, rounds=3)
    parser.add_argument("--sizes", nargs="*", default=[f"{width}x{height}" for width, height in SIZES])
    asked = parser.parse_args()
    results, tables = {}, []
    for width, height in [tuple(map(int, size.split("x"))) for size in asked.sizes]:
        frame = torch.randint(0, 255, (height, width, 4), dtype=torch.uint8, device="cuda")
        calls: dict[str, float] = {}
        rows: list[measure.Row] = [
            ("framelane", ours(frame, width, height, calls)),
            (".cpu(), copy, OpenGL", by_cpu(frame, width, height, pinned=False)),
            ("pinned copy, OpenGL", by_cpu(frame, width, height, pinned=True)),
            ("OpenGL interop by hand", by_hand(frame, width, height)),
            ("Holoviz, headless", holoviz(width, height)),
        ]
        found = measure.rotate(rows, asked.rounds)
        results[f"{width}x{height}"] = {"rows": found, "call_us": calls}
        tables.append(measure.table(f"show, {width} × {height}", found, "µs a frame", "framelane"))
        tables.append(f"A call of `show` takes {calls.get('p50', 0):.1f} µs (p50), {calls.get('p99', 0):.1f} µs (p99), by {calls.get('path')}.")
    tables.append(
        "framelane's display takes each picture and draws the newest at its own pace; the others draw each one. What a "
        "drawn frame costs framelane is in the results of `cargo xtask bench show`."
    )
    measure.write(asked.out, "peers-show", results, tables)


if __name__ == "__main__":
    main()
