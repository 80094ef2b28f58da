"""Frames and batches that stay on the GPU from the moment they are fed until the moment they are seen.

Show a tensor without a trip through the CPU:

>>> import framelane as fl
>>> with fl.Window("latent walk") as win:  # doctest: +SKIP
...     while win:
...         win.show(net(z))

Feed a network while it works:

>>> for batch in fl.feed(loader, device="cuda"):  # doctest: +SKIP
...     loss = net(batch["image"], batch["label"])

Show from worker processes, in one window:

>>> worker = fl.attach("wall", pane="camera 0")  # doctest: +SKIP
>>> worker.show(image)  # doctest: +SKIP
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable
from typing import Any

from . import _native
from ._native import (
    ArgumentError,
    BudgetError,
    CancelledError,
    ClosedError,
    DeviceError,
    Error,
    Feeder,
    HazardError,
    InputError,
    IoError,
    ModelError,
    NoScreenError,
    Offscreen,
    Pane,
    PanicError,
    Tensor,
    TimeoutError,
    UnsupportedError,
    Window,
    Worker,
    __version__,
    counters,
    doctor,
)
from ._residency import Residency, residency
from ._run import run

__all__ = [
    "ArgumentError",
    "BudgetError",
    "CancelledError",
    "ClosedError",
    "DeviceError",
    "Error",
    "Feeder",
    "HazardError",
    "InputError",
    "IoError",
    "ModelError",
    "NoScreenError",
    "Offscreen",
    "Pane",
    "PanicError",
    "Residency",
    "Tensor",
    "TimeoutError",
    "UnsupportedError",
    "Window",
    "Worker",
    "__version__",
    "attach",
    "counters",
    "doctor",
    "feed",
    "residency",
    "run",
]

# Windows are closed and feeds are stopped while the interpreter can still run what they wait for.
atexit.register(_native.shut_down)


def attach(window: str, pane: str = "worker") -> Worker:
    """Show in a window of another process, as a pane of it.

    The other process opened ``Window(title, listen=window)``, or the program runs as ``framelane window NAME``. Where
    both are on one GPU, pictures are written into the window's own memory; otherwise into memory that both map.

    Parameters
    ----------
    window
        The name that the window listens by: 1 to 64 letters, digits, ``.``, ``_`` or ``-``.
    pane
        What the pane is called there: 1 to 64 bytes of text.

    Returns
    -------
    Worker
        Attached with the first array that is shown; ``ClosedError`` then if no such window listens.
    """
    return Worker(window, pane)


def feed(
    iterable: Iterable[Any],
    device: Any = "cuda",
    *,
    depth: int = 2,
    dtype: Any = None,
    normalize: tuple[list[float], list[float]] | None = None,
    layout: str | None = None,
    budget: int | None = None,
    transform: Callable[[Any], Any] | None = None,
) -> Feeder:
    """Feed a device with batches while the last one is worked on.

    A thread of its own takes batches out of ``iterable``, copies their arrays into page-locked memory, and from there, on
    a stream of its own, into a slot on the device that nobody uses. A slot is used again once the last tensor of its
    batch is gone and the streams that read it are done: what a backward pass still needs is never written over.

    Parameters
    ----------
    iterable
        Gives batches: arrays, or dicts, lists, tuples, named tuples and data classes of them, nested. Arrays are NumPy's,
        PyTorch's of the CPU, or any with ``__dlpack__``, ``__array_interface__`` or the buffer protocol. What is no array
        passes as it is. One that is no iterator itself is begun again by each loop.
    device
        ``"cuda"``, ``"cuda:1"`` or ``"cpu"``.
    depth
        Slots on the device: 2 is double buffering. While more batches are held there are more, up to 64 or ``budget``.
    dtype, normalize, layout
        What the device makes of pictures (``uint8``, of 3 or 4 dimensions, the last of 1 to 4 channels), if one of them is
        given: ``"f32"``, ``"f16"`` or ``"bf16"``; ``(mean, std)`` for numbers from 0 to 1, of 1, 3 or 4 channels;
        ``"chw"`` (if nothing is said) or ``"hwc"``.
    budget
        Bytes that the slots on the device may have together.
    transform
        Called with each item of ``iterable``, on the feed's thread; what it returns is the batch.

    Returns
    -------
    Feeder
        Iterate it. PyTorch's tensors come out where such went in, ``framelane.Tensor`` otherwise, which any library takes
        (``torch.from_dlpack``, ``cupy.from_dlpack``, ``numpy.asarray``).

    Raises
    ------
    What ``iterable`` raises, as it was raised, after the batches before it.
    """
    return Feeder(
        iterable,
        device,
        depth=depth,
        dtype=dtype,
        normalize=normalize,
        layout=layout,
        budget=budget,
        transform=transform,
    )
