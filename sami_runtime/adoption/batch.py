"""Frees the batch axis if an exporter fixed it, so that one file steps one robot or many episodes at once."""

from __future__ import annotations

from sami_runtime.adoption.graph import import_onnx

STEP_MAJOR = [0, 2, 1, 3]
"""Order of axes that turns ONNX's recurrent output [step, direction, batch, size] into torch's."""


def with_free_batch(data: bytes) -> bytes:
    """Return the model with recurrent layers that accept any batch size.

    Torch's newer exporter adds a `Transpose` and a `Reshape` to [1, 1, size] after each LSTM or GRU: one step, a batch
    of 1. The second number becomes -1, which has the same result for a batch of 1. Nothing else changes.
    """
    onnx = import_onnx()
    model = onnx.load_from_string(data)
    graph = model.graph
    makers = {output: node for node in graph.node for output in node.output}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type != "Reshape" or node.input[1] not in constants:
            continue
        turned = makers.get(node.input[0])
        if (
            turned is None
            or turned.op_type != "Transpose"
            or [n for a in turned.attribute for n in a.ints] != STEP_MAJOR
        ):
            continue
        layer = makers.get(turned.input[0])
        shape = onnx.numpy_helper.to_array(constants[node.input[1]])
        if layer is not None and layer.op_type in ("LSTM", "GRU") and [*shape[:2]] == [1, 1] and len(shape) == 3:
            freed = shape.copy()
            freed[1] = -1
            node.input[1] = f"{node.output[0]}.any_batch"
            graph.initializer.append(onnx.numpy_helper.from_array(freed, node.input[1]))
    return bytes(model.SerializeToString())
