"""Watch what a generator network makes of a walk through its latent space.

    python examples/python/latent_walk.py

With PyTorch and a CUDA device the pictures stay on the GPU from the network to the window. Without, the same network runs
in NumPy. Without a screen the last picture is written to a file. `FRAMES=30` ends the walk there.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

import framelane as fl

SIZE, LATENT, HIDDEN = 256, 16, 32


def weights(seed: int = 7) -> list[Any]:
    """A small network from (x, y, radius, latent) to a colour: the same in each run."""
    random = np.random.default_rng(seed)
    shapes = [(3 + LATENT, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 3)]
    return [(random.normal(size=shape) * 1.6 / np.sqrt(shape[0]) ** 0.5).astype(np.float32) for shape in shapes]


def points() -> Any:
    """Where each pixel is: pixels × 3."""
    y, x = np.mgrid[-1 : 1 : SIZE * 1j, -1 : 1 : SIZE * 1j].astype(np.float32)
    return np.stack([x, y, np.hypot(x, y)], axis=-1).reshape(-1, 3)


def in_numpy() -> Callable[[Any], Any]:
    first, second, third = weights()
    at = points() @ first[:3]

    def net(z: Any) -> Any:
        hidden = np.tanh(np.tanh(at + z @ first[3:]) @ second)
        return (0.5 + 0.5 * np.tanh(hidden @ third)).reshape(SIZE, SIZE, 3)

    return net


def in_torch() -> Callable[[Any], Any] | None:
    """The network on the GPU, if there is one that PyTorch can use."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    first, second, third = (torch.from_numpy(one).cuda() for one in weights())
    at = torch.from_numpy(points()).cuda() @ first[:3]

    def net(z: Any) -> Any:
        hidden = torch.tanh(torch.tanh(at + torch.from_numpy(z).cuda() @ first[3:]) @ second)
        return (0.5 + 0.5 * torch.tanh(hidden @ third)).reshape(SIZE, SIZE, 3)

    return net


def walk(frame: int) -> Any:
    """A closed way through the latent space."""
    phase = np.arange(LATENT, dtype=np.float32)
    return np.sin(frame * 0.02 * (1 + phase % 3) + phase).astype(np.float32)


def main() -> None:
    net = in_torch()
    print("the network runs", "on the GPU, in PyTorch" if net else "on the CPU, in NumPy")
    net = net or in_numpy()
    frames = int(os.environ.get("FRAMES", "0"))
    try:
        with fl.Window("latent walk") as win:
            frame = 0
            while win and not (frames and frame == frames):
                win.show(net(walk(frame)))
                frame += 1
            print(f"{frame} frames by way of {win.status()['path']}")
    except fl.NoScreenError as error:
        print(error)
        display = fl.Offscreen(SIZE, SIZE)
        for frame in range(frames or 100):
            display.show(net(walk(frame)))
        display.save("latent_walk.png")
        print("latent_walk.png is the last frame")


if __name__ == "__main__":
    main()
