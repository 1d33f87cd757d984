"""A model file is written as a whole, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from sami_runtime.checks.verify import verify
from sami_runtime.model.artifact import graph_sha256, read_artifact
from sami_runtime.model.atlas import Atlas
from sami_runtime.model.contract import Contract
from sami_runtime.model.golden import GoldenSteps
from sami_runtime.model.seen import Seen
from sami_runtime.signals import Signal
from sami_train.envs.spec import EnvironmentSpec
from sami_train.files import unfinished


def write_model(path: Path, graph: onnx.ModelProto, contract: Contract) -> Contract:
    """Write a graph and its contract as one file, and return the contract as it is read back.

    Raises:
        ArtifactError, ContractError: the file would not be valid; then none is written, or what was there stays.
    """
    onnx.helper.set_model_props(graph, contract.metadata())
    with unfinished(path) as file:
        file.write_bytes(graph.SerializeToString())
        return read_artifact(file).contract


def write_verified(path: Path, graph: onnx.ModelProto, contract: Contract, golden: GoldenSteps) -> Contract:
    """Write a graph and its contract with golden steps of their own as one file, which does what they say.

    Raises:
        CheckFailed: it does not; then none is written, or what was there stays.
        ArtifactError, ContractError: as of `write_model`.
    """
    digest = graph_sha256(graph.SerializeToString())
    contract = contract.model_copy(update={"golden": contract.pack_golden(golden), "weights_sha256": digest})
    path.parent.mkdir(parents=True, exist_ok=True)
    with unfinished(path) as file:
        contract = write_model(file, graph, contract)
        verify(file).require()
    return contract


def attach(model: Path, atlas: Atlas | None) -> Contract:
    """Put an atlas into a model file; its graph, weights and golden steps stay as they are, to the bit.

    Raises:
        ArtifactError, ContractError: the file, or what would become of it, is not valid.
    """
    return _tell(model, {"atlas": atlas})


def describe(model: Path, spec: EnvironmentSpec, seen: Seen) -> Contract:
    """Put what training saw into a model file, and what its environment tells of signals, frame and home pose.

    Graph, weights and golden steps stay as they are, to the bit; so do names, sizes, units and bounds of the signals.

    Raises:
        ArtifactError, ContractError: the file, or what would become of it, is not valid.
    """
    contract = read_artifact(model).contract
    declared = {signal.name: signal for signal in (*spec.signals, spec.action)}

    def told(signal: Signal) -> Signal:
        return signal.model_copy(update={name: getattr(declared[signal.name], name) for name in ("meaning", "moves")})

    observation, action = tuple(map(told, contract.observation)), told(contract.action)
    return _tell(model, {"observation": observation, "action": action, "seen": seen, "sheet": spec.sheet})


def _tell(model: Path, changes: Mapping[str, Any]) -> Contract:
    artifact = read_artifact(model)
    graph = onnx.load_from_string(artifact.model_bytes)
    return write_model(model, graph, artifact.contract.model_copy(update=changes))
