"""Reads the TorchScript files that legged_gym, Isaac Lab and rsl_rl export, as ONNX and without torch.

Such a file contains the class and the weights of each module. For the known classes of these exporters, the order in
which they call their modules is known, too. No code of the file runs; an LSTM's state becomes an input and an output.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from sami_runtime.adoption.readers.networks import Network
from sami_runtime.adoption.readers.pickled import Archive, Call, read_archive, torch_tree
from sami_runtime.errors import ArtifactError
from sami_runtime.files import printable

EXPORTERS = {
    "PolicyExporterLSTM": ("memory", "actor"),
    "_TorchPolicyExporter": ("normalizer", "rnn", "actor"),
    "_TorchMLPModel": ("obs_normalizer", "mlp", "deterministic_output"),
    "_TorchLSTMModel": ("obs_normalizer", "rnn", "mlp", "deterministic_output"),
    "_TorchGRUModel": ("obs_normalizer", "rnn", "mlp", "deterministic_output"),
}
"""Modules in the order of their calls, by class: of legged_gym, Isaac Lab, and rsl_rl 5."""
RSL_RL = {"MLP": "Sequential", "_IdentityDeterministicOutput": "Identity"}
"""Torch's class by rsl_rl's class that computes the same."""
SETTINGS = {"alpha": ("1.", "1.0"), "negative_slope": ("0.01", "0.010000000000000000")}
"""Accepted settings of activation functions: torch's defaults, as they may be written."""


def torchscript_as_onnx(path: Path) -> bytes:
    """Return a TorchScript policy as ONNX: `obs` to `actions`, states as `h_in_0` and `h_out_0`.

    Raises:
        ArtifactError: The file is damaged, or is not from one of the exporters.
    """
    data = read_archive(path)
    root = torch_tree(data, str(path))
    kind = _class(root)
    names = EXPORTERS.get(kind, ())
    modules = [root] if kind == "Sequential" else [root.state[name] for name in names if name in root.state]
    parts = [value for value in root.state.values() if _class(value)] if isinstance(root, Call) else []
    if not all(map(_class, modules)):
        modules = []
    if not modules or (kind != "Sequential" and len(parts) != len(modules)):
        raise ArtifactError(
            f"{path} is TorchScript of the class {printable(kind or 'nothing')}; {', '.join(EXPORTERS)} and Sequential "
            "are read. Export the policy to ONNX, with recurrent states as inputs and outputs."
        )
    _require_default_settings(data, path)
    layers = [layer for module in modules for layer in _layers(module)]
    network = Network(_size(layers, path), str(path))
    for layer in layers:
        name = _class(layer)
        if name == "Linear":
            network.linear({f"layer.{key}": value for key, value in layer.state.items()}, "layer")
        elif name in ("LSTM", "GRU"):
            weights = {f"layer.{key}": value for key, value in layer.state.items() if isinstance(value, np.ndarray)}
            if any(re.search(r"_reverse$|weight_hr", key) for key in weights):
                raise ArtifactError(f"{path} has a recurrent layer of two directions. Export it to ONNX instead.")
            network.recurrent(weights, "layer", name)
        else:
            network.activation(name)
    return network.finish()


def _class(module: Any) -> str:
    """Return the class of a TorchScript module; an empty text for any other value."""
    scripted = isinstance(module, Call) and module.function.startswith("__torch__.")
    name = module.function.rpartition(".")[2] if scripted else ""
    return RSL_RL.get(name, name) if scripted and module.function.startswith("__torch__.rsl_rl.") else name


def _layers(module: Call) -> list[Call]:
    if _class(module) != "Sequential":
        return [module] if _class(module) != "Identity" else []
    numbered = sorted((int(key), value) for key, value in module.state.items() if key.isdecimal())
    return [layer for _, value in numbered for layer in _layers(value)]


def _size(layers: list[Call], path: Path) -> int:
    """Return the size of the first layer's input."""
    for name in ("weight", "weight_ih_l0"):
        weight = layers[0].state.get(name) if layers else None
        if isinstance(weight, np.ndarray) and weight.ndim == 2:
            return int(weight.shape[1])
    raise ArtifactError(
        f"{path} begins with {printable(_class(layers[0]) if layers else 'no layer')}; expected a linear layer or an "
        "LSTM. Export it to ONNX instead, which has the statistics of a normalizer."
    )


def _require_default_settings(data: bytes, path: Path) -> None:
    archive = Archive(data, str(path))
    for name in archive.names:
        if name.endswith("modules/activation.py") or ("/activation/" in name and name.endswith(".py")):
            for key, value in re.findall(r"(\w+) : Final\[float\] = ([-+.\de]+)", archive.read(name).decode("latin1")):
                if value not in SETTINGS.get(key, ()):
                    raise ArtifactError(
                        f"{path} has an activation function with {key} {value}. Export it to ONNX instead."
                    )
