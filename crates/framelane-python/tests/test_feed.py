"""The feed on the host: values, order, errors, ends and threads."""

from __future__ import annotations

import array
import collections
import dataclasses
import gc
import threading
import time
import traceback
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import passes, threads, until

import framelane as fl


def numbered(n: int, *shape: int) -> Iterator[Any]:
    for k in range(n):
        yield np.full(shape or (4, 5), k, np.float32)


def values(feed: Any) -> list[int]:
    return [int(np.asarray(batch).flat[0]) for batch in feed]


class Pair(NamedTuple):
    image: Any
    label: Any


@dataclasses.dataclass(frozen=True)
class Sample:
    image: Any
    name: str
    more: Any = None


def same(got: Any, want: Any) -> None:
    """The same nest, with the same arrays in it."""
    if isinstance(want, Sample):
        assert isinstance(got, Sample)
        same([got.image, got.name, got.more], [want.image, want.name, want.more])
    elif isinstance(want, dict):
        assert isinstance(got, dict)
        assert list(got) == list(want)
        for key in want:
            same(got[key], want[key])
    elif isinstance(want, (list, tuple)):
        assert isinstance(got, type(want)), (type(got), type(want))
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            same(one, other)
    elif isinstance(want, (np.ndarray, array.array, memoryview, bytearray)):
        want = np.asarray(want)
        assert isinstance(got, fl.Tensor)
        got = np.from_dlpack(got)
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        assert got.tobytes() == want.tobytes()
    else:
        assert got is want or got == want


def test_nests() -> None:
    random = np.random.default_rng(3)
    a, b = random.normal(size=(3, 4)), random.integers(0, 9, (2,))
    for batch in [
        a,
        {"image": a, "label": b},
        [a, b],
        (a, b),
        Pair(a, b),
        Sample(a, "x"),
        Sample(a, "x", {"deep": [Pair(b, None), (Sample(b, "y"), 1, 2.5, "text", b"bytes", True)]}),
        {"empty": {}, "none": None, "list": [], "tuple": (), 3: a},
        {"no array": "at all"},
        [array.array("f", [1, 2]), memoryview(b"abc"), bytearray(b"xyz")],
    ]:
        (got,) = fl.feed([batch], device="cpu")
        same(got, batch)
    (ordered,) = fl.feed([collections.OrderedDict(z=a, a=b)], device="cpu")
    assert list(ordered) == ["z", "a"]


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float32", "float64"]
)
def test_types(dtype: str) -> None:
    whole = (np.random.default_rng(0).normal(size=(7, 8, 3)) * 50).astype(dtype)
    batch = [whole, whole[::2, 1::3], whole[::-1], whole.T, whole[0, 0, 0].reshape(()), whole[:0], whole[:, :, :1], whole[3, 3]]
    (got,) = fl.feed([batch], device="cpu")
    same(got, [np.ascontiguousarray(one).reshape(one.shape) for one in batch])


def test_halves_come_through_bit_for_bit() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    (got,) = fl.feed([every], device="cpu")
    assert np.array_equal(np.asarray(got).view(np.uint16), every.view(np.uint16))


def test_scalars_of_numpy() -> None:
    """They give memory that lives as long as what tells of it, and no longer."""
    for k in range(200):
        batch = [np.float64(k + 0.5 + n) for n in range(50)]
        (got,) = fl.feed([batch], device="cpu")
        assert [float(np.asarray(one)) for one in got] == [float(one) for one in batch]


def test_bfloat16_of_jax() -> None:
    jax = pytest.importorskip("jax", reason="no JAX here: pip install jax")
    half = jax.device_put(jax.numpy.linspace(-1, 1, 24, dtype="bfloat16").reshape(4, 6), jax.devices("cpu")[0])
    (got,) = fl.feed([{"a": half}], device="cpu")
    assert got["a"].dtype == "bfloat16"
    assert (jax.dlpack.from_dlpack(got["a"]) == half).all()


@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_order(depth: int) -> None:
    assert values(fl.feed(numbered(100), device="cpu", depth=depth)) == list(range(100))


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_short_iterables(n: int) -> None:
    assert values(fl.feed(list(numbered(n)), device="cpu", depth=3)) == list(range(n))


