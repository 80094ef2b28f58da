"""What crosses between host and device, and what that costs."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from . import _native


class Residency:
    """Bytes that crossed between host and device within a ``with`` block, by whom, and where the block's time went.

    Attributes
    ----------
    to_device, from_device
        Bytes that framelane copied to the device, and back. Exact, of this device.
    others_to_device, others_from_device, others_copies
        Bytes that all other code of the process copied, on all its devices, and in how many copies: ``x.cpu()``,
        ``torch.tensor(…, device="cuda")``, ``cupy.asnumpy(x)``, ``float(loss)``. Recorded by CUPTI, NVIDIA's tracing library;
        ``None`` where that is not there. What crosses without a copy is not counted: kernels that read the host's memory,
        and pages of managed memory that move by themselves.
    uncounted
        Why others' copies are not counted, in a sentence; empty if they are.
    wall_s
        Seconds that the block took: the sum of the next three.
    copying_s, waiting_s, rest_s
        Seconds of it that this thread spent in calls of CUDA that copied between host and device; in calls that waited for
        kernels, which is for the network; and all else, with what waits elsewhere than in a call of CUDA. ``None`` without
        CUPTI.
    kernels_s
        Seconds of it in which any kernel ran on a GPU. ``None`` without CUPTI.
    copies, kernels
        What framelane enqueued.
    waits
        Waits of CPU threads for the device within framelane: by reason, how many and how long in all (seconds).
    """

    def __init__(self, device: Any = "cuda", others: bool = True) -> None:
        self._device = device
        self._others = others
        self._recording: _native.Recording | None = None
        self._start: float | None = None
        self._clear()

    def _clear(self) -> None:
        self.to_device = 0
        self.from_device = 0
        self.others_to_device: int | None = None
        self.others_from_device: int | None = None
        self.others_copies: int | None = None
        self.uncounted = ""
        self.copies = 0
        self.kernels = 0
        self.waits: dict[str, tuple[int, float]] = {}
        self.wall_s = 0.0
        self.copying_s: float | None = None
        self.waiting_s: float | None = None
        self.rest_s: float | None = None
        self.kernels_s: float | None = None

    def __enter__(self) -> Residency:
        if self._start is not None:
            raise _native.ArgumentError("this block counts already: use another framelane.residency() within it")
        self._clear()
        # This opens the device, and says what is wrong with its name.
        _native.counters(self._device)
        self._record()
        self._before = _native.counters(self._device)
        self._start = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        now, start, self._start = time.perf_counter(), self._start, None
        if start is None:
            raise _native.ArgumentError("this block has not begun: use `with framelane.residency():`")
        self.wall_s = now - start
        try:
            self._count()
        finally:
            self._finish()

    def _count(self) -> None:
        before, now = self._before, _native.counters(self._device)
        self.to_device = now["to_device"] - before["to_device"]
        self.from_device = now["from_device"] - before["from_device"]
        self.copies = now["copies"] - before["copies"]
        self.kernels = now["kernels"] - before["kernels"]
        for why, (count, seconds) in now["cpu_waits"].items():
            earlier, spent = before["cpu_waits"].get(why, (0, 0.0))
            if count > earlier:
                self.waits[why] = (count - earlier, seconds - spent)

    def _record(self) -> None:
        if not self._others:
            self._uncounted("others=False")
        elif str(self._device) == "cpu":
            self._uncounted("the device is the CPU")
        else:
            try:
                self._recording = _native.record(_near())
            except _native.Error as why:
                self._uncounted(why)

    def _uncounted(self, why: object) -> None:
        self.uncounted = f"copies of other libraries are not counted: {why}"

    def _finish(self) -> None:
        recording, self._recording = self._recording, None
        if recording is None:
            return
        try:
            found = recording.finish()
        except _native.Error as why:
            self._uncounted(why)
            return
        if found["lost"]:
            self.uncounted = f"CUPTI lost {found['lost']} records: the figures of other libraries are too low"
        self.others_to_device = found["others_to_device"]
        self.others_from_device = found["others_from_device"]
        self.others_copies = found["others_copies"]
        self.copying_s, self.waiting_s = found["copying_s"], found["waiting_s"]
        self.rest_s = max(0.0, self.wall_s - self.copying_s - self.waiting_s)
        self.kernels_s = found["kernels_s"]

    def __str__(self) -> str:
        lines = [f"{self.wall_s * 1e3:.1f} ms"]
        if self.copying_s is not None and self.waiting_s is not None and self.rest_s is not None:
            lines[0] += (
                f": {self.copying_s * 1e3:.1f} copying, {self.waiting_s * 1e3:.1f} waiting for the network, "
                f"{self.rest_s * 1e3:.1f} the rest"
            )
        ours = f"{_many(self.copies, 'copy', 'copies')}, {_many(self.kernels, 'kernel', 'kernels')}"
        lines.append(f"framelane: {_bytes(self.to_device)} to the device, {_bytes(self.from_device)} back ({ours})")
        if self.others_to_device is not None and self.others_from_device is not None:
            lines.append(
                f"others: {_bytes(self.others_to_device)} to the device, {_bytes(self.others_from_device)} back "
                f"({_many(self.others_copies or 0, 'copy', 'copies')})"
            )
        if self.uncounted:
            lines.append(self.uncounted)
        lines += [f"waited {spent * 1e3:.1f} ms in {count} for {why}" for why, (count, spent) in self.waits.items()]
        return "\n".join(lines)


def _bytes(count: int) -> str:
    return f"{count} bytes" if count < 10_000 else f"{count / 1e6:.2f} MB"


def _many(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"


def _near() -> list[str]:
    """CUPTI as the packages of NVIDIA bring it."""
    inside = ("nvidia/cu13/lib", "nvidia/cuda_cupti/lib")
    folders = (Path(base or ".", folder) for base in sys.path for folder in inside)
    return [str(file) for folder in folders for file in sorted(folder.glob("libcupti.so.*"))]


def residency(device: Any = "cuda", *, others: bool = True) -> Residency:
    """Count what moves between host and device within a ``with`` block, and split the block's time.

    It answers what a ``.cpu()`` costs: ``print(moved)`` after the block says how many bytes crossed, by whom, and how long this
    thread copied, waited for the network, and did the rest.

    Parameters
    ----------
    device
        ``"cuda"``, ``"cuda:1"`` or ``"cpu"``: whose counts of framelane's own copies are taken.
    others
        Whether CUPTI records all of the process, too: it makes launches and copies a little slower, its first block of a
        process takes some tenths of a second to begin, and a block waits for the devices at its end, after its time was
        taken. It has one user at a time: beside a profiler that began before, others' copies are not counted, and one that
        begins within the block records no GPU.

    Returns
    -------
    Residency
        To be entered; its figures are there at the block's end.

    Examples
    --------
    >>> with fl.residency() as moved:  # doctest: +SKIP
    ...     picture = net(z).cpu()
    >>> print(moved)  # doctest: +SKIP
    44.0 ms: 15.8 copying, 26.3 waiting for the network, 1.9 the rest
    framelane: 0 bytes to the device, 0 bytes back (0 copies, 0 kernels)
    others: 0 bytes to the device, 24.88 MB back (1 copy)
    """
    return Residency(device, others)
