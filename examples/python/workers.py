"""Several processes show in one window: each has a pane of its own, and a CUDA context of its own if it uses one.

    python examples/python/workers.py

Without a screen the workers do not run as processes: their pictures are drawn into one file. `FRAMES=30` is how many each
of them shows.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
from typing import Any

import numpy as np

import framelane as fl

NAMES = ["waves", "rings", "noise"]
SIZE = 192


def picture(name: str, frame: int) -> Any:
    """What a worker works on: float32, height × width, from 0 to 1."""
    y, x = np.mgrid[-1 : 1 : SIZE * 1j, -1 : 1 : SIZE * 1j].astype(np.float32)
    if name == "waves":
        return 0.5 + 0.25 * (np.sin(9 * x + frame * 0.1) + np.cos(7 * y - frame * 0.13))
    if name == "rings":
        return 0.5 + 0.5 * np.sin(20 * np.hypot(x, y) - frame * 0.2)
    return np.random.default_rng(frame).random((SIZE, SIZE), dtype=np.float32)


def on_the_gpu(image: Any) -> Any:
    """The picture as PyTorch's tensor on CUDA, if there is such: it goes to the window without the CPU."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return image
    return torch.from_numpy(image).cuda() if torch.cuda.is_available() else image


def work(window: str, name: str, frames: int) -> None:
    """A process of its own."""
    frame = 0
    with fl.attach(window, pane=name) as worker:
        while worker and not (frames and frame == frames):
            worker.show(on_the_gpu(picture(name, frame)), colours="viridis")
            frame += 1
        worker.settle()
        counts = worker.counts()
        print(f"{name}: {counts['shown']} shown, {counts['drawn']} drawn, by way of {worker.path}", flush=True)


def main() -> None:
    frames, listen = int(os.environ.get("FRAMES", "0")), f"workers-{os.getpid()}"
    try:
        with fl.Window("workers", size=(3 * SIZE, SIZE), listen=listen) as win:
            # "spawn": neither CUDA nor a window survives a fork.
            context = multiprocessing.get_context("spawn")
            workers = [context.Process(target=work, args=(listen, name, frames)) for name in NAMES]
            for worker in workers:
                worker.start()
            while win and any(worker.is_alive() for worker in workers):
                win.wait(0.05)
        for worker in workers:
            worker.join()
    except fl.NoScreenError as error:
        print(error)
        display = fl.Offscreen(3 * SIZE, SIZE)
        for name in NAMES:
            display[name].show(picture(name, frames), colours="viridis")
        display.save("workers.png")
        print("workers.png has a picture of each")


if __name__ == "__main__":
    main()