def test_sizes_that_change() -> None:
    sizes = [(8, 3), (8, 3), (1, 3), (16, 3), (8, 3), (0, 3)]
    got = [np.asarray(batch).shape for batch in fl.feed([np.zeros(size) for size in sizes], device="cpu")]
    assert got == sizes


def test_figures_begin_nothing() -> None:
    feed = fl.feed(numbered(3), device="cpu")
    stats = feed.stats()
    assert (stats["batches"], stats["wall_s"], stats["text"]) == (0, 0.0, "not begun")
    feed.load_state_dict({"epoch": 0, "batch": 1})
    assert values(feed) == [1, 2]


def test_epochs_begin_again() -> None:
    feed = fl.feed(list(numbered(5)), device="cpu")
    assert len(feed) == 5
    for epoch in range(30):
        assert values(feed) == [0, 1, 2, 3, 4], epoch
    feed.close()


def test_a_generator_is_used_up() -> None:
    feed = fl.feed(numbered(4), device="cpu")
    assert values(feed) == [0, 1, 2, 3]
    assert values(feed) == []
    with pytest.raises(TypeError):
        len(feed)


def test_threads_and_memory_after_epochs() -> None:
    feed = fl.feed(list(numbered(6, 64, 64)), device="cpu")
    values(feed)
    running = threads()
    for _ in range(50):
        values(feed)
    stats, batch = feed.stats(), 64 * 64 * 4
    assert stats["device_bytes"] < 20 * batch, "the slots of 50 epochs"
    assert stats["pinned_bytes"] < 20 * batch
    assert threads() <= running
    feed.close()


class Mine(Exception):
    """An error of the iterable's own."""


def failing(after: int) -> Iterator[Any]:
    yield from numbered(after)
    raise Mine("at", after)


@pytest.mark.parametrize("after", [0, 1, 2, 3, 9])
def test_an_error_comes_after_the_batches_before_it(after: int) -> None:
    feed, got = fl.feed(failing(after), device="cpu", depth=2), []
    with pytest.raises(Mine) as raised:
        for batch in feed:
            got.append(int(np.asarray(batch).flat[0]))
    assert got == list(range(after))
    assert raised.value.args == ("at", after)
    assert [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)][-1] == "failing"
    assert list(feed) == [], "once, and then the end"


def test_an_iterable_that_mends_is_begun_again() -> None:
    class Mends:
        begun = 0

        def __iter__(self) -> Iterator[Any]:
            self.begun += 1
            yield from numbered(2)
            if self.begun == 1:
                raise Mine("the first time")
            yield from numbered(1)

    feed = fl.feed(Mends(), device="cpu")
    with pytest.raises(Mine):
        values(feed)
    assert values(feed) == [0, 1, 0]
    assert values(feed) == [0, 1, 0]
    feed.close()


def test_what_cannot_be_iterated() -> None:
    with pytest.raises(TypeError, match="iter"):
        next(fl.feed(3, device="cpu"))  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [np.zeros(3, "complex64"), np.array(["text"]), np.zeros(2, ">f4")])
def test_a_batch_that_cannot_be_fed(bad: Any) -> None:
    feed = fl.feed([np.zeros(3), {"a": bad}], device="cpu")
    next(feed)
    with pytest.raises(fl.ArgumentError, match="type"):
        next(feed)


def test_a_batch_that_holds_itself() -> None:
    batch: list[Any] = []
    batch.append(batch)
    with pytest.raises(fl.ArgumentError, match="hold itself"):
        next(fl.feed([batch], device="cpu"))


def test_an_array_that_is_written_after_it_was_given() -> None:
    """The feed has the old values, once it has asked for the next batch."""
    shared = np.zeros((64, 64))

    def rewrites() -> Iterator[Any]:
        for k in range(50):
            shared[:] = k
            yield shared

    assert values(fl.feed(rewrites(), device="cpu")) == list(range(50))


