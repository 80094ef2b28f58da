"""What needs a CUDA device, with PyTorch and CuPy as its users."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pytest
from conftest import passes, threads, until

import framelane as fl

torch: Any = pytest.importorskip("torch", reason="no PyTorch here: pip install torch on a machine with CUDA")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device here that PyTorch can use", allow_module_level=True)

# Tens of milliseconds on any GPU: far longer than all that is enqueued after it.
DELAY = 100_000_000


def read(display: fl.Offscreen) -> Any:
    return np.asarray(display.image())[:, :, :3].astype(int)


def flat(value: float, dtype: Any = torch.uint8) -> Any:
    return torch.full((48, 64, 3), value, dtype=dtype, device="cuda")


# Show


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("layout", ["hwc", "chw"])
@pytest.mark.parametrize("channels", [1, 3])
def test_values(channels: int, layout: Literal["hwc", "chw"], dtype: Any) -> None:
    torch.manual_seed(1)
    hwc = torch.rand(49, 67, channels, device="cuda")
    hwc = (hwc * 255).to(torch.uint8) if dtype == torch.uint8 else (hwc * 1.4 - 0.2).to(dtype)
    want = hwc.float() if dtype == torch.uint8 else (hwc.float().clamp(0, 1) * 255).round()
    want = want.expand(-1, -1, 3).cpu().numpy().astype(int)
    display = fl.Offscreen(67, 49)
    for given in [hwc, hwc.permute(2, 0, 1).contiguous().permute(1, 2, 0)]:
        display.show(given if layout == "hwc" else given.permute(2, 0, 1), layout=layout)
        assert np.abs(read(display) - want).max() <= (0 if dtype == torch.uint8 else 1)


def test_strides() -> None:
    whole = torch.randint(0, 256, (96, 128, 4), dtype=torch.uint8, device="cuda")
    display = fl.Offscreen(64, 48)
    for view in [whole[::2, ::2, :3], whole[10:58, 20:84, :3], whole[:48, :64, 1:]]:
        display.show(view, layout="hwc")
        assert np.array_equal(read(display), view.cpu().numpy())


def test_a_tensor_that_needs_a_gradient() -> None:
    display = fl.Offscreen(64, 48)
    display.show(flat(0.5, torch.float32).requires_grad_())
    assert np.abs(read(display) - 128).max() <= 1


def test_a_delay_before_and_a_write_right_after() -> None:
    """On the current stream: the picture is what the tensor held in the stream's order, and the CPU waited for nothing."""
    display, picture = fl.Offscreen(64, 48), flat(1)
    display.show(picture)
    display.image()
    for stream in [torch.cuda.default_stream(), torch.cuda.Stream()]:
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for value in range(10, 250, 60):
                torch.cuda._sleep(DELAY)
                picture.fill_(value)
                done = torch.cuda.Event()
                done.record()
                assert display.show(picture) in ("shown", "replaced")
                assert not done.query(), "it returned before the delay was over"
                picture.fill_(3)
                assert (read(display) == value).all()
        stream.synchronize()


def test_a_tensor_that_is_dropped_right_after() -> None:
    display = fl.Offscreen(64, 48)
    display.show(flat(0))
    display.image()
    for value in range(10, 250, 40):
        torch.cuda._sleep(DELAY)
        display.show(flat(value))
        # PyTorch gives the same memory out again, in the order of the stream.
        for other in range(4):
            flat(other)
        assert (read(display) == value).all()


def test_no_copy_goes_through_the_host() -> None:
    display = fl.Offscreen(64, 48)
    display.show(flat(1))
    display.image()
    (pane,) = display.panes()
    if pane["path"].startswith("host"):
        pytest.skip(f"no shared path here: {pane['path']}")
    with fl.residency("cuda") as counted:
        for value in range(100):
            display.show(flat(value))
    assert (counted.to_device, counted.from_device) == (0, 0), str(counted)
    assert display.panes()[0]["host_copies"] == 0


