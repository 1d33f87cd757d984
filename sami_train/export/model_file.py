"""Edits graphs, composes model files in memory, and writes them whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from sami_runtime.checks.verify import verify
from sami_runtime.model.artifact import Artifact, graph_sha256, judge
from sami_runtime.model.contract import Contract
from sami_runtime.model.golden import GoldenSteps
from sami_train.files import make_folder, unfinished


def without_part(model: onnx.ModelProto, prefix: str) -> onnx.ModelProto:
    """Return a copy of a graph without the nodes and weights whose names start with a prefix."""
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    for values in (plain.graph.node, plain.graph.initializer):
        refill(values, [value for value in values if not value.name.startswith(prefix)])
    return plain


def declare(graph: onnx.GraphProto, contract: Contract) -> None:
    """Give a graph the inputs and outputs of its contract, in its order, with a dynamic batch axis."""
    for values, shapes in ((graph.input, contract.inputs), (graph.output, contract.outputs)):
        refill(values, [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", *s]) for n, s in shapes.items()])


def refill(field: Any, values: Iterable[Any]) -> None:
    """Replace the values of a repeated field of a protobuf message."""
    copies = list(values)
    del field[:]
    field.extend(copies)


def compose(path: Path, graph: onnx.ModelProto, contract: Contract) -> Artifact:
    """Return the model file of a graph and its contract; nothing is written.

    Raises:
        ArtifactError, ContractError: the file would be invalid; so do all functions here.
    """
    onnx.helper.set_model_props(graph, contract.metadata())
    return judge(graph.SerializeToString(), path)


def compose_verified(
    path: Path, graph: onnx.ModelProto, contract: Contract, golden: GoldenSteps, tolerance: float = 1e-5
) -> Artifact:
    """Return the model file of a graph and its contract with golden steps; nothing is written.

    Raises:
        CheckFailed: the graph does not reproduce the golden steps within the tolerance.
    """
    digest = graph_sha256(graph.SerializeToString())
    contract = contract.model_copy(update={"golden": contract.pack_golden(golden), "weights_sha256": digest})
    artifact = compose(path, graph, contract)
    verify(artifact, tolerance).require()
    return artifact


def recompose(artifact: Artifact, changes: Mapping[str, Any]) -> Artifact:
    """Return a model file, which may exist in memory only, with changed fields of its contract.

    Graph, weights and golden steps stay bit-equal.
    """
    graph = onnx.load_from_string(artifact.model_bytes)
    return compose(artifact.path, graph, artifact.contract.model_copy(update=changes))


def write(artifact: Artifact) -> Contract:
    """Write a model file to its path, and return its contract; after an error the previous file is still there."""
    make_folder(artifact.path.parent)
    with unfinished(artifact.path) as file:
        file.write_bytes(artifact.model_bytes)
    return artifact.contract
