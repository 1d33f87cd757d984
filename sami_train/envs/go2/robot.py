"""The Go2's model, observations, rewards and metrics for n robots; a single environment has n = 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import SamiError
from sami_train.envs.go2.entry import FASTEST, GO2, LEGS, MOTORS, REACH, STANCE
from sami_train.envs.mjcf.description import Change
from sami_train.envs.mjcf.model import Dynamics
from sami_train.envs.task_numbers import TaskCode
from sami_train.envs.tasks import Task

Array = NDArray[np.float64]

FRAME_SKIP = 4
"""Simulation steps of 5 ms per action."""
HOLD = 250
"""Environment steps that a command lasts."""
SETTLING = 50
"""Environment steps after a new command that the tracking metrics skip."""
STANDING = 0.1
"""Fraction of commands to stand still."""
TILT, LOWEST = 0.5, 0.15
"""A robot has fallen if its trunk tilts by more than 60 degrees (its cosine is 0.5), or is at most 0.15 m high."""
FALL = 10.0
"""Penalty of a fall in the reward."""
UNSTABLE = 500.0
"""A velocity from this on [m/s, rad/s] means that the simulation is blowing up, and counts as a fall."""
_LOW, _HIGH = (np.concatenate([FASTEST["velocity"][end], FASTEST["yaw_rate"][end]]) for end in (0, 1))
_STANCE, _REACH = np.array(STANCE), np.array(REACH)
_STEP_S = 1.0 / GO2.rate_hz
_FOOT, _CONTACT, _CLEARANCE = 0.022, 0.027, 0.07
"""Radius of a foot, height of its centre below which it is in contact, and target clearance of a swinging foot [m]."""
_CHANGES = {
    "payload": Change(sets="body_mass", of=("payload",)),
    "payload_x": Change(adds="body_pos", axis="x", of=("payload",)),
    "payload_y": Change(adds="body_pos", axis="y", of=("payload",)),
    "friction": Change(sets="geom_friction", of=LEGS),
    "strength": Change(scales="actuator_strength"),
    "damping": Change(sets="dof_damping", of=MOTORS),
    "delay": Change(sets="actuator_delay"),
    **{motor: Change(scales="actuator_strength", of=(motor,)) for motor in MOTORS},
}
"""Changes of the model by feature; besides the task's features, each motor has its own strength."""


class Physics(NamedTuple):
    """Views of the state of n simulations, by MuJoCo's names."""

    qpos: Array
    """Positions, (n, 19)."""
    qvel: Array
    """Velocities, (n, 18)."""
    geom_xpos: Array
    """Positions of the geoms in the world [m], (n, geoms, 3)."""
    torque: Array
    """Torque of each motor [N m], (n, 12)."""


