"""ContextSAC: soft actor-critic on a recurrent context, an algorithm in stable-baselines3's sense."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.utils import check_for_correct_spaces
from torch import Tensor

from sami_train.agent import requirements
from sami_train.agent.contrast import Contrast
from sami_train.agent.contrast_record import ContrastRecord
from sami_train.agent.features import feature_layout
from sami_train.agent.learner import Learner
from sami_train.agent.policy import ContextPolicy
from sami_train.agent.requirements import horizon, single_envs
from sami_train.agent.saved import (
    COUNTED,
    DYNAMICS,
    FIRST,
    SavedAgent,
    optimizers_of,
    plain_space,
    read_agent,
    write_agent,
)
from sami_train.config.resolve import resolve
from sami_train.config.schema import PRESET, TrainConfig
from sami_train.envs.catalog import environment, is_found, spec_of
from sami_train.envs.layout import flat_size
from sami_train.envs.measure import SUCCESS
from sami_train.envs.spec import EnvironmentSpec
from sami_train.episodes.buffer import EpisodeBuffer, WindowPlan
from sami_train.episodes.collectors import Source, make_source
from sami_train.episodes.episode import Episode, TaskRecord
from sami_train.episodes.numpy_policy import NumpyPolicy
from sami_train.episodes.rollout import with_states
from sami_train.methods.methods import method

Self = TypeVar("Self", bound="ContextSAC")

MAX_BACKLOG = 500
"""Updates that the learner may owe before collectors have to wait for it."""


class ContextSAC(BaseAlgorithm):
    """SAC whose actor and critics read a context that an encoder infers within the episode: all methods, and baselines.

    Collection goes by whole episodes. With `config.collection.collectors` 0 it happens in step with learning and the
    same seed gives the same weights; otherwise processes of their own collect while this one learns.

    Args:
        policy: `"ContextPolicy"`.
        env: a Gymnasium environment (or its id, or a `DummyVecEnv` of several) with flat or goal observations.
        config: hyperparameters, the default preset's if None; `env`, `steps`, `preset` and `device` in it are for
            whoever starts runs: not read here.
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
            # Episodes are counted where they are collected.
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
        actions = requirements.unit_box(self.action_space)
        self.environment = self._find_environment()
        if self.env is not None:
            requirements.require_tasks(single_envs(self.env)[0], self.method)
        net, behind = self.config.network, self.config.behind_gap
        layout = feature_layout(
            flat_size(self.observation_space),
            self.environment.goal if self.environment else None,
            encoder_reads_goal=net.encoder_reads_goal,
            relative_goal=net.relative_goal,
            normalize=net.normalize,
        )
        policy_class = cast(type[ContextPolicy], self.policy_class)
        self.policy = policy_class(
            self.observation_space,
            actions,
            layout=layout,
            encoder=self.method.encoder,
            hidden_size=net.hidden_size,
            encoder_units=net.encoder_units,
            context_size=net.context_size,
            history_steps=net.history_steps,
            task_input=requirements.task_code(self.env, self.config, self.environment) if self.method.is_told else None,
            net_arch=net.net_arch,
            layer_norm=net.layer_norm,
            initial_temperature=self.config.learning.initial_temperature,
            estimated=requirements.estimated(self.environment, self.observation_space) if behind.estimate > 0 else None,
            critic_actions=behind.critic_actions,
            true_critic=behind.true_critic,
            resting=requirements.resting(self.env, self.config, self.environment),
        ).to(self.device)
        estimator = None if self.config.init.keep_encoder else self.method.estimator
        contrast = Contrast(self.policy, estimator, self.config.contrast) if estimator else None
        readout = requirements.readout(self.env, self.config, self.environment, self.policy)
        self.learner = Learner(self.policy, self.config.learning, contrast, self.config.init, behind, readout)
        self.buffer: EpisodeBuffer | None = None

    def _find_environment(self) -> EnvironmentSpec | None:
        if self.env is None:
            return getattr(self, "environment", None)  # of the file that it was loaded from
        return spec_of(single_envs(self.env)[0])

    def make_buffer(self) -> EpisodeBuffer:
        """Make the episode buffer, or return it where it is made: acting needs none."""
        if self.buffer is None:
            self.buffer = EpisodeBuffer(
                self.config.learning.buffer_episodes,
                horizon(single_envs(self.env)[0]),
                flat_size(self.observation_space),
                self.policy.action_size,
                self.environment.goal if self.environment else None,
                self._window_plan(),
                self.config.behind_gap,
            )
        return self.buffer

    def _window_plan(self) -> WindowPlan | None:
        cfg, state = self.config.learning, self.policy.encoder.state
        if cfg.window:
            return WindowPlan(cfg.window, cfg.burn_in, state)
        # Whole episodes begin with a state of zeros, but for those whose policy is told something at their start.
        return None if self.policy.task_input is None else WindowPlan(horizon(single_envs(self.env)[0]), 0, state)

    def learn(
        self: Self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 10_000,
        tb_log_name: str = "ContextSAC",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Collect and learn for a number of environment steps.

        Args:
            total_timesteps: environment steps to add.
            callback: stable-baselines3 callbacks; `on_step` is called after each look for new episodes.
            log_interval: environment steps, at whose multiples a line of the log is due.
            tb_log_name: folder for TensorBoard.
            reset_num_timesteps: False continues a run.
            progress_bar: show stable-baselines3's progress bar.

        Raises:
            CollectorError: a collector process failed.
        """
        total, callback = self._setup_learn(total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar)
        buffer = self.make_buffer()
        if reset_num_timesteps:
            self._updates_before, self.logged_at = self._n_updates, 0
        callback.on_training_start(locals(), globals())
        source = self._source()
        try:
            while True:
                # Updates come before collecting, so that a run resumed from a checkpoint (written by a callback,
                # right after collecting) goes on with exactly what an uninterrupted run does next.
                self._update_current_progress_remaining(self.num_timesteps, total)
                self.learner.set_progress(1.0 - self._current_progress_remaining)
                for _ in range(source.updates(self._due())):
                    self._update(buffer, source)
                due = self._due()
                learned = self.num_timesteps >= total and due < 1
                passed = self.num_timesteps // log_interval > self.logged_at // log_interval
                if passed and (learned or self.num_timesteps < total):  # the last line waits for updates that are owed
                    self.dump_logs()
                if learned:
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
        return make_source(
            single_envs(self.env),
            self.policy.numpy_weights,
            int(self.seed or 0),
            self.config.exploration,
            self.environment.reach if self.environment else None,
            self._episode_num,
            plan.stride if plan else 0,
            collection.collectors,
            collection.envs,
            self.config.behind_gap,
        )

    def _due(self) -> int:
        """Return how many updates are owed for the environment steps since the counter began."""
        return self.config.updates_after(self.num_timesteps - self._began_at) - (self._n_updates - self._updates_before)

    def _store(self, buffer: EpisodeBuffer, episode: Episode) -> None:
        self._take(buffer, episode)
        self.num_timesteps += len(episode)
        self._episode_num += 1
        self.task_record.add(episode)
        assert self.ep_info_buffer is not None
        assert self.ep_success_buffer is not None
        self.ep_info_buffer.append({"r": episode.ret, "l": len(episode), "t": 0.0})
        self.ep_success_buffer.append(float(episode.success))

    def _take(self, buffer: EpisodeBuffer, episode: Episode) -> None:
        buffer.add(episode)
        if not self.config.init.keeps_statistics:
            self.policy.features.update(episode.observations)

    def take_recorded(self, episodes: Iterable[Episode]) -> None:
        """Put recorded episodes into the buffer; none is counted. Their encoder states are those of today's encoder."""
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
        """Write a line of the log."""
        self.logged_at = self.num_timesteps
        assert self.ep_info_buffer is not None
        record = self.logger.record
        judged = (spec.measure, spec.outcomes) if (spec := self.environment) else (SUCCESS, {})
        for name, value in self.task_record.scalars(*judged).items():
            record(name, value)
        record("rollout/ep_rew_mean", float(np.mean([info["r"] for info in self.ep_info_buffer])))
        record("rollout/ep_len_mean", float(np.mean([info["l"] for info in self.ep_info_buffer])))
        record("time/updates", self._n_updates)
        record("time/total_timesteps", self.num_timesteps)
        for name, scalar in self._last_scalars.items():
            record(f"train/{name}", float(scalar))
        for name, value in self.contrast_record.scalars().items():
            record(name, value)
        self.logger.dump(self.num_timesteps)

    @property
    def finished(self) -> bool:
        """Whether the steps that `learn` was last asked for are done, and every update that they owe."""
        return self.num_timesteps >= self._total_timesteps and self._due() < 1

    def save_buffer(self, path: Path) -> None:
        """Write the stored episodes (`.npz`)."""
        self.make_buffer().save(path)

    def load_buffer(self, path: Path) -> None:
        """Read back what `save_buffer` wrote."""
        self.make_buffer().restore(path)

    def save(self, path: str | Path) -> None:  # type: ignore[override] # a pickle's options mean nothing here
        """Write the agent without its buffer, see `saved`; `.zip` is added to a name without an ending."""
        write_agent(Path(path), self._saved())

    @classmethod
    def load(  # type: ignore[override]
        cls: type[Self], path: str | Path, env: GymEnv | None = None, device: torch.device | str = "auto"
    ) -> Self:
        """Return the agent that `save` wrote; to go on learning it needs an environment, to act it needs none.

        Raises:
            ValueError: the environment has other spaces than the agent.
        """
        saved = read_agent(Path(path))
        agent = cls("ContextPolicy", env, saved.config, None, 0, saved.facts["seed"], device, False)
        observation, action = saved.spaces
        if agent.env is not None:
            check_for_correct_spaces(agent.env, observation, action)
        elif (name := saved.facts["environment"]) is not None:
            agent.environment = environment(name)
        agent.observation_space, agent.action_space = observation, action
        agent._setup_model()
        agent._restore(saved)
        return agent

    def _saved(self) -> SavedAgent:
        """Return what a file keeps of this agent."""
        assert self.rng is not None
        facts = {
            "config": self.config.to_dict(),
            "environment": self.environment.name if self.environment and is_found(self.environment) else None,
            "seed": self.seed,
            "rng": self.rng.bit_generator.state,
            "counted": {name: getattr(self, name) for name in COUNTED},
            "logged_at": self.logged_at,
            "last_scalars": {name: float(scalar) for name, scalar in self._last_scalars.items()},
            "episodes": list(self.ep_info_buffer or ()),
            "successes": list(self.ep_success_buffer or ()),
            "task_record": self.task_record.to_dict(),
            "contrast_record": self.contrast_record.to_dict(),
            "observation_space": plain_space(self.observation_space),
            "action_space": plain_space(self.action_space),
        }
        moments = {
            f"{name}.{parameter}.{moment}": value.detach().cpu().contiguous()
            for name, optimizer in optimizers_of(self.learner).items()
            for parameter, state in optimizer.state_dict()["state"].items()
            for moment, value in state.items()
        }
        policy = {name: tensor.detach().cpu().contiguous() for name, tensor in self.policy.state_dict().items()}
        if (actor := self.learner.first_actor) is not None:
            policy |= {FIRST + name: tensor.cpu().contiguous() for name, tensor in actor.state_dict().items()}
        if (dynamics := self.learner.dynamics) is not None:
            policy |= {DYNAMICS + name: tensor.cpu().contiguous() for name, tensor in dynamics.state_dict().items()}
        return SavedAgent(facts, policy, moments)

    def _restore(self, saved: SavedAgent) -> None:
        """Bring this agent, which has the configuration and the spaces of a saved one, to where that one was."""
        tensors = {n: value for n, value in saved.policy.items() if not n.startswith((FIRST, DYNAMICS))}
        self.policy.load_state_dict(tensors)
        self.learner.anchor(saved.tensors_of(FIRST) or None)
        if self.learner.dynamics is not None:
            self.learner.dynamics.load_state_dict(saved.tensors_of(DYNAMICS))
        for name, optimizer in optimizers_of(self.learner).items():
            state: dict[int, dict[str, Tensor]] = {}
            for key, value in saved.moments.items():
                owner, parameter, moment = key.split(".")
                if owner == name:
                    state.setdefault(int(parameter), {})[moment] = value
            optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        assert self.rng is not None
        facts = saved.facts
        self.rng.bit_generator.state = facts["rng"]
        for name in COUNTED:
            setattr(self, name, facts["counted"][name])
        self.logged_at = facts.get("logged_at", self.num_timesteps)  # older files have none: as if just now
        self._last_scalars = dict(facts.get("last_scalars", {}))
        self.ep_info_buffer = deque(facts["episodes"], self._stats_window_size)
        self.ep_success_buffer = deque(facts["successes"], self._stats_window_size)
        self.task_record = TaskRecord.from_dict(facts["task_record"])
        self.contrast_record = ContrastRecord.from_dict(facts["contrast_record"], self.config.contrast.patience)

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return ["policy", *[f"learner.{name}" for name in optimizers_of(self.learner)]], []
