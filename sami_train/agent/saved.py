"""An agent as one file without pickles: JSON for what is counted, safetensors for what is learned.

agent.json                what the run has counted and drawn so far, configuration and spaces
policy.safetensors        every network and the normaliser, by the policy's own names
optimizers.safetensors    Adam's moments: OPTIMIZER.PARAMETER.NAME
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import safetensors.torch
import torch
from gymnasium import spaces
from torch import Tensor

from sami_runtime.errors import SamiError
from sami_train.agent.learner import Learner
from sami_train.config.resolve import from_dict
from sami_train.config.schema import TrainConfig

SAVED_VERSION = 1
COUNTED = ("num_timesteps", "_total_timesteps", "_n_updates", "_updates_before", "_began_at", "_episode_num")
"""What an agent has counted, by its attribute."""
FIRST = "first_actor."
"""What the names of the tensors begin with that the actor is anchored to."""
DYNAMICS = "dynamics."
"""What those of the loss begin with by which contexts learn to carry the task."""
PARTS = ("agent.json", "policy.safetensors", "optimizers.safetensors")
FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""The date of every part: the same agent gives the same bytes."""


@dataclass(frozen=True)
class SavedAgent:
    """What a file keeps of an agent: all but its buffer."""

    facts: Mapping[str, Any]
    policy: Mapping[str, Tensor]
    moments: Mapping[str, Tensor]

    @property
    def config(self) -> TrainConfig:
        """The configuration."""
        return from_dict(self.facts["config"])

    @property
    def spaces(self) -> tuple[spaces.Space[Any], spaces.Box]:
        """The spaces of its observations and actions."""
        observation, action = (_space(self.facts[name]) for name in ("observation_space", "action_space"))
        return observation, cast(spaces.Box, action)

    def tensors_of(self, start: str) -> dict[str, Tensor]:
        """Return the policy file's tensors whose names begin so, without that beginning."""
        return {n.removeprefix(start): value for n, value in self.policy.items() if n.startswith(start)}


def optimizers_of(learner: Learner) -> dict[str, torch.optim.Optimizer]:
    """Return a learner's optimisers by its attribute."""
    return {name: value for name, value in vars(learner).items() if isinstance(value, torch.optim.Optimizer)}


def write_agent(path: Path, saved: SavedAgent) -> None:
    """Write what a file keeps of an agent."""
    contents = (
        json.dumps({"version": SAVED_VERSION, **saved.facts}).encode(),
        safetensors.torch.save(dict(saved.policy)),
        safetensors.torch.save(dict(saved.moments)),
    )
    with zipfile.ZipFile(_named(path), "w") as file:
        for name, content in zip(PARTS, contents, strict=True):
            file.writestr(zipfile.ZipInfo(name, FIRST_DAY), content)


def read_agent(path: Path) -> SavedAgent:
    """Return what `write_agent` wrote.

    Raises:
        SamiError: it is of another version.
    """
    with zipfile.ZipFile(_named(path)) as file:
        if missing := sorted(set(PARTS) - set(file.namelist())):
            raise SamiError(
                f"it lacks {', '.join(missing)}. Agents of earlier versions are pickles, which are never loaded: "
                "export such a run by the version that trained it, and start from its model file by --init"
            )
        document, policy, moments = (file.read(name) for name in PARTS)
    facts = json.loads(document)
    if facts["version"] != SAVED_VERSION:
        raise SamiError(f"it is of version {facts['version']}; this sami reads version {SAVED_VERSION}")
    return SavedAgent(facts, safetensors.torch.load(policy), safetensors.torch.load(moments))


def plain_space(space: spaces.Space) -> dict[str, Any]:
    """Return a space as JSON has it."""
    if isinstance(space, spaces.Dict):
        return {"entries": {name: plain_space(entry) for name, entry in space.spaces.items()}}
    if isinstance(space, spaces.Box):
        return {"low": space.low.tolist(), "high": space.high.tolist(), "dtype": str(space.dtype)}
    raise SamiError(f"the space {space} cannot be saved; it must be a Box or a dictionary of them.")


def _space(plain: Mapping[str, Any]) -> spaces.Space:
    """Return the space that `plain_space` wrote."""
    if "entries" in plain:
        return spaces.Dict({name: _space(entry) for name, entry in plain["entries"].items()})
    dtype = np.dtype(plain["dtype"])
    return spaces.Box(np.array(plain["low"], dtype), np.array(plain["high"], dtype), dtype=dtype.type)


def _named(path: Path) -> Path:
    """Return a path that has an ending, `.zip` where it had none, as stable-baselines3 does it."""
    return path if path.suffix else path.with_suffix(".zip")
