"""ContextSAC: soft actor-critic whose networks read a recurrent context, as an algorithm of stable-baselines3."""

from __future__ import annotations

import json
import math
import zipfile
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import gymnasium as gym
import numpy as np
import safetensors.torch
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.utils import check_for_correct_spaces
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import Tensor

from sami_runtime.errors import SamiError
from sami_train.agent.contrast import Contrast, ContrastRecord
from sami_train.agent.learner import Learner
from sami_train.agent.networks import TaskReadout
from sami_train.agent.policy import ContextPolicy
from sami_train.config.methods import method
from sami_train.config.resolve import from_dict, resolve
from sami_train.config.schema import PRESET, TrainConfig
from sami_train.config.weights import Weights, WeightsHeader, flat_signals
from sami_train.envs.catalog import environment, is_registered, spec_of
from sami_train.envs.layout import flat_size
from sami_train.envs.measure import SUCCESS
from sami_train.envs.task_numbers import TaskCode, standardised
from sami_train.envs.tasks import Crippled, Feature, Task
from sami_train.episodes.buffer import EpisodeBuffer, WindowPlan
from sami_train.episodes.episode import Episode, TaskRecord
from sami_train.episodes.numpy_policy import NumpyPolicy
from sami_train.episodes.rollout import Rollout, tasks_of, with_states
from sami_train.episodes.rollout_workers import InStep, Processes, Source

Self = TypeVar("Self", bound="ContextSAC")

MAX_BACKLOG = 50
"""Updates that may be due before the learner stops taking new episodes, so that rollout workers wait."""
TARGETS = {"momentum_encoder": "encoder", "critic_target": "critic"}
"""Target networks, with the networks that they follow; one that is missing in a file of weights starts as a copy."""
SAVED_VERSION = 1
COUNTERS = ("num_timesteps", "_total_timesteps", "_n_updates", "_updates_before", "_began_at", "_episode_num")
"""Attributes of an agent that are counters, which its file stores."""
FIRST = "first_actor."
"""Prefix, in an agent's file, of the tensors of the actor that `InitConfig.anchor` pulls towards."""
DYNAMICS = "dynamics."
"""Prefix of the tensors of the task readout, whose loss makes contexts identify the task."""
PARTS = ("agent.json", "policy.safetensors", "optimizers.safetensors")
FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""Date of every part of the zip file, so that the same agent gives the same bytes."""


class SavedAgent(NamedTuple):
    """The contents of an agent's file, which is everything but its buffer; see `ContextSAC.save`."""

    facts: Mapping[str, Any]
    policy: Mapping[str, Tensor]
    moments: Mapping[str, Tensor]


def read_agent(path: str | Path) -> SavedAgent:
    """Return what `ContextSAC.save` wrote; raise SamiError for a file of another version, or one that lacks a part."""
    with zipfile.ZipFile(_zip_file(path)) as file:
        if missing := sorted(set(PARTS) - set(file.namelist())):
            raise SamiError(
                f"it lacks {', '.join(missing)}. Agents of earlier versions are pickles, which are never loaded: "
                "export the run with the version that trained it, and start from the exported weights with --init"
            )
        document, policy, moments = (file.read(name) for name in PARTS)
    facts = json.loads(document)
    if facts["version"] != SAVED_VERSION:
        raise SamiError(f"it is of version {facts['version']}; this sami reads version {SAVED_VERSION}")
    return SavedAgent(facts, safetensors.torch.load(policy), safetensors.torch.load(moments))


def _plain_space(space: spaces.Space) -> dict[str, Any]:
    """Return a space as values for JSON; raise SamiError unless it is a Box or a Dict of Boxes."""
    if isinstance(space, spaces.Dict):
        return {"entries": {name: _plain_space(entry) for name, entry in space.spaces.items()}}
    if isinstance(space, spaces.Box):
        return {"low": space.low.tolist(), "high": space.high.tolist(), "dtype": str(space.dtype)}
    raise SamiError(f"the space {space} cannot be saved; it must be a Box or a Dict of Boxes.")


