"""What every user meets first: show an array, feed an iterable, and what they say when something is wrong."""

import dataclasses
import os
import threading
import traceback
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest

import framelane as fl


@pytest.fixture(scope="module")
def display() -> fl.Offscreen:
    try:
        return fl.Offscreen(64, 48)
    except fl.UnsupportedError as why:
        pytest.skip(f"nothing draws here: {why}")


def picture(height: int = 48, width: int = 64, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (height, width, channels), np.uint8)


def seen(display: fl.Offscreen) -> np.ndarray:
    return np.asarray(display.image())


def test_an_array_is_shown_as_it_is(display: fl.Offscreen) -> None:
    array = picture()
    assert display.show(array) in ("shown", "replaced")
    array_then, array[:] = array.copy(), 0  # It may be written again at once.
    image = seen(display)
    assert image.shape == (48, 64, 4) and (image[..., 3] == 255).all()
    assert (image[..., :3] == array_then).all()
    assert "host-upload" in display["picture"].path


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_floats_from_zero_to_one(display: fl.Offscreen, kind: type) -> None:
    array = picture()
    display.show((array / 255).astype(kind).transpose(2, 0, 1))
    assert np.abs(seen(display)[..., :3].astype(int) - array).max() <= 1


def test_views_are_shown_as_what_they_view(display: fl.Offscreen) -> None:
    array = picture(96, 128)
    for view in [array[::2, ::2], array[::2, ::2, ::-1], array[::-2, ::-2], np.asfortranarray(array[::2, ::2])]:
        display.show(view)
        assert (seen(display)[..., :3] == view).all()


def test_colours_range_and_marks(display: fl.Offscreen) -> None:
    ramp = np.tile(np.linspace(-1, 2, 64, dtype=np.float32), (48, 1))
    ramp[0, 32] = np.nan
    display.show(ramp, range=(0, 1), mark=True)
    image = seen(display)
    assert (image[1, 0, :3] == [0, 0, 255]).all() and (image[1, -1, :3] == [255, 0, 0]).all()
    assert (image[0, 32, :3] == [255, 0, 255]).all()
    display.show(ramp[1:, :], range=(-1, 2), colours="viridis")
    display.show(picture(), bgr=True)
    assert (seen(display)[..., :3] == picture()[..., ::-1]).all()


def test_buffers_and_panes(display: fl.Offscreen) -> None:
    two = fl.Offscreen(32, 8)
    two["left"].show(memoryview(bytes([9] * 8 * 16)).cast("B", (8, 16)))
    two["right"].show(np.full((8, 16), 200, np.uint8))
    image = seen(two)
    assert (image[:, :16, :3] == 9).all() and (image[:, 16:, :3] == 200).all()
    assert [pane["name"] for pane in two.panes()] == ["left", "right"]


class Fake:
    """What another library's CUDA array says of itself."""

    def __init__(self, **said: Any) -> None:
        self.__cuda_array_interface__ = {"shape": (4, 4), "typestr": "|u1", "data": (4096, False), "version": 3, **said}


@pytest.mark.parametrize(
    ("array", "words"),
    [
        ([1, 2], ["list", "no array"]),
        ("x", ["str"]),
        (5, ["int"]),
        (np.zeros((4, 4), np.complex64), ["<c8", "give one of"]),
        (np.zeros((4, 4), ">f4"), [">f4", "other order"]),
        (np.zeros((2, 3, 4, 5, 6), np.uint8), ["2×3×4×5×6", "cannot be shown"]),
        (np.zeros((5, 5, 2), np.uint8), ["5×5×2"]),
        (np.zeros((4, 4), np.int32), ["i32", "u8, f16, bf16 or f32"]),
        (Fake(stream=0), ["stream 0"]),
        (Fake(shape="no"), ["shape"]),
        (Fake(typestr="<f3"), ["<f3"]),
        (Fake(mask=1), ["mask"]),
        (Fake(strides=(1,)), ["strides"]),
        (Fake(data=None), ["data"]),
    ],
)
def test_what_is_no_picture_is_refused_in_words(display: fl.Offscreen, array: Any, words: list[str]) -> None:
    with pytest.raises(fl.Error) as refused:
        display.show(array)
    assert all(word in str(refused.value) for word in words), refused.value
    assert "\n" not in str(refused.value)


def test_without_a_screen_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"]:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(fl.NoScreenError, match=r"there is no screen.*framelane\.Offscreen"):
        fl.Window("nobody sees it")


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Sample:
    image: Any
    name: str


def test_a_feed_gives_what_it_was_given() -> None:
    def batch(i: int) -> dict[str, Any]:
        return {
            "image": np.full((2, 5, 7), i, np.float64)[:, ::2],
            "pair": Pair(np.arange(3) + i, None),
            "list": [np.zeros((0, 4)), np.array(i), (np.array([True, i > 2]),)],
            "sample": Sample(np.full(4, i, np.float16), f"name {i}"),
            "number": i,
            7: "key",
        }

    feeder = fl.feed([batch(i) for i in range(6)], "cpu", depth=3)
    for _epoch in range(2):
        count = 0
        for i, got in enumerate(feeder):
            want = batch(i)
            assert list(got) == list(want) and got["number"] == i and got[7] == "key"
            assert isinstance(got["pair"], Pair) and got["pair"].y is None
            assert isinstance(got["sample"], Sample) and got["sample"].name == f"name {i}"
            pairs = [
                (got["image"], want["image"]),
                (got["pair"].x, want["pair"].x),
                *zip(got["list"][:2], want["list"][:2], strict=True),
                (got["list"][2][0], want["list"][2][0]),
                (got["sample"].image, want["sample"].image),
            ]
            for ours, theirs in pairs:
                assert ours.dtype == theirs.dtype.name and ours.shape == theirs.shape
                assert (np.asarray(ours) == theirs).all()
            got.record_stream(0)
            count += 1
        assert count == 6
    assert feeder.state_dict() == {"epoch": 1, "batch": 6}
    assert feeder.stats()["batches"] == 12


