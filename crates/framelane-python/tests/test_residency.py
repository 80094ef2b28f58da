"""What crosses between host and device, by whom, and what that costs: on a CUDA device, with PyTorch as the others."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from conftest import passes

import framelane as fl

torch: Any = pytest.importorskip("torch", reason="no PyTorch here: pip install torch on a machine with CUDA")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device here that PyTorch can use", allow_module_level=True)

# Tens of milliseconds on any GPU: far longer than all that is enqueued after it.
DELAY = 100_000_000


def counted(moved: fl.Residency) -> None:
    if moved.others_to_device is None:
        pytest.skip(f"no CUPTI here: {moved.uncounted}")
    assert moved.uncounted == ""


def test_tells_what_cpu_costs() -> None:
    x = torch.ones(32 << 20, dtype=torch.uint8, device="cuda")
    # What is loaded at its first use is not to be waited for.
    torch.cuda._sleep(1000)
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with fl.residency("cuda") as moved:
        start.record()
        torch.cuda._sleep(DELAY)
        end.record()
        x.cpu()
    counted(moved)
    assert (moved.to_device, moved.from_device) == (0, 0)
    assert (moved.others_to_device, moved.others_from_device, moved.others_copies) == (0, 32 << 20, 1)
    slept = start.elapsed_time(end) / 1e3
    # The call waits for the kernel, all but what had passed before it was made, and then copies 32 MB, at 100 GB/s at best.
    assert moved.waiting_s is not None and moved.copying_s is not None and moved.rest_s is not None
    assert 0.8 * slept < moved.waiting_s < 1.05 * slept
    assert 3e-4 < moved.copying_s
    assert abs(moved.copying_s + moved.waiting_s + moved.rest_s - moved.wall_s) < 1e-6
    assert moved.kernels_s is not None and moved.kernels_s > 0.95 * slept
    assert "33.55 MB back (1 copy)" in str(moved)


def test_tells_ours_from_others() -> None:
    pictures = [np.full((256, 256, 3), n, np.uint8) for n in range(9)]
    labels = torch.arange(1000)
    with fl.residency("cuda") as moved:
        for batch in fl.feed(pictures, device="cuda"):
            torch.from_dlpack(batch).sum().item()
            labels.cuda()
    counted(moved)
    assert moved.to_device >= 9 * 256 * 256 * 3
    # Each time 8000 bytes of labels, and a sum of eight bytes back.
    assert moved.others_to_device == 9 * 8000
    assert moved.others_from_device == 9 * 8
    assert moved.from_device == 0


def test_without_others() -> None:
    with fl.residency("cuda", others=False) as moved:
        torch.ones(10, device="cuda").cpu()
    assert moved.others_from_device is None
    assert moved.copying_s is None
    assert "others=False" in str(moved)


def test_within_residency_says_so() -> None:
    with fl.residency("cuda") as outer:
        counts = outer.uncounted == ""
        with fl.residency("cuda") as inner:
            torch.ones(10, device="cuda").cpu()
    if not counts:
        pytest.skip(f"no CUPTI here: {outer.uncounted}")
    assert "counted already" in inner.uncounted
    assert outer.others_from_device == 40


def test_beside_a_profiler_says_so() -> None:
    out = passes("""
        import warnings, torch, framelane as fl
        warnings.simplefilter("ignore")
        x = torch.ones(1 << 20, device="cuda")
        with torch.profiler.profile() as profile:
            with fl.residency("cuda") as within:
                x.cpu()
        print(within.others_from_device, within.uncounted)
        print(any("Memcpy DtoH" in event.key for event in profile.key_averages()))
    """, timeout=120)
    said = out.splitlines()
    if "profiler" not in said[0]:
        # It does not hold CUPTI here: then both count.
        assert said[0].startswith(str(4 << 20))
    assert said[1] == "True"


def test_again_and_again() -> None:
    x = torch.ones(1000, dtype=torch.uint8, device="cuda")
    for n in range(20):
        with fl.residency("cuda") as moved:
            for _ in range(n):
                x.cpu()
        counted(moved)
        assert moved.others_from_device == n * 1000


def test_counts_other_threads_and_other_streams() -> None:
    pinned = torch.ones(1 << 20, dtype=torch.uint8).pin_memory()

    def copies() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            pinned.to("cuda", non_blocking=True)

    copies()
    with fl.residency("cuda") as moved:
        thread = threading.Thread(target=copies)
        thread.start()
        thread.join()
    counted(moved)
    # It was only enqueued when the block ended.
    assert moved.others_to_device == 1 << 20