def test_transform() -> None:
    feed = fl.feed(range(5), device="cpu", transform=lambda k: {"a": np.full(2, k), "k": k})
    assert [(int(np.asarray(batch["a"])[0]), batch["k"]) for batch in feed] == [(k, k) for k in range(5)]
    with pytest.raises(ZeroDivisionError):
        list(fl.feed([1, 0], device="cpu", transform=lambda k: 1 // k))


def test_a_transform_that_raises_stop_iteration_ends_nothing_silently() -> None:
    """As in a generator (PEP 479): the batches after it would be lost without a word."""

    def first(_: Any) -> Any:
        return next(iter(()))

    with pytest.raises((RuntimeError, StopIteration, fl.Error)):
        list(fl.feed([1, 2], device="cpu", transform=first))


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", np.float32, np.float16, "torch.float32"])
@pytest.mark.parametrize("layout", ["chw", "hwc", None])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_to_floats(dtype: Any, layout: str | None, channels: int) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (2, 5, 6, channels), dtype=np.uint8)
    mean, std = [0.5, 0.4, 0.3, 0.2][:channels], [0.2, 0.25, 0.3, 0.5][:channels]
    feed = fl.feed([{"x": pictures, "y": np.arange(2)}], device="cpu", dtype=dtype, normalize=(mean, std), layout=layout)
    (batch,) = feed
    want = (pictures / 255 - mean) / std
    if layout != "hwc":
        want = want.transpose(0, 3, 1, 2)
    if dtype == "bf16":
        jax = pytest.importorskip("jax", reason="no JAX here to read bfloat16: pip install jax")
        assert batch["x"].dtype == "bfloat16"
        got, most = np.asarray(jax.dlpack.from_dlpack(batch["x"]).astype("float32")), 0.02
    else:
        got, most = np.asarray(batch["x"]), 5e-3 if np.asarray(batch["x"]).dtype == np.float16 else 1e-5
    assert got.shape == want.shape
    assert np.abs(got - want).max() < most
    assert np.array_equal(np.asarray(batch["y"]), [0, 1])


def test_one_picture_without_a_batch() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    (got,) = fl.feed([picture], device="cpu", dtype="f32")
    assert np.abs(np.asarray(got) - picture.transpose(2, 0, 1) / 255).max() < 1e-6


@pytest.mark.parametrize(
    "wrong",
    [
        {"depth": 0},
        {"dtype": "f64"},
        {"layout": "nchw"},
        {"normalize": ([0.5, 0.5], [1, 1])},
        {"normalize": ([0.5], [0])},
        {"device": "gpu"},
    ],
)
def test_arguments(wrong: dict[str, Any]) -> None:
    with pytest.raises(fl.ArgumentError):
        fl.feed([], **{"device": "cpu", **wrong})


def test_a_budget_that_is_too_small() -> None:
    with pytest.raises(fl.BudgetError, match="bytes|budget"):
        values(fl.feed(numbered(3, 1000), device="cpu", budget=100))


@pytest.mark.parametrize("taken", range(6))
def test_early_exit(taken: int) -> None:
    running = threads()
    for _ in range(20):
        feed = fl.feed(numbered(1000), device="cpu", depth=3)
        for k, _batch in enumerate(feed):
            if k == taken:
                break
        feed.close()
        feed.close()
        assert next(feed, None) is None
        with pytest.raises(fl.CancelledError):
            list(feed)
    del feed
    until(lambda: threads() <= running)


@pytest.mark.parametrize("slow", [0, 0.01])
def test_deletion_midway(slow: float) -> None:
    """Letting a feed go waits for its thread, which may need the interpreter to end."""
    passes(
        """
        import sys, time, os, numpy as np, framelane as fl
        def source():
            while True:
                time.sleep(float(sys.argv[1]))
                yield np.zeros(9)
        list(fl.feed([np.zeros(9)], device="cpu"))
        before = len(os.listdir("/proc/self/task"))
        for _ in range(20):
            feed = fl.feed(source(), device="cpu")
            next(feed)
            start = time.monotonic()
            del feed
            assert time.monotonic() - start < 0.5, "it waited for a thread that waited for it"
        end = time.monotonic() + 3
        while len(os.listdir("/proc/self/task")) > before:
            assert time.monotonic() < end, "threads are left"
        """,
        str(slow),
    )


def test_a_feed_lets_its_iterable_go() -> None:
    class Items(list[Any]):
        pass

    items = Items(numbered(3))
    watch, feed = weakref.ref(items), fl.feed(items, device="cpu")
    values(feed)
    feed.close()
    del items, feed
    gc.collect()
    until(lambda: watch() is None)


def test_with() -> None:
    running = threads()
    with fl.feed(numbered(100), device="cpu") as feed:
        next(feed)
    del feed
    until(lambda: threads() <= running)
    with pytest.raises(Mine), fl.feed(numbered(100), device="cpu") as feed:
        next(feed)
        raise Mine
    del feed
    until(lambda: threads() <= running)


def test_batches_outlive_their_feed() -> None:
    feed = fl.feed(numbered(3), device="cpu")
    batches = [np.asarray(batch) for batch in feed]
    feed.close()
    del feed
    assert [int(batch[0, 0]) for batch in batches] == [0, 1, 2]


def test_all_batches_held() -> None:
    """On the host each is a copy: none is ever waited for."""
    batches = list(fl.feed(numbered(200), device="cpu", depth=2))
    assert values(batches) == list(range(200))


def test_a_loop_goes_on_where_it_was_left() -> None:
    feed = fl.feed(list(numbered(6)), device="cpu")
    for batch in feed:
        if int(np.asarray(batch)[0, 0]) == 2:
            break
    assert values(feed) == [3, 4, 5]
    feed.close()


def test_state() -> None:
    items = list(numbered(5))
    first = fl.feed(items, device="cpu")
    assert first.state_dict() == {"epoch": 0, "batch": 0}
    values(first)
    iter(first)
    next(first), next(first)
    state = first.state_dict()
    assert state == {"epoch": 1, "batch": 2}
    with pytest.raises(fl.ArgumentError, match="has begun"):
        first.load_state_dict(state)
    rest = values(first)
    first.close()
    second = fl.feed(items, device="cpu")
    second.load_state_dict(state)
    assert second.state_dict() == state
    assert values(second) == rest == [2, 3, 4]
    assert values(second) == [0, 1, 2, 3, 4]
    second.close()
    with pytest.raises(fl.ArgumentError, match="batch"):
        fl.feed(items, device="cpu").load_state_dict({"epoch": 0})  # type: ignore[typeddict-item]
    late = fl.feed(items, device="cpu")
    late.load_state_dict({"epoch": 0, "batch": 9})
    with pytest.raises(fl.ArgumentError, match="ended at batch 5"):
        next(late)


def test_stats_name_the_slow_side() -> None:
    def slow() -> Iterator[Any]:
        for batch in numbered(10):
            time.sleep(0.01)  # This is the work of the source.
            yield batch

    feed = fl.feed(slow(), device="cpu")
    values(feed)
    stats = feed.stats()
    assert stats["batches"] == 10
    assert stats["limited_by"] == "source"
    assert stats["source_s"] >= 0.1
    assert "limited by the source" in stats["text"]
    assert stats["bytes_to_device"] >= 10 * 80


def test_in_a_thread() -> None:
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.extend(values(fl.feed(numbered(50), device="cpu"))))
    thread.start()
    thread.join(10)
    assert got == list(range(50))


