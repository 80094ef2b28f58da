"""What is refused, and whether the sentence says what came and what is taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import passes

import framelane as fl


def refusal(tensor: Any, kind: type[Exception] = fl.ArgumentError, **looks: Any) -> str:
    with pytest.raises(kind) as refused:
        fl.Offscreen(8, 8).show(tensor, **looks)
    text = str(refused.value)
    assert "\n" not in text
    assert isinstance(refused.value, fl.Error)
    return text


@pytest.mark.parametrize("thing", [[1, 2], "text", None, object(), 3, {"a": 1}, np.ndarray])
def test_what_is_no_array(thing: Any) -> None:
    text = refusal(thing)
    assert "__dlpack__" in text
    assert type(thing).__name__ in text


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "uint32", "uint64", "O", "U3", "M8[s]", ">f4", ">f8", ">i2"])
def test_types_that_no_array_may_have(dtype: str) -> None:
    text = refusal(np.zeros((4, 4), dtype))
    assert np.zeros(0, dtype).__array_interface__["typestr"] in text
    assert "f32" in text or "other order" in text


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int16", "int32", "int64", "float64"])
def test_types_that_no_picture_has(dtype: str) -> None:
    text = refusal(np.zeros((4, 4), dtype))
    assert "u8, f16, bf16 or f32" in text
    assert "4×4" in text


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4, 5), (5, 6, 2), (5, 6, 7), (2, 1, 4, 4, 3)])
def test_shapes(shape: tuple[int, ...]) -> None:
    text = refusal(np.zeros(shape, np.uint8))
    assert "u8[" + "×".join(map(str, shape)) + "]" in text
    assert any(word in text for word in ("height", "channel", "batch of several"))


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3), (0, 0)])
def test_empty(shape: tuple[int, ...]) -> None:
    text = refusal(np.zeros(shape, np.uint8), fl.InputError)
    assert "pixels" in text and "0" in text


def test_channels_that_may_be_first_or_last() -> None:
    assert "layout" in refusal(np.zeros((3, 8, 3), np.uint8))
    fl.Offscreen(8, 3).show(np.zeros((3, 8, 3), np.uint8), layout="hwc")
    refusal(np.zeros((5, 8, 3), np.uint8), layout="chw")


def test_a_mask_is_refused() -> None:
    """Its hidden values would be shown as if they were not."""
    masked = np.ma.masked_array(np.zeros((4, 4), np.uint8), mask=np.eye(4, dtype=bool))
    assert "mask" in refusal(masked)


@pytest.mark.parametrize(
    ("looks", "words"),
    [
        ({"layout": "nhwc"}, ["nhwc", "hwc", "chw"]),
        ({"colours": "jet"}, ["jet", "grey", "viridis", "turbo"]),
        ({"colours": "viridis"}, ["colour map", "one channel"]),
        ({"range": (1.0, 1.0)}, ["range"]),
        ({"range": (float("nan"), 1.0)}, ["range"]),
                ({"range": (0.0, float("inf"))}, ["range"]),
    ],
)
def test_looks(looks: dict[str, Any], words: list[str]) -> None:
    text = refusal(np.zeros((5, 8, 3), np.float32), **looks)
    assert all(word in text for word in words), text


def test_before_of_another_size() -> None:
    text = refusal(np.zeros((4, 8, 3), np.uint8), before=np.zeros((8, 4, 3), np.uint8))
    assert "4" in text and "8" in text


ABSENT = object()


class Fake:
    """What a library on CUDA shows of an array, with no CUDA behind it."""

    def __init__(self, **change: Any) -> None:
        interface = {
            "shape": (4, 4, 3),
            "typestr": "|u1",
            "data": (0x7F0000000000, False),
            "strides": None,
            "version": 3,
            "stream": 1,
        }
        interface.update(change)
        self.__cuda_array_interface__: Any = {key: value for key, value in interface.items() if value is not ABSENT}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": ABSENT}, ["shape"]),
        ({"shape": "four"}, ["shape"]),
        ({"shape": (4, -4, 3)}, ["shape", "-4"]),
        ({"shape": (1 << 40, 1 << 40, 3)}, ["shape"]),
        ({"typestr": ABSENT}, ["typestr"]),
        ({"typestr": 7}, ["typestr"]),
        ({"typestr": ""}, ["type"]),
        ({"typestr": "<c8"}, ["<c8", "f32"]),
        ({"typestr": ">f4"}, [">f4", "other order"]),
        ({"data": ABSENT}, ["data"]),
        ({"data": 5}, ["data"]),
        ({"data": ("x", False)}, ["address"]),
        ({"strides": (3, 1)}, ["strides"]),
        ({"strides": "abc"}, ["strides"]),
        ({"typestr": "<f4", "strides": (50, 12, 4)}, ["strides", "contiguous"]),
        ({"strides": (12, -3, 1)}, ["strides", "negative"]),
        ({"mask": np.zeros(3)}, ["mask"]),
        ({"stream": 0}, ["stream 0"]),
    ],
)
def test_a_cuda_array_interface_that_makes_no_sense(change: dict[str, Any], words: list[str]) -> None:
    text = refusal(Fake(**change))
    assert all(word in text for word in words), text


def test_a_cuda_array_interface_that_is_no_dict() -> None:
    fake = Fake()
    fake.__cuda_array_interface__ = 3
    assert "dict" in refusal(fake)


def test_a_cuda_array_without_cuda() -> None:
    try:
        fl.counters("cuda")
    except fl.UnsupportedError:
        pass
    else:
        pytest.skip("there is a CUDA device here, which the addresses of a fake are not of")
    text = refusal(Fake(), fl.UnsupportedError)
    assert "CUDA" in text


def test_an_error_of_the_object_is_its_own() -> None:
    class Bad:
        def __dlpack_device__(self) -> tuple[int, int]:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        fl.Offscreen(8, 8).show(Bad())


@pytest.mark.parametrize("kind", [4, 7, 99])
def test_dlpack_of_another_device(kind: int) -> None:
    class Elsewhere:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (kind, 0)

        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError("it is not asked for memory")

    text = refusal(Elsewhere())
    assert str(kind) in text and "CUDA" in text


def test_devices() -> None:
    for name in ["cuda:x", "cuda:-1", "gpu", "", "CUDA", "cpu:0:1"]:
        with pytest.raises(fl.ArgumentError, match="cuda:N"):
            fl.feed([], device=name)
        with pytest.raises(fl.ArgumentError, match="cuda:N"):
            fl.counters(name)
    with pytest.raises(fl.Error):
        fl.Offscreen(8, 8, device="cuda:99")


def test_sizes() -> None:
    for size in [(0, 5), (5, 0), (1 << 30, 1 << 30)]:
        with pytest.raises(fl.InputError, match="pixels"):
            fl.Offscreen(*size)
    with pytest.raises((OverflowError, fl.ArgumentError)):
        fl.Offscreen(-1, 5)


def test_each_error_is_one_of_ours_and_documented() -> None:
    kinds = [value for name, value in vars(fl).items() if name.endswith("Error")]
    assert len(kinds) == 13 + 1
    for kind in kinds:
        assert issubclass(kind, fl.Error)
        assert kind.__doc__
        assert kind.__module__ == "framelane"
    assert issubclass(fl.NoScreenError, fl.UnsupportedError)


def test_nothing_is_imported_that_the_user_did_not_import() -> None:
    out = passes(
        """
        import sys, array
        import framelane as fl
        display = fl.Offscreen(4, 4)
        display.show(memoryview(bytes(16)).cast("B", (4, 4)))
        display.image()
        list(fl.feed([array.array("f", [1, 2])], device="cpu"))
        print([name for name in ("numpy", "torch", "cupy", "jax") if name in sys.modules])
        """
    )
    assert out == "[]\n"