class Go2Robot:
    """The compiled model, the effect of tasks on it, and its first states and targets."""

    def __init__(self) -> None:
        self.model = mujoco.MjModel.from_xml_path(str(Path(__file__).with_name("go2.xml")))
        self.dynamics = Dynamics(self.model, _CHANGES)
        self.feet = np.array([self.model.geom(leg).id for leg in LEGS])
        self.code = TaskCode.of(GO2.tasks.features, GO2.tasks.sets["training"])

    @staticmethod
    def changes(task: Task) -> dict[str, float]:
        """Return the values for `Dynamics` of a checked task, with the strength of each motor."""
        strengths = dict.fromkeys(MOTORS, 1.0)
        strengths |= {MOTORS[motor]: task["crippled_strength"] for motor in task["crippled"]}
        return {name: strengths[name] if name in strengths else task[name] for name in _CHANGES}

    def start(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw the first positions (19,) and velocities (18,) of an episode: the stance at a random yaw, with noise."""
        yaw = rng.uniform(-np.pi, np.pi)
        qpos = self.model.key("stance").qpos.copy()
        qpos[[3, 6]] = np.cos(yaw / 2.0), np.sin(yaw / 2.0)
        qpos[7:] += rng.uniform(-0.15, 0.15, 12)
        return qpos, rng.uniform(-0.2, 0.2, 18)

    def forget_targets(self, history: Array) -> None:
        """Overwrite the delayed targets in the actuator histories (n, H) of n simulations with the stance."""
        length = int(self.model.actuator_history[0, 0])
        for address, angle in zip(self.model.actuator_historyadr, STANCE, strict=True):
            history[:, address + 2 + length : address + 2 + 2 * length] = angle  # after user value, cursor and times

    @staticmethod
    def targets(actions: np.ndarray) -> Array:
        """Return target angles (n, 12) [rad] for actions (n, 12), clipped to [-1, 1].

        Raises:
            SamiError: the actions have another shape, or one is not finite.
        """
        if actions.shape[1:] != (12,) or not np.isfinite(actions).all():
            raise SamiError(f"the actions {actions.tolist()} are not 12 finite numbers each; check the policy.")
        return _STANCE + _REACH * np.clip(actions, -1.0, 1.0)


class Walks:
    """The episodes of n robots: commands, previous actions and motion, rewards and metrics."""

    def __init__(self, robot: Go2Robot, rows: int) -> None:
        self._feet_ids = robot.feet
        self.steps = np.zeros(rows, np.int64)
        """Steps of each episode so far, (n,)."""
        self.command = np.zeros((rows, 3))
        """Commanded velocity forward and to the left [m/s] and yaw rate [rad/s], (n, 3)."""
        self.last_action = np.zeros((rows, 12))
        self.contact, self._air = np.zeros((rows, 4), bool), np.zeros((rows, 4))
        self._feet, self._joint_velocity = np.full((rows, 4, 3), np.nan), np.zeros((rows, 12))
        self._path, self._ticks = np.zeros((rows, 3)), np.zeros(rows)
        self._errors, self._commands, self._energy = np.zeros((rows, 2)), np.zeros(rows), np.zeros(rows)
        self.fallen = np.zeros(rows, bool)
        """Robots that fell in the last step, (n,)."""
        self._rngs: list[np.random.Generator] = [np.random.default_rng(0)] * rows

    def begin(self, ids: Sequence[int] | np.ndarray, rngs: Sequence[np.random.Generator], qvel: Array) -> None:
        """Begin episodes of k robots with velocities (k, 18); each generator draws the commands of one robot."""
        for of_motion in (self.steps, self.last_action, self.contact, self._air, self.fallen):
            of_motion[ids] = 0
        for array in (self._path, self._ticks, self._errors, self._commands, self._energy):
            array[ids] = 0
        self._feet[ids] = np.nan
        self._joint_velocity[ids] = qvel[:, 6:]
        for i, rng in zip(ids, rngs, strict=True):
            self._rngs[i] = rng
            self._draw_command(i)

    def observe(self, physics: Physics) -> NDArray[np.float32]:
        """Return the observations, (n, 45) float32, in the order of `LAYOUT`."""
        gravity, _ = _frame(physics)
        parts = [physics.qvel[:, 3:6], gravity, self.command, physics.qpos[:, 7:], physics.qvel[:, 6:]]
        return np.concatenate([*parts, self.last_action], axis=1).astype(np.float32)

    def hidden(self, physics: Physics) -> NDArray[np.float32]:
        """Return unobserved motion, (n, 16): velocity, height, and the feet's contacts, air times and heights."""
        _, velocity = _frame(physics)
        heights = np.nan_to_num(self._feet[:, :, 2])
        parts = [velocity, physics.qpos[:, 2:3], self.contact, np.minimum(self._air, 1.0), heights]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def step(self, physics: Physics, actions: np.ndarray, unstable: np.ndarray) -> tuple[Array, NDArray[np.bool_]]:
        """Update the episodes after actions (n, 12); return rewards (n,) and falls (n,), which `unstable` ones are."""
        gravity, velocity = _frame(physics)
        turning, command, joint_velocity = physics.qvel[:, 3:6], self.command, physics.qvel[:, 6:]
        actions = np.clip(actions, -1.0, 1.0).astype(np.float64)
        feet = physics.geom_xpos[:, self._feet_ids]
        slide2 = np.minimum(_squares(np.nan_to_num((feet - self._feet)[:, :, :2] / _STEP_S)), 9.0)
        self.contact = feet[:, :, 2] < _CONTACT
        landed = self.contact & (self._air > 0.0)
        is_moving = np.abs(command).sum(axis=1) > 0.1
        offset = physics.qpos[:, 7:] - _STANCE
        height_error2 = (feet[:, :, 2] - _FOOT - _CLEARANCE) ** 2
        velocity_error2, yaw_error2 = _squares(velocity[:, :2] - command[:, :2]), (turning[:, 2] - command[:, 2]) ** 2
        reward = (
            1.75 * np.exp(-velocity_error2 / 0.2)
            + 0.5 * np.exp(-yaw_error2 / 0.08)
            + 0.35 * np.exp(-yaw_error2 / 0.5)
            + 3.0 * is_moving * ((np.minimum(self._air, 0.4) - 0.2) * landed).sum(axis=1)
            - 2.0 * is_moving * (height_error2 * np.minimum(np.sqrt(slide2), 2.0)).sum(axis=1)
            - 0.05 * (slide2 * self.contact).sum(axis=1)
            - 1.5 * velocity[:, 2] ** 2
            - 0.04 * _squares(turning[:, :2])
            - 2.0 * _squares(gravity[:, :2])
            - 15.0 * np.minimum(physics.qpos[:, 2] - 0.29, 0.0) ** 2
            - 1e-4 * _squares(physics.torque)
            - 1.5e-7 * _squares((joint_velocity - self._joint_velocity) / _STEP_S)
            - 0.16 * _squares(_REACH * (actions - self.last_action))
            - 0.2 * _squares(offset[:, 0::3])
            - np.where(is_moving, 0.05, 0.3) * _squares(offset)
        )
        self.fallen = unstable | ~((gravity[:, 2] < -TILT) & (physics.qpos[:, 2] > LOWEST))
        reward = np.where(unstable, 0.0, np.maximum(np.nan_to_num(reward), 0.0)) - FALL * self.fallen
        self._air = np.where(self.contact, 0.0, self._air + _STEP_S)
        self._feet, self._joint_velocity, self.last_action = feet.copy(), joint_velocity.copy(), actions
        self._judge(np.column_stack([velocity[:, :2], turning[:, 2]]), np.abs(physics.torque * joint_velocity))
        return reward, self.fallen

    @property
    def metrics(self) -> dict[str, Array]:
        """Metrics of the episodes so far, by name, (n,) each; see `GO2.metrics`."""
        errors = (self._errors + self._error_of_command()) / np.maximum(self._commands + (self._ticks > 0), 1)[:, None]
        return {
            "tracking_error": errors[:, 0],
            "yaw_error": errors[:, 1],
            "falls": self.fallen.astype(np.float64),
            "power": self._energy / np.maximum(self.steps, 1),
        }

    def _judge(self, motion: Array, power: Array) -> None:
        """Add the motion and power of a step to the metrics, and draw the next command where one ends."""
        since = self.steps % HOLD
        late = since >= SETTLING
        # The first steps count too, so that an episode that ends before `SETTLING` has an error.
        valid = late | (self.steps < SETTLING)
        first_late = self.steps == SETTLING
        self._path[first_late], self._ticks[first_late] = 0.0, 0.0
        self._path[valid] += motion[valid]
        self._ticks += valid
        self._energy += np.nan_to_num(power.sum(axis=1))
        self.steps += 1
        over = np.flatnonzero(self.steps % HOLD == 0)
        self._errors[over] += self._error_of_command()[over]
        self._commands[over] += 1
        self._path[over], self._ticks[over] = 0.0, 0.0
        for i in over.tolist():
            self._draw_command(i)

    def _error_of_command(self) -> Array:
        """Return errors of mean velocity [m/s] and yaw rate [rad/s] under the present command, (n, 2); 0 at first."""
        valid = self._ticks > 0
        mean = np.nan_to_num(self._path) / np.maximum(self._ticks, 1.0)[:, None]
        off = np.where(valid[:, None], mean - self.command, 0.0)
        return np.column_stack([np.hypot(off[:, 0], off[:, 1]), np.abs(off[:, 2])])

    def _draw_command(self, i: int) -> None:
        rng = self._rngs[i]
        command = rng.uniform(_LOW, _HIGH)
        self.command[i] = 0.0 if rng.random() < STANDING else command


def _frame(physics: Physics) -> tuple[Array, Array]:
    """Return the unit vector down and the velocity [m/s] in the trunk's frame, (n, 3) each."""
    w, x, y, z = physics.qpos[:, 3:7].T
    down = -np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=1)
    ahead = np.stack([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)], axis=1)
    left = np.stack([2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)], axis=1)
    velocity = physics.qvel[:, :3]
    return down, np.stack([_dot(ahead, velocity), _dot(left, velocity), -_dot(down, velocity)], axis=1)


def _dot(a: Array, b: Array) -> Array:
    return (a * b).sum(axis=1)


def _squares(x: Array) -> Array:
    return np.square(x).sum(axis=-1)
