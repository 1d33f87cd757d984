"""The weights of a policy, read from the graph of its model file, to check that an export preserved them."""

import numpy as np
import onnx
from onnx import numpy_helper

from sami_runtime.model.artifact import read_artifact

GRAPH_PREFIX = "policy."
"""Prefix of the policy's tensors in a graph."""
UNLEARNED = "present."
"""Prefix of tensors that follow from the layout of observations, after `GRAPH_PREFIX`."""
GATES = (0, 2, 3, 1)
"""Positions of torch's LSTM gates (i, f, c, o) among ONNX's (i, o, f, c)."""


def graph_weights(path):
    """Return a policy's tensors by their names in torch.

    The graph outputs the mean of the actor's distribution, so the deviation is missing, as are critics and
    temperature. It has no count of observations for the normalisation, so the count is the run's steps.
    """
    artifact = read_artifact(path)
    arrays = _arrays(onnx.load_from_string(artifact.model_bytes).graph)
    steps = max(1, int(artifact.contract.training.get("steps", 0)))
    mean, deviation = (arrays[f"features.{name}"].astype(np.float64) for name in ("mean", "scale"))
    arrays["features.running_mean"], arrays["features.count"] = mean, np.array(float(steps))
    arrays["features.running_m2"] = deviation**-2.0 * steps
    return arrays


def _arrays(graph):
    """Return the policy's tensors by their names in the graph, without the prefix."""
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    arrays = {n.removeprefix(GRAPH_PREFIX): array for n, array in stored.items() if n.startswith(GRAPH_PREFIX)}
    arrays = {name: array for name, array in arrays.items() if not name.startswith(UNLEARNED)}
    maker = {output: node for node in graph.node for output in node.output}
    for node in graph.node:
        if node.op_type == "LSTM":
            arrays |= {f"encoder.lstm.{name}": array for name, array in _lstm(*(stored[n] for n in node.input[1:4]))}
        if node.op_type != "Add":
            continue
        # A linear layer on sequences is a MatMul and an Add; its transposed weight has another name.
        for bias, product in (node.input, reversed(node.input)):
            before = maker.get(product)
            if bias.startswith(GRAPH_PREFIX) and before is not None and before.op_type == "MatMul":
                name = bias.removeprefix(GRAPH_PREFIX).removesuffix("bias") + "weight"
                arrays[name] = np.ascontiguousarray(stored[before.input[1]].T)
    return arrays


def _lstm(inputs, hidden, biases):
    """Yield names and tensors of torch for ONNX's W (1, 4 H, in), R (1, 4 H, H) and both biases (1, 8 H)."""
    arrays = (inputs[0], hidden[0], *np.split(biases[0], 2))
    for name, array in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), arrays, strict=True):
        gates = np.split(array, 4)
        yield f"{name}_l0", np.concatenate([gates[gate] for gate in GATES])