@pytest.mark.parametrize("good", [0, 1, 2, 3, 5])
def test_what_the_iterable_raises_comes_as_it_was_raised(good: int) -> None:
    def items() -> Any:
        for i in range(good):
            yield np.full(3, i)
        raise KeyError("boom")

    got = []
    with pytest.raises(KeyError, match="boom") as raised:
        for batch in fl.feed(items(), "cpu"):
            got.append(np.asarray(batch)[0])
    assert got == list(range(good))
    assert "in items" in "".join(traceback.format_tb(raised.tb))


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_a_loop_may_be_left_at_any_step() -> None:
    list(fl.feed([np.zeros(3)], "cpu"))
    before = threads()
    for step in range(8):
        feeder = fl.feed((np.full(1000, i) for i in range(10)), "cpu")
        for i, batch in enumerate(feeder):
            assert np.asarray(batch)[0] == i
            if i == step:
                break
        del feeder, batch
        assert threads() == before


def test_an_iterable_that_does_not_return_is_named() -> None:
    go_on = threading.Event()

    def items() -> Any:
        yield np.zeros(3)
        go_on.wait()

    feeder = fl.feed(items(), "cpu")
    next(feeder)
    with pytest.raises(fl.TimeoutError, match="iterable of a feed has not returned"):
        feeder.close()
    go_on.set()


def test_a_feed_goes_on_where_it_was() -> None:
    first = fl.feed([np.full(2, i) for i in range(9)], "cpu")
    for _ in range(4):
        next(first)
    second = fl.feed([np.full(2, i) for i in range(9)], "cpu")
    second.load_state_dict(first.state_dict())
    assert [int(np.asarray(batch)[0]) for batch in second] == [4, 5, 6, 7, 8]
    with pytest.raises(fl.ArgumentError, match="has begun"):
        second.load_state_dict({"epoch": 0, "batch": 1})


def test_pictures_become_floats() -> None:
    images = np.random.default_rng(2).integers(0, 256, (2, 6, 5, 3), np.uint8)
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    (got,) = fl.feed([images], "cpu", normalize=(mean, std))
    want = ((images / 255 - mean) / std).transpose(0, 3, 1, 2)
    assert got.shape == want.shape and np.abs(np.asarray(got) - want).max() < 1e-5
    (got,) = fl.feed([images], "cpu", dtype="f16", layout="hwc")
    assert np.abs(np.asarray(got).astype(float) - images / 255).max() < 1e-3
    with pytest.raises(fl.ArgumentError, match="normalize is"):
        fl.feed([images], "cpu", normalize=([1, 2], [1]))


def test_batches_that_are_kept_are_not_written_over() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = list(fl.feed([np.full(100, i) for i in range(50)], "cpu"))
    assert [int(np.asarray(batch)[0]) for batch in kept] == list(range(50))


def test_a_device_that_is_not_there_is_said() -> None:
    with pytest.raises(fl.ArgumentError, match="give .cpu., .cuda. or"):
        fl.feed([], "gpu")
    with pytest.raises(fl.Error):
        next(fl.feed([np.zeros(3)], "cuda:99"))


def test_what_is_moved_is_counted() -> None:
    with fl.residency("cpu") as moved:
        list(fl.feed([np.zeros(1000, np.uint8)] * 4, "cpu"))
    assert moved.to_device == 4000 and moved.from_device == 4000
    assert "4000 bytes to the device" in str(moved)


def test_a_block_counts_again_and_not_within_itself() -> None:
    moved = fl.residency("cpu")
    for n in 3, 1:
        with moved:
            list(fl.feed([np.zeros(1000, np.uint8)] * n, "cpu"))
            with pytest.raises(fl.ArgumentError, match="counts already"), moved:
                pass
        assert moved.to_device == n * 1000
    assert "1000 bytes back (2 copies, 0 kernels)" in str(moved)
    with pytest.raises(fl.ArgumentError, match="has not begun"):
        moved.__exit__(None, None, None)


def test_what_is_helped_with() -> None:
    for thing in [fl, fl.feed, fl.attach, fl.Window, fl.Offscreen, fl.Feeder, fl.Tensor, fl.Worker, fl.Pane]:
        assert thing.__doc__ and len(thing.__doc__) > 80, thing


def test_arrays_of_jax() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    # On whatever device it has here.
    try:
        display = fl.Offscreen(64, 48)
    except fl.UnsupportedError as why:
        pytest.skip(f"nothing draws here: {why}")
    display.show(jax.numpy.asarray(picture()))
    assert (seen(display)[..., :3] == picture()).all()
    display.show(jax.numpy.asarray(picture() / 255).astype(jax.numpy.bfloat16))
    assert np.abs(seen(display)[..., :3].astype(int) - picture()).max() <= 1
    cpu = jax.device_put(jax.numpy.arange(5), jax.devices("cpu")[0])
    (got,) = fl.feed([cpu], "cpu")
    assert (np.asarray(got) == np.arange(5)).all()
