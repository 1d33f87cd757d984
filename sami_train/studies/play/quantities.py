"""Maps a policy's signals to quantities of a simulated robot: gyro, gravity, command, joint angles and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from sami_runtime.adoption.recipe import Recipe
from sami_runtime.errors import SamiError, UnknownName, require_known
from sami_runtime.robots.kit.quantities import (
    JOINT_UNITS,
    NAMES,
    PHASES,
    command_element,
    command_elements,
    matched_joints,
)
from sami_runtime.signals import Signal
from sami_train.studies.play.robot import PlayedRobot

Array = NDArray[np.float64]
Reading = Callable[["RobotState"], Array]


class RobotState:
    """The present state of a simulated robot: MuJoCo's data, the base, the command and the phases of the gait."""

    def __init__(self, robot: PlayedRobot) -> None:
        self.robot, self.model, self.data = robot, robot.model, mujoco.MjData(robot.model)
        self.command: dict[str, float] = {}
        """Value of the command by element."""
        self.clock_s = 0.0
        """Time since the command became nonzero [s]."""

    @property
    def rotation(self) -> Array:
        """Axes of the base in the world, (3, 3)."""
        return self.data.xmat[self.robot.base].reshape(3, 3)

    @property
    def gravity(self) -> Array:
        """Direction of gravity in the frame of the base, (3,)."""
        return -self.rotation[2]

    def velocity(self, local: bool = True) -> Array:
        """Return angular [rad/s] and linear velocity [m/s] of the base, (6,), in its own frame or the world's."""
        result = np.zeros(6)
        mujoco.mj_objectVelocity(self.model, self.data, mujoco.mjtObj.mjOBJ_XBODY, self.robot.base, result, int(local))
        return result

    @property
    def phases(self) -> Array:
        """Phases of the gait clock [rad]; pi while the command is 0. The robot's settings must have a clock."""
        clock = self.robot.settings.clock
        assert clock is not None
        offsets = np.asarray(clock.offsets)
        if not any(self.command.values()):
            return np.full(len(offsets), np.pi)
        return 2.0 * np.pi * (self.clock_s / clock.period_s + offsets)


def readings_of(
    robot: PlayedRobot, recipe: Recipe, signals: Sequence[Signal]
) -> tuple[list[Reading], dict[str, list[str]]]:
    """Return a function that reads each signal, and the elements of command signals by the signal's name.

    Raises:
        SamiError: The MJCF model cannot provide a signal, which the message names.
        UnknownName: [signals] has an unknown signal or quantity.
    """
    described = {part.name: part for part in recipe.signals}
    sensors = {robot.model.sensor(at).name: at for at in range(robot.model.nsensor)}
    require_known("signal in [signals]", robot.settings.signals, described)
    readings, commands = list[Reading](), dict[str, list[str]]()
    for signal in signals:
        part = described[signal.name]
        # The network's description may call a phase a command, but here the gait clock computes it.
        commanded = part.command and not {signal.name, robot.settings.signals.get(signal.name)} & PHASES
        quantity = "command" if commanded else _quantity(robot, signal, sensors)
        world = part.frame == "world"
        if quantity == "command":
            commands[signal.name] = [
                command_element(name) if robot.floats else name for name in command_elements(signal)
            ]
            readings.append(_commanded(commands[signal.name]))
        elif quantity in ("joint_angles", "joint_velocities"):
            readings.append(_of_joints(robot, signal, quantity))
        elif quantity in sensors and quantity not in NAMES:
            readings.append(_of_sensor(robot, signal, sensors[quantity]))
        else:
            readings.append(_of_base(robot, signal, quantity, world))
    return readings, commands


