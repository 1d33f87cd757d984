"""What a policy reads of an MJCF model: joints and sensors as signals, with the units that MuJoCo gives them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import mujoco
import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import SamiError
from sami_runtime.signals import Signal
from sami_train.envs.mjcf.description import ObservedParts
from sami_train.envs.mjcf.names import elements, joint_name, joint_type, names, positions, velocities

_XYZ, _WXYZ = ("x", "y", "z"), ("w", "x", "y", "z")
_FREE, _BALL, _SLIDE, _HINGE = (
    getattr(mujoco.mjtJoint, f"mjJNT_{kind}") for kind in ("FREE", "BALL", "SLIDE", "HINGE")
)
_UNITS = {
    "touch": "N",
    "accelerometer": "m/s^2",
    "velocimeter": "m/s",
    "gyro": "rad/s",
    "force": "N",
    "torque": "N m",
    "magnetometer": "T",
    "rangefinder": "m",
    "camprojection": "pixel",
    "tendonpos": "m",
    "tendonvel": "m/s",
    "ballangvel": "rad/s",
    "framepos": "m",
    "framelinvel": "m/s",
    "frameangvel": "rad/s",
    "framelinacc": "m/s^2",
    "frameangacc": "rad/s^2",
    "subtreecom": "m",
    "subtreelinvel": "m/s",
    "subtreeangmom": "kg m^2/s",
    "geomdist": "m",
    "e_potential": "J",
    "e_kinetic": "J",
    "clock": "s",
}
"""Unit of a sensor's numbers by MuJoCo's name of its type; what is not here has none, or depends on the joint."""
_OF_JOINTS = {"jointpos": ("rad", "m"), "jointvel": ("rad/s", "m/s"), "jointactuatorfrc": ("N m", "N")}
"""Units for a hinge and a slide."""


@dataclass(frozen=True)
class MujocoSignal:
    """A signal, and where MuJoCo keeps its numbers."""

    signal: Signal
    field: Literal["qpos", "qvel", "sensordata"]
    indices: NDArray[np.intp]


def readings(model: mujoco.MjModel, observation: ObservedParts) -> tuple[MujocoSignal, ...]:
    """Return what is read, in the order of the contract: positions, velocities, sensors.

    Hinges are one signal and slides another; a ball or free joint has signals of its own. Sensors are called as in
    the model, with `_` for what a signal's name cannot hold.

    Raises:
        UnknownName: a joint or sensor is not in the model.
        SamiError: nothing is read, or two signals have one name.
    """
    read = [
        *_of_joints(model, elements(model, "joint", observation.qpos, "observation.qpos"), "qpos"),
        *_of_joints(model, elements(model, "joint", observation.qvel, "observation.qvel"), "qvel"),
        *(_sensor(model, i) for i in elements(model, "sensor", observation.sensors, "observation.sensors")),
    ]
    if not read:
        raise SamiError("the observation is empty: name joints or sensors in [observation], or leave its keys out.")
    names = [reading.signal.name for reading in read]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SamiError(
            f"the observation has {', '.join(sorted(twice))} twice. Rename the sensor, or name each element once."
        )
    return tuple(read)


def action_signal(model: mujoco.MjModel) -> Signal:
    """Return what a policy writes: a number from -1 to 1 for each actuator, over its whole control range.

    Raises:
        SamiError: there is no actuator, or one has no control range.
    """
    if not model.nu:
        raise SamiError("the model has no actuator, so that there is nothing to control. Add an <actuator>.")
    known = names(model, "actuator")
    called = known if len(known) == model.nu else [f"actuator_{i}" for i in range(model.nu)]
    if free := [name for name, limited in zip(called, model.actuator_ctrllimited, strict=True) if not limited]:
        raise SamiError(
            f"actuators without a control range: {', '.join(free)}. An action of -1 to 1 spans it, so give each a "
            'ctrlrange="LOW HIGH" in the model.'
        )
    spans = zip(called, model.actuator_ctrlrange.tolist(), strict=True)
    return Signal(
        name="actuator_commands",
        size=model.nu,
        unit="1",
        elements=tuple(called),
        low=(-1.0,) * model.nu,
        high=(1.0,) * model.nu,
        meaning="-1 to 1 is MuJoCo's control from "
        + "; ".join(f"{low:g} to {high:g} for {name}" for name, (low, high) in spans),
    )


def _of_joints(model: mujoco.MjModel, joints: Sequence[int], field: Literal["qpos", "qvel"]) -> list[MujocoSignal]:
    where = positions if field == "qpos" else velocities
    units = {_HINGE: ("rad", "rad/s"), _SLIDE: ("m", "m/s")}
    called = {_HINGE: ("joint_angles", "joint_velocities"), _SLIDE: ("slide_positions", "slide_velocities")}
    is_velocity = field == "qvel"
    read = []
    for kind in (_HINGE, _SLIDE):
        of_kind = [joint for joint in joints if joint_type(model, joint) == kind]
        if of_kind:
            indices = np.concatenate([where(model, joint) for joint in of_kind])
            signal = _signal(
                called[kind][is_velocity], units[kind][is_velocity], [joint_name(model, j) for j in of_kind]
            )
            read.append(MujocoSignal(signal, field, indices))
    for joint in joints:
        kind, name, indices = joint_type(model, joint), joint_name(model, joint), where(model, joint)
        if kind == _FREE:
            unit = "m/s" if is_velocity else "m"
            part = "velocity" if is_velocity else "position"
            read.append(MujocoSignal(_signal(f"{name}_{part}", unit, _XYZ), field, indices[:3]))
            indices = indices[3:]
        if kind in (_FREE, _BALL):
            turn = (
                _signal(f"{name}_angular_velocity", "rad/s", _XYZ, "in the body's frame")
                if is_velocity
                else _signal(f"{name}_orientation", "1", _WXYZ, "unit quaternion")
            )
            read.append(MujocoSignal(turn, field, indices))
    return read


def _sensor(model: mujoco.MjModel, number: int) -> MujocoSignal:
    kind = mujoco.mjtSensor(int(model.sensor_type[number])).name.removeprefix("mjSENS_").lower()
    size, start = int(model.sensor_dim[number]), int(model.sensor_adr[number])
    name = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_SENSOR, number) or f"{kind}_{number}"
    unit = _UNITS.get(kind, "1")
    if kind in _OF_JOINTS:
        unit = _OF_JOINTS[kind][joint_type(model, int(model.sensor_objid[number])) == _SLIDE]
    parts = {3: _XYZ, 4: _WXYZ}.get(size) or tuple(str(i) for i in range(size))
    indices = np.arange(start, start + size)
    return MujocoSignal(_signal(name, unit, parts, f"MuJoCo's sensor {kind}"), "sensordata", indices)


def _signal(name: str, unit: str, parts: Sequence[str], meaning: str = "") -> Signal:
    size = len(parts)
    safe = re.sub(r"\W", "_", name, flags=re.ASCII)
    return Signal(
        name=f"_{safe}" if safe[0].isdigit() else safe,
        size=size,
        unit=unit,
        elements=tuple(parts),
        low=(None,) * size,
        high=(None,) * size,
        meaning=meaning,
    )
