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
import numpy as np
from holoscan.errors import BackpressuredError
from holoscan.execution import DeploymentBinding, DeviceId
from holoscan.schema.image import Image, ImageEncoding
from holoscan_visualization.operators import CudaSink, HolovizOp, ImageLayer

WARM, FRAMES, BUFFERS = 200, 1000, 4
LIMIT_S = 40

width, height = int(sys.argv[1]), int(sys.argv[2])
random = np.random.default_rng(7)
made = [random.integers(0, 256, (height, width, 4), dtype=np.uint8) for _ in range(BUFFERS)]
for frame in made:
    # It blends over black: other values of alpha would change the colours.
    frame[..., 3] = 255
frames = [cupy.asarray(frame) for frame in made]
cupy.cuda.Device().synchronize()
images = [Image(height=height, width=width, encoding=ImageEncoding.RGBA8, data=frame) for frame in frames]
answer: dict[str, Any] = {}


count = {"sent": 0, "received": 0}
start = [0.0]


class Source(hs.Operator):  # type: ignore[misc]
    out = hs.Output("out", Image)

    def setup(self, spec: Any) -> None:
        spec.output(self.out)

    def contract(self) -> Any:
        return hs.Contract().trigger(hs.OnClock(period=timedelta(microseconds=1)))

    def compute(self, ctx: Any) -> None:
        try:
            sent = count["sent"]
            self.out.emit(images[sent % BUFFERS], options=hs.EmitOptions(frame_id=sent + 1))
            count["sent"] += 1
        except BackpressuredError:
            pass


class Sink(hs.Operator):  # type: ignore[misc]
    inp = hs.Input("inp", Image)

    def setup(self, spec: Any) -> None:
        spec.input(self.inp)

    def compute(self, ctx: Any) -> None:
        sample = self.inp.receive()
        count["received"] += 1
        if count["received"] == WARM:
            cupy.cuda.Device().synchronize()
            start[0] = time.perf_counter()
        if count["received"] != WARM + FRAMES:
            return
        cupy.cuda.Device().synchronize()
        took = (time.perf_counter() - start[0]) / FRAMES * 1e6
        with ctx.stream():
            shown, want = cupy.from_dlpack(sample.data.data), frames[(sample.metadata.frame_id - 1) % BUFFERS]
            wrong = int((shown != want).any(-1).sum())
        answer.update({"void": f"{wrong} pixels differ"} if wrong else {"us": took})
        ctx.request_stop()


graph = hs.Graph("peer", default_clock=hs.RealtimeClock)
source, sink = graph.op(Source, "source"), graph.op(Sink, "sink")
layer = ImageLayer(port_name="image", max_width=width, max_height=height, format="rgba8_unorm")
viz = HolovizOp(graph, "viz", layers=[layer], sink=CudaSink(width=width, height=height))
graph.add_flow(source["out"], viz["image"])
graph.add_flow(viz["output"], sink["inp"])
binding = DeploymentBinding()
binding.bind_tensor_output_device(operator_path="viz", output_port="output", device=DeviceId(0))
session = hs.run_async(hs.compile(graph, hs.CompileOptions(deployment=binding)))
if not session.wait(LIMIT_S):
    session.request_stop()
    session.wait(5)
if not answer:
    said = " ".join(f"{session.termination} {session.summary()}".split())
    answer["void"] = f"{count['received']} of {WARM + FRAMES} frames came within {LIMIT_S} s: {said[:600]}"
print(json.dumps(answer), flush=True)
# Its destructors are not what is measured.
os._exit(0)
