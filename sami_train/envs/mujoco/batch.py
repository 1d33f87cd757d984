"""Batches of MuJoCo environments of one model, each row in its own task, stepped by native threads."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from mujoco.batch import Batch
from numpy.typing import NDArray

from sami_runtime.errors import SamiError
from sami_train.envs.mujoco.bodies import RobotStep
from sami_train.envs.mujoco.env import STRONGEST, UNSTABLE, Robot
from sami_train.envs.mujoco.table import find_row
from sami_train.envs.mujoco.task_env import LARGEST, NO_RESET, blown_up
from sami_train.envs.task_numbers import TaskCode
from sami_train.envs.tasks import Task, Tasks, TaskSpace, draw
from sami_train.machine import usable_cores

_SKIP = int(mujoco.mjtStage.mjSTAGE_NONE)


class Rows:
    """n robots of one model, each in its own task, stepped by native threads.

    Args:
        model: of all rows.
        rows: n.
        space: the task space.
        tasks: the set to draw from at a reset, one task, or a sequence of tasks. Sets without a list draw new values.
        episode_steps: length of an episode.
        threads: number of simulation threads; 0 is one for each core that this process may use.
        dynamics: returns the values of the model's fields that a task changes, by MuJoCo's names.
        whole: whether each row keeps its complete `MjData`, so that `data` returns derived quantities too.

    Raises:
        TaskError, UnknownName: the tasks are not valid.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        rows: int,
        space: TaskSpace,
        tasks: Tasks,
        episode_steps: int,
        threads: int,
        dynamics: Callable[[Task], Mapping[str, np.ndarray]],
        whole: bool = False,
    ) -> None:
        self.rows, self.space, self.tasks, self.episode_steps = rows, space, space.resolve(tasks), episode_steps
        self._draw = space.drawn.get(tasks) if isinstance(tasks, str) else None
        model.opt.disableflags |= NO_RESET
        self._batch = Batch(model, rows, threads or usable_cores(), persistent=whole)
        self._qpos, self._qvel = self._batch.bind("qpos"), self._batch.bind("qvel")
        self._dynamics = dynamics
        self._fields = {name: self._batch.expand(name) for name in dynamics(self.tasks[0])}
        self._rngs = [np_random()[0] for _ in range(rows)]
        self.current_tasks: list[Task] = [{}] * rows
        """The task of each row."""
        self.steps = np.zeros(rows, np.int64)
        """Steps of each row's episode so far, (n,)."""
        self.unstable = np.zeros(rows, bool)
        """Rows whose simulation blew up in the last step and was reset to the model's initial pose, (n,)."""

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """Rows whose episode has reached its length, (n,)."""
        return self.steps >= self.episode_steps

    @property
    def terminated(self) -> NDArray[np.bool_]:
        """Rows whose episode ended in the last step other than by its length, (n,); none in this base class."""
        return np.zeros(self.rows, bool)

    @property
    def metrics(self) -> Mapping[str, NDArray[np.float64]]:
        """Metrics of the rows' episodes so far, by name, (n,) each; none in this base class."""
        return {}

    def set_dynamics(self, row: int, task: Task) -> None:
        """Apply a task to one row, also in the middle of an episode; `TaskError`, `UnknownName` if it is not valid."""
        self._set_task(row, self.space.check(task))
        self._batch.set_const([row])

    def model(self, row: int) -> mujoco.MjModel:
        """Return a copy of one row's model, to read or render it."""
        return self._batch.get_model(row)

    def data(self, row: int) -> mujoco.MjData:
        """Return a copy of one row's state; without `whole`, run mj_forward to compute derived quantities."""
        return self._batch.get_data(row)

    def reset(
        self,
        seeds: Sequence[int | None] | None = None,
        tasks: Sequence[Task | None] | None = None,
        rows: Sequence[int] | np.ndarray | None = None,
    ) -> np.ndarray:
        """Begin new episodes, and return their observations (len(rows), D) float32.

        Args:
            seeds: one for each row to reset; None continues with the row's own generator.
            tasks: one for each row to reset; None draws the task.
            rows: indices of the rows to reset; all if None.

        Raises:
            TaskError, UnknownName: a task is not valid; nothing was changed.
        """
        ids = np.arange(self.rows) if rows is None else np.asarray(rows, np.int64)
        seeds = [None] * len(ids) if seeds is None else seeds
        checked = [None if task is None else self.space.check(task) for task in tasks or [None] * len(ids)]
        for i, seed, task in zip(ids, seeds, checked, strict=True):
            if seed is not None:
                self._rngs[i] = np_random(int(seed))[0]
            if task is None:
                rng = self._rngs[i]
                task = self.space.check(self._draw(rng) if self._draw else draw(self.tasks, rng))
            self._set_task(i, task)
        self._batch.set_const(ids)
        self.steps[ids], self.unstable[ids] = 0, False
        if len(ids):
            self._start(ids, [self._rngs[i] for i in ids])
        return self.observations()[ids]

    @abstractmethod
    def step(self, actions: np.ndarray) -> tuple[np.ndarray, NDArray[np.float64]]:
        """Step all rows by actions (n, A); return observations (n, D) float32 and rewards (n,)."""

    @abstractmethod
    def observations(self) -> np.ndarray:
        """Return the rows' present observations, (n, D) float32."""

    @abstractmethod
    def _start(self, ids: np.ndarray, rngs: list[np.random.Generator]) -> None:
        """Draw the first state of each row's episode with its generator, and put the row there."""

    def _set_task(self, i: int, task: Task) -> None:
        for name, values in self._dynamics(task).items():
            self._fields[name][i] = values
        self.current_tasks[i] = task

    def _place(self, ids: np.ndarray, qpos: np.ndarray, qvel: np.ndarray | float) -> None:
        self._batch.reset(ids, stage=_SKIP)
        self._qpos[ids], self._qvel[ids] = qpos, qvel

    def _recover(self, fastest: float = LARGEST, unstable: np.ndarray | bool = False) -> None:
        """Set `unstable`, given here or `blown_up`, after a step, and reset these rows."""
        self.unstable = unstable | blown_up(self._qpos, self._qvel, fastest)
        if self.unstable.any():
            self._batch.reset(np.flatnonzero(self.unstable))


