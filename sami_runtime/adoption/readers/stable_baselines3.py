"""Reads files of `model.save` in stable-baselines3 and sb3-contrib: PPO, A2C, SAC, TD3, DDPG, TQC, RecurrentPPO.

The `.zip` contains weights and spaces; the statistics of `VecNormalize` are in a file beside it. Nothing is unpickled,
see `pickled`. The ONNX file computes `model.predict(observation, deterministic=True)`, with normalisation and bounds.
These files contain no names of signals, units or rate; a person's contract has to give them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sami_runtime.adoption.readers.documents import Document, Draft
from sami_runtime.adoption.readers.networks import INPUT, OUTPUT, Array, Network
from sami_runtime.adoption.readers.pickled import Archive, Call, array_of, pickle_tree, read_archive, torch_tree
from sami_runtime.adoption.sources import FieldSource, PolicyReading
from sami_runtime.errors import ArtifactError
from sami_runtime.files import printable

IGNORED = ("mlp_extractor.value_net", "value_net", "log_std", "critic", "lstm_critic", "actor.log_std", "actor_target")
"""Prefixes of the names of weights that do not influence the action."""
LAYERS = re.compile(r"(mlp_extractor\.policy_net\.\d+|action_net|actor\.(latent_pi\.\d+|mu(\.\d+)?))\.(weight|bias)")
"""Names of the weights of linear layers that are read; in a state dictionary, they are in the order of their calls."""


def recognizes(path: Path) -> bool:
    """Return whether a file is a zip archive of stable-baselines3."""
    if path.suffix != ".zip" or not path.is_file():
        return False
    try:
        return "policy.pth" in Archive(read_archive(path), str(path)).names
    except ArtifactError:
        return False


def read(path: Path, joints: Sequence[str] = ()) -> PolicyReading:
    """Return the policy as ONNX, with the fields of the recipe that describe the network.

    Statistics of observations are read from a file in the same folder: that with the policy's name and the suffix
    `.pkl`, else the one that `CheckpointCallback` and Isaac Lab write, else `vecnormalize.pkl` or `vec_normalize.pkl`.

    Raises:
        ArtifactError: The file is damaged, its statistics are missing, or the policy has code of its own, reads images
            or dictionaries, or has discrete actions.
    """
    archive = Archive(read_archive(path), str(path))
    settings = _settings(archive)
    tree = torch_tree(archive.read("policy.pth"), f"{path}: policy.pth")
    weights = {name: w for name, w in tree.items() if isinstance(w, np.ndarray)} if isinstance(tree, dict) else {}
    low, high = _bounds(settings, path)
    acting = {name: weight for name, weight in weights.items() if not name.startswith(IGNORED)}
    choices = _choices(settings, path)
    linear = [name for name in acting if not name.startswith("lstm_actor.")]
    _require_known(settings, choices, linear, path)
    network = Network(int(np.prod(_space(settings, "observation_space", path).state["_shape"])), str(path))
    if statistics := _statistics(settings, path):
        _normalize(network, statistics)
    *hidden, head = dict.fromkeys(name.rpartition(".")[0] for name in linear)
    squashed = head != "action_net" or choices.get("squash_output") is True
    activation, chosen_by = _activation(choices, "Tanh" if head == "action_net" else "ReLU", path)
    if "lstm_actor.weight_ih_l0" in acting:
        network.recurrent(acting, "lstm_actor", "LSTM")
    for layer in hidden:
        network.linear(acting, layer)
        network.activation(activation)
    network.linear(acting, head)
    if head == "actor.mu.0" and "actor.log_std" in weights:  # SAC with gSDE bounds the mean
        most = Document(path, {"clip_mean": 2.0, **choices}, "policy_kwargs.").number("clip_mean", 0)
        network.apply("Clip", np.array(-most), np.array(most))
    if network.size != len(low):
        raise ArtifactError(
            f"{path}: the network has {network.size} actions, its action space {len(low)}. Save it again."
        )
    if squashed:
        network.activation("Tanh")
        network.apply("Mul", (high - low) / 2)
        network.apply("Add", (high + low) / 2)
    else:
        network.apply("Max", low)
        network.apply("Min", high)
    draft = Draft()
    draft.put("activation", None, chosen_by)
    put_network(draft, network, FieldSource(kind="file", where=f"{path.name}: policy.pth"))
    space = FieldSource(kind="file", where=f"{path.name}: action_space, which the network's answer has")
    draft.put_all("action", {"low": low.tolist(), "high": high.tolist(), "scale": 1.0, "default": 0.0}, space)
    ask_for_signals(draft, "stable-baselines3 saves no names, units and rate")
    return draft.reading(network.finish())


def put_network(draft: Draft, network: Network, source: FieldSource) -> None:
    """Put the names of a network's inputs and outputs into a draft."""
    draft.put("input", INPUT, source)
    draft.put("output", OUTPUT, source)
    for read_as, written_as in network.states:
        name = {"h": "hidden", "c": "cell"}[read_as[0]] + read_as[len("h_in") :]
        draft.put(f"state.{name}.input", read_as, source)
        draft.put(f"state.{name}.output", written_as, source)


