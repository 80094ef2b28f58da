"""One small network, many jobs at once: what people do for it today.

Net A is eight small convolutions of 256 × 256, whose launches are what takes the time; net C a super-resolution of 960 × 540
to 1920 × 1080. Both in fp16, each job with an input of its own. Jobs a second, and MiB of the device beyond an idle process.
Each job's output must be what its input gives alone (to fp16's rounding: other algorithms may be picked): otherwise the row
is void.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import measure

measure.needs_cuda()

import torch  # noqa: E402
from torch import nn  # noqa: E402

torch.backends.cudnn.benchmark = True
SHAPES = {"A": (1, 3, 256, 256), "C": (1, 3, 540, 960)}
TITLES = {"A": "net A (8 convolutions, 256 × 256)", "C": "net C (960 × 540 to 1920 × 1080)"}
SECONDS = 1.5


def network(name: str) -> nn.Module:
    torch.manual_seed(0)
    if name == "A":
        layers: list[nn.Module] = []
        for channels in [3] + [32] * 7:
            layers += [nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU()]
        net = nn.Sequential(*layers, nn.Conv2d(32, 3, 3, padding=1))
    else:
        net = nn.Sequential(
            *[nn.Conv2d(3, 64, 5, padding=2), nn.ReLU(), nn.Conv2d(64, 32, 3, padding=1), nn.ReLU()],
            *[nn.Conv2d(32, 12, 3, padding=1), nn.PixelShuffle(2)],
        )
    return net.cuda().half().eval()


def given(name: str, job: int) -> torch.Tensor:
    return torch.rand(SHAPES[name], generator=torch.Generator().manual_seed(job)).cuda().half()


def used() -> float:
    free, total = torch.cuda.mem_get_info()
    return float(total - free) / 2**20


def same(found: torch.Tensor, want: torch.Tensor, job: int) -> None:
    if not torch.allclose(found.float(), want.float(), rtol=1e-2, atol=1e-2):
        raise measure.Void(f"job {job} gave what is not its input's")


def worker(name: str, job: int) -> None:
    """One of several processes: says when it is ready, works when it is told to, and says what it did."""
    net, x = network(name), given(name, job)
    for _ in range(30):
        y = net(x)
    torch.cuda.synchronize()
    print("ready", flush=True)
    sys.stdin.readline()
    start, jobs = time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        y = net(x)
        torch.cuda.synchronize()
        jobs += 1
    took = time.perf_counter() - start
    print(jobs / took, float(y.float().mean()), float(y.float().std()), flush=True)
    # Its memory is counted meanwhile; it ends with the parent, too.
    sys.stdin.readline()


def processes(name: str, jobs: int, net: nn.Module, idle: float) -> measure.Measured:
    asked = [sys.executable, __file__, "--worker", name]
    started: list[Any] = []
    try:
        for job in range(jobs):
            program = [*asked, str(job)]
            started.append(subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        for process in started:
            if process.stdout.readline().strip() != "ready":
                raise RuntimeError("a worker ended before it was ready")
        for process in started:
            process.stdin.write("go\n")
            process.stdin.flush()
        rate = 0.0
        for job, process in enumerate(started):
            jobs_s, mean, deviation = map(float, process.stdout.readline().split())
            want = net(given(name, job)).float()
            if abs(mean - float(want.mean())) > 1e-3 or abs(deviation - float(want.std())) > 1e-3:
                raise measure.Void(f"job {job} gave what is not its input's")
            rate += jobs_s
        return measure.Measured(rate, {"MiB": used() - idle})
    finally:
        for process in started:
            process.kill()
            process.communicate()


def threads(name: str, jobs: int, net: nn.Module, idle: float) -> measure.Measured:
    counts, outputs = [0] * jobs, [torch.empty(0)] * jobs
    stop, begin = threading.Event(), threading.Barrier(jobs + 1)

    def work(job: int) -> None:
        stream, x = torch.cuda.Stream(), given(name, job)
        torch.cuda.synchronize()
        # Of this thread alone, as PyTorch has it.
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(30):
                net(x)
            stream.synchronize()
            begin.wait()
            while not stop.is_set():
                outputs[job] = net(x)
                stream.synchronize()
                counts[job] += 1

    working = [threading.Thread(target=work, args=(job,)) for job in range(jobs)]
    for thread in working:
        thread.start()
    begin.wait()
    start = time.perf_counter()
    stop.wait(SECONDS)
    rate, memory = sum(counts) / (time.perf_counter() - start), used() - idle
    stop.set()
    for thread in working:
        thread.join()
    for job, output in enumerate(outputs):
        same(output, net(given(name, job)), job)
    return measure.Measured(rate, {"MiB": memory})


def graphs(name: str, jobs: int, net: nn.Module, idle: float) -> measure.Measured:
    made = []
    for job in range(jobs):
        stream, x = torch.cuda.Stream(), given(name, job)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for _ in range(3):
                net(x)
            stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            y = net(x)
        made.append((graph, stream, torch.cuda.Event(), x, y))
    torch.cuda.synchronize()
    flying, done, start = [False] * jobs, 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        for job, (graph, stream, event, _, _) in enumerate(made):
            if flying[job]:
                if not event.query():
                    continue
                done += 1
            with torch.cuda.stream(stream):
                graph.replay()
                event.record()
            flying[job] = True
    torch.cuda.synchronize()
    rate, memory = done / (time.perf_counter() - start), used() - idle
    for job, (_, _, _, x, y) in enumerate(made):
        same(y, net(x), job)
    return measure.Measured(rate, {"MiB": memory})


WAYS: list[tuple[str, Callable[..., measure.Measured]]] = [
    ("worker processes", processes),
    ("threads and streams", threads),
    ("captured graphs, one thread", graphs),
]


def fresh(way: Callable[..., measure.Measured], name: str, jobs: int, idle: float) -> measure.Measured:
    """Without the memory that the row before it left in PyTorch's cache."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    net = network(name)
    for job in range(2):
        net(given(name, job))
    return way(name, jobs, net, idle)


def main() -> None:
    parser = measure.arguments(__doc__, rounds=2)
    parser.add_argument("--jobs", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--nets", nargs="*", default=["A", "C"], choices=["A", "C"])
    parser.add_argument("--worker", nargs=2, metavar=("NET", "JOB"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    torch.set_grad_enabled(False)
    if asked.worker:
        worker(asked.worker[0], int(asked.worker[1]))
        return
    torch.empty(1, device="cuda")
    idle = used()
    results, tables = {}, []
    for name in asked.nets:
        for jobs in asked.jobs:
            rows: list[measure.Row] = [
                (title, lambda way=way: fresh(way, name, jobs, idle))  # type: ignore[misc]
                for title, way in WAYS
            ]
            found = measure.rotate(rows, asked.rounds)
            results[f"{name}, {jobs}"] = found
            title = f"run, {TITLES[name]}, {jobs} at once"
            tables.append(measure.table(title, found, "jobs a second", "worker processes", ["MiB"]))
    tables.append("No row of framelane's: its Python package has no lanes yet, and its networks do not run on CUDA yet.")
    measure.write(asked.out, "peers-run", results, tables)


if __name__ == "__main__":
    main()
