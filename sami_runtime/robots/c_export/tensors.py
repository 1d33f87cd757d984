"""The tensors of a graph with a batch of 1: their shapes, types, and values if they are constant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import ArtifactError
from sami_runtime.model.artifact import Artifact
from sami_runtime.session.inference import import_onnxruntime

BY_SHAPE = ("Shape", "Size")
"""Operators whose output depends only on the shape of their input."""


@dataclass(frozen=True)
class GraphNode:
    """An operator of the graph."""

    operator: str
    name: str
    inputs: tuple[str, ...]
    """Names of tensors; empty for an optional input that is left out."""
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class StaticGraph:
    """A graph with a batch of 1, so that all shapes are fixed."""

    nodes: tuple[GraphNode, ...]
    """In the order of computation, without nodes that compute constants."""
    shapes: dict[str, tuple[int, ...]]
    """Shapes by tensor."""
    kinds: dict[str, np.dtype[Any]]
    """Types of the numbers by tensor."""
    constants: dict[str, NDArray[Any]]
    """Values by tensor: weights, and results of weights and shapes alone."""


def static_graph(artifact: Artifact) -> StaticGraph:
    """Return the graph of a model file for a batch of 1.

    onnxruntime computes every tensor of the graph once, which gives all shapes and constants.

    Raises:
        ArtifactError: onnxruntime cannot compute the graph.
    """
    import onnx

    onnxruntime = import_onnxruntime()
    model = onnx.load_from_string(artifact.model_bytes)
    answers = {output.name for output in model.graph.output}
    computed = [name for node in model.graph.node for name in node.output if name]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in computed if name not in answers)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    inputs = {name: np.zeros((1, *shape), np.float32) for name, shape in artifact.contract.inputs.items()}
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        values = dict(zip(names, session.run(names, inputs), strict=True))
    except Exception as error:  # onnxruntime's exceptions share no base class
        raise ArtifactError(f"{artifact.path} cannot be computed by onnxruntime: {error}.") from error
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        if node.op_type in BY_SHAPE or all(name in constants for name in node.input if name):
            constants |= {name: values[name] for name in node.output if name}
            continue
        attributes = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        nodes.append(GraphNode(node.op_type, node.name, tuple(node.input), tuple(node.output), attributes))
    every = {**constants, **inputs, **values}
    return StaticGraph(
        nodes=tuple(nodes),
        shapes={name: value.shape for name, value in every.items()},
        kinds={name: value.dtype for name, value in every.items()},
        constants=constants,
    )
