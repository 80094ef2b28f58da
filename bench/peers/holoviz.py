"""Holoscan's Holoviz, headless, one size: `python holoviz.py 1920 1080`. For `show.py`, which starts it.

Frames on the GPU, RGBA8, as fast as it takes them, nobody waiting for any of them; the last one's pixels are compared. The
answer is one line of JSON: `us` a frame, or why it is `void`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import timedelta
from typing import Any

import cupy
import holoscan as hs
from holoscan.errors import BackpressuredError
from holoscan.execution import DeploymentBinding, DeviceId
from holoscan.schema.image import Image, ImageEncoding
from holoscan_visualization.operators import CudaSink, HolovizOp, ImageLayer

WARM, FRAMES, BUFFERS = 200, 1000, 4
LIMIT_S = 40

width, height = int(sys.argv[1]), int(sys.argv[2])
random = cupy.random.RandomState(7)
# It blends over black: other values of alpha would change the colours.
frames = [random.randint(0, 256, (height, width, 4)).astype(cupy.uint8) for _ in range(BUFFERS)]
for frame in frames:
    frame[..., 3] = 255
cupy.cuda.Device().synchronize()
images = [Image(height=height, width=width, encoding=ImageEncoding.RGBA8, data=frame) for frame in frames]
answer: dict[str, Any] = {"void": f"no {WARM + FRAMES} frames came within {LIMIT_S} s"}


class Source(hs.Operator):  # type: ignore[misc]
    out = hs.Output("out", Image)
    sent = 0

    def setup(self, spec: Any) -> None:
        spec.output(self.out)

    def contract(self) -> Any:
        return hs.Contract().trigger(hs.OnClock(period=timedelta(microseconds=1)))

    def compute(self, ctx: Any) -> None:
        try:
            self.out.emit(images[Source.sent % BUFFERS], options=hs.EmitOptions(frame_id=Source.sent + 1))
            Source.sent += 1
        except BackpressuredError:
            pass


class Sink(hs.Operator):  # type: ignore[misc]
    inp = hs.Input("inp", Image)
    received = 0
    start = 0.0

    def setup(self, spec: Any) -> None:
        spec.input(self.inp)

    def compute(self, ctx: Any) -> None:
        sample = self.inp.receive()
        Sink.received += 1
        if Sink.received == WARM:
            cupy.cuda.Device().synchronize()
            Sink.start = time.perf_counter()
        if Sink.received != WARM + FRAMES:
            return
        cupy.cuda.Device().synchronize()
        took = (time.perf_counter() - Sink.start) / FRAMES * 1e6
        with ctx.stream():
            shown, want = cupy.from_dlpack(sample.data.data), frames[(sample.metadata.frame_id - 1) % BUFFERS]
            wrong = int((shown != want).any(-1).sum())
        answer.clear()
        answer.update({"void": f"{wrong} pixels differ"} if wrong else {"us": took})
        ctx.request_stop()


graph = hs.Graph("peer", default_clock=hs.RealtimeClock)
source, sink = graph.op(Source, "source"), graph.op(Sink, "sink")
layer = ImageLayer(port_name="image", max_width=width, max_height=height)
viz = HolovizOp(graph, "viz", layers=[layer], sink=CudaSink(width=width, height=height))
graph.add_flow(source["out"], viz["image"])
graph.add_flow(viz["output"], sink["inp"])
binding = DeploymentBinding()
binding.bind_tensor_output_device(operator_path="viz", output_port="output", device=DeviceId(0))
session = hs.run_async(hs.compile(graph, hs.CompileOptions(deployment=binding)))
session.wait(LIMIT_S)
print(json.dumps(answer), flush=True)
# Its destructors are not what is measured.
os._exit(0)