def ask_for_signals(draft: Draft, reason: str) -> None:
    """Mark signals, rate and the meaning of the action as unknown, so that a person has to give them."""
    for field in ("rate_hz", "signals", "action.name", "action.unit", "action.elements", "action.meaning"):
        draft.unknown(field, reason)


def _settings(archive: Archive) -> Mapping[str, Any]:
    try:
        settings = json.loads(archive.read("data"))
    except (ValueError, RecursionError) as error:
        raise ArtifactError(
            f"{archive.source}: data is no JSON: {printable(str(error))[:100]}. Save it again."
        ) from None
    return settings if isinstance(settings, dict) else {}


def _serialized(settings: Mapping[str, Any], key: str, source: str) -> Any:
    """Return the content of a pickled setting, see `pickle_tree`; None if the setting is missing."""
    entry = settings.get(key)
    text = entry.get(":serialized:") if isinstance(entry, dict) else None
    if not isinstance(text, str):
        return None
    try:
        return pickle_tree(base64.b64decode(text, validate=True), f"{source}: {key}")
    except ValueError:
        raise ArtifactError(f"{source}: {key} is no base64. Save the policy again.") from None


def _space(settings: Mapping[str, Any], key: str, path: Path) -> Call:
    space = _serialized(settings, key, str(path))
    kind = space.function.rpartition(".")[2] if isinstance(space, Call) else "nothing"
    shape, dtype = (space.state.get(name) if isinstance(space, Call) else None for name in ("_shape", "dtype"))
    if isinstance(shape, tuple) and len(shape) == 3 and isinstance(dtype, Call) and dtype.arguments[:1] == ("u1",):
        kind = "an image"
    if kind != "Box" or not isinstance(shape, tuple) or not all(isinstance(n, int) and 0 < n < 10**6 for n in shape):
        remedy = "Train with continuous actions" if key == "action_space" else "Export it to ONNX with vectors as input"
        raise ArtifactError(f"{path}: {key} is {printable(kind)}; only a Box of numbers is read. {remedy}.")
    return space


def _bounds(settings: Mapping[str, Any], path: Path) -> tuple[Array, Array]:
    space = _space(settings, "action_space", path)
    try:
        bounds = [array_of(space.state.get(side)) for side in ("low", "high")]
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise ArtifactError(f"{path}: action_space is damaged: {printable(str(error))[:100]}. Save it again.") from None
    low, high = (np.zeros(0) if b is None else np.asarray(b, np.float64).reshape(-1) for b in bounds)
    if len(low) != len(high) or not len(low) or not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ArtifactError(f"{path}: action_space has no finite bounds. Train with a bounded action space.")
    return low, high


