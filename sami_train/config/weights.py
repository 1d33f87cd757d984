"""Weights of a policy as one safetensors file with a header; `--init` starts from such a file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.numpy
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from sami_runtime.distribution import shipped_models
from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.model.artifact import read_artifact
from sami_train.envs.spec import EnvironmentSpec

WEIGHTS_FILE = "weights.safetensors"
"""Name of the file of weights in run folders and checkpoints."""
WEIGHTS_VERSION = 1
METADATA = "sami.weights"
"""Key of the header in the file's metadata."""
DTYPES = ("F16", "F32", "F64", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "BOOL")
"""Types of tensors, by their names in safetensors, that NumPy supports."""
MOST_AXES, LONGEST_AXIS = 8, 2**31
"""Limits of a tensor's shape, well within NumPy's; tensors of a policy have at most three axes."""


class WeightsHeader(BaseModel):
    """Header of a file of weights."""

    model_config = ConfigDict(frozen=True)

    version: int = WEIGHTS_VERSION
    env: str
    """Name of the environment, for `--env`."""
    method: str
    """Name of the method, for `--method`."""
    observation: dict[str, int]
    """Size of each signal, in the order of the flat observation."""
    actions: int
    network: dict[str, Any]
    """A `NetworkConfig`."""
    temperature: float | None = None
    """SAC's temperature at the end; None if unknown."""
    steps: int = 0
    """Environment steps of the training."""
    model: str = ""
    """SHA-256 of the model file's graph, if a model file has these weights; else empty."""


@dataclass(frozen=True)
class Weights:
    """Named tensors of a policy, see `ContextPolicy.state_dict`, with their header."""

    header: WeightsHeader
    arrays: Mapping[str, NDArray[Any]]


def write_weights(path: Path, weights: Weights) -> None:
    """Write a file of weights, NAME.safetensors; the same weights give the same bytes."""
    metadata = {METADATA: weights.header.model_dump_json()}
    # Written by Python, because safetensors' own writer reports no errno for a full disk.
    path.write_bytes(safetensors.numpy.save(dict(sorted(weights.arrays.items())), metadata))


def read_weights(path: Path) -> Weights:
    """Read a file of weights.

    Raises:
        SamiError: the file cannot be read, is not a file of weights, or is of another version.
    """
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(METADATA)
            names = list(file.keys())
            for name in names:
                _require_readable(path, name, file.get_slice(name))
            arrays = {name: file.get_tensor(name) for name in names}
    except (OSError, safetensors.SafetensorError) as error:
        raise SamiError(f"{path} cannot be read as weights: {error}. Copy it again, or export it again.") from error
    if text is None:
        raise SamiError(f"{path} has no header of sami; give a file of weights that sami train or export wrote.")
    try:
        header = WeightsHeader.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise SamiError(f"{path} has a damaged header: {problem['loc']}: {problem['msg']}. Copy it again.") from error
    if header.version != WEIGHTS_VERSION:
        raise SamiError(f"{path} has weights of version {header.version}; this sami reads version {WEIGHTS_VERSION}.")
    return Weights(header, arrays)


def _require_readable(path: Path, name: str, tensor: Any) -> None:
    """Raise SamiError, before a tensor is read, if NumPy does not support its type or shape."""
    dtype, shape = tensor.get_dtype(), tensor.get_shape()
    if dtype not in DTYPES:
        raise SamiError(f"{path} has tensor {name!r} of type {dtype}; valid are {', '.join(DTYPES)}. Save it as F32.")
    if len(shape) > MOST_AXES or max(shape, default=0) > LONGEST_AXIS:
        size = f"{len(shape)} axes, the longest of {max(shape)}"
        raise SamiError(
            f"{path} has tensor {name!r} with {size}; at most {MOST_AXES} axes of {LONGEST_AXIS} are read. Give a "
            "file that sami train or export wrote."
        )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def weights_file(source: str) -> Path:
    """Return the file of weights of a run, a checkpoint, a model file, a shipped model, or `source` itself.

    The weights of a model file are NAME.safetensors beside it, which `sami export` writes.

    Raises:
        ArtifactError, ContractError: the model file is invalid.
        SamiError: there is no such file, the folder has no weights, or the model file's weights are not beside it.
    """
    path = Path(source)
    if path.suffix == ".onnx" and path.is_file():
        return _file_of(path)
    if path.is_file():
        return path
    if path.is_dir():
        checkpoints = [
            checkpoint for checkpoint in path.glob(f"checkpoints/*/{WEIGHTS_FILE}") if checkpoint.parent.name.isdigit()
        ]
        newest = sorted(checkpoints, key=lambda checkpoint: int(checkpoint.parent.name))
        for file in (path / WEIGHTS_FILE, *newest[-1:]):
            if file.is_file():
                return file
        raise SamiError(
            f"{path} holds no {WEIGHTS_FILE} and no checkpoint with one. Give a run that has trained, one of its "
            "checkpoints, a file of weights, or a model file."
        )
    shipped = shipped_models()
    if source in shipped:
        return _file_of(shipped[source])
    if path.name == source and not path.suffix:
        raise UnknownName("model", source, list(shipped), "Or give a run folder, a checkpoint, or a file of weights.")
    raise SamiError(f"there is no {path}; --init takes a run, a checkpoint, a file of weights, or a model's name.")


def _file_of(model: Path) -> Path:
    """Return the file of weights beside a model file; raise SamiError unless it has the weights of its graph."""
    path, graph = model.with_suffix(".safetensors"), read_artifact(model).graph_sha256
    if not path.is_file():
        raise SamiError(f"{model} has no {path.name} beside it, which --init needs; sami export writes both.")
    if read_weights(path).header.model != graph:
        raise SamiError(f"{path} holds the weights of another model than {model.name}; export both again.")
    return path


def flat_signals(spec: EnvironmentSpec) -> dict[str, int]:
    """Return the signals' sizes by name, in the order of the flat observation."""
    in_order = sorted(spec.signals, key=lambda signal: spec.layout.columns(signal.name).start)
    return {signal.name: signal.size for signal in in_order}


def unlike(observation: Mapping[str, int], actions: int, spec: EnvironmentSpec) -> str:
    """Return in words how signals (sizes by name) and actions differ from an environment's; empty if they are equal."""
    environment_signals = flat_signals(spec)
    differences = [
        f"{name} {observation.get(name, 'missing')} instead of {environment_signals.get(name, 'none')}"
        for name in {**observation, **environment_signals}
        if observation.get(name) != environment_signals.get(name)
    ]
    if actions != spec.action.size:
        differences.append(f"{actions} actions instead of {spec.action.size}")
    return ", ".join(differences)
