"""Feeding a network from Python: ours beside what people use.

A training-like step for each batch of 256 × 3 × 224 × 224 bytes from memory: conversion, matrix products that take r times
as long as the copy of a batch, and one more read of the input, as a backward pass does. Each batch has its own number in each
byte, and its sum after the step must be that number's: a row that shows another is void.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import measure

measure.needs_cuda()

import torch  # noqa: E402

import framelane  # noqa: E402

SHAPE = (256, 3, 224, 224)
KINDS = 8
STEPS, WARM = 160, 20


class Items(torch.utils.data.IterableDataset):  # type: ignore[misc]
    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        # Workers take turns, so that the order is that of one.
        worker = torch.utils.data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for i in range(first, self.steps, step):
            yield IMAGES[i % KINDS], LABELS[i % KINDS]


IMAGES = [torch.full(SHAPE, 1 + 30 * k, dtype=torch.uint8) for k in range(KINDS)]
LABELS = [torch.full((SHAPE[0],), k, dtype=torch.long) for k in range(KINDS)]


def seconds(run: Callable[[], Any], times: int = 20) -> float:
    run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / times


class Step:
    """The network: `products` matrix products between two reads of the input."""

    def __init__(self, ratio: float) -> None:
        self.weights = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        pinned, there = IMAGES[0].pin_memory(), torch.empty(SHAPE, dtype=torch.uint8, device="cuda")
        self.copy = seconds(lambda: there.copy_(pinned, non_blocking=True))
        self.wrong = torch.zeros((), dtype=torch.long, device="cuda")
        self.elements = IMAGES[0].numel()
        self.products = 0
        label = LABELS[0].cuda()
        rest = seconds(lambda: self(there, label, 0))
        product = seconds(lambda: self.weights @ self.weights)
        self.products = max(0, round((ratio * self.copy - rest) / product))

    def __call__(self, image: torch.Tensor, label: torch.Tensor, number: int) -> torch.Tensor:
        loss = image.to(torch.bfloat16).sub_(127).div_(58).mean()
        product = self.weights
        for _ in range(self.products):
            product = self.weights @ self.weights
        # The input once more, after everything: what a backward pass would see.
        kind = number % KINDS
        total = image.sum(dtype=torch.long)
        self.wrong += total != self.elements * (1 + 30 * kind)
        self.wrong += label.sum() != kind * SHAPE[0]
        return loss + product[0, 0]


def run(step: Step, batches: Iterator[Any] | Any) -> float:
    """Milliseconds a step."""
    step.wrong.zero_()
    start, count = 0.0, 0
    for number, (image, label) in enumerate(batches):
        if number == WARM:
            torch.cuda.synchronize()
            start = time.perf_counter()
        step(image, label, number)
        count = number + 1
        del image, label
    torch.cuda.synchronize()
    took = (time.perf_counter() - start) / (count - WARM) * 1e3
    if count != STEPS or int(step.wrong):
        raise measure.Void(f"{int(step.wrong)} sums of {count} batches are others'")
    return took


def resident() -> Iterator[Any]:
    there = [(image.cuda(), label.cuda()) for image, label in zip(IMAGES, LABELS)]
    for i in range(STEPS):
        yield there[i % KINDS]


def beside() -> Iterator[Any]:
    """What a feed can reach at best: nothing waits for copies, but they have their share of the memory's bandwidth."""
    there = [(image.cuda(), label.cuda()) for image, label in zip(IMAGES, LABELS)]
    pinned, target, stream = IMAGES[0].pin_memory(), torch.empty_like(there[0][0]), torch.cuda.Stream()
    for i in range(STEPS):
        # One copy a step, and not all of them at once.
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            target.copy_(pinned, non_blocking=True)
        yield there[i % KINDS]


def plain() -> Iterator[Any]:
    for image, label in Items(STEPS):
        yield image.cuda(), label.cuda()


def loader(workers: int) -> Iterator[Any]:
    data = torch.utils.data.DataLoader(Items(STEPS), batch_size=None, pin_memory=True, num_workers=workers)
    for image, label in data:
        yield image.to("cuda", non_blocking=True), label.to("cuda", non_blocking=True)


def apex() -> Iterator[Any]:
    """The prefetcher of apex's examples: the next batch is copied on a stream of its own."""
    data = iter(torch.utils.data.DataLoader(Items(STEPS), batch_size=None, pin_memory=True))
    stream = torch.cuda.Stream()

    def fetch() -> Any:
        try:
            image, label = next(data)
        except StopIteration:
            return None
        with torch.cuda.stream(stream):
            return image.to("cuda", non_blocking=True), label.to("cuda", non_blocking=True)

    ahead = fetch()
    while ahead is not None:
        torch.cuda.current_stream().wait_stream(stream)
        for tensor in ahead:
            tensor.record_stream(torch.cuda.current_stream())
        now, ahead = ahead, fetch()
        yield now


def timm() -> Iterator[Any]:
    from timm.data.loader import PrefetchLoader

    class Loader:
        sampler = None
        dataset = None

        def __iter__(self) -> Iterator[Any]:
            return iter(torch.utils.data.DataLoader(Items(STEPS), batch_size=None, pin_memory=True))

        def __len__(self) -> int:
            return STEPS

    # It makes floats of them as well, on the device: with a mean of 0 and a deviation of 1 the numbers stay.
    yield from PrefetchLoader(Loader(), mean=(0.0,), std=(1 / 255,), channels=3)


def ours(depth: int) -> Iterator[Any]:
    with framelane.feed(Items(STEPS), device="cuda", depth=depth) as feeder:
        yield from feeder


def main() -> None:
    parser = measure.arguments(__doc__, rounds=3)
    parser.add_argument("--ratios", type=float, nargs="*", default=[1.0, 2.0, 4.0])
    asked = parser.parse_args()
    results, tables = {}, []
    for ratio in asked.ratios:
        step = Step(ratio)
        rows: list[measure.Row] = [
            ("resident (no feed)", lambda: run(step, resident())),
            ("resident, as many bytes copied beside", lambda: run(step, beside())),
            ("framelane", lambda: run(step, ours(3))),
            ("timm PrefetchLoader", lambda: run(step, timm())),
            ("apex's prefetcher", lambda: run(step, apex())),
            ("DataLoader, pinned", lambda: run(step, loader(0))),
            ("DataLoader, pinned, 4 workers", lambda: run(step, loader(4))),
            (".cuda()", lambda: run(step, plain())),
        ]
        found = measure.rotate(rows, asked.rounds)
        results[f"r={ratio}"] = {"copy_ms": step.copy * 1e3, "products": step.products, "rows": found}
        title = f"feed, r = {ratio:g} (a copy takes {step.copy * 1e3:.2f} ms)"
        tables.append(measure.table(title, found, "ms a step", "framelane"))
    measure.write(asked.out, "peers-feed", results, tables)


if __name__ == "__main__":
    main()
