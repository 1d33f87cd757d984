"""Frees the batch axis if an exporter fixed it, so that one file steps one robot or many episodes at once."""

from __future__ import annotations

import numpy as np

from sami_runtime.adoption.graph import import_onnx


def with_free_batch(data: bytes) -> bytes:
    """Return the model with recurrent layers that accept any batch size.

    Torch's newer exporter adds a `Transpose` and a `Reshape` to [1, 1, size] after each LSTM or GRU: one step, a batch
    of 1. The second number becomes -1. Before the LSTM of sb3-contrib's RecurrentPPO the older exporter writes a
    `Reshape` to [1, -1, size]: one sequence of any length. It becomes [-1, 1, size]. The results for a batch of 1 are
    the same. Nothing else changes.
    """
    onnx = import_onnx()
    model = onnx.load_from_string(data)
    graph = model.graph
    makers = {output: node for node in graph.node for output in node.output}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= {name: a.t for name, node in makers.items() for a in node.attribute if node.op_type == "Constant"}
    for node in graph.node:
        turned = makers.get(node.input[0]) if node.op_type in ("LSTM", "GRU", "Reshape") else None
        source = makers.get(turned.input[0]) if turned is not None and turned.op_type == "Transpose" else None
        if turned is None or source is None:
            continue
        match node.op_type, source.op_type, [n for a in turned.attribute for n in a.ints]:
            case "Reshape", "LSTM" | "GRU", [0, 2, 1, 3]:  # ONNX's [step, direction, batch, size] to torch's order
                reshape, fixed, free = node, [1, 1], [1, -1]
            case "LSTM" | "GRU", "Reshape", [1, 0, 2]:
                reshape, fixed, free = source, [1, -1], [-1, 1]
            case _:
                continue
        constant = constants.get(reshape.input[1])
        shape = onnx.numpy_helper.to_array(constant) if constant is not None and [*constant.dims] == [3] else []
        if [*shape[:2]] == fixed:
            reshape.input[1] = f"{reshape.output[0]}.any_batch"
            freed = np.array([*free, shape[2]], np.int64)
            graph.initializer.append(onnx.numpy_helper.from_array(freed, reshape.input[1]))
    return bytes(model.SerializeToString())
