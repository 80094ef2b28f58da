"""Train a small network, with the batches made in the loop, and with `framelane.feed` making the next one meanwhile.

    python examples/python/train_feed.py

In NumPy, or in PyTorch if it is there (on CUDA if it can). Both loops see the same batches and end with the same loss; what
differs is the time. `FRAMES=30` is how many batches an epoch has.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import framelane as fl

ROWS, SIDE, CLASSES, EPOCHS = 128, 16, 4, 2
MEAN, STD = 0.5, 0.25


class Pictures:
    """Batches of noisy pictures, of which one quarter is bright: which one is the label."""

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[dict[str, Any]]:
        random = np.random.default_rng(1)
        half = SIDE // 2
        for _ in range(self.batches):
            label = random.integers(0, CLASSES, ROWS)
            image = random.integers(0, 160, (ROWS, SIDE, SIDE, 3), dtype=np.uint8)
            for row, quarter in enumerate(label):
                top, left = quarter // 2 * half, quarter % 2 * half
                image[row, top : top + half, left : left + half] += 90
            yield {"image": image, "label": label}


def numpy_step() -> Callable[[Any, Any], float]:
    """Softmax regression: takes normalised pictures, rows × 3 × height × width."""
    weight = np.zeros((3 * SIDE * SIDE, CLASSES), np.float32)

    def step(image: Any, label: Any) -> float:
        x, rows = np.asarray(image).reshape(ROWS, -1), np.arange(ROWS)
        label = np.asarray(label)
        scores = x @ weight
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        loss = -np.log(odds[rows, label] + 1e-9).mean()
        odds[rows, label] -= 1
        weight[:] -= 0.002 * x.T @ odds / ROWS
        return float(loss)

    return step


def torch_step(torch: Any, device: str) -> Callable[[Any, Any], Any]:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * SIDE * SIDE, CLASSES)).to(device)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.002)

    def step(image: Any, label: Any) -> Any:
        loss = torch.nn.functional.cross_entropy(net(image), label)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        # Not float(loss): that would wait for the GPU in each step.
        return loss.detach()

    return step


def by_hand(pictures: Pictures, torch: Any, device: str) -> Iterator[tuple[Any, Any]]:
    """The same batches, each made when it is asked for."""
    for batch in pictures:
        image = batch["image"].transpose(0, 3, 1, 2).astype(np.float32) / 255
        image, label = (image - MEAN) / STD, batch["label"]
        if torch:
            yield torch.from_numpy(image).to(device), torch.from_numpy(label).to(device)
        else:
            yield image, label


def train(step: Callable[[Any, Any], Any], epoch: Callable[[], Iterable[tuple[Any, Any]]]) -> tuple[float, float]:
    """The last loss, and the seconds that it took."""
    start, loss = time.perf_counter(), 0.0
    for _ in range(EPOCHS):
        for image, label in epoch():
            loss = step(image, label)
    last = float(loss)
    return last, time.perf_counter() - start


def main() -> None:
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        torch = None
    device = "cuda" if torch and torch.cuda.is_available() else "cpu"
    print(f"training in {'PyTorch' if torch else 'NumPy'} on {device}")
    pictures = Pictures(int(os.environ.get("FRAMES", "200")))

    def steps() -> Callable[[Any, Any], Any]:
        return torch_step(torch, device) if torch else numpy_step()

    def as_torch(batch: Any) -> Any:
        """PyTorch's tensors in, PyTorch's tensors out."""
        return {key: torch.from_numpy(value) for key, value in batch.items()} if torch else batch

    loss, seconds = train(steps(), lambda: by_hand(pictures, torch, device))
    print(f"without feed: {seconds:.2f} s, loss {loss:.4f}")

    feed = fl.feed(pictures, device=device, normalize=([MEAN], [STD]), transform=as_torch)
    with feed:
        fed, shorter = train(steps(), lambda: ((batch["image"], batch["label"]) for batch in feed))
        print(f"with feed:    {shorter:.2f} s, loss {fed:.4f}: {seconds / shorter:.2f} times as fast")
        print(feed.stats()["text"])
    assert abs(loss - fed) < 1e-2, "both loops see the same batches"


if __name__ == "__main__":
    main()
