"""Reads a checkpoint of skrl, `agent_N.pt`, with the configuration of its runner, as Isaac Lab stores it.

The checkpoint contains the weights and the statistics of the observations; only `agent.yaml` names the activation
functions of the layers. Nothing is unpickled, see `pickled`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sami_runtime.adoption.readers.documents import Document, Draft, contains_bytes
from sami_runtime.adoption.readers.isaaclab import put_task, run_folder
from sami_runtime.adoption.readers.networks import Array, Network
from sami_runtime.adoption.readers.pickled import read_archive, torch_tree
from sami_runtime.adoption.readers.stable_baselines3 import ask_for_signals, put_network
from sami_runtime.adoption.sources import FieldSource, PolicyReading
from sami_runtime.errors import ArtifactError, ContractError

ACTIVATIONS = {
    "elu": "ELU",
    "relu": "ReLU",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "leaky_relu": "LeakyReLU",
    "selu": "SELU",
    "softplus": "Softplus",
}
"""Torch's class by skrl's name of an activation function."""
EPSILON, CLIP = 1e-8, 5.0
"""Defaults of skrl's RunningStandardScaler."""


def recognizes(path: Path) -> bool:
    """Return whether a file is a checkpoint with skrl's configuration in its folder or above."""
    return path.suffix == ".pt" and path.is_file() and _configuration(path) is not None


def _configuration(path: Path) -> Path | None:
    folders = [path.parent, *path.resolve().parents[1:3]]
    files = [file for folder in folders for file in (folder / "agent.yaml", folder / "params" / "agent.yaml")]
    return next((file for file in files if contains_bytes(file, b"models:", b"network:")), None)


def read(path: Path, joints: Sequence[str] = ()) -> PolicyReading:
    """Return the policy as ONNX: its output is skrl's mean action, with the observation normalised by the statistics.

    Raises:
        ContractError: The configuration is missing, or describes another kind of network.
        ArtifactError: The checkpoint is damaged, or does not fit the configuration.
    """
    file = _configuration(path)
    if file is None:
        raise ContractError(
            f"{path} has no agent.yaml beside it or in params/, and a checkpoint names no activation function. "
            "Put the runner's configuration there."
        )
    config = Document(file)
    agent = config.under("agent")
    policy = config.under("models.policy")
    layers = _layers(policy)
    checkpoint = torch_tree(read_archive(path), str(path))
    weights = checkpoint.get("policy") if isinstance(checkpoint, dict) else None
    if not isinstance(weights, dict):
        raise ArtifactError(f"{path} has no entry `policy`. Give the checkpoint of the whole agent, agent_N.pt.")
    name = f"{layers.text('name')}_container"
    first = weights.get(f"{name}.0.weight")
    if not isinstance(first, np.ndarray) or first.ndim != 2:
        raise ArtifactError(f"{path} has no {name}.0.weight, which {file} describes. Give the files of one training.")
    network = Network(first.shape[1], str(path))
    draft = Draft()
    _put_statistics(network, checkpoint, agent, layers, path)
    _apply_layers(network, weights, name, layers, policy)
    put_network(draft, network, FieldSource(kind="file", where=f"{path.name}: policy"))
    folder = run_folder(path)
    if folder is not None:
        put_task(draft, folder, (first.shape[1], network.size), joints)
    else:
        ask_for_signals(draft, "skrl saves no names and units")
        for field in ("action.scale", "action.default"):
            draft.unknown(field, "the environment has it, not the checkpoint")
    return draft.reading(network.finish())


def _layers(policy: Document) -> Document:
    """Return the description of the network's only part; raise ContractError if the policy is of another kind."""
    parts = policy.get("network")
    if not isinstance(parts, list) or len(parts) != 1 or not isinstance(parts[0], Mapping):
        raise policy.refuse("network", "one part")
    layers = Document(policy.path, parts[0], f"{policy.prefix}network[0].")
    if "categorical" in str(policy.get("class")).lower():
        raise policy.refuse("class", "GaussianMixin or DeterministicMixin: only continuous actions are adopted")
    if layers.get("input") not in ("OBSERVATIONS", "STATES"):
        raise layers.refuse("input", "OBSERVATIONS or STATES")
    if policy.get("output") not in ("ACTIONS", "tanh(ACTIONS)"):
        raise policy.refuse("output", "ACTIONS or tanh(ACTIONS)")
    for key in ("clip_actions", "clip_mean_actions"):
        if policy.get(key):
            raise policy.refuse(key, "false, because no file has the bounds of the action space")
    return layers


def _put_statistics(
    network: Network, checkpoint: Mapping[str, Any], agent: Document, layers: Document, path: Path
) -> None:
    """Apply the scaler of the policy's input.

    A configuration with only `state_preprocessor` is that of skrl 1, in which it scales the observation.
    """
    keys = ["observation_preprocessor", "state_preprocessor"]
    if layers.get("input") == "STATES" and agent.get(keys[0]) is not None:
        keys = keys[1:]
    key = next((key for key in keys if agent.get(key) is not None), None)
    if key is None:
        return
    if agent.get(key) != "RunningStandardScaler":
        raise agent.refuse(key, "RunningStandardScaler")
    entry: Mapping[str, Any] = next((checkpoint[k] for k in (key, keys[0]) if isinstance(checkpoint.get(k), dict)), {})
    mean, variance = (np.asarray(entry.get(part)) for part in ("running_mean", "running_variance"))
    if mean.shape != (network.size,) or variance.shape != (network.size,):
        raise ArtifactError(f"{path} has no statistics for {network.size} numbers in {key}. Give the whole agent.")
    epsilon = agent.number(f"{key}_kwargs.epsilon") if agent.get(f"{key}_kwargs.epsilon") is not None else EPSILON
    threshold = agent.get(f"{key}_kwargs.clip_threshold")
    clip = agent.number(f"{key}_kwargs.clip_threshold", 0) if threshold is not None else CLIP
    network.apply("Sub", np.asarray(mean))
    network.apply("Div", np.sqrt(np.maximum(np.asarray(variance, np.float32), 0)) + np.float32(epsilon))
    network.apply("Clip", np.array(-clip), np.array(clip))


def _apply_layers(
    network: Network, weights: Mapping[str, Array], name: str, layers: Document, policy: Document
) -> None:
    """Apply the container's layers and the head, which is the container's last layer if the models are separate."""
    head = next((head for head in ("policy_layer", "output_layer") if f"{head}.weight" in weights), None)
    sizes = layers.numbers("layers")
    activations = layers.get("activations")
    names = [str(name).lower() for name in (activations if isinstance(activations, list) else [activations])]
    names = names * len(sizes) if len(names) == 1 else names  # one for all
    if len(names) != len(sizes) or not all(name in ACTIVATIONS for name in names):
        raise layers.refuse("activations", f"one of {', '.join(ACTIVATIONS)} for each layer")
    for layer, activation in enumerate(names):
        network.linear(weights, f"{name}.{2 * layer}")
        network.activation(ACTIVATIONS[activation])
    network.linear(weights, head or f"{name}.{2 * len(sizes)}")
    if policy.get("output") == "tanh(ACTIONS)":
        network.activation("Tanh")
