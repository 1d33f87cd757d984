"""What a run begins with: weights that another one trained, and recorded episodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sami_train.agent.context_sac import ContextSAC
from sami_train.config.schema import TrainConfig
from sami_train.config.warm_start.find import load_weights, weights_file
from sami_train.config.warm_start.recordings import Rules, recorded_episodes
from sami_train.config.warm_start.weights import sha256_of
from sami_train.envs.catalog import environment
from sami_train.episodes.episode import Episode
from sami_train.runs.folder import RunError
from sami_train.runs.weights import TARGETS

NORMAL_ENTROPY = 0.5 * float(np.log(2.0 * np.pi * np.e))
"""Of one number from a normal distribution of deviation 1 [nat]."""
CRITICS_INPUTS = frozenset(f"{critic}.{q}.0.weight" for critic in ("critic", "critic_target") for q in ("q1", "q2"))


def start_from(agent: ContextSAC, config: TrainConfig) -> None:
    """Give an agent the weights that its configuration names.

    Optimisers begin anew, and SAC's temperature with `learning.initial_temperature`. Critics that the file lacks stay
    as they were made, and those that read no actions executed before begin by giving them no weight; an actor without
    a deviation gets the one that has the target entropy.

    Raises:
        RunError: the file has changed since the configuration was resolved, or does not fit the networks.
    """
    path = weights_file(config.init.source)
    weights = load_weights(path)
    if (digest := sha256_of(path)) != config.init.sha256:
        raise RunError(
            f"{path} has the SHA-256 {digest[:12]}..., and init.sha256 is {config.init.sha256[:12]}...: it has changed "
            "since. Start again with --init."
        )
    policy, tensors = agent.policy, {name: torch.from_numpy(np.array(a)) for name, a in weights.arrays.items()}
    begun = policy.state_dict()
    for target, source in TARGETS.items():
        for name in begun:
            if name.startswith(f"{target}."):
                copied = source + name.removeprefix(target)
                tensors.setdefault(name, tensors.get(copied, begun[copied]))
    tensors["log_temperature"] = begun["log_temperature"]
    for name in begun.keys() - tensors.keys():
        if name.startswith("actor.log_std."):
            entropy = config.learning.target_entropy / policy.action_size
            value = entropy - NORMAL_ENTROPY if name.endswith("bias") else 0.0
            tensors[name] = torch.full_like(begun[name], value)
        elif name.startswith(("critic.", "encoder.correction.", "momentum_encoder.correction.")):
            tensors[name] = begun[name]  # a head that has learned nothing yet takes what arrived for the present
    for name in CRITICS_INPUTS & tensors.keys():
        tensors[name] = _with_recent_actions(tensors[name], begun[name].shape[1], policy.action_size)
    wrong = sorted(name for name in begun.keys() | tensors.keys() if _shape(begun, name) != _shape(tensors, name))
    if wrong or not torch.equal(tensors["features.projection"].cpu(), begun["features.projection"].cpu()):
        of = ", ".join(f"{name} {_shape(tensors, name)} instead of {_shape(begun, name)}" for name in wrong[:3])
        raise RunError(
            f"{path} does not fit the networks of this run: {of or 'the observation is laid out otherwise'}. Leave the "
            "keys of network. out, and take an environment with the same goal."
        )
    policy.load_state_dict(tensors)
    agent.learner.anchor()


def recordings_of(config: TrainConfig) -> list[Episode]:
    """Return the recorded episodes that a run's configuration names.

    Raises:
        RunError: the run is paid otherwise than recordings tell.
        RecordingError, SamiError: see `recorded_episodes`.
    """
    collection, spec = config.collection, environment(config.env)
    if collection.recordings and spec.goal is not None and collection.reward != "sparse":
        raise RunError(
            f"collection.reward is {collection.reward!r}, and recordings are paid -1 until the goal is reached; "
            "set collection.reward=sparse, or leave collection.recordings out."
        )
    rules = Rules(collection.episode_steps or spec.episode_steps, collection.end_on_fall)
    return recorded_episodes(collection.recordings, spec, config.training_tasks(), rules)


def facts_of(config: TrainConfig, recorded: Sequence[Episode]) -> dict[str, Any]:
    """Return what run.json states of how a run began: its physics engine and its recordings, where it has them."""
    engine = environment(config.env).engine
    facts: dict[str, Any] = {} if engine is None else {"engine": engine}
    if not config.collection.recordings:
        return facts
    files = {name: sha256_of(Path(name)) for name in config.collection.recordings}
    steps = sum(len(episode) for episode in recorded)
    return facts | {"recordings": {"sha256": files, "episodes": len(recorded), "steps": steps}}


def _with_recent_actions(weight: torch.Tensor, inputs: int, actions: int) -> torch.Tensor:
    """Return a critic's first weights (H, N) with zeros for what it reads beside: what lies before the action a_t."""
    missing = inputs - weight.shape[1]
    if missing <= 0 or missing % actions:
        return weight  # of another network, which is refused with its shapes
    state, action = weight[:, :-actions], weight[:, -actions:]
    return torch.cat([state, weight.new_zeros(len(weight), missing), action], 1)


def _shape(tensors: dict[str, torch.Tensor], name: str) -> list[int] | str:
    return list(tensors[name].shape) if name in tensors else "none"
