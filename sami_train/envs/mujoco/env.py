"""One robot of the benchmark: its compiled model, the effect of tasks on it, and its Gymnasium environment."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium import spaces

from sami_runtime.errors import SamiError
from sami_train.envs.mujoco.bodies import Array, RobotStep
from sami_train.envs.mujoco.table import Row, find_row
from sami_train.envs.mujoco.task_env import TaskEnv
from sami_train.envs.tasks import Task, Tasks

MODELS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
"""Gymnasium's models: those of the reference code without `coordinate="global"`, which MuJoCo no longer supports."""

_TORSO = 1
"""Id of the torso's body; 0 is the world."""
UNSTABLE = 1000.0
"""A velocity from this on [m/s, rad/s] means that the simulation is blowing up; otherwise they stay below 150."""
STRONGEST = 5000.0
"""A gain of energy from this on within a step [J] means so too: the motors give less, at most 460 J so far."""


class Robot:
    """The robot of one row of the table, which the single environment and the batch share; raises as `Row.choose`."""

    def __init__(self, row: Row, options: Mapping[str, Any]) -> None:
        self.row, self.options = row, row.choose(options)
        self.body, self.reward = row.body_for(self.options), row.reward_for(self.options)
        self.model = _load(self.body.xml, forces=self.options.contact_cost)
        self.step_s = self.body.frame_skip * self.model.opt.timestep
        names = ("body_mass", "body_inertia", "dof_damping", "geom_size", "geom_pos")
        self._base = {name: getattr(self.model, name).copy() for name in names}
        size = sum(signal.size for signal in self.body.signals)
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (self.model.nu,), np.float32)

    def dynamics(self, task: Task) -> dict[str, Array]:
        """Return the model's fields under a task, by MuJoCo's names, without the constants derived from them."""
        mass, damping = task["mass"], task["damping"]
        if self.options.legacy_ant_scaling:
            links, joints = _cadm_scales(self.model.nbody, mass), _cadm_scales(self.model.nv, damping)
        else:
            links, joints = np.full(self.model.nbody, mass), np.full(self.model.nv, damping)
        fields = {"body_mass": self._base["body_mass"] * links, "dof_damping": self._base["dof_damping"] * joints}
        if self.options.scale_inertia:
            fields["body_inertia"] = self._base["body_inertia"] * links[:, None]
        if self.options.shrink_geoms:
            fields["geom_size"], fields["geom_pos"] = self._shrunken(task["crippled"])
        return fields

    def mask(self, task: Task) -> Array:
        """Return 1 for each working motor and 0 for each motor of a crippled part, (A,)."""
        mask = np.ones(self.model.nu)
        mask[self.row.tasks.silent(task)] = 0.0
        return mask

    def start(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw the first positions (nq,) and velocities (nv,) of an episode."""
        qpos = self.model.qpos0 + _noise(rng, *self.body.position_noise, self.model.nq)
        return qpos, _noise(rng, *self.body.velocity_noise, self.model.nv)

    def control(self, actions: np.ndarray, mask: Array) -> Array:
        """Return control signals (n, A) for actions (n, A), clipped to [-1, 1], and masks (n, A), see `mask`.

        Raises:
            SamiError: the actions have another shape, or one is not finite.
        """
        if actions.shape != mask.shape:
            raise SamiError(f"got actions of shape {actions.shape} for {self.row.name}, expected {mask.shape}.")
        if not np.isfinite(actions).all():
            raise SamiError(f"the actions {actions.tolist()} are not all finite; check the policy that produced them.")
        return np.clip(actions, -1.0, 1.0).astype(np.float64) * (self.body.limit * mask)

    def _shrunken(self, crippled: list[int]) -> tuple[Array, Array]:
        """Return sizes and positions of all geoms, (ngeom, 3) each, with shrunken crippled parts, see `Links`."""
        size, position = self._base["geom_size"].copy(), self._base["geom_pos"].copy()
        first = int(self.model.body_geomadr[_TORSO]) + 1  # the geom after the torso's
        for links in (self.row.links[part] for part in crippled):
            size[[first + geom for geom in links.halved], :2] /= 2.0
            position[[first + geom for geom in links.collapsed]] = position[first + links.target]
        return size, position


def _cadm_scales(size: int, scale: float) -> Array:
    scales = np.ones(size)
    scales[2:8] = scale
    scales[8:14] = 1.0 / scale
    return scales


def _noise(rng: np.random.Generator, kind: str, scale: float, size: int) -> Array:
    return rng.uniform(-scale, scale, size) if kind == "uniform" else rng.normal(0.0, scale, size)


def _load(xml: str, forces: bool) -> mujoco.MjModel:
    """Compile a model; `forces` adds a force sensor, without which MuJoCo does not compute external forces."""
    spec = mujoco.MjSpec.from_file(str(MODELS / xml))
    spec.option.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    if forces:
        torso = spec.body("torso")
        torso.add_site(name="torso")
        spec.add_sensor(type=mujoco.mjtSensor.mjSENS_FORCE, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="torso")
    with warnings.catch_warnings():
        # Half-cheetah's model has an attribute that MuJoCo deprecates.
        warnings.filterwarnings("ignore", "compiler attribute 'settotalmass'")
        return spec.compile()


class MujocoSkillEnv(TaskEnv):
    """A robot whose links' mass, joints' damping and crippled parts change from task to task (paper, appendix C.2).

    The observation is a flat float32 vector, see `Body.signals`; the action is in [-1, 1] for every motor. The episode
    never terminates: Gymnasium's time limit truncates it after the paper's number of steps.

    Args:
        name: of the environment, e.g. `"half-cheetah"`; Gymnasium's ids fill it in.
        tasks, render_mode, render_size: see `TaskEnv`; a task is a dictionary such as
            `{"mass": scale, "damping": scale, "crippled": [parts]}`.
        options: variants of the environment, see `Options`.

    Raises:
        TaskError, UnknownName, SamiError: the name, the tasks, the options or the render mode are not valid.
        SamiError: there is no display for `"human"`.
    """

    def __init__(
        self,
        name: str,
        tasks: Tasks = "training",
        render_mode: str | None = None,
        render_size: tuple[int, int] = (480, 360),
        **options: Any,
    ) -> None:
        self.robot = robot = Robot(find_row(name), options)
        self._scratch, self._colours = mujoco.MjData(robot.model), robot.model.geom_rgba.copy()
        sizes, rate_hz = (robot.observation_space.shape[0], robot.model.nu), robot.body.rate_hz
        super().__init__(robot.model, robot.row.tasks, tasks, sizes, rate_hz, render_mode, render_size)

    def _begin(self) -> tuple[np.ndarray, dict[str, Any]]:
        self._place(*self.robot.start(self.np_random))
        observation = self.robot.body.observe(self.data.qpos[None], self.data.qvel[None], np.zeros(1))
        return observation[0], {"task": dict(self.current_task)}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Apply one action (A,), clipped to [-1, 1], for one time step; `info["unstable"]` if the simulation blew up.

        Raises:
            SamiError: the action has another shape, or is not finite.
        """
        robot, data = self.robot, self.data
        control = robot.control(np.asarray(action)[None], self._mask)
        x, speed = data.qpos[:1].copy(), data.qvel[:1].copy()
        data.ctrl[:] = control[0]
        mujoco.mj_step(self.model, data, nstep=robot.body.frame_skip)
        info: dict[str, Any] = {"task": dict(self.current_task)}
        energy = data.energy.sum()
        if self._recover(UNSTABLE, energy > self._energy + STRONGEST):
            x = data.qpos[:1].copy()  # the reset is no jump of the robot
            info["unstable"] = True
        self._energy: float = energy
        qpos, qvel, mean_speed = data.qpos[None], data.qvel[None], (data.qpos[:1] - x) / robot.step_s
        contact = data.cfrc_ext[None] if robot.options.contact_cost else None
        reward = robot.reward(RobotStep(qpos, qvel, mean_speed, speed, control, contact))
        self._show()
        return robot.body.observe(qpos, qvel, mean_speed)[0], float(reward[0]), False, False, info

    def set_dynamics(self, task: Task) -> None:
        """Apply a task's mass, damping and crippled parts; this is allowed in the middle of an episode.

        Raises:
            TaskError, UnknownName: the task is not valid.
        """
        self.current_task = self.space.check(task)
        for name, values in self.robot.dynamics(self.current_task).items():
            getattr(self.model, name)[:] = values
        mujoco.mj_setConst(self.model, self._scratch)
        self._mask, self._energy = self.robot.mask(self.current_task)[None], np.inf  # its change by a task is no gain
        if self._camera is not None:  # links of crippled motors are red
            joints = self.model.actuator_trnid[self._mask[0] == 0.0, 0]
            silent = np.isin(self.model.geom_bodyid, self.model.jnt_bodyid[joints])
            self.model.geom_rgba[:] = self._colours
            self.model.geom_rgba[silent] = (0.9, 0.1, 0.1, 1.0)
