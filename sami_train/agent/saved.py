"""An agent as one file without pickles: JSON for what is counted, safetensors for what is learned.

agent.json                what the run has counted and drawn so far, configuration and spaces
policy.safetensors        every network and the normaliser, by the policy's own names
optimizers.safetensors    Adam's moments: OPTIMIZER.PARAMETER.NAME
"""

from __future__ import annotations

import json
import zipfile
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import safetensors.torch
import torch
from gymnasium import spaces
from stable_baselines3.common.utils import check_for_correct_spaces
from torch import Tensor

from sami_runtime.errors import SamiError
from sami_train.agent.contrast_record import ContrastRecord
from sami_train.agent.learner import Learner
from sami_train.config.resolve import from_dict
from sami_train.config.schema import TrainConfig
from sami_train.envs.catalog import environment, is_found
from sami_train.episodes.task_record import TaskRecord

if TYPE_CHECKING:
    from sami_train.agent.context_sac import ContextSAC

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
    """What was read from a file."""

    facts: Mapping[str, Any]
    policy: Mapping[str, Tensor]
    moments: Mapping[str, Tensor]

    @property
    def config(self) -> TrainConfig:
        """The configuration."""
        return from_dict(self.facts["config"])

    def set_spaces(self, agent: ContextSAC) -> None:
        """Give an agent the spaces that were saved, and the environment's entry where it has no environment.

        Raises:
            ValueError: its environment has other spaces.
        """
        observation, action = (_space(self.facts[name]) for name in ("observation_space", "action_space"))
        if agent.env is not None:
            check_for_correct_spaces(agent.env, observation, action)
        elif (name := self.facts["environment"]) is not None:
            agent.environment = environment(name)
        agent.observation_space, agent.action_space = observation, cast(spaces.Box, action)

    def restore(self, agent: ContextSAC) -> None:
        """Bring an agent of this configuration and these spaces to where the saved one was."""

        def of(start: str) -> dict[str, Tensor]:
            return {n.removeprefix(start): value for n, value in self.policy.items() if n.startswith(start)}

        agent.policy.load_state_dict({n: v for n, v in self.policy.items() if not n.startswith((FIRST, DYNAMICS))})
        agent.learner.anchor(of(FIRST) or None)
        if agent.learner.dynamics is not None:
            agent.learner.dynamics.load_state_dict(of(DYNAMICS))
        for name, optimizer in optimizers_of(agent.learner).items():
            state: dict[int, dict[str, Tensor]] = {}
            for key, value in self.moments.items():
                owner, parameter, moment = key.split(".")
                if owner == name:
                    state.setdefault(int(parameter), {})[moment] = value
            optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        assert agent.rng is not None
        agent.rng.bit_generator.state = self.facts["rng"]
        for name in COUNTED:
            setattr(agent, name, self.facts["counted"][name])
        agent.logged_at = self.facts.get("logged_at", agent.num_timesteps)  # of before it was kept: as if just now
        agent._last_scalars = dict(self.facts.get("last_scalars", {}))
        agent.ep_info_buffer = deque(self.facts["episodes"], agent._stats_window_size)
        agent.ep_success_buffer = deque(self.facts["successes"], agent._stats_window_size)
        agent.task_record = TaskRecord.from_dict(self.facts["task_record"])
        agent.contrast_record = ContrastRecord.from_dict(self.facts["contrast_record"], agent.config.contrast.patience)


def optimizers_of(learner: Learner) -> dict[str, torch.optim.Optimizer]:
    """Return a learner's optimisers by its attribute."""
    return {name: value for name, value in vars(learner).items() if isinstance(value, torch.optim.Optimizer)}


def write_agent(path: Path, agent: ContextSAC) -> None:
    """Write an agent; its buffer is not part of it."""
    assert agent.rng is not None
    facts = {
        "version": SAVED_VERSION,
        "config": agent.config.to_dict(),
        "environment": agent.environment.name if agent.environment and is_found(agent.environment) else None,
        "seed": agent.seed,
        "rng": agent.rng.bit_generator.state,
        "counted": {name: getattr(agent, name) for name in COUNTED},
        "logged_at": agent.logged_at,
        "last_scalars": {name: float(scalar) for name, scalar in agent._last_scalars.items()},
        "episodes": list(agent.ep_info_buffer or ()),
        "successes": list(agent.ep_success_buffer or ()),
        "task_record": agent.task_record.to_dict(),
        "contrast_record": agent.contrast_record.to_dict(),
        "observation_space": _plain(agent.observation_space),
        "action_space": _plain(agent.action_space),
    }
    moments = {
        f"{name}.{parameter}.{moment}": value.detach().cpu().contiguous()
        for name, optimizer in optimizers_of(agent.learner).items()
        for parameter, state in optimizer.state_dict()["state"].items()
        for moment, value in state.items()
    }
    policy = {name: tensor.detach().cpu().contiguous() for name, tensor in agent.policy.state_dict().items()}
    if (actor := agent.learner.first_actor) is not None:
        policy |= {FIRST + name: tensor.cpu().contiguous() for name, tensor in actor.state_dict().items()}
    if (dynamics := agent.learner.dynamics) is not None:
        policy |= {DYNAMICS + name: tensor.cpu().contiguous() for name, tensor in dynamics.state_dict().items()}
    contents = (json.dumps(facts).encode(), safetensors.torch.save(policy), safetensors.torch.save(moments))
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


def _plain(space: spaces.Space) -> dict[str, Any]:
    """Return a space as JSON has it."""
    if isinstance(space, spaces.Dict):
        return {"entries": {name: _plain(entry) for name, entry in space.spaces.items()}}
    if isinstance(space, spaces.Box):
        return {"low": space.low.tolist(), "high": space.high.tolist(), "dtype": str(space.dtype)}
    raise SamiError(f"the space {space} cannot be saved; it must be a Box or a dictionary of them.")


def _space(plain: Mapping[str, Any]) -> spaces.Space:
    """Return the space that `_plain` wrote."""
    if "entries" in plain:
        return spaces.Dict({name: _space(entry) for name, entry in plain["entries"].items()})
    dtype = np.dtype(plain["dtype"])
    return spaces.Box(np.array(plain["low"], dtype), np.array(plain["high"], dtype), dtype=dtype.type)


def _named(path: Path) -> Path:
    """Return a path that has an ending, `.zip` where it had none, as stable-baselines3 does it."""
    return path if path.suffix else path.with_suffix(".zip")
