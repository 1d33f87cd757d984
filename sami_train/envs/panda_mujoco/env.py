"""The paper's modified Panda Pick&Place in MuJoCo as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import mujoco
import numpy as np

from sami_runtime.errors import UnknownName
from sami_train.envs.mujoco.task_env import TaskEnv
from sami_train.envs.panda.entry import PANDA
from sami_train.envs.panda.tasks import PANDA_TASKS
from sami_train.envs.panda_mujoco.model import SUBSTEPS, dynamics
from sami_train.envs.panda_mujoco.world import GOAL, World
from sami_train.envs.tasks import Task, Tasks


class PandaMujocoEnv(TaskEnv):
    """Move a cube of unknown mass on a table of unknown friction: `PandaSkillEnv` with MuJoCo's physics.

    Observation, action, tasks, rewards and ends are those of `PandaSkillEnv`, and the same seed gives the same task and
    start; the motion is MuJoCo's. `docs/explanation/second-simulator.md` compares the two.

    Args:
        tasks, render_mode, render_size: see `TaskEnv`; a task is a dictionary such as
            `{"mass": kg, "friction": lateral friction of the table}`.
        reward: `"sparse"` (-1 until the goal is reached) or `"dense"` (minus the distance to it, [m]).
        end_on_fall: also terminate when the cube has fallen off the table.

    Raises:
        UnknownName: there is no such reward.
        TaskError, UnknownName, SamiError: as `TaskEnv`.
    """

    def __init__(
        self,
        tasks: Tasks = "training",
        reward: str = "sparse",
        end_on_fall: bool = False,
        render_mode: str | None = None,
        render_size: tuple[int, int] = (480, 360),
    ) -> None:
        if reward not in ("sparse", "dense"):
            raise UnknownName("reward", reward, ["sparse", "dense"])
        self.reward, self.end_on_fall = reward, end_on_fall
        self.world = world = World()
        sizes = (PANDA.layout.size, PANDA.action.size)
        super().__init__(world.model, PANDA_TASKS, tasks, sizes, PANDA.rate_hz, render_mode, render_size)
        self.observation_space: gym.Space[Any] = world.observation_space
        self._scratch, self.goal = mujoco.MjData(self.model), np.zeros(3)

    def _begin(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        qpos, self.goal = self.world.start(self.np_random)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = qpos
        self.data.mocap_pos[0] = self.goal
        mujoco.mj_forward(self.model, self.data)
        flat = self._observe()
        return PANDA.layout.unflatten(flat), self._info(flat)

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Apply one action (4,), clipped to [-1, 1], for 40 ms.

        Raises:
            SamiError: the action has another shape, or is not finite.
        """
        data = self.data
        qpos, qvel = data.qpos, data.qvel
        targets = self.world.targets(qpos, qvel, np.asarray(action))
        for _ in range(SUBSTEPS):
            self.world.drive(qpos, qvel, targets)
            mujoco.mj_step(self.model, data)
        unstable = self._recover()
        flat = self._observe()
        info = self._info(flat)
        info["is_success"] &= not unstable
        self._show()
        far = np.linalg.norm(flat[GOAL.achieved] - self.goal)
        reward = -float(far) if self.reward == "dense" else -float(not info["is_success"])
        ends = unstable or info["is_success"] or (self.end_on_fall and info["fallen"])
        return PANDA.layout.unflatten(flat), reward, ends, False, info

    def set_dynamics(self, task: Task) -> None:
        """Set the cube's mass [kg] and the table's lateral friction, as `PandaSkillEnv.set_dynamics` does."""
        self.current_task = PANDA_TASKS.check(task)
        for name, values in dynamics(self.model, self.current_task).items():
            getattr(self.model, name)[:] = values
        mujoco.mj_setConst(self.model, self._scratch)

    def skill(self) -> str:
        """Return the skill in the present state, see `skill_of`."""
        return self.world.skill(self.data)

    def _observe(self) -> np.ndarray:
        return self.world.observe(self.data.qpos, self.data.qvel, self.goal)

    def _info(self, flat: np.ndarray) -> dict[str, Any]:
        achieved = flat[GOAL.achieved]
        return {
            "task": dict(self.current_task),
            "is_success": bool(GOAL.reached(achieved, self.goal)),
            "skill": self.skill(),
            "fallen": bool(achieved[2] < 0.0),
            "engine": "mujoco",
        }
