"""An environment's batch as a vector environment of stable-baselines3, with privileged information."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from sami_runtime.errors import SamiError
from sami_train.envs.make import make_batch
from sami_train.envs.mujoco.batch import TeacherRows
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Feature, Task

ACTION_SCALE = 0.2
"""Environment action per unit of PPO's action: PPO starts with a deviation of 1, and full-range actions cause falls."""
REWARD_SCALE = 0.05
"""Scale of the rewards, so that returns are of order 1."""
LARGEST_ACTION = 1.0 / ACTION_SCALE
PUSH_EVERY = 200
"""Mean number of steps between two pushes of a robot, if it can be pushed."""


def vector_env(spec: EnvironmentSpec, rows: int, seed: int) -> BatchVecEnv:
    """Return a vector environment to train a teacher in; raise SamiError if the environment has no batch."""
    return BatchVecEnv(training_batch(spec, rows), spec, seed)


def nominal_task(spec: EnvironmentSpec) -> Task:
    """Return the task with default values; a feature without a default has the value of the first training task."""
    [first, *_], features = spec.tasks.sets["training"], spec.tasks.features
    bare = {feature.name for feature in features if isinstance(feature, Feature) and feature.default is None}
    return spec.tasks.check({name: first[name] for name in bare})


def push_at_random(batch: TeacherRows, rng: np.random.Generator) -> None:
    """Push each robot of a batch with probability 1 / `PUSH_EVERY`: recovery makes policies robust to new dynamics."""
    batch.push(np.flatnonzero(rng.random(batch.rows) < 1.0 / PUSH_EVERY), rng)


def training_batch(spec: EnvironmentSpec, rows: int) -> TeacherRows:
    """Create a batch to train a teacher in; raise SamiError if the environment has no batch."""
    batch = make_batch(spec, rows, threads=0) if spec.batch_entry_point else None
    if not isinstance(batch, TeacherRows):
        raise SamiError(
            f"environment {spec.name!r} has no batch with privileged(), which a teacher is trained in; go2, the MuJoCo "
            "robots and robots of TOML files have one. Give its spec the batch_entry_point of a TeacherRows: "
            "sami_train/envs/mujoco/batch.py."
        )
    return batch


class BatchVecEnv(VecEnv):
    """A vector environment of a batch's rows, which resets finished rows; it observes `observation` and `privileged`.

    Args:
        batch: the environment's batch.
        spec: its specification.
        seed: seed of the first row's first episode; each next row has the next integer.
    """

    def __init__(self, batch: TeacherRows, spec: EnvironmentSpec, seed: int) -> None:
        self.share = 1.0
        """Fraction of new episodes in a training task; the others are in the nominal task."""
        self._nominal, self._rng = nominal_task(spec), np.random.default_rng(seed)
        self.batch, self._first_seed = batch, seed
        batch.reset(seeds=range(seed, seed + batch.rows))
        sizes = {"observation": spec.layout.size, "privileged": batch.privileged().shape[1]}
        boxes: dict[str, spaces.Space[Any]] = {
            name: spaces.Box(-np.inf, np.inf, (size,), np.float32) for name, size in sizes.items()
        }
        actions = spaces.Box(-LARGEST_ACTION, LARGEST_ACTION, (spec.action.size,), np.float32)
        self.render_mode = None
        super().__init__(batch.rows, spaces.Dict(boxes), actions)
        self._returns = np.zeros(batch.rows)

    def reset(self) -> VecEnvObs:
        """Begin an episode in every row, at a random step count, so that the rows' time limits are not synchronous."""
        batch, rng = self.batch, np.random.default_rng(self._first_seed)
        steps = rng.integers(0, batch.episode_steps, batch.rows)
        batch.reset(range(self._first_seed, self._first_seed + batch.rows), self._draw_tasks(rng, batch.rows))
        batch.steps[:] = steps
        self._returns[:] = 0.0
        return self._observations()

    def step_async(self, actions: np.ndarray) -> None:
        """Store the actions (n, A) for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Step all rows and reset those that are over; their `info` has the last observation before the reset."""
        push_at_random(self.batch, self._rng)
        _, rewards = self.batch.step(self.batch.command(self._actions * np.float32(ACTION_SCALE)))
        self._returns += rewards
        fallen, late = self.batch.terminated.copy(), self.batch.truncated
        over = fallen | late
        infos: list[dict[str, Any]] = [{}] * self.num_envs
        if over.any():
            last, metrics = self._observations(), self.batch.metrics
            rows = np.flatnonzero(over)
            for row in rows:
                infos[row] = {
                    "terminal_observation": {name: values[row] for name, values in last.items()},
                    "TimeLimit.truncated": bool(late[row] and not fallen[row]),
                    "episode": {"r": float(self._returns[row]), "l": int(self.batch.steps[row])},
                    "metrics": {name: float(values[row]) for name, values in metrics.items()},
                }
            self._returns[rows] = 0.0
            self.batch.reset(tasks=self._draw_tasks(self._rng, len(rows)), rows=rows)
        return self._observations(), (REWARD_SCALE * rewards).astype(np.float32), over, infos

    def _draw_tasks(self, rng: np.random.Generator, count: int) -> list[Task | None]:
        """Return the tasks of new episodes: the nominal one, or None for a training task that the batch draws."""
        return [None if draw < self.share else self._nominal for draw in rng.random(count)]

    def _observations(self) -> dict[str, np.ndarray]:
        return {"observation": self.batch.observations(), "privileged": self.batch.privileged()}

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of this object for every row."""
        return [getattr(self, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of this object, which is that of every row."""
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Raise NotImplementedError: rows have no methods of their own."""
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for every row: no wrapper wraps one."""
        return [False] * self.num_envs
