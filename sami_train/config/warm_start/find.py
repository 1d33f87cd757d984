"""What `--init` names: a run, a checkpoint, a file of weights, a model file, or a shipped model."""

from __future__ import annotations

from pathlib import Path

from sami_runtime.distribution import shipped_models
from sami_runtime.errors import SamiError, UnknownName
from sami_train.config.warm_start.weights import Weights, read_weights

WEIGHTS_FILE = "weights.safetensors"
"""What run folders and checkpoints call theirs."""


def weights_file(named: str) -> Path:
    """Return the file that a text names.

    A shipped model's is the file beside it, NAME.safetensors; where there is none, the model file itself.

    Raises:
        SamiError: nothing is there, or a folder without weights.
    """
    path = Path(named)
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
        beside = shipped[named].with_suffix(".safetensors")
        return beside if beside.is_file() else shipped[named]
    if path.name == named and not path.suffix:
        raise UnknownName("model", named, list(shipped), "Or give a run folder, a checkpoint, or a file of weights.")
    raise SamiError(f"there is no {path}; --init takes a run, a checkpoint, a file of weights, or a model's name.")


def load_weights(path: Path) -> Weights:
    """Read weights from a file of weights or from a model file.

    Raises:
        SamiError: it can be read as neither.
    """
    if path.suffix == ".onnx":
        from sami_train.config.warm_start.of_model import weights_of_model  # onnx, which only this needs

        return weights_of_model(path)
    return read_weights(path)
