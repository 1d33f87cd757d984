"""A model file is changed as a whole, or not at all."""

from __future__ import annotations

from pathlib import Path

from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.atlas import Atlas
from sami_runtime.model.contract import Contract
from sami_train.machine.files import unfinished


def attach(model: Path, atlas: Atlas) -> Contract:
    """Put an atlas into a model file; its graph, weights and golden steps stay as they are, to the bit.

    Raises:
        ArtifactError, ContractError: the file, or what would become of it, is not valid.
    """
    import onnx

    artifact = read_artifact(model)
    contract = Contract.model_validate({**artifact.contract.model_dump(), "atlas": atlas})
    graph = onnx.load_from_string(artifact.model_bytes)
    onnx.helper.set_model_props(graph, contract.metadata())
    with unfinished(model) as beside:
        beside.write_bytes(graph.SerializeToString())
        read_artifact(beside)
    return contract
