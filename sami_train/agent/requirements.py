"""What ContextSAC requires of an environment: each function takes what it needs from one, or refuses it in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from sami_runtime.errors import SamiError
from sami_train.agent.networks import TaskReadout
from sami_train.agent.policy import ContextPolicy
from sami_train.config.schema import TrainConfig
from sami_train.envs.layout import flat_size
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.task_numbers import TaskCode, standardised
from sami_train.envs.tasks import Feature, Task
from sami_train.episodes.rollout import tasks_of
from sami_train.methods.methods import Method


def single_envs(env: VecEnv | None) -> list[gym.Env]:
    """Return the environments that are stepped one by one.

    Raises:
        SamiError: these are no `DummyVecEnv`.
    """
    if not isinstance(env, DummyVecEnv):
        raise SamiError(
            f"env is a {type(env).__name__}; ContextSAC takes a Gymnasium environment or a DummyVecEnv of "
            "several. For collection in parallel set collection.collectors to the number of processes."
        )
    return env.envs


def horizon(env: gym.Env) -> int:
    """Return the longest episode, in steps.

    Raises:
        SamiError: there is no time limit.
    """
    if env.spec is None or env.spec.max_episode_steps is None:
        raise SamiError(
            "the environment has no time limit; register it with max_episode_steps, or wrap it in TimeLimit."
        )
    return env.spec.max_episode_steps


def unit_box(space: gym.Space) -> gym.spaces.Box:
    """Return an action space whose numbers all go from -1 to 1.

    Raises:
        SamiError: they do not.
    """
    if not isinstance(space, gym.spaces.Box) or not (np.all(space.low == -1.0) and np.all(space.high == 1.0)):
        raise SamiError(f"the action space is {space}; ContextSAC needs a Box from -1 to 1 (RescaleAction).")
    return space


def require_tasks(env: gym.Env, method: Method) -> None:
    """Refuse an environment with fewer tasks than a method compares.

    Raises:
        SamiError: it has fewer.
    """
    if (tasks := len(tasks_of(env))) < method.least_tasks:
        raise SamiError(
            f"{method.title} compares tasks with one another, and this environment draws from {tasks}; it "
            f"needs at least {method.least_tasks}. Give it more tasks, or take another --method, e.g. satesac."
        )


def estimated(spec: EnvironmentSpec | None, space: gym.Space) -> list[list[int]]:
    """Return the numbers of the flat observation whose present is estimated, by signal; all where none is known."""
    if spec is None:
        return [list(range(flat_size(space)))]
    return [spec.layout.numbers(signal.name) for signal in spec.estimated]


def _learned_tasks(env: VecEnv | None, config: TrainConfig) -> Sequence[Task]:
    return config.training_tasks() if env is None else tasks_of(single_envs(env)[0])


def task_code(env: VecEnv | None, config: TrainConfig, spec: EnvironmentSpec | None) -> TaskCode:
    """Return how a policy is told its task: by the extremes of the tasks that it learns from.

    Args:
        env: what it learns in; None where it only acts, and learned from the configuration's tasks.
        config: of the run.
        spec: what is known of the environment; without one, what its tasks name are numbers.

    Raises:
        SamiError: the tasks name nothing that could be told, or are not known.
    """
    if env is None and spec is None:
        raise SamiError("an oracle of an environment that is not in the catalogue is loaded with it: env=...")
    tasks = _learned_tasks(env, config)
    if spec is not None and not any(tasks):  # each episode has a new one
        tasks = spec.tasks.sets["training"]
    features = spec.tasks.features if spec else [Feature(name, "1", low=-math.inf) for name in tasks[0]]
    if not features:
        raise SamiError(
            "the oracle is told the task, and this environment's tasks name nothing to tell. Declare the features that "
            "change from task to task, or take another --method."
        )
    return TaskCode.of(features, tasks)


def resting(env: VecEnv | None, config: TrainConfig, spec: EnvironmentSpec | None) -> list[int]:
    """Return the motors that no task lets obey which a policy learns from, by their numbers in the action.

    Args:
        env: as in `task_code`.
        config: of the run.
        spec: as in `task_code`; without one nothing is known of motors.
    """
    if spec is None:
        return []
    tasks = _learned_tasks(env, config)
    return sorted(set.intersection(*(set(spec.tasks.silent(task)) for task in tasks))) if tasks else []


def readout(
    env: VecEnv | None, config: TrainConfig, spec: EnvironmentSpec | None, policy: ContextPolicy
) -> TaskReadout | None:
    """Return what reads the task from contexts while training, see `LearningConfig.aux_dynamics`; None where it is off.

    Args:
        env: as in `task_code`.
        config: of the run.
        spec: as in `task_code`.
        policy: whose contexts these are.
    """
    if not config.learning.aux_dynamics:
        return None
    tasks = _learned_tasks(env, config)
    features = spec.tasks.features if spec else [Feature(name, "1", low=-math.inf) for name in tasks[0]]
    return TaskReadout(policy.encoder.size, torch.from_numpy(standardised(features, tasks))).to(policy.device)