def test_others_run_while_a_batch_is_waited_for() -> None:
    go, ran = threading.Event(), threading.Event()

    def source() -> Iterator[Any]:
        go.wait(10)
        yield np.zeros(1)

    def other() -> None:
        ran.set()
        go.set()

    feed = fl.feed(source(), device="cpu")
    threading.Timer(0.05, other).start()
    next(feed)
    assert ran.is_set()
    feed.close()


def test_a_source_that_blocks_for_ever() -> None:
    go = threading.Event()

    def source() -> Iterator[Any]:
        yield np.zeros(1)
        go.wait()

    feed = fl.feed(source(), device="cpu")
    next(feed)
    start = time.monotonic()
    with pytest.raises(fl.TimeoutError, match="source|iterable"):
        feed.close()
    assert time.monotonic() - start < 2
    go.set()


def test_an_interrupt_while_a_source_is_slow() -> None:
    passes(
        """
        import os, signal, threading, time, numpy as np, framelane as fl
        go = threading.Event()
        def source():
            yield np.zeros(1)
            go.wait()
            yield np.zeros(1)
        feed = fl.feed(source(), device="cpu")
        next(feed)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        try:
            next(feed)
            raise SystemExit("not interrupted")
        except KeyboardInterrupt:
            assert time.monotonic() - start < 1
        go.set()
        next(feed)
        feed.close()
        """
    )