class TeacherRows(Rows):
    """Rows in which a teacher can learn."""

    @abstractmethod
    def privileged(self) -> np.ndarray:
        """Return the privileged information that only a teacher reads, (n, P) float32."""

    def command(self, actions: np.ndarray) -> np.ndarray:
        """Return the environment's actions (n, A) for a teacher's; the same, unless a subclass converts them."""
        return actions

    def push(self, rows: np.ndarray, rng: np.random.Generator) -> None:
        """Push the robots of some rows; does nothing unless a subclass, such as `Go2Batch`, implements it."""


class MujocoBatch(TeacherRows):
    """n robots of the benchmark in n tasks; the vector environments and rollouts use it.

    With the same seed and actions, a row and `MujocoSkillEnv` go through the same episode, bit for bit.

    >>> batch = MujocoBatch("hopper", 2)
    >>> observations = batch.reset(seeds=[0, 1], tasks=[{"mass": 0.5, "damping": 1.0}, {"mass": 2.0, "damping": 1.0}])
    >>> observations, rewards = batch.step(np.zeros((2, 3), np.float32))
    >>> observations.shape, rewards.shape, batch.truncated.tolist()
    ((2, 11), (2,), [False, False])

    Args:
        name: of the environment, e.g. `"half-cheetah"`.
        rows, tasks, threads: see `Rows`.
        episode_steps: length of an episode; the paper's if None.
        options: variants of the environment, see `Options`.

    Raises:
        TaskError, UnknownName, SamiError: the name, the tasks or the options are not valid.
    """

    def __init__(
        self,
        name: str,
        rows: int,
        tasks: Tasks = "training",
        episode_steps: int | None = None,
        threads: int = 0,
        **options: Any,
    ) -> None:
        self.robot = robot = Robot(find_row(name), options)
        self.observation_space, self.action_space = robot.observation_space, robot.action_space
        steps = episode_steps or robot.row.episode_steps
        super().__init__(robot.model, rows, robot.row.tasks, tasks, steps, threads, robot.dynamics)
        self._ctrl = self._batch.bind("ctrl")
        self._contact = self._batch.bind("cfrc_ext") if robot.options.contact_cost else None
        self._mask = np.ones((rows, robot.model.nu))
        self._code = TaskCode.of(self.space.features, self.space.resolve("training"))
        self._codes = np.zeros((rows, self._code.size), np.float32)
        self._speed = np.zeros(rows)
        self._energies, self._energy = self._batch.bind("energy"), np.full(rows, np.inf)

    def _start(self, ids: np.ndarray, rngs: list[np.random.Generator]) -> None:
        qpos, qvel = (np.stack(part) for part in zip(*map(self.robot.start, rngs), strict=True))
        self._place(ids, qpos, qvel)
        self._speed[ids] = 0.0

    def observations(self) -> np.ndarray:
        """Return the rows' present observations, (n, D) float32."""
        return self.robot.body.observe(self._qpos, self._qvel, self._speed)

    def privileged(self) -> np.ndarray:
        """Return the codes of the rows' tasks (n, P) float32, which only a teacher reads."""
        return self._codes.copy()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, NDArray[np.float64]]:
        """Step all rows by actions (n, A) in [-1, 1], also rows whose episode is over; the caller resets them.

        Returns:
            Observations (n, D) float32 and rewards (n,).

        Raises:
            SamiError: the actions have another shape, or one is not finite.
        """
        control = self.robot.control(actions, self._mask)
        x, speed = self._qpos[:, 0].copy(), self._qvel[:, 0].copy()
        self._ctrl[:] = control
        self._batch.step(nstep=self.robot.body.frame_skip)
        self.steps += 1
        energy, self._energy = self._energy, self._energies.sum(axis=1)
        self._recover(UNSTABLE, self._energy > energy + STRONGEST)
        x[self.unstable] = self._qpos[self.unstable, 0]  # the reset is no jump of the robot
        self._speed = (self._qpos[:, 0] - x) / self.robot.step_s
        motion = RobotStep(self._qpos, self._qvel, self._speed, speed, control, self._contact)
        return self.observations(), self.robot.reward(motion)

    def _set_task(self, i: int, task: Task) -> None:
        super()._set_task(i, task)
        self._mask[i], self._energy[i] = self.robot.mask(task), np.inf  # its change by a task is no gain
        self._codes[i] = self._code.encode([task])[0]


