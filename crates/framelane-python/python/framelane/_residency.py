"""What crosses between host and device."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from . import _native


class Residency:
    """Bytes that framelane moved between host and device within a ``with`` block, and what its calls waited for.

    Attributes
    ----------
    to_device, from_device
        Bytes copied from page-locked memory to the device, and back, by framelane.
    copies, kernels
        What it enqueued.
    waits
        Its waits of CPU threads for the device: by reason, how many and how long in all (seconds).
    wall_s
        Seconds that the block took.
    """

    def __init__(self, device: Any = "cuda") -> None:
        self._device = device
        self.to_device = 0
        self.from_device = 0
        self.copies = 0
        self.kernels = 0
        self.waits: dict[str, tuple[int, float]] = {}
        self.wall_s = 0.0

    def __enter__(self) -> Residency:
        self._before = _native.counters(self._device)
        self._start = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.wall_s = time.perf_counter() - self._start
        before, now = self._before, _native.counters(self._device)
        self.to_device = now["to_device"] - before["to_device"]
        self.from_device = now["from_device"] - before["from_device"]
        self.copies = now["copies"] - before["copies"]
        self.kernels = now["kernels"] - before["kernels"]
        for why, (count, seconds) in now["cpu_waits"].items():
            earlier, spent = before["cpu_waits"].get(why, (0, 0.0))
            if count > earlier:
                self.waits[why] = (count - earlier, seconds - spent)

    def __str__(self) -> str:
        waits = "".join(f", waited {s * 1e3:.1f} ms in {n} for {why}" for why, (n, s) in self.waits.items())
        return (
            f"in {self.wall_s * 1e3:.1f} ms: {self.to_device} bytes to the device, {self.from_device} bytes back, "
            f"{self.copies} copies, {self.kernels} kernels{waits}"
        )


def residency(device: Any = "cuda") -> Residency:
    """Count what framelane moves between host and device within a ``with`` block.

    Parameters
    ----------
    device
        ``"cuda"``, ``"cuda:1"`` or ``"cpu"``.

    Returns
    -------
    Residency
        To be entered; its counts are there at the block's end.
    """
    return Residency(device)