def _quantity(robot: PlayedRobot, signal: Signal, sensors: Mapping[str, int]) -> str:
    declared = robot.settings.signals.get(signal.name)
    if declared is not None:
        if declared not in NAMES and declared not in sensors:
            raise UnknownName(f"quantity of {signal.name}", declared, [*NAMES, *sensors])
        return declared
    if signal.name in sensors:
        return signal.name
    match = next((quantity for quantity, names in NAMES.items() if signal.name in names.split()), None)
    if match is None and signal.unit in JOINT_UNITS and set(signal.elements) <= set(robot.elements):
        match = JOINT_UNITS[signal.unit]
    if match is None:
        raise SamiError(
            f"the MJCF cannot give the signal {signal.name!r} ({', '.join(signal.elements)}): its name is no quantity "
            f"that is known ({', '.join(NAMES)}) and no sensor of the model ({', '.join(sensors) or 'it has none'}). "
            f'Say what it is in the TOML file that --robot names: [signals] {signal.name} = "gravity"'
        )
    return match


def _commanded(elements: Sequence[str]) -> Reading:
    return lambda state: np.array([state.command.get(element, 0.0) for element in elements])


def _of_joints(robot: PlayedRobot, signal: Signal, quantity: str) -> Reading:
    aliases = {element: joint for element, joint in robot.settings.joints.items() if element in signal.elements}
    joints = matched_joints(signal.elements, robot.movable, aliases)
    if quantity == "joint_angles":
        at = robot.addresses(joints, "jnt_qposadr")
        return lambda state: state.data.qpos[at]
    at = robot.addresses(joints, "jnt_dofadr")
    return lambda state: state.data.qvel[at]


def _of_sensor(robot: PlayedRobot, signal: Signal, number: int) -> Reading:
    start, size = int(robot.model.sensor_adr[number]), int(robot.model.sensor_dim[number])
    _require_size(signal, size, f"sensor {robot.model.sensor(number).name}")
    return lambda state: state.data.sensordata[start : start + size]


def _of_base(robot: PlayedRobot, signal: Signal, quantity: str, world: bool) -> Reading:
    if quantity in ("sin_phase", "cos_phase"):
        clock = robot.settings.clock
        if clock is None:
            raise SamiError(
                f"the MJCF cannot give the signal {signal.name!r}, the phase of a gait. Say how long a cycle is in the "
                "TOML file that --robot names: [clock] period_s = 1.0, offsets = [0.0, 0.5]"
            )
        _require_size(signal, len(clock.offsets), "[clock] offsets")
        wave = np.sin if quantity == "sin_phase" else np.cos
        return lambda state: np.asarray(wave(state.phases))
    if robot.base < 0:
        raise SamiError(
            f"the MJCF cannot give the signal {signal.name!r}: no body has a free joint. Name the body that it is "
            'measured on in the TOML file that --robot names: base = "NAME"'
        )
    if quantity == "orientation":
        _require_size(signal, 4, quantity)
        order = ["wxyz".index(name[-1:].lower()) if name[-1:].lower() in "wxyz" else -1 for name in signal.elements]
        if sorted(order) != [0, 1, 2, 3]:
            raise SamiError(
                f"nothing says the order of the quaternion {signal.name!r}: its elements are "
                f"{', '.join(signal.elements)}. Call them w, x, y, z in the order that the policy reads."
            )
        return lambda state: state.data.xquat[robot.base][order]
    if quantity == "height":
        _require_size(signal, 1, quantity)
        return lambda state: state.data.xpos[robot.base][2:]
    _require_size(signal, 3, quantity)
    if quantity == "gravity":
        return (lambda state: np.array([0.0, 0.0, -1.0])) if world else (lambda state: state.gravity)
    part = slice(0, 3) if quantity == "angular_velocity" else slice(3, 6)
    return lambda state: state.velocity(local=not world)[part]


def _require_size(signal: Signal, size: int, label: str) -> None:
    if signal.size != size:
        raise SamiError(
            f"signal {signal.name!r} has {signal.size} numbers ({', '.join(signal.elements)}), and {label} has {size}. "
            "Correct the signal where the policy was adopted, or say what it is in [signals]."
        )
