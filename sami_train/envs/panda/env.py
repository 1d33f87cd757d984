"""The paper's modified Panda Pick&Place (appendix C.1) on panda-gym and PyBullet.

A Franka Panda moves a 4 cm cube to a goal on the table. The cube's mass and the table's friction change from
task to task and are not observed: the policy must infer whether to push the cube or to lift it.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import gymnasium as gym
import numpy as np

from sami_runtime.errors import SamiError, UnknownName
from sami_train.envs.panda.quiet import quiet_c_output
from sami_train.envs.panda.skill import skill_of
from sami_train.envs.panda.tasks import PANDA_TASKS
from sami_train.envs.tasks import Task, Tasks, draw

with quiet_c_output():
    import pybullet
    from panda_gym.envs.core import RobotTaskEnv
    from panda_gym.envs.robots.panda import Panda
    from panda_gym.envs.tasks.pick_and_place import PickAndPlace
    from panda_gym.pybullet import PyBullet

DISTANCE = 8
"""Index of the distance between the bodies [m] in a contact point of PyBullet; negative if they penetrate."""


class _Arm(Panda):
    """panda-gym's arm, with its visual meshes only if the environment renders."""

    def __init__(self, sim: PyBullet, visible: bool) -> None:
        self._flags = 0 if visible else pybullet.URDF_IGNORE_VISUAL_SHAPES
        super().__init__(sim, block_gripper=False, base_position=np.array([-0.6, 0.0, 0.0]), control_type="ee")

    def _load_robot(self, file_name: str, base_position: np.ndarray) -> None:
        self.sim.loadURDF(
            self.body_name, fileName=file_name, basePosition=base_position, useFixedBase=True, flags=self._flags
        )


