"""Arrays of every kind, against NumPy: what is shown is what was given."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest

import framelane as fl

SIZES = [(6, 5), (1, 1), (7, 13), (33, 2)]


def numbers(*shape: int, dtype: Any, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    if np.dtype(dtype) == np.uint8:
        return random.integers(0, 256, shape, dtype=np.uint8)
    return random.uniform(-0.25, 1.25, shape).astype(dtype)


def expected(hwc: Any) -> Any:
    """Bytes of height × width × 3, of an array of height × width × channels."""
    if hwc.dtype == np.uint8:
        out = hwc
    else:
        out = np.round(np.clip(np.nan_to_num(hwc.astype(np.float64)), 0, 1) * 255).astype(np.uint8)
    return np.repeat(out, 3, axis=2) if out.shape[2] == 1 else out[:, :, :3]


def shown(tensor: Any, height: int, width: int, **looks: Any) -> Any:
    display = fl.Offscreen(width, height)
    assert display.show(tensor, **looks) == "shown"
    image = np.asarray(display.image())
    assert image.shape == (height, width, 4)
    assert image.dtype == np.uint8
    assert (image[:, :, 3] == 255).all()
    return image[:, :, :3].astype(int)


def check(tensor: Any, hwc: Any, **looks: Any) -> None:
    got = shown(tensor, *hwc.shape[:2], **looks)
    off = np.abs(got - expected(hwc).astype(int)).max()
    assert off <= (0 if hwc.dtype == np.uint8 else 1), off


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32])
def test_layouts(dtype: Any, channels: int, size: tuple[int, int]) -> None:
    hwc = numbers(*size, channels, dtype=dtype)
    check(hwc, hwc, layout="hwc")
    check(np.ascontiguousarray(hwc.transpose(2, 0, 1)), hwc, layout="chw")
    check(hwc.transpose(2, 0, 1), hwc, layout="CHW")
    if channels == 1:
        check(hwc[:, :, 0], hwc)


@pytest.mark.parametrize("layout", ["hwc", "chw"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32])
def test_opaque_fourth_channel(dtype: Any, layout: str) -> None:
    hwc = numbers(6, 9, 4, dtype=dtype)
    hwc[:, :, 3] = 255 if dtype == np.uint8 else 1
    check(hwc if layout == "hwc" else hwc.transpose(2, 0, 1), hwc, layout=layout)


@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("width", [4, 5, 8])
def test_three_channels_are_never_read_as_four(channels: int, width: int) -> None:
    """A picture with a colour per column would shift if a row were read by the wrong number of channels."""
    hwc = np.full((8, width, channels), 255, np.uint8)
    hwc[:, :, :3] = [[10 * x + 1, 10 * x + 2, 10 * x + 3] for x in range(width)]
    check(hwc, hwc)
    # Not beyond its end, either: the same picture at the end of a larger block.
    block = np.full(hwc.size + 64, 77, np.uint8)
    block[64:] = hwc.ravel()
    check(block[64:].reshape(hwc.shape), hwc)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32])
def test_strides(dtype: Any) -> None:
    whole = numbers(20, 24, 3, dtype=dtype)
    for view in [
        whole[::2, ::3],
        whole[3:12, 5:14],
        whole[::-1],
        whole[:, ::-1],
        whole[:, :, ::-1],
        whole[::-2, ::-3, ::-1],
        whole.transpose(1, 0, 2),
        np.broadcast_to(whole[:1], (9, 24, 3)),
        whole[:, :, :1],
    ]:
        check(view, np.ascontiguousarray(view), layout="hwc")


def test_leading_dimensions_of_one() -> None:
    hwc = numbers(6, 9, 3, dtype=np.uint8)
    check(hwc[None], hwc)
    with pytest.raises(fl.ArgumentError):
        fl.Offscreen(9, 6).show(np.stack([hwc, hwc]))


def test_range() -> None:
    ramp = np.linspace(-2, 2, 9, dtype=np.float32)[None, :, None]
    got = shown(ramp, 1, 9, range=(-2, 2), layout="hwc")
    assert np.abs(got[0, :, 0] - np.round(np.linspace(0, 255, 9))).max() <= 1
    bytes_ = np.array([[0, 50, 100, 150, 255]], np.uint8)
    got = shown(bytes_, 1, 5, range=(50, 150))
    assert np.abs(got[0, :, 0] - [0, 0, 127.5, 255, 255]).max() <= 1


@pytest.mark.parametrize(
    ("colours", "low", "high"),
    [("viridis", (68, 1, 84), (253, 231, 37)), ("turbo", (48, 18, 59), (122, 4, 3)), ("grey", (0, 0, 0), (255, 255, 255))],
)
def test_colours(colours: str, low: tuple[int, ...], high: tuple[int, ...]) -> None:
    got = shown(np.array([[0.0, 1.0]], np.float32), 1, 2, colours=colours)
    assert np.abs(got[0] - [low, high]).max() <= 3, got


def test_bgr() -> None:
    rgb = numbers(5, 7, 3, dtype=np.uint8)
    check(rgb[:, :, ::-1].copy(), rgb, bgr=True)


def test_marks() -> None:
    values = np.array([[np.nan, 2, -1, 0.5, np.inf, -np.inf]], np.float32)
    got = shown(values, 1, 6, mark=True)[0]
    magenta, red, blue, grey, more, less = (tuple(int(n) for n in pixel) for pixel in got)
    assert magenta == (255, 0, 255)
    assert red == more == (255, 0, 0)
    assert blue == less == (0, 0, 255)
    assert all(abs(n - 128) <= 1 for n in grey)
    unmarked = shown(values, 1, 6)[0]
    assert (unmarked == unmarked[:, :1]).all(), "grey if marks were not asked for"


def test_before_is_beside_what_was_made_of_it() -> None:
    """A divider that nobody moved shows what was made of it."""
    after, before = numbers(8, 20, 3, dtype=np.uint8), numbers(8, 20, 3, dtype=np.uint8, seed=1)
    check(after, after, before=before)


@pytest.mark.parametrize("of", [bytes, bytearray, memoryview, lambda a: array.array("B", a.tobytes())])
def test_buffers(of: Any) -> None:
    grey = numbers(6, 8, dtype=np.uint8)
    if of is memoryview:
        check(memoryview(grey), grey[:, :, None])
        check(memoryview(grey)[::2], grey[::2, :, None])
        return
    flat = of(grey) if of is not bytes else grey.tobytes()
    check(memoryview(flat).cast("B", (6, 8)), grey[:, :, None])
    with pytest.raises(fl.ArgumentError, match=r"u8\[48\].*height"):
        fl.Offscreen(8, 6).show(flat)


class Exporter:
    """Only what DLPack asks for."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.of.__dlpack_device__()  # type: ignore[no-any-return]

    def __dlpack__(self, **_: Any) -> Any:
        return self.of.__dlpack__()


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32])
def test_dlpack(dtype: Any) -> None:
    hwc = numbers(12, 9, 3, dtype=dtype)
    check(Exporter(hwc), hwc)
    check(Exporter(hwc[::2, 1:]), hwc[::2, 1:])