def test_memory_stays_flat() -> None:
    display = fl.Offscreen(64, 48)

    def shows(n: int) -> None:
        for value in range(n):
            display.show(flat(value % 256))
        display.image()
        torch.cuda.synchronize()

    shows(100)
    before, free = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
    shows(10_000)
    assert torch.cuda.memory_allocated() == before
    assert free - torch.cuda.mem_get_info()[0] < 64 << 20


def test_the_users_next_kernel_is_not_harmed_by_a_refusal() -> None:
    display = fl.Offscreen(64, 48)
    with pytest.raises(fl.ArgumentError):
        display.show(torch.zeros(3, 3, 3, 3, device="cuda"))
    with pytest.raises(fl.ArgumentError):
        display.show(torch.zeros(4, 4, dtype=torch.complex64, device="cuda"))
    assert (torch.ones(4, device="cuda") + 1).sum().item() == 8


def test_a_pane_of_another_device() -> None:
    display = fl.Offscreen(64, 48)
    display.show(np.zeros((48, 64, 3), np.uint8))
    with pytest.raises(fl.ArgumentError, match="cuda:0"):
        display.show(flat(1))
    display["on the GPU"].show(flat(1))
    assert display["on the GPU"].show(np.zeros((48, 64, 3), np.uint8)) in ("shown", "replaced"), "by the same pane"


def test_an_interface_without_dlpack() -> None:
    class Fake:
        def __init__(self, tensor: Any, **change: Any) -> None:
            self.tensor, self.change = tensor, change

        @property
        def __cuda_array_interface__(self) -> Any:
            stream = torch.cuda.current_stream().cuda_stream or 1
            return {**self.tensor.__cuda_array_interface__, "version": 3, "stream": stream, **self.change}

    display = fl.Offscreen(64, 48)
    torch.cuda._sleep(DELAY)
    picture = flat(5).fill_(77)
    display.show(Fake(picture))
    picture.fill_(1)
    assert (read(display) == 77).all()
    with pytest.raises(fl.ArgumentError, match="stream 0"):
        display.show(Fake(picture, stream=0))
    with pytest.raises(fl.Error):
        display.show(Fake(picture, data=(4096, False)))
    assert flat(2).sum().item() == 2 * 48 * 64 * 3, "no error is left behind for the user"


def test_threads_with_streams_of_their_own() -> None:
    display, wrong = fl.Offscreen(128, 96), []

    def shows(k: int) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for value in range(200):
                    display[f"pane {k}"].show(flat(value))
        except BaseException as error:
            wrong.append(error)

    all_ = [threading.Thread(target=shows, args=(k,)) for k in range(4)]
    for thread in all_:
        thread.start()
    for thread in all_:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong
    assert all(pane["shown"] == 200 for pane in display.panes())


def test_cupy() -> None:
    cupy = pytest.importorskip("cupy", reason="no CuPy here: pip install cupy-cuda12x")
    display = fl.Offscreen(64, 48)
    with cupy.cuda.Stream(non_blocking=True):
        picture = cupy.random.randint(0, 256, (48, 64, 3), dtype=cupy.uint8)
        want = picture.copy()
        display.show(picture)
        picture.fill(0)
        assert np.array_equal(read(display), cupy.asnumpy(want))
        for batch in fl.feed((np.full((3, 4), k, np.float32) for k in range(20)), device="cuda"):
            assert cupy.asarray(batch).shape == cupy.from_dlpack(batch).shape == (3, 4)


# Feed


def numbered(n: int, *shape: int) -> Iterator[Any]:
    for k in range(n):
        yield torch.full(shape or (64, 64), k, dtype=torch.float32)