def _choices(settings: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """Return `policy_kwargs`, which are pickled if they contain a class, else plain."""
    choices = _serialized(settings, "policy_kwargs", str(path)) or settings.get("policy_kwargs")
    return choices if isinstance(choices, dict) else {}


def _activation(choices: Mapping[str, Any], default: str, path: Path) -> tuple[str, FieldSource]:
    """Return torch's class of the activation function, with its source; the file contains it only if it was chosen."""
    activation = choices.get("activation_fn")
    if isinstance(activation, Call):
        name = activation.function.rpartition(".")[2]
        return name, FieldSource(kind="file", where=f"{path.name}: policy_kwargs.activation_fn is {printable(name)}")
    return default, FieldSource(
        kind="default", where=f"stable-baselines3 uses {default} where policy_kwargs says nothing"
    )


def _require_known(settings: Mapping[str, Any], choices: Mapping[str, Any], names: Sequence[str], path: Path) -> None:
    """Raise ArtifactError if the policy has code of its own, or weights that influence the action and are not read."""
    extractor = choices.get("features_extractor_class")
    classes = {"policy_class": _serialized(settings, "policy_class", str(path)), "features_extractor_class": extractor}
    faults = [f"weights of another kind, {printable(name)}" for name in names if not LAYERS.fullmatch(name)]
    for key, value in classes.items():
        if isinstance(value, Call) and not value.function.startswith(("stable_baselines3.", "sb3_contrib.")):
            faults.insert(0, f"a {key} of its own")
    if faults or not names:
        raise ArtifactError(
            f"{path} has {faults[0] if faults else 'no weights'}; policies of linear layers and an LSTM, by classes of "
            "stable-baselines3 and sb3-contrib, are read. Export it to ONNX instead."
        )


def _statistics(settings: Mapping[str, Any], path: Path) -> tuple[Array, Array, float, float] | None:
    """Return mean, variance, epsilon and clip of `VecNormalize`; None if the training did not have it, or not these."""
    original = settings.get("_last_original_obs") is not None  # algorithms with a replay buffer always store it
    if settings.get("_last_obs") is not None and not original:
        return None  # trained without VecNormalize: a file in this folder is another policy's
    checkpoint = re.sub(r"(_\d+_steps)?$", r"_vecnormalize\1", path.stem, count=1)
    names = (f"{path.stem}.pkl", f"{checkpoint}.pkl", "vecnormalize.pkl", "vec_normalize.pkl")
    file = next((path.with_name(name) for name in names if path.with_name(name).is_file()), None)
    if file is None:
        if original and "replay_buffer_class" not in settings:
            raise ArtifactError(
                f"{path} was trained with VecNormalize, and its statistics are not beside it. Put the file of "
                f"`VecNormalize.save` there, as one of {', '.join(names)}."
            )
        return None
    tree = pickle_tree(read_archive(file), str(file))
    state = tree.state if isinstance(tree, Call) and tree.function.endswith(".VecNormalize") else {}
    if state.get("norm_obs") is False:
        return None
    moments: Any = state.get("obs_rms")
    try:
        mean, var = (array_of(moments.state[key]) for key in ("mean", "var"))
        epsilon, clip = float(state["epsilon"]), float(state["clip_obs"])
    except (KeyError, ValueError, TypeError, AttributeError, IndexError):
        mean = var = None
        epsilon = clip = 0.0
    if mean is None or var is None or mean.shape != var.shape or clip <= 0:
        raise ArtifactError(f"{file} has no statistics of VecNormalize for one array. Save it by `VecNormalize.save`.")
    return mean.reshape(-1), var.reshape(-1), epsilon, clip


def _normalize(network: Network, statistics: tuple[Array, Array, float, float]) -> None:
    mean, var, epsilon, clip = statistics
    scale = np.sqrt(np.maximum(var, 0) + epsilon)
    if len(mean) != network.size or not scale.all():
        raise ArtifactError(
            f"the VecNormalize statistics have {len(mean)} numbers, the policy reads {network.size}. Give its own; if "
            "VecFrameStack is around it, save it with norm_obs = False, and give offset, scale and clip in --contract."
        )
    network.apply("Sub", mean)
    network.apply("Div", scale)
    network.apply("Clip", np.array(-clip), np.array(clip))