def test_a_tensor_of_ours() -> None:
    hwc = numbers(6, 7, 3, dtype=np.uint8)
    display = fl.Offscreen(7, 6)
    display.show(hwc)
    image = display.image()
    assert (image.shape, image.dtype, image.device, image.nbytes, image.ndim) == ((6, 7, 4), "uint8", "cpu", 168, 3)
    assert len(image) == 6
    assert np.array_equal(np.from_dlpack(image), np.asarray(image))
    check(image, np.asarray(image))
    assert image.__dlpack_device__() == (1, 0)
    with pytest.raises(AttributeError, match="CPU"):
        _ = image.__cuda_array_interface__
    with pytest.raises(BufferError, match="copy it afterwards"):
        image.__dlpack__(copy=True)
    array_ = np.asarray(image)
    del image, display
    assert (array_[:, :, 3] == 255).all(), "the memory lives as long as what was taken from it"


def test_a_capsule_is_taken_once() -> None:
    class Twice(Exporter):
        capsule: Any = None

        def __dlpack__(self, **_: Any) -> Any:
            self.capsule = self.capsule or self.of.__dlpack__()
            return self.capsule

    twice, display = Twice(np.zeros((4, 4), np.uint8)), fl.Offscreen(4, 4)
    display.show(twice)
    with pytest.raises(BufferError, match="used before"):
        display.show(twice)


def test_jax() -> None:
    jax = pytest.importorskip("jax", reason="no JAX here: pip install jax")
    for dtype in ["uint8", "float16", "float32"]:
        hwc = numbers(6, 7, 3, dtype=dtype)
        check(jax.numpy.asarray(hwc), hwc)
    hwc = numbers(6, 7, 3, dtype=np.float32)
    half = jax.numpy.asarray(hwc).astype("bfloat16")
    check(half, np.asarray(half.astype("float32")))


def test_bfloat16() -> None:
    types = pytest.importorskip("ml_dtypes", reason="no ml_dtypes here: pip install ml_dtypes")
    half = numbers(6, 7, 3, dtype=np.float32).astype(types.bfloat16)
    check(half, half.astype(np.float32))
    check(half[::2, ::-1], half.astype(np.float32)[::2, ::-1], layout="hwc")
