#!/usr/bin/env python3
"""Makes the small ONNX models in test/. Their weights are written by hand: nothing is trained.

    pip install onnx && assets/make_test_models.py

README.md beside this file has the list. Every model's result can be worked out on paper.
"""

import pathlib

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper

OUT = pathlib.Path(__file__).parent / "test"
F32, F16, U8 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.UINT8


def save(name, nodes, inputs, outputs, weights=(), props=(), domains=(), check=True):
    """Writes one model. `inputs` and `outputs`: (name, type, shape); `weights`: name to array."""
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
        [numpy_helper.from_array(array, key) for key, array in dict(weights).items()],
    )
    opsets = [helper.make_opsetid("", 13), *(helper.make_opsetid(d, 1) for d in domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="framelane")
    if props:
        helper.set_model_props(model, dict(props))
    if check:
        checker.check_model(model, full_check=True)
    (OUT / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


def node(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs, [output], **attributes)


def image(name, channels, kind=F32, height="height", width="width"):
    return (name, kind, [1, channels, height, width])


def f32(values):
    return np.array(values, np.float32)


def mix(rows):
    """The 1x1 convolution whose output channel o is the sum of rows[o][i] times input channel i."""
    return f32(rows)[:, :, None, None]


LUMA = [0.299, 0.587, 0.114]


def main():
    OUT.mkdir(exist_ok=True)

    # Image to image: the layouts, types and channel counts.
    save(
        "identity_nchw_f32",
        [node("Identity", ["image"], "out")],
        [image("image", 3)],
        [image("out", 3)],
    )
    nhwc = [1, "height", "width", 3]
    save(
        "invert_nhwc_u8",
        [
            node("Cast", ["image"], "floats", to=F32),
            node("Sub", ["white", "floats"], "inverted"),
            node("Cast", ["inverted"], "out", to=U8),
        ],
        [("image", U8, nhwc)],
        [("out", U8, nhwc)],
        {"white": f32(255)},
    )
    save(
        "gray_f16",
        [node("Sub", ["one", "image"], "out")],
        [image("image", 1, F16)],
        [image("out", 1, F16)],
        {"one": np.array(1, np.float16)},
    )
    # Red and blue change places; alpha stays.
    swap = mix([[0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
    save(
        "rgba",
        [node("Conv", ["image", "swap"], "out")],
        [image("image", 4)],
        [image("out", 4)],
        {"swap": swap},
    )
    fixed = {"height": 48, "width": 64}
    save(
        "fixed_64x48",
        [node("Sub", ["one", "image"], "out")],
        [image("image", 3, **fixed)],
        [image("out", 3, **fixed)],
        {"one": f32(1)},
    )

    # Its input is (rgb - mean) / std, as ImageNet has them; its output is back in 0..1.
    mean, std = f32([0.485, 0.456, 0.406]), f32([0.229, 0.224, 0.225])
    save(
        "meanstd",
        [node("Mul", ["image", "std"], "scaled"), node("Add", ["scaled", "mean"], "out")],
        [image("image", 3)],
        [image("out", 3)],
        {"std": std[:, None, None], "mean": mean[:, None, None]},
        {
            "framelane.input_range": "0.485,0.456,0.406/0.229,0.224,0.225",
            "framelane.output": "image",
            "framelane.output_range": "0-1",
        },
    )

    # Image to map.
    # Mask: sigmoid(20 (luma - 0.5)): near 0 where dark, near 1 where bright, 0.5 at mid grey.
    save(
        "mask",
        [
            node("Conv", ["image", "luma", "offset"], "logit"),
            node("Sigmoid", ["logit"], "mask"),
        ],
        [image("image", 3)],
        [image("mask", 1)],
        {"luma": mix([[20 * c for c in LUMA]]), "offset": f32([-10])},
    )
    # Classes: red, green or blue where that channel is the largest and above 0.25, else class 0.
    save(
        "classes",
        [node("Conv", ["image", "scores", "offset"], "logits")],
        [image("image", 3)],
        [image("logits", 4)],
        {
            "scores": mix([[0, 0, 0], [4, 0, 0], [0, 4, 0], [0, 0, 4]]),
            "offset": f32([1, 0, 0, 0]),
        },
    )
    # Heat: at half the size, 100 times the mean luma of each 2x2 block, minus 20: -20..80.
    heat = f32(LUMA)[None, :, None, None] * np.full((1, 3, 2, 2), 25, np.float32)
    save(
        "heat_half",
        [node("Conv", ["image", "weight", "offset"], "heat", strides=[2, 2])],
        [image("image", 3)],
        [image("heat", 1, F32, "height/2", "width/2")],
        {"weight": heat, "offset": f32([-20])},
    )

    # Models that must be refused, in one sentence.
    save(
        "unknown_op",
        [
            node("FancyOp", ["image"], "a"),
            node("FancyPool", ["a"], "b", domain="com.example"),
            node("Relu", ["b"], "out"),
        ],
        [image("image", 3)],
        [image("out", 3)],
        domains=["com.example"],
        check=False,
    )
    rank3 = ["batch", "tokens", 16]
    save(
        "rank3",
        [node("Relu", ["tokens"], "out")],
        [("tokens", F32, rank3)],
        [("out", F32, rank3)],
    )
    save(
        "two_inputs",
        [node("Add", ["left", "right"], "out")],
        [image("left", 3), image("right", 3)],
        [image("out", 3)],
    )
    whole = (OUT / "classes.onnx").read_bytes()
    (OUT / "truncated.onnx").write_bytes(whole[: len(whole) // 2])


if __name__ == "__main__":
    main()