class MujocoVectorEnv(VectorEnv[np.ndarray, np.ndarray, NDArray[Any]]):
    """A Gymnasium vector environment that draws a task at each reset, and resets rows in the step that ends them.

    Args:
        name: of the environment; Gymnasium's ids fill it in.
        num_envs: number of rows, n.
        tasks, threads, options: see `MujocoBatch`.
        max_episode_steps: length of an episode; the paper's if None.
        render_mode: None; a batch does not render.

    Raises:
        TaskError, UnknownName, SamiError: an argument is not valid.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012 (as the base class)

    def __init__(
        self,
        name: str,
        num_envs: int = 1,
        tasks: Tasks = "training",
        max_episode_steps: int | None = None,
        threads: int = 0,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        if render_mode is not None:
            raise SamiError(f"render mode is {render_mode!r}; a batch draws nothing, make one environment instead.")
        self.batch = MujocoBatch(name, num_envs, tasks, max_episode_steps, threads, **options)
        self.num_envs, self.render_mode = num_envs, None
        self.single_observation_space, self.single_action_space = self.batch.observation_space, self.batch.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._tasks: dict[str, Any] = {}

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode in every row, or in the rows of the boolean mask `options["reset_mask"]` (n,).

        Row i has the seed `seed` + i, or `seed[i]` of a sequence. `options["task"]` is the task of all rows to reset.
        """
        choices = options or {}
        mask = np.asarray(choices.get("reset_mask", np.ones(self.num_envs, bool)), bool)
        rows = np.flatnonzero(mask)
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
        observations = self.batch.observations()
        observations[rows] = self.batch.reset(
            seeds=None if seeds is None else [seeds[int(i)] for i in rows],
            tasks=[choices["task"]] * len(rows) if "task" in choices else None,
            rows=rows,
        )
        self._store_tasks()
        return observations, {"task": self._tasks, "_task": mask}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Step all rows by actions (n, A); rows that end put their last step into `final_obs`, `final_info` of info."""
        observations, rewards = self.batch.step(actions)
        truncated = self.batch.truncated
        info: dict[str, Any] = {}
        if truncated.any():
            rows = np.flatnonzero(truncated)
            for row in rows:
                final = {"final_obs": observations[row].copy(), "final_info": {"task": self.batch.current_tasks[row]}}
                info = self._add_info(info, final, int(row))
            observations[rows] = self.batch.reset(rows=rows)
            self._store_tasks()
        info |= {"task": self._tasks, "_task": np.ones(self.num_envs, bool)}
        return observations, rewards, np.zeros(self.num_envs, bool), truncated, info

    def _store_tasks(self) -> None:
        self._tasks = {}
        for row, task in enumerate(self.batch.current_tasks):
            self._tasks = self._add_info(self._tasks, dict(task), row)