class PandaSkillEnv(RobotTaskEnv):
    """Move a cube of unknown mass on a table of unknown friction.

    Observation: panda-gym's dictionary, `observation` (19,) = end-effector position [m] and velocity [m/s],
    gripper width [m], cube position [m], Euler angles [rad], velocity [m/s], angular velocity [rad/s];
    `achieved_goal` (3,), `desired_goal` (3,) [m]. Action (4,) in [-1, 1]: end-effector displacement times
    0.05 m, change of the gripper's width times 0.2 m. 25 Hz; reaching the goal (5 cm) terminates.

    Args:
        tasks: the set to draw from at each reset (`"training"`, `"moderate"`, `"extreme"`), one task as
            `{"mass": kg, "friction": lateral friction of the table}`, or a sequence of tasks.
        reward: `"sparse"` (-1 until the goal is reached) or `"dense"` (minus the distance to it, [m]).
        end_on_fall: also terminate when the cube has fallen off the table. Not in the paper; it saves a
            learner the rest of a lost episode.
        render_mode: None, `"rgb_array"` (software renderer, no display needed) or `"human"`.
        render_size: width and height of rendered images, in pixels.

    Raises:
        TaskError, UnknownName: the tasks or the reward are not valid.
        SamiError: there is no display for `"human"`.
    """

    def __init__(
        self,
        tasks: Tasks = "training",
        reward: str = "sparse",
        end_on_fall: bool = False,
        render_mode: str | None = None,
        render_size: tuple[int, int] = (480, 360),
    ) -> None:
        self.tasks = PANDA_TASKS.resolve(tasks)
        if reward not in ("sparse", "dense"):
            raise UnknownName("reward", reward, ["sparse", "dense"])
        if render_mode not in (None, "rgb_array", "human"):
            raise UnknownName("render mode", render_mode, ["rgb_array", "human"])
        if render_mode == "human" and sys.platform == "linux" and not os.environ.get("DISPLAY"):
            # Without a display, PyBullet would end the whole process.
            raise SamiError(
                'render mode "human" needs a display and DISPLAY is not set; use "rgb_array" (sami run --render gif).'
            )
        self.end_on_fall = end_on_fall
        with quiet_c_output():
            sim = PyBullet(render_mode=render_mode or "rgb_array", renderer="Tiny")
        # Visual meshes take two thirds of the time to build the world, so load them only to render.
        self._visible = render_mode is not None
        robot = _Arm(sim, self._visible)
        task = PickAndPlace(sim, reward_type=reward, goal_z_range=0.0)
        super().__init__(
            robot,
            task,
            render_width=render_size[0],
            render_height=render_size[1],
            render_target_position=np.array([-0.1, 0.0, 0.05]),
            render_distance=0.75,
        )
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start an episode in `options["task"]` or in a task drawn from the set.

        The same seed gives the same episode bit for bit, independent of earlier episodes.
        """
        gym.Env.reset(self, seed=seed)
        request = (options or {}).get("task")
        task = PANDA_TASKS.check(request) if request is not None else draw(self.tasks, self.np_random)
        # panda-gym seeds the task's generator from the operating system at each reset: use the environment's instead.
        self.task.np_random = self.np_random
        with self.sim.no_rendering():
            self._rebuild()
            self.robot.reset()
            self.set_dynamics(task)
            self.task.reset()
        observation = self._get_obs()
        return observation, self._info(observation)

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Apply one action (4,) for 40 ms."""
        observation, reward, terminated, truncated, _ = super().step(np.asarray(action, dtype=np.float32))
        info = self._info(observation)
        return observation, reward, terminated or (self.end_on_fall and info["fallen"]), truncated, info

    def close(self) -> None:
        """Disconnect from the simulator."""
        with quiet_c_output():
            super().close()

    def set_dynamics(self, task: Task) -> None:
        """Set the cube's mass [kg] and the table's lateral friction, also in the middle of an episode.

        Raises:
            TaskError, UnknownName: the task is not valid; nothing was changed.
        """
        task = PANDA_TASKS.check(task)
        physics, bodies = self.sim.physics_client, self.sim._bodies_idx
        # Bullet derives the cube's inertia from its mass and shape here.
        physics.changeDynamics(bodies["object"], -1, mass=task["mass"])
        physics.changeDynamics(bodies["table"], -1, lateralFriction=task["friction"])
        self.current_task = dict(task)

    def _rebuild(self) -> None:
        """Rebuild the world, since with bodies only moved back, one episode in a hundred depends on earlier episodes.

        Neither deleting contacts nor restoring Bullet's saved states prevents that: a world has other state that
        survives a reset, and PyBullet has no function to clear it.
        """
        physics = self.sim.physics_client
        physics.resetSimulation()
        physics.setTimeStep(self.sim.timestep)
        physics.setGravity(0.0, 0.0, -9.81)
        self.sim._bodies_idx.clear()
        self.robot = _Arm(self.sim, self._visible)
        self.task._create_scene()
        # The software renderer draws no transparency: a goal of the cube's own green would look like a second cube.
        physics.changeVisualShape(self.sim._bodies_idx["target"], -1, rgbaColor=[1.0, 0.7, 0.1, 0.5])

    def skill(self) -> str:
        """Return the skill in the present state, see `skill_of`."""
        sim, physics = self.sim, self.sim.physics_client
        cube, table, robot = (sim._bodies_idx[name] for name in ("object", "table", "panda"))
        fingers = [dict(bodyB=robot, linkIndexB=int(finger)) for finger in self.robot.fingers_indices]
        place, quaternion = physics.getBasePositionAndOrientation(cube)
        return skill_of(
            height=place[2],
            velocity=sim.get_base_velocity("object")[:2],
            up=np.array(physics.getMatrixFromQuaternion(quaternion)[6:]),
            width=self.robot.get_fingers_width(),
            on_table=lambda: self._touches(bodyA=cube, bodyB=table),
            fingers_touch=lambda: all(self._touches(bodyA=cube, **finger) for finger in fingers),
        )

    def _touches(self, **bodies: int) -> bool:
        """Return whether bodies touch; Bullet lists contact points for bodies that are only close, too."""
        return any(point[DISTANCE] <= 0.0 for point in self.sim.physics_client.getContactPoints(**bodies))

    def _info(self, observation: dict[str, np.ndarray]) -> dict[str, Any]:
        return {
            "task": dict(self.current_task),
            "is_success": bool(self.task.is_success(observation["achieved_goal"], self.task.get_goal())),
            "skill": self.skill(),
            "fallen": bool(observation["achieved_goal"][2] < 0.0),
            "engine": "pybullet",
        }