def _space(plain: Mapping[str, Any]) -> spaces.Space:
    """Return the space that `_plain_space` wrote."""
    if "entries" in plain:
        return spaces.Dict({name: _space(entry) for name, entry in plain["entries"].items()})
    dtype = np.dtype(plain["dtype"])
    return spaces.Box(np.array(plain["low"], dtype), np.array(plain["high"], dtype), dtype=dtype.type)


def _zip_file(path: str | Path) -> Path:
    """Return the path, with `.zip` added if it has no suffix, as stable-baselines3 does."""
    path = Path(path)
    return path if path.suffix else path.with_suffix(".zip")


class ContextSAC(BaseAlgorithm):
    """SAC whose actor and critics read a context that an encoder infers within the episode; all methods and baselines.

    It collects whole episodes. With `config.collection.workers` 0, this process collects and learns in turn, and the
    same seed gives the same weights; otherwise so many worker processes collect while this process learns.

    Args:
        policy: `"ContextPolicy"`.
        env: a Gymnasium environment (or its id, or a `DummyVecEnv` of several) with flat or goal observations.
        config: hyperparameters, the default preset's if None. Its `env`, `steps`, `preset` and `device` are not read
            here; `runs.train` uses them.
        seed: the config's if None. The other arguments are those of stable-baselines3.
    """

    policy_aliases = {"ContextPolicy": ContextPolicy}  # noqa: RUF012 (declared so by the base class)
    policy: ContextPolicy

    def __init__(
        self,
        policy: str | type[ContextPolicy] = "ContextPolicy",
        env: GymEnv | str | None = None,
        config: TrainConfig | None = None,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        self.config = config or resolve(PRESET)
        super().__init__(
            policy=policy,
            env=env,
            learning_rate=self.config.learning.actor_rate,
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            seed=self.config.seed if seed is None else seed,
            device=device,
            support_multi_env=True,
            # `_store` counts episodes, in place of stable-baselines3's Monitor.
            monitor_wrapper=False,
            supported_action_spaces=(spaces.Box,),
        )
        self.rng: np.random.Generator | None = None
        self._updates_before = self._began_at = 0
        self._last_scalars: dict[str, Tensor | float] = {}
        self.logged_at = 0  # environment steps at the last line of the log
        self.task_record = TaskRecord()
        self.contrast_record = ContrastRecord(self.config.contrast.patience)
        if _init_setup_model:
            self._setup_model()

    def _setup_model(self) -> None:
        self.set_random_seed(self.seed)
        self.rng = self.rng or np.random.default_rng(self.seed)
        self.method = method(self.config.method)
        actions = self.action_space
        if not isinstance(actions, spaces.Box) or not (np.all(actions.low == -1.0) and np.all(actions.high == 1.0)):
            raise SamiError(f"the action space is {actions}; ContextSAC needs a Box from -1 to 1 (RescaleAction).")
        if self.env is not None:
            self.environment = spec_of(self._envs[0])
            if (tasks := len(self._learned_tasks())) < self.method.least_tasks:
                raise SamiError(
                    f"{self.method.title} compares tasks with one another, but this environment has {tasks} for "
                    f"training; it needs at least {self.method.least_tasks}. Add tasks, or choose another --method, "
                    "e.g. satesac."
                )
        else:  # `load` has set it, if the file names an environment
            self.environment = getattr(self, "environment", None)
        policy_class = cast(type[ContextPolicy], self.policy_class)
        self.policy = policy_class(
            self.observation_space,
            actions,
            network=self.config.network,
            goal=self.environment.goal if self.environment else None,
            encoder=self.method.encoder,
            task_input=self._task_code() if self.method.reads_task else None,
            initial_temperature=self.config.learning.initial_temperature,
            estimated=self._estimated(),
            with_profile=self.config.with_profile,
            privileged=self.environment.true_size - self.environment.layout.size if self.environment else 0,
            resting=self._resting(),
        ).to(self.device)
        estimator = None if self.config.init.keep_encoder else self.method.estimator
        contrast = Contrast(self.policy, estimator, self.config.contrast) if estimator else None
        self.learner = Learner(self.policy, self.config, contrast, self._task_readout())
        self.buffer: EpisodeBuffer | None = None

    @property
    def _envs(self) -> list[gym.Env]:
        """The environments, which this process steps one after the other."""
        if not isinstance(self.env, DummyVecEnv):
            raise SamiError(
                f"env is a {type(self.env).__name__}; ContextSAC takes a Gymnasium environment or a DummyVecEnv. To "
                "collect in parallel, set collection.workers to the number of processes."
            )
        return self.env.envs

    @property
    def _horizon(self) -> int:
        """The longest episode, in steps."""
        spec = self._envs[0].spec
        if spec is None or spec.max_episode_steps is None:
            raise SamiError(
                "the environment has no time limit; register it with max_episode_steps, or wrap it in TimeLimit."
            )
        return spec.max_episode_steps

    def _learned_tasks(self) -> Sequence[Task]:
        return self.config.training_tasks() if self.env is None else tasks_of(self._envs[0])

    def _task_features(self, tasks: Sequence[Task]) -> Sequence[Feature | Crippled]:
        """Return the environment's task features; without a spec, a number for each name in the first task."""
        spec = self.environment
        return spec.tasks.features if spec else [Feature(name, "1", low=-math.inf) for name in tasks[0]]

    def _task_code(self) -> TaskCode:
        """Return the code that makes the task an input of the oracle, scaled by the extremes of the training tasks."""
        if self.env is None and self.environment is None:
            raise SamiError("this oracle's environment is not in the catalogue; pass it to load(): env=...")
        tasks = self._learned_tasks()
        if self.environment is not None and not any(tasks):  # each episode draws a new task
            tasks = self.environment.tasks.sets["training"]
        features = self._task_features(tasks)
        if not features:
            raise SamiError(
                "the oracle's input is the task, but this environment's tasks have no features. Declare the features "
                "that differ between tasks, or choose another --method."
            )
        return TaskCode.of(features, tasks)

    def _estimated(self) -> list[list[int]] | None:
        """Return, by signal, the columns of the flat observation to estimate: all of them if there is no spec."""
        if self.config.with_profile.estimate == 0:
            return None
        if self.environment is None:
            return [list(range(flat_size(self.observation_space)))]
        return [self.environment.layout.numbers(signal.name) for signal in self.environment.estimated]

    def _resting(self) -> list[int]:
        """Return the columns of the action whose motors are crippled in every training task."""
        if self.environment is None or not (tasks := self._learned_tasks()):
            return []
        return sorted(set.intersection(*(set(self.environment.tasks.silent(task)) for task in tasks)))

    def _task_readout(self) -> TaskReadout | None:
        """Return the head that reads the task from contexts during training, see `LearningConfig.aux_dynamics`."""
        if not self.config.learning.aux_dynamics:
            return None
        tasks = self._learned_tasks()
        truth = torch.from_numpy(standardised(self._task_features(tasks), tasks))
        return TaskReadout(self.policy.encoder.size, truth).to(self.policy.device)

    def make_buffer(self) -> EpisodeBuffer:
        """Return the episode buffer, which the first call creates: an agent that only acts has none."""
        if self.buffer is None:
            self.buffer = EpisodeBuffer(
                self.config.learning.buffer_episodes,
                self._horizon,
                flat_size(self.observation_space),
                self.policy.action_size,
                self.environment.goal if self.environment else None,
                self._window_plan(),
                self.config.with_profile,
                self.environment.true_size if self.environment else None,
            )
        return self.buffer

    def _window_plan(self) -> WindowPlan | None:
        cfg, state = self.config.learning, self.policy.encoder.state
        if cfg.window:
            return WindowPlan(cfg.window, cfg.burn_in, state)
        # Whole episodes start from a state of zeros; an oracle's start from the task, so that its states are stored.
        return None if self.policy.task_input is None else WindowPlan(self._horizon, 0, state)

    def learn(
        self: Self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 10_000,
        tb_log_name: str = "ContextSAC",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Collect and learn for `total_timesteps` more environment steps; arguments as in stable-baselines3.

        Each callback's `on_step` runs once per iteration, after new episodes were stored; a line is logged every
        `log_interval` environment steps.

        Raises:
            WorkerError: a rollout worker failed.
        """
        total, callback = self._setup_learn(total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar)
        buffer = self.make_buffer()
        if reset_num_timesteps:
            self._updates_before, self._began_at, self.logged_at = self._n_updates, 0, 0
        callback.on_training_start(locals(), globals())
        source = self._source()
        try:
            while True:
                # Updates come before collecting: a callback writes checkpoints right after collecting, and a run that
                # resumes from one then continues exactly as an uninterrupted run.
                self._update_current_progress_remaining(self.num_timesteps, total)
                self.learner.set_progress(1.0 - self._current_progress_remaining)
                for _ in range(source.updates(self.due(self.num_timesteps))):
                    self._update(buffer, source)
                due = self.due(self.num_timesteps)
                is_due = self.num_timesteps // log_interval > self.logged_at // log_interval
                # The last line of the log waits until all due updates are made.
                if is_due and (self.finished or self.num_timesteps < total):
                    self.dump_logs()
                if self.finished:
                    break
                if self.num_timesteps < total and due < MAX_BACKLOG:
                    callback.on_rollout_start()
                    episodes = source.collect(due < 1, self.num_timesteps)
                    for episode in episodes:
                        self._store(buffer, episode)
                    callback.update_locals(locals())
                    callback.on_rollout_end()
                if not callback.on_step():
                    break
        finally:
            source.close()
        callback.on_training_end()
        return self

    def _source(self) -> Source:
        collection, plan = self.config.collection, self._window_plan()
        seed, exploration, options = int(self.seed or 0), self.config.exploration, self.config.with_profile
        reach, every = self.environment.reach if self.environment else None, plan.stride if plan else 0
        weights, first = self.policy.numpy_weights(), self._episode_num
        if collection.workers:
            spec, count, steps = self._envs[0].spec, collection.workers, self.num_timesteps
            return Processes(
                spec, collection.envs, count, weights, seed, exploration, reach, first, every, options, steps
            )
        policy = NumpyPolicy(weights, len(self._envs))
        rollout = Rollout(self._envs, policy, seed, exploration, reach, state_every=every, with_profile=options)
        return InStep(rollout, policy, self.policy.numpy_weights, first)

    def due(self, steps: int) -> int:
        """Return how many updates are due once the run has done `steps` environment steps, less those already made."""
        return self.config.updates_after(steps - self._began_at) - (self._n_updates - self._updates_before)

    def _store(self, buffer: EpisodeBuffer, episode: Episode) -> None:
        self._take(buffer, episode)
        self.num_timesteps += len(episode)
        self._episode_num = max(self._episode_num, episode.index + 1)  # some rollout workers are ahead of others
        self.task_record.add(episode)
        assert self.ep_info_buffer is not None
        assert self.ep_success_buffer is not None
        self.ep_info_buffer.append({"r": episode.ret, "l": len(episode), "t": 0.0})
        self.ep_success_buffer.append(float(episode.success))

    def _take(self, buffer: EpisodeBuffer, episode: Episode) -> None:
        buffer.add(episode)
        if not self.config.init.keeps_statistics:
            self.policy.features.update(episode.observations)
            if self.policy.privileged is not None and episode.true_observations is not None:
                self.policy.privileged.update(episode.true_observations[:, episode.observations.shape[1] :])

    def take_recorded(self, episodes: Iterable[Episode]) -> None:
        """Put recorded episodes into the buffer, with the present encoder's states; they do not count as steps."""
        buffer, plan = self.make_buffer(), self._window_plan()
        policy = NumpyPolicy(self.policy.numpy_weights(), 1)
        for episode in episodes:
            self._take(buffer, with_states(episode, policy, plan.stride) if plan else episode)

    def _update(self, buffer: EpisodeBuffer, source: Source) -> None:
        assert self.rng is not None
        only_critics = self._n_updates < self.config.init.critic_updates
        contrasts = self.learner.contrast is not None and not only_critics and not self.contrast_record.ended
        contrasting = contrasts and self._n_updates % self.config.contrast.every == 0
        scalars = self.learner.update(buffer, self.rng, contrasting, only_critics)
        if contrasting:
            self.contrast_record.add(scalars)
        self._last_scalars |= scalars
        self._n_updates += 1
        if self._n_updates % self.config.collection.publish_every == 0:
            source.publish(self.policy.numpy_weights())

    def dump_logs(self) -> None:
        """Write one line of the log at the present step."""
        self.logged_at = self.num_timesteps
        assert self.ep_info_buffer is not None
        measures = (spec.measure, spec.outcomes) if (spec := self.environment) else (SUCCESS, {})
        scalars = {
            **self.task_record.scalars(*measures),
            "rollout/ep_rew_mean": float(np.mean([info["r"] for info in self.ep_info_buffer])),
            "rollout/ep_len_mean": float(np.mean([info["l"] for info in self.ep_info_buffer])),
            "time/updates": self._n_updates,
            "time/total_timesteps": self.num_timesteps,
            **{f"train/{name}": float(scalar) for name, scalar in self._last_scalars.items()},
            **self.contrast_record.scalars(),
        }
        for name, value in scalars.items():
            self.logger.record(name, value)
        self.logger.dump(self.num_timesteps)

    @property
    def finished(self) -> bool:
        """Whether the steps of the last call of `learn` are done, with all their updates."""
        return self.num_timesteps >= self._total_timesteps and self.due(self.num_timesteps) < 1

    def weights(self, model: str = "", *, targets: bool = True) -> Weights:
        """Return the weights in the form that `--init` reads; the environment must be in the catalogue (UnknownName).

        Args:
            model: hash of the exported model file's weights; empty if there is no model file.
            targets: whether to include the target networks; without them, fine-tuning starts them as copies.
        """
        config, policy = self.config, self.policy
        omitted = () if targets else tuple(TARGETS)
        if not (self.learner.critic_optimizer.state or config.init.source):  # of a student, which has trained no critic
            omitted = (*TARGETS, "critic.", "actor.log_std", "log_temperature")
        header = WeightsHeader(
            env=config.env,
            method=config.method,
            observation=flat_signals(self.environment or environment(config.env)),
            actions=policy.action_size,
            network=config.network.model_dump(mode="json"),
            temperature=None if "log_temperature" in omitted else float(policy.log_temperature.detach().exp()),
            steps=self.num_timesteps,
            model=model,
        )
        tensors = {
            name: tensor.detach().cpu().numpy()
            for name, tensor in policy.state_dict().items()
            if not name.startswith(omitted)
        }
        return Weights(header, tensors)

    def save(self, path: str | Path) -> None:  # type: ignore[override] # a pickle's options mean nothing here
        """Write the agent without its buffer; `.zip` is added to a path without a suffix.

        No part is a pickle: agent.json has counters, random state, configuration and spaces; policy.safetensors has
        every network and the normaliser, by the policy's names; optimizers.safetensors has Adam's moments, by
        OPTIMIZER.PARAMETER.MOMENT.
        """
        assert self.rng is not None
        facts = {
            "version": SAVED_VERSION,
            "config": self.config.to_dict(),
            "environment": self.environment.name if self.environment and is_registered(self.environment) else None,
            "seed": self.seed,
            "rng": self.rng.bit_generator.state,
            "counted": {name: getattr(self, name) for name in COUNTERS},
            "logged_at": self.logged_at,
            "last_scalars": {name: float(scalar) for name, scalar in self._last_scalars.items()},
            "episodes": list(self.ep_info_buffer or ()),
            "successes": list(self.ep_success_buffer or ()),
            "task_record": self.task_record.to_dict(),
            "contrast_record": self.contrast_record.to_dict(),
            "observation_space": _plain_space(self.observation_space),
            "action_space": _plain_space(self.action_space),
        }
        policy = {
            start + name: tensor.detach().cpu().contiguous()
            for start, module in {"": self.policy, **self._extra_modules()}.items()
            for name, tensor in module.state_dict().items()
        }
        moments = {
            f"{name}.{parameter}.{moment}": value.detach().cpu().contiguous()
            for name, optimizer in self._optimizers().items()
            for parameter, state in optimizer.state_dict()["state"].items()
            for moment, value in state.items()
        }
        contents = (json.dumps(facts).encode(), safetensors.torch.save(policy), safetensors.torch.save(moments))
        with zipfile.ZipFile(_zip_file(path), "w") as file:
            for name, content in zip(PARTS, contents, strict=True):
                file.writestr(zipfile.ZipInfo(name, FIRST_DAY), content)

    @classmethod
    def load(  # type: ignore[override]
        cls: type[Self], path: str | Path, env: GymEnv | None = None, device: torch.device | str = "auto"
    ) -> Self:
        """Return the agent that `save` wrote; it needs an `env` to continue learning, and none to act.

        Raises:
            ValueError: the environment's spaces differ from the agent's. SamiError: see `read_agent`.
        """
        contents = read_agent(path)
        facts = contents.facts
        agent = cls("ContextPolicy", env, from_dict(facts["config"]), None, 0, facts["seed"], device, False)
        observation, action = _space(facts["observation_space"]), cast(spaces.Box, _space(facts["action_space"]))
        if agent.env is not None:
            check_for_correct_spaces(agent.env, observation, action)
        elif facts["environment"] is not None:
            agent.environment = environment(facts["environment"])
        agent.observation_space, agent.action_space = observation, action
        agent._setup_model()
        agent._restore(contents)
        return agent

    def _extra_modules(self) -> dict[str, torch.nn.Module]:
        """Return the modules that an agent's file stores beside the policy, by the prefix of their tensors' names."""
        extra = {FIRST: self.learner.first_actor, DYNAMICS: self.learner.dynamics}
        return {start: module for start, module in extra.items() if module is not None}

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Return the learner's optimisers by the names of its attributes."""
        return {name: value for name, value in vars(self.learner).items() if isinstance(value, torch.optim.Optimizer)}

    def _restore(self, contents: SavedAgent) -> None:
        """Restore weights, optimisers, random state and counters of a saved agent with this configuration."""
        policy = {name: tensor for name, tensor in contents.policy.items() if not name.startswith((FIRST, DYNAMICS))}
        self.policy.load_state_dict(policy)
        self.learner.anchor()
        for start, module in self._extra_modules().items():
            tensors = {n.removeprefix(start): tensor for n, tensor in contents.policy.items() if n.startswith(start)}
            if tensors or start != FIRST:
                module.load_state_dict(tensors)
        for name, optimizer in self._optimizers().items():
            state: dict[int, dict[str, Tensor]] = {}
            for key, value in contents.moments.items():
                owner, parameter, moment = key.split(".")
                if owner == name:
                    state.setdefault(int(parameter), {})[moment] = value
            optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        assert self.rng is not None
        facts = contents.facts
        self.rng.bit_generator.state = facts["rng"]
        for name in COUNTERS:
            setattr(self, name, facts["counted"][name])
        self.logged_at = facts.get("logged_at", self.num_timesteps)  # older files lack it
        self._last_scalars = dict(facts.get("last_scalars", {}))
        self.ep_info_buffer = deque(facts["episodes"], self._stats_window_size)
        self.ep_success_buffer = deque(facts["successes"], self._stats_window_size)
        self.task_record = TaskRecord.from_dict(facts["task_record"])
        self.contrast_record = ContrastRecord.from_dict(facts["contrast_record"], self.config.contrast.patience)

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return ["policy", *[f"learner.{name}" for name in self._optimizers()]], []