def test_tensors_of_torch_come_out() -> None:
    batch = {"a": torch.arange(6.0).reshape(2, 3), "b": [torch.ones(2, dtype=torch.bfloat16), 3], "c": np.arange(4)}
    (got,) = fl.feed([batch], device="cuda")
    assert got["a"].is_cuda
    assert torch.equal(got["a"].cpu(), batch["a"])
    assert torch.equal(got["b"][0].cpu(), batch["b"][0])
    assert got["b"][1] == 3
    assert isinstance(got["c"], fl.Tensor)
    assert got["c"].device == "cuda:0"
    assert torch.equal(torch.from_dlpack(got["c"]).cpu(), torch.arange(4))


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int16, torch.int64, torch.float16, torch.bfloat16, torch.float64]
)
def test_types(dtype: Any) -> None:
    whole = (torch.randn(7, 8, 3) * 50).to(dtype)
    for tensor in [whole, whole[::2, 1::3], whole.permute(2, 0, 1), whole[:0], whole[0, 0, 0]]:
        (got,) = fl.feed([[tensor]], device="cuda")
        assert got[0].dtype == dtype
        assert torch.equal(got[0].cpu(), tensor)


@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_a_slot_is_not_written_while_a_kernel_is_to_read_it(depth: int) -> None:
    """Each batch is read behind a delay, and let go before: what was summed is what was fed."""
    n = 30
    sums = torch.zeros(n, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for k, batch in enumerate(fl.feed(numbered(n), device="cuda", depth=depth)):
            torch.cuda._sleep(DELAY // 10)
            sums[k] = batch.sum()
            del batch
        torch.cuda.current_stream().synchronize()
    assert torch.equal(sums.cpu(), torch.arange(n) * 64.0 * 64)


def test_another_stream_is_named() -> None:
    n, side = 30, torch.cuda.Stream()
    sums = torch.zeros(n, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    for k, batch in enumerate(fl.feed(({"x": one} for one in numbered(n)), device="cuda")):
        side.wait_stream(torch.cuda.current_stream())
        batch.record_stream(side)
        with torch.cuda.stream(side):
            torch.cuda._sleep(DELAY // 10)
            sums[k] = batch["x"].sum()
        del batch
    side.synchronize()
    assert torch.equal(sums.cpu(), torch.arange(n) * 64.0 * 64)


def test_10_000_batches() -> None:
    feed = fl.feed(numbered(10_000), device="cuda")
    total, free = torch.zeros((), device="cuda", dtype=torch.float64), 0
    before = fl.counters("cuda")["device_bytes"]
    for k, batch in enumerate(feed):
        total += batch.double().mean()
        if k == 500:
            free = torch.cuda.mem_get_info()[0]
    assert total.item() == sum(range(10_000))
    assert feed.stats()["batches"] == 10_000
    assert feed.stats()["device_bytes"] - before <= 4 * 64 * 64 * 4, "the depth, and what is held"
    assert free - torch.cuda.mem_get_info()[0] < 64 << 20


def test_backward_passes_that_hold_batches() -> None:
    """The gradient of a product is the input, which is read again later than the batch was let go."""
    weight = torch.ones(64, 64, device="cuda", requires_grad=True)
    losses, n = [], 12
    for batch in fl.feed(numbered(n), device="cuda", depth=2):
        losses.append((batch * weight).sum())
        del batch
        if len(losses) == 4:
            torch.cuda._sleep(DELAY)
            torch.stack(losses).sum().backward()
            losses.clear()
    assert torch.equal(weight.grad.cpu(), torch.full((64, 64), float(sum(range(n)))))


def test_a_tensor_alone_holds_its_batch() -> None:
    feed = fl.feed(({"a": one, "b": one + 1000} for one in numbered(40)), device="cuda", depth=2)
    kept = [batch["b"] for _, batch in zip(range(5), feed, strict=False)]
    for _ in feed:
        pass
    assert [one[0, 0].item() for one in kept] == [1000, 1001, 1002, 1003, 1004]


def test_views_hold_their_batch() -> None:
    feed, kept = fl.feed(numbered(40), device="cuda", depth=2), []
    for k, batch in enumerate(feed):
        if k < 3:
            kept.append(batch[1:3, ::2])
    assert [one[0, 0].item() for one in kept] == [0, 1, 2]


def test_all_slots_held() -> None:
    """A loop that waits for what it holds itself is told so, after 5 seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="held by batches"):
            list(fl.feed(numbered(200), device="cuda", depth=2))


@pytest.mark.parametrize("taken", range(5))
def test_early_exit(taken: int) -> None:
    def once() -> None:
        feed = fl.feed(numbered(1000), device="cuda", depth=3)
        for k, _batch in enumerate(feed):
            if k == taken:
                break
        feed.close()

    once()
    gc.collect()
    running, bytes_ = threads(), fl.counters("cuda")
    for _ in range(30):
        once()
    gc.collect()
    until(lambda: threads() <= running)
    until(lambda: fl.counters("cuda")["device_bytes"] <= bytes_["device_bytes"])
    assert fl.counters("cuda")["pinned_bytes"] <= bytes_["pinned_bytes"]


def test_deletion_midway() -> None:
    passes(
        """
        import itertools, torch, framelane as fl
        for _ in range(30):
            feed = fl.feed((torch.full((9,), float(k)) for k in itertools.count()), device="cuda")
            batch = next(feed)
            del feed
            assert batch.sum().item() == 0
        """,
        timeout=60,
    )


def test_the_end_of_a_program_with_all_of_it() -> None:
    passes(
        """
        import itertools, torch, framelane as fl
        display = fl.Offscreen(64, 48)
        feed = fl.feed((torch.zeros(48, 64, 3) for _ in itertools.count()), device="cuda")
        for k, batch in enumerate(feed):
            display.show(batch)
            if k == 20:
                break
        held = [batch, next(feed)]
        """,
        timeout=60,
    )


@pytest.mark.parametrize("after", [0, 1, 2, 5])
def test_an_error_comes_after_the_batches_before_it(after: int) -> None:
    def failing() -> Iterator[Any]:
        yield from numbered(after)
        raise ZeroDivisionError("mine")

    got, feed = [], fl.feed(failing(), device="cuda", depth=2)
    with pytest.raises(ZeroDivisionError, match="mine"):
        for batch in feed:
            got.append(batch[0, 0].item())
    assert got == list(range(after))
    assert list(feed) == []


def test_tensors_of_the_device_are_refused() -> None:
    with pytest.raises(fl.ArgumentError, match="arrays of the host"):
        next(fl.feed([torch.zeros(3, device="cuda")], device="cuda"))


def test_a_loader_as_it_is() -> None:
    data = [{"x": torch.full((3,), float(k)), "y": k} for k in range(64)]
    loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=2)
    feed = fl.feed(loader, device="cuda")
    for _ in range(2):
        got = [(batch["x"][:, 0].tolist(), batch["y"].tolist()) for batch in feed]
        assert got == [([*map(float, range(k, k + 8))], [*range(k, k + 8)]) for k in range(0, 64, 8)]
    assert len(feed) == 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("layout", ["chw", "hwc"])
def test_to_floats(layout: str, dtype: Any) -> None:
    pictures = torch.randint(0, 256, (4, 9, 7, 3), dtype=torch.uint8)
    mean, std = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.25, 0.3])
    (got,) = fl.feed([pictures], device="cuda", dtype=dtype, normalize=(mean.tolist(), std.tolist()), layout=layout)
    want = (pictures / 255 - mean) / std
    want = want.permute(0, 3, 1, 2) if layout == "chw" else want
    assert got.dtype == dtype
    assert (got.float().cpu() - want).abs().max() < {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]


def test_a_stream_that_the_reader_names() -> None:
    (tensor,) = fl.feed([np.arange(4.0)], device="cuda")
    assert tensor.__dlpack_device__() == (2, 0)
    with pytest.raises(fl.ArgumentError, match="stream 0"):
        tensor.__dlpack__(stream=0)
    with pytest.raises(AttributeError, match="cuda:0"):
        _ = tensor.__array_interface__
    interface = tensor.__cuda_array_interface__
    assert interface["shape"] == (4,)
    assert interface["typestr"] == "<f8"
    assert interface["stream"] not in (0, None)
    assert torch.as_tensor(tensor, device="cuda").sum().item() == 6


def test_feed_to_show() -> None:
    display = fl.Offscreen(64, 48)
    pictures = (torch.full((48, 64, 3), k, dtype=torch.uint8) for k in range(30))
    for k, batch in enumerate(fl.feed(pictures, device="cuda")):
        display.show(batch)
        del batch
        assert (read(display) == k).all()
