"""A model file is written as a whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import onnx

from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.atlas import Atlas
from sami_runtime.model.contract import Contract
from sami_train.machine.files import unfinished


def write_model(path: Path, graph: onnx.ModelProto, contract: Contract) -> Contract:
    """Write a graph and its contract as one file, and return the contract as it is read back.

    Raises:
        ArtifactError, ContractError: the file would not be valid; then none is written, or what was there stays.
    """
    onnx.helper.set_model_props(graph, contract.metadata())
    with unfinished(path) as file:
        file.write_bytes(graph.SerializeToString())
        return read_artifact(file).contract


def attach(model: Path, atlas: Atlas | None) -> Contract:
    """Put an atlas into a model file; its graph, weights and golden steps stay as they are, to the bit.

    Raises:
        ArtifactError, ContractError: the file, or what would become of it, is not valid.
    """
    artifact = read_artifact(model)
    graph = onnx.load_from_string(artifact.model_bytes)
    return write_model(model, graph, artifact.contract.model_copy(update={"atlas": atlas}))
