"""Weights of a policy as one safetensors file that says what they are of: what `--init` starts from."""

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
"""What run folders and checkpoints call theirs."""
WEIGHTS_VERSION = 1
METADATA = "sami.weights"
"""The key of the file's metadata that holds its header."""
DTYPES = ("F16", "F32", "F64", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "BOOL")
"""Types of tensors, as safetensors calls them, that NumPy has."""
MOST_AXES, LONGEST_AXIS = 8, 2**31
"""Limits of a tensor's shape, well within NumPy's; tensors of a policy have at most three axes."""
Arrays = dict[str, NDArray[Any]]


class WeightsHeader(BaseModel):
    """What a file of weights says about itself."""

    model_config = ConfigDict(frozen=True)

    version: int = WEIGHTS_VERSION
    env: str
    """As `--env` takes it."""
    method: str
    """As `--method` takes it."""
    observation: dict[str, int]
    """Size of each signal, in the order in which they lie in the flat observation."""
    actions: int
    network: dict[str, Any]
    """A `NetworkConfig`."""
    temperature: float | None = None
    """SAC's, at the end; None where nothing tells it."""
    steps: int = 0
    """Environment steps that it was trained for."""
    model: str = ""
    """SHA-256 of the model file's graph, if these are the weights of one."""


@dataclass(frozen=True)
class Weights:
    """Named tensors of a policy, see `ContextPolicy.state_dict`, and what they are of."""

    header: WeightsHeader
    arrays: Mapping[str, NDArray[Any]]


def write_weights(path: Path, weights: Weights) -> None:
    """Write a file of weights, NAME.safetensors; the same weights give the same bytes."""
    metadata = {METADATA: weights.header.model_dump_json()}
    # By Python: of a full disk safetensors' own writer tells no errno.
    path.write_bytes(safetensors.numpy.save(dict(sorted(weights.arrays.items())), metadata))


def read_weights(path: Path) -> Weights:
    """Read a file of weights.

    Raises:
        SamiError: it cannot be read, or is none.
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
        raise SamiError(f"{path} does not say what its weights are of; give a file that sami train or export wrote.")
    try:
        header = WeightsHeader.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise SamiError(f"{path} has a damaged header: {problem['loc']}: {problem['msg']}. Copy it again.") from error
    if header.version != WEIGHTS_VERSION:
        raise SamiError(f"{path} has weights of version {header.version}; this sami reads version {WEIGHTS_VERSION}.")
    return Weights(header, arrays)


def _require_readable(path: Path, name: str, tensor: Any) -> None:
    """Check that NumPy can hold a tensor, before it is read."""
    dtype, shape = tensor.get_dtype(), tensor.get_shape()
    if dtype not in DTYPES:
        raise SamiError(
            f"{path} has tensor {name!r} of type {dtype}, which is not read; valid are {', '.join(DTYPES)}. Save it "
            "as F32."
        )
    if len(shape) > MOST_AXES or max(shape, default=0) > LONGEST_AXIS:
        shown = f"{len(shape)} axes, the longest of {max(shape)}"
        raise SamiError(
            f"{path} has tensor {name!r} with {shown}; at most {MOST_AXES} axes of {LONGEST_AXIS} are read. Give a "
            "file that sami train or export wrote."
        )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def weights_file(named: str) -> Path:
    """Return the file that a text names: a run's, a checkpoint's, or itself.

    A model file's is NAME.safetensors beside it, which `sami export` writes; a shipped model's likewise.

    Raises:
        ArtifactError, ContractError: it is a model file, and no valid one.
        SamiError: nothing is there, a folder without weights, or a model file beside which its weights do not lie.
    """
    path = Path(named)
    if path.suffix == ".onnx" and path.is_file():
        return _beside(path)
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
    if named in shipped:
        return _beside(shipped[named])
    if path.name == named and not path.suffix:
        raise UnknownName("model", named, list(shipped), "Or give a run folder, a checkpoint, or a file of weights.")
    raise SamiError(f"there is no {path}; --init takes a run, a checkpoint, a file of weights, or a model's name.")


def _beside(model: Path) -> Path:
    """Return the weights that lie beside a model file, once they are those of its graph."""
    path, graph = model.with_suffix(".safetensors"), read_artifact(model).graph_sha256
    if not path.is_file():
        raise SamiError(f"{model} has no {path.name} beside it, from which training goes on; sami export writes both.")
    if read_weights(path).header.model != graph:
        raise SamiError(f"{path} holds the weights of another model than {model.name}; export both again.")
    return path


def flat_signals(spec: EnvironmentSpec) -> dict[str, int]:
    """Return the signals' sizes by name, in the order in which they lie in the flat observation."""
    in_order = sorted(spec.signals, key=lambda signal: spec.layout.columns(signal.name).start)
    return {signal.name: signal.size for signal in in_order}


def unlike(observation: Mapping[str, int], actions: int, spec: EnvironmentSpec) -> str:
    """Return how other signals (sizes by name) and actions differ from an environment's, in words; empty if not."""
    signals_here = flat_signals(spec)
    differences = [
        f"{name} {observation.get(name, 'missing')} instead of {signals_here.get(name, 'none')}"
        for name in {**observation, **signals_here}
        if observation.get(name) != signals_here.get(name)
    ]
    if actions != spec.action.size:
        differences.append(f"{actions} actions instead of {spec.action.size}")
    return ", ".join(differences)
