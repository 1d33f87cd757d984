"""An environment's batch as a vector environment of stable-baselines3, with privileged information for critics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from sami_runtime.errors import SamiError
from sami_train.envs.make import Batch, make_batch
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Feature, Task

ACTION_SCALE = 0.2
"""Action of the environment for an action of 1: PPO begins with a deviation of 1, and a joint's range is for falls."""
REWARD_SCALE = 0.05
"""So that returns are of the size of one."""
LARGEST_ACTION = 1.0 / ACTION_SCALE
PUSH_EVERY = 200
"""Steps between two pushes of a robot that can be pushed, on average."""


class TrainingBatch(Batch, Protocol):
    """A batch whose rows begin anew one by one, and that says what a critic may read."""

    steps: np.ndarray
    """Steps of each row's episode so far, (n,)."""

    current_tasks: list[Task]
    """The task of each row."""

    @property
    def truncated(self) -> np.ndarray:
        """Rows whose episode is over by time, bool (n,)."""

    def reset(
        self,
        seeds: Sequence[int | None] | None = None,
        tasks: Sequence[Task | None] | None = None,
        rows: Sequence[int] | np.ndarray | None = None,
    ) -> np.ndarray:
        """Start episodes in these rows; None draws tasks, and continues each row's random generator."""

    def observations(self) -> np.ndarray:
        """Return the present observations, (n, D)."""

    def privileged(self) -> np.ndarray:
        """Return the privileged information, (n, P)."""

    def push(self, rows: np.ndarray, rng: np.random.Generator) -> None:
        """Push the robots of some rows, if they can be pushed over."""


def vector_env(spec: EnvironmentSpec, rows: int, seed: int) -> BatchVecEnv:
    """Return a batch of robots to train a teacher with."""
    return BatchVecEnv(training_batch(spec, rows), spec.layout.size, spec.action.size, seed, nominal_task(spec))


def nominal_task(spec: EnvironmentSpec) -> Task:
    """Return the task in which nothing is changed; a feature that has no such value has a training task's."""
    [first, *_], features = spec.tasks.sets["training"], spec.tasks.features
    bare = {feature.name for feature in features if isinstance(feature, Feature) and feature.default is None}
    return spec.tasks.check({name: first[name] for name in bare})


def push_some(batch: TrainingBatch, rng: np.random.Generator) -> None:
    """Push those robots of a batch whose turn it is: what a policy has recovered from, unknown dynamics are less of."""
    batch.push(np.flatnonzero(rng.random(batch.rows) < 1.0 / PUSH_EVERY), rng)


def training_batch(spec: EnvironmentSpec, rows: int) -> TrainingBatch:
    """Create a batch to train a teacher in; raise SamiError if the environment has no batch."""
    batch = make_batch(spec, rows, threads=0) if spec.batch_entry_point else None
    if batch is None or not hasattr(batch, "privileged"):
        raise SamiError(
            f"environment {spec.name!r} has no batch with privileged(), which a teacher is trained in; go2 and "
            "robots of TOML files have one. Give its spec a batch_entry_point: sami_train/studies/teacher/vector.py."
        )
    return cast(TrainingBatch, batch)


class BatchVecEnv(VecEnv):
    """The rows of a batch, whose episodes begin anew when they are over; observations are `observation`, `privileged`.

    Args:
        batch: of the environment.
        observation_size: D.
        action_size: A.
        seed: of the first row's first episode, from which the others count on.
        nominal: the task in which nothing is changed.
    """

    def __init__(self, batch: TrainingBatch, observation_size: int, action_size: int, seed: int, nominal: Task) -> None:
        self.changed = 1.0
        """Share of episodes in a task of the training set; the others are nominal."""
        self._nominal, self._rng = nominal, np.random.default_rng(seed)
        self.batch, self._first_seed = batch, seed
        batch.reset(seeds=range(seed, seed + batch.rows))
        sizes = {"observation": observation_size, "privileged": batch.privileged().shape[1]}
        boxes: dict[str, spaces.Space[Any]] = {
            name: spaces.Box(-np.inf, np.inf, (size,), np.float32) for name, size in sizes.items()
        }
        most = LARGEST_ACTION
        self.render_mode = None
        super().__init__(batch.rows, spaces.Dict(boxes), spaces.Box(-most, most, (action_size,), np.float32))
        self._returns = np.zeros(batch.rows)

    def reset(self) -> VecEnvObs:
        """Begin an episode in every row; the first ones are cut short, each elsewhere, so that ends are spread."""
        batch = self.batch
        batch.reset(seeds=range(self._first_seed, self._first_seed + batch.rows))
        batch.steps[:] = np.random.default_rng(self._first_seed).integers(0, batch.episode_steps, batch.rows)
        self._returns[:] = 0.0
        return self._observations()

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions (n, A) of the next step."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Step all rows; those that are over begin anew, and their `info` has the observation before that."""
        push_some(self.batch, self._rng)
        _, rewards = self.batch.step(self._actions * np.float32(ACTION_SCALE))
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
            changed = self._rng.random(len(rows)) < self.changed
            self.batch.reset(tasks=[None if of_row else self._nominal for of_row in changed], rows=rows)
        return self._observations(), (REWARD_SCALE * rewards).astype(np.float32), over, infos

    def _observations(self) -> dict[str, np.ndarray]:
        return {"observation": self.batch.observations(), "privileged": self.batch.privileged()}

    def close(self) -> None:
        """Nothing is open."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of the rows, which they have in common."""
        return [getattr(self, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Rows have no attributes of their own."""
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Rows have no methods of their own."""
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return that nothing wraps a row."""
        return [False] * self.num_envs
