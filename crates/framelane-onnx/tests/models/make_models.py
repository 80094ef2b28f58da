#!/usr/bin/env python3
"""Makes the models that only this crate's tests use.

    pip install onnx && ./make_models.py

gate.onnx calls the operator test.Gate only for pictures whose average is above one half. The tests bring that
operator along, and hold a run fast in it. lppool.onnx passes its input on, by an operator that tract lacks.
"""

import pathlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper

SHAPE = [1, 1, 4, 4]


def branch(name, operator, domain):
    return helper.make_graph(
        [helper.make_node(operator, ["image"], [name], domain=domain)],
        name,
        [],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE)],
    )


graph = helper.make_graph(
    [
        helper.make_node("ReduceMean", ["image"], ["average"], keepdims=0),
        helper.make_node("Greater", ["average", "half"], ["bright"]),
        helper.make_node(
            "If",
            ["bright"],
            ["out"],
            then_branch=branch("gated", "Gate", "test"),
            else_branch=branch("passed", "Identity", ""),
        ),
    ],
    "gate",
    [helper.make_tensor_value_info("image", TensorProto.FLOAT, SHAPE)],
    [helper.make_tensor_value_info("out", TensorProto.FLOAT, SHAPE)],
    [numpy_helper.from_array(np.float32(0.5), "half")],
)


def save(name, graph):
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("test", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="framelane")
    (pathlib.Path(__file__).parent / name).write_bytes(model.SerializeToString(deterministic=True))


save("gate.onnx", graph)
shape = [1, 3, "height", "width"]
save(
    "lppool.onnx",
    helper.make_graph(
        [helper.make_node("LpPool", ["image"], ["out"], kernel_shape=[1, 1], p=1)],
        "lppool",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, shape)],
    ),
)
