"""Finds the elements of an MJCF model by name, for a policy's signals, the hidden features and the reward."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import mujoco
import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.signals import Signal
from sami_train.envs.layout import signal
from sami_train.envs.mjcf.description import (
    ActionRange,
    Change,
    DrawnCommand,
    End,
    MeasuredQuantity,
    ModelField,
    ObservedParts,
    StateParts,
    Term,
)
from sami_train.envs.tasks import Feature, Task

Kind = Literal["body", "joint", "geom", "site", "sensor", "actuator", "key"]
_OBJECT = {kind: getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}") for kind in get_args(Kind)}
_COUNT = dict(zip(get_args(Kind), ("nbody", "njnt", "ngeom", "nsite", "nsensor", "nu", "nkey"), strict=True))
_WORDS = {"key": "keyframe"}
_FREE, _BALL = mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_BALL
_SLIDE, _HINGE = mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE


def names(model: mujoco.MjModel, kind: Kind) -> list[str]:
    """Return the names of the model's elements of a kind, in the model's order, without unnamed elements."""
    every = (mujoco.mj_id2name(model, _OBJECT[kind], i) for i in range(getattr(model, _COUNT[kind])))
    return [name for name in every if name]


def element(model: mujoco.MjModel, kind: Kind, name: str, where: str) -> int:
    """Return the MuJoCo id of an element.

    Args:
        model: the compiled model.
        kind: the kind of element.
        name: the element's name in the model.
        where: the key of the TOML file that has the name, for messages.

    Raises:
        UnknownName: the model has no element of this kind and name; the message lists the names that exist.
    """
    number = int(mujoco.mj_name2id(model, _OBJECT[kind], name))
    if number < 0:
        raise UnknownName(_WORDS.get(kind, kind), name, names(model, kind), f"{where} names it.")
    return number


def elements(model: mujoco.MjModel, kind: Kind, names: Iterable[str], where: str) -> list[int]:
    """Return the MuJoCo ids of named elements, or of all of the kind for `"all"`; raises as `element`."""
    if names == "all":
        return list(range(getattr(model, _COUNT[kind])))
    return [element(model, kind, name, where) for name in names]


def joint_name(model: mujoco.MjModel, joint: int) -> str:
    """Return a joint's name; for an unnamed joint, a name made of its body's name or of its id."""
    name = mujoco.mj_id2name(model, _OBJECT["joint"], joint)
    body = mujoco.mj_id2name(model, _OBJECT["body"], int(model.jnt_bodyid[joint]))
    return name or (body and f"{body}_joint") or f"joint_{joint}"


def positions(model: mujoco.MjModel, joint: int) -> np.ndarray:
    """Return the indices of a joint's positions in qpos, (1,), (4,) for a ball or (7,) for a free joint."""
    size = {_FREE: 7, _BALL: 4}.get(joint_type(model, joint), 1)
    return np.arange(size) + int(model.jnt_qposadr[joint])


def velocities(model: mujoco.MjModel, joint: int) -> np.ndarray:
    """Return the indices of a joint's velocities in qvel, (1,), (3,) for a ball or (6,) for a free joint."""
    size = {_FREE: 6, _BALL: 3}.get(joint_type(model, joint), 1)
    return np.arange(size) + int(model.jnt_dofadr[joint])


def joint_type(model: mujoco.MjModel, joint: int) -> mujoco.mjtJoint:
    """Return the type of a joint."""
    return mujoco.mjtJoint(int(model.jnt_type[joint]))


def body_or_site(model: mujoco.MjModel, name: str, where: str) -> tuple[mujoco.mjtObj, int]:
    """Return the type and id of the site of this name, else of the body; `UnknownName` if there is neither."""
    for kind in ("site", "body"):
        number = int(mujoco.mj_name2id(model, _OBJECT[kind], name))
        if number >= 0:
            return _OBJECT[kind], number
    raise UnknownName("site or body", name, [*names(model, "site"), *names(model, "body")], f"{where} names it.")


_XYZ, _WXYZ = ("x", "y", "z"), ("w", "x", "y", "z")
_UNITS = {
    kind: unit
    for unit, kinds in {
        "N": "touch force",
        "m/s^2": "accelerometer framelinacc",
        "m/s": "velocimeter tendonvel framelinvel subtreelinvel",
        "rad/s": "gyro ballangvel frameangvel",
        "N m": "torque",
        "T": "magnetometer",
        "m": "rangefinder tendonpos framepos subtreecom geomdist",
        "pixel": "camprojection",
        "rad/s^2": "frameangacc",
        "kg m^2/s": "subtreeangmom",
        "J": "e_potential e_kinetic",
        "s": "clock",
    }.items()
    for kind in kinds.split()
}
"""Unit of a sensor by MuJoCo's name of its type; types not listed have no unit, or their unit depends on the joint."""
_OF_JOINTS = {"jointpos": ("rad", "m"), "jointvel": ("rad/s", "m/s"), "jointactuatorfrc": ("N m", "N")}
"""Units of a joint's sensors: first for a hinge, then for a slide."""


@dataclass(frozen=True)
class MujocoSignal:
    """A signal, and the field and indices of MuJoCo's data that store its numbers."""

    signal: Signal
    field: Literal["qpos", "qvel", "sensordata", "userdata"]
    indices: NDArray[np.intp]


def readings(
    model: mujoco.MjModel, observation: ObservedParts, commands: Mapping[str, DrawnCommand]
) -> tuple[MujocoSignal, ...]:
    """Return the observed signals in the contract's order: positions, velocities, sensors, commands, last action.

    Commands and the last action are at the end of MuJoCo's `userdata`.

    All hinges form one signal and all slides another; each ball or free joint has its own signals. A sensor's signal
    has the sensor's name, with `_` for characters that are not allowed.

    Raises:
        UnknownName: a joint or sensor is not in the model.
        SamiError: the observation is empty, or two signals have the same name.
    """
    signals = state_readings(model, observation, "observation")
    start = model.nuserdata - model.nu - len(commands)
    for number, (name, command_range) in enumerate(commands.items(), start):
        span, meaning = (command_range.low, command_range.high), "what is wanted"
        command = signal(name, command_range.unit, 1, span, meaning=meaning, command=True)
        signals.append(MujocoSignal(command, "userdata", np.array([number])))
    if observation.last_action:
        applied = "the action that was applied last"
        last = signal("last_action", "1", _actuators(model), (-1.0, 1.0), meaning=applied, command=True)
        signals.append(MujocoSignal(last, "userdata", np.arange(model.nuserdata - model.nu, model.nuserdata)))
    if not signals:
        raise SamiError("the observation is empty: name joints or sensors in [observation], or leave its keys out.")
    names = [reading.signal.name for reading in signals]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SamiError(
            f"the observation has {', '.join(sorted(twice))} twice. Rename the sensor, or name each element once."
        )
    return tuple(signals)


def state_readings(model: mujoco.MjModel, parts: StateParts, where: str) -> list[MujocoSignal]:
    """Return the signals of the state: positions, velocities, sensors; raises `UnknownName` as `element`."""
    return [
        *_of_joints(model, elements(model, "joint", parts.qpos, f"{where}.qpos"), "qpos"),
        *_of_joints(model, elements(model, "joint", parts.qvel, f"{where}.qvel"), "qvel"),
        *(_sensor(model, i) for i in elements(model, "sensor", parts.sensors, f"{where}.sensors")),
    ]


def control_range(model: mujoco.MjModel, action: ActionRange | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the controls (A,) for an action of 0, and the change of the controls (A,) from there to an action of 1.

    Raises:
        UnknownName: the keyframe or an actuator is not in the model.
        SamiError: the model has no actuator, or an actuator has neither a control range nor a reach.
    """
    if not model.nu:
        raise SamiError("the model has no actuator, so that there is nothing to control. Add an <actuator>.")
    actuators = _actuators(model)
    if action is None:
        if free := [name for name, limited in zip(actuators, model.actuator_ctrllimited, strict=True) if not limited]:
            raise SamiError(
                f"actuators without a control range: {', '.join(free)}. An action of -1 to 1 spans it, so give each a "
                'ctrlrange="LOW HIGH" in the model, or [action] about = KEYFRAME and reach = NUMBER in this file.'
            )
        low, high = model.actuator_ctrlrange.T
        return (high + low) / 2.0, (high - low) / 2.0
    middle = model.key_ctrl[element(model, "key", action.about, "action.about")].copy()
    if not isinstance(action.reach, dict):
        return middle, np.full(model.nu, action.reach)
    half = np.zeros(model.nu)
    for name, reach in action.reach.items():
        half[element(model, "actuator", name, "action.reach")] = reach
    if missing := [name for name, reach in zip(actuators, half, strict=True) if not reach]:
        raise SamiError(f"action.reach lacks {', '.join(missing)}; give a number for each actuator, or one for all.")
    return middle, half


def action_signal(model: mujoco.MjModel, middle: np.ndarray, half: np.ndarray) -> Signal:
    """Return the signal of the action: a number from -1 to 1 for each actuator, see `control_range`."""
    spans = zip(_actuators(model), (middle - half).tolist(), (middle + half).tolist(), strict=True)
    ends = "; ".join(f"{low:g} to {high:g} for {name}" for name, low, high in spans)
    meaning = f"-1 to 1 is MuJoCo's control from {ends}"
    return signal("actuator_commands", "1", _actuators(model), (-1.0, 1.0), meaning=meaning)


def _actuators(model: mujoco.MjModel) -> list[str]:
    actuators = names(model, "actuator")
    return actuators if len(actuators) == model.nu else [f"actuator_{i}" for i in range(model.nu)]


def _of_joints(model: mujoco.MjModel, joints: Sequence[int], field: Literal["qpos", "qvel"]) -> list[MujocoSignal]:
    moves = field == "qvel"
    where = velocities if moves else positions
    labels = {
        _HINGE: ("joint_velocities", "rad/s") if moves else ("joint_angles", "rad"),
        _SLIDE: ("slide_velocities", "m/s") if moves else ("slide_positions", "m"),
    }
    signals = []
    for kind, (name, unit) in labels.items():
        of_kind = [joint for joint in joints if joint_type(model, joint) == kind]
        if of_kind:
            indices = np.concatenate([where(model, joint) for joint in of_kind])
            signals.append(MujocoSignal(_signal(name, unit, [joint_name(model, j) for j in of_kind]), field, indices))
    for joint in joints:
        kind, name, indices = joint_type(model, joint), joint_name(model, joint), where(model, joint)
        if kind == _FREE:
            place = _signal(f"{name}_velocity", "m/s", _XYZ) if moves else _signal(f"{name}_position", "m", _XYZ)
            signals.append(MujocoSignal(place, field, indices[:3]))
            indices = indices[3:]
        if kind in (_FREE, _BALL):
            if moves:
                turn = _signal(f"{name}_angular_velocity", "rad/s", _XYZ, "in the body's frame")
            else:
                turn = _signal(f"{name}_orientation", "1", _WXYZ, "unit quaternion")
            signals.append(MujocoSignal(turn, field, indices))
    return signals


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
    safe = re.sub(r"\W", "_", name, flags=re.ASCII)
    return signal(f"_{safe}" if safe[0].isdigit() else safe, unit, parts, meaning=meaning)


@dataclass(frozen=True)
class _Field:
    kind: Kind
    unit: str
    arrays: tuple[tuple[str, int | None, float], ...]
    """MuJoCo's arrays that hold the field: name, column that a value sets (None: all columns), factor of the value."""
    positive: bool = False
    """Whether the field must be greater than 0."""
    scales_all: bool = True
    """Whether scaling multiplies all columns of the arrays, rather than the given column."""


_FIELDS: dict[ModelField, _Field] = {
    "body_mass": _Field("body", "kg", (("body_mass", None, 1.0),), positive=True),
    "body_pos": _Field("body", "m", (("body_pos", None, 1.0),)),
    "dof_armature": _Field("joint", "kg m^2", (("dof_armature", None, 1.0),)),
    "dof_damping": _Field("joint", "N m s/rad", (("dof_damping", None, 1.0),)),
    "dof_frictionloss": _Field("joint", "N m", (("dof_frictionloss", None, 1.0),)),
    "geom_friction": _Field("geom", "1", (("geom_friction", 0, 1.0),)),
    "actuator_delay": _Field("actuator", "s", (("actuator_delay", None, 1.0),)),
    "actuator_forcerange": _Field("actuator", "N m", (("actuator_forcerange", None, 1.0),)),
    "actuator_gear": _Field("actuator", "1", (("actuator_gear", 0, 1.0),)),
    "actuator_stiffness": _Field(
        "actuator", "N m/rad", (("actuator_gainprm", 0, 1.0), ("actuator_biasprm", 1, -1.0)), scales_all=False
    ),
    "actuator_strength": _Field(
        "actuator",
        "1",
        (("actuator_gainprm", None, 1.0), ("actuator_biasprm", None, 1.0), ("actuator_forcerange", None, 1.0)),
    ),
}
"""The fields that a task can change, by MuJoCo's names except two: `actuator_stiffness` is the P gain (kp) of a
position servo, and `actuator_strength` scales an actuator's torque as a whole: gain, feedback and force range."""


class Dynamics:
    """Applies tasks to a compiled model.

    A change of mass scales the body's inertia too, as for the same shape of another density. A feature that sets or
    adds changes the sliding coefficient of a geom's friction and the first gear number; `scales` multiplies all. Each
    task starts from the compiled model's present values, first with `sets`, then the others.

    Raises:
        UnknownName: an element is not in the model.
        SamiError: a body has no mass to change, or an actuator has no history of targets to delay.
    """

    def __init__(self, model: mujoco.MjModel, changes: Mapping[str, Change]) -> None:
        self._model, self._scratch = model, mujoco.MjData(model)
        self._changes = dict(sorted(changes.items(), key=lambda item: item[1].sets is None))  # `sets` first
        touched = {name for change in changes.values() for name, *_ in _FIELDS[change.field].arrays}
        if "body_mass" in touched:
            touched.add("body_inertia")
        self._base = {name: getattr(model, name).copy() for name in sorted(touched)}
        self._rows = {name: self._numbers(name, change) for name, change in changes.items()}
        self.features = tuple(self._feature(name, change) for name, change in changes.items())

    def fields(self, task: Task) -> dict[str, np.ndarray]:
        """Return the model's arrays under a checked task, by MuJoCo's names, without constants derived from them."""
        fields = {name: values.copy() for name, values in self._base.items()}
        for name, change in self._changes.items():
            field = _FIELDS[change.field]
            for array, column, factor in field.arrays:
                values = fields[array] if fields[array].ndim == 2 else fields[array][:, None]
                if change.axis:
                    column = "xyz".index(change.axis)
                columns = np.arange(values.shape[1])
                if column is not None and not (change.scales and field.scales_all):
                    columns = columns[column : column + 1]
                at = np.ix_(self._rows[name], columns)
                if change.scales:
                    values[at] *= task[name]
                elif change.adds:
                    values[at] += factor * task[name]
                else:
                    values[at] = factor * task[name]
        if "body_mass" in fields:
            mass = self._base["body_mass"]
            ratio = np.divide(fields["body_mass"], mass, out=np.ones_like(mass), where=mass > 0.0)
            fields["body_inertia"] *= ratio[:, None]
        return fields

    def apply(self, task: Task) -> None:
        """Write a checked task into the model and recompute MuJoCo's derived constants; the state does not change."""
        for name, values in self.fields(task).items():
            getattr(self._model, name)[:] = values
        mujoco.mj_setConst(self._model, self._scratch)

    def _numbers(self, name: str, change: Change) -> np.ndarray:
        """Return the rows of the field's arrays that a feature changes."""
        where, model = f"features.{name}", self._model
        numbers = elements(model, _FIELDS[change.field].kind, change.of, where)
        if _FIELDS[change.field].kind == "joint":
            return np.concatenate([velocities(model, joint) for joint in numbers] or [np.empty(0, np.intp)])
        if change.field == "actuator_delay" and (
            bare := [model.actuator(number).name for number in numbers if not model.actuator_history[number, 0]]
        ):
            raise SamiError(
                f"{where}: {', '.join(bare)} keeps no past targets, so nothing can be delayed. Give the actuator "
                'nsample="N" delay="0" in the model: N time steps is the longest delay.'
            )
        if change.field == "body_mass":
            if change.of == "all":
                numbers = [body for body in numbers if model.body_mass[body] > 0.0]
            if massless := [model.body(body).name for body in numbers if not model.body_mass[body] > 0.0]:
                raise SamiError(
                    f"{where}: {', '.join(massless)} has no mass in the model, nor an inertia that would go with one. "
                    "Give it a geom with a mass, or name another body."
                )
        return np.array(numbers, np.intp)

    def _feature(self, name: str, change: Change) -> Feature:
        """Return a feature of the task space; its default leaves the model unchanged (None if elements differ)."""
        field, rows = _FIELDS[change.field], self._rows[name]
        high = math.inf
        if change.field == "actuator_delay":
            high = float(self._model.opt.timestep * (self._model.actuator_history[rows, 0].min() - 1))
        if change.scales:
            return Feature(name, "(times the model's own)", 0.0, low_open=field.positive, default=1.0)
        if change.adds:
            return Feature(name, field.unit, -math.inf, default=0.0, high=high)
        array, column, factor = field.arrays[0]
        if change.axis:
            column = "xyz".index(change.axis)
        values = {
            factor * float(value) for value in self._base[array].reshape(len(self._base[array]), -1)[rows, column or 0]
        }
        default = values.pop() if len(values) == 1 else None
        low = -math.inf if change.axis else 0.0
        return Feature(name, self._unit(name, change), low, low_open=field.positive, default=default, high=high)

    def _unit(self, name: str, change: Change) -> str:
        """Return the unit of a feature's field; for joints, the unit of a slide if all are slides, else of a hinge."""
        field = _FIELDS[change.field]
        joints = self._model.dof_jntid[self._rows[name]] if field.kind == "joint" else []
        slides = [self._model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE for joint in joints]
        return _OF_SLIDES[field.unit] if slides and all(slides) else field.unit


_OF_SLIDES = {"kg m^2": "kg", "N m s/rad": "N s/m", "N m": "N"}


class Simulations(Protocol):
    """The state of n simulations: live arrays (n, ...) of the fields of `MjData`, by MuJoCo's names.

    `mujoco.batch.Batch` and `SingleSimulation` implement this protocol.
    """

    def __getattr__(self, name: str) -> Any:
        """Return a field, (n, ...)."""


Numbers = NDArray[np.float64]
Measure = Callable[[Simulations, Numbers], Numbers]
"""A function of the states after a step and the applied actions (n, A) that returns numbers (n,)."""


def measure(model: mujoco.MjModel, quantity: MeasuredQuantity, where: str, commands: Sequence[str] = ()) -> Measure:
    """Return a function that measures a quantity, or the quantity's distance from its command.

    Args:
        model: the compiled model, whose parameters may change later.
        quantity: what to measure.
        where: the key of the file that has the quantity, for messages.
        commands: names of the file's commands, in their order, see `readings`.

    Raises:
        UnknownName: the model has no element of this name, or the file no such command.
        SamiError: `quantity.element` is beyond the sensor's last number.
    """
    value = _measure(model, quantity, where)
    if quantity.command is None:
        return value
    if quantity.command not in commands:
        raise UnknownName("command", quantity.command, list(commands), f"{where} names it; [commands] has them.")
    address = model.nuserdata - model.nu - len(commands) + list(commands).index(quantity.command)
    return lambda now, actions: np.abs(value(now, actions) - now.userdata[:, address])


def _measure(model: mujoco.MjModel, quantity: MeasuredQuantity, where: str) -> Measure:
    kind = quantity.kind
    if kind == "alive":
        return lambda now, actions: np.ones(len(actions))
    if kind == "effort":
        return lambda now, actions: np.square(actions).sum(axis=1)
    if kind == "sensor":
        assert quantity.sensor is not None
        number = element(model, "sensor", quantity.sensor, where)
        if quantity.element >= model.sensor_dim[number]:
            raise SamiError(
                f"{where}: element is {quantity.element}, and sensor {quantity.sensor!r} has "
                f"{model.sensor_dim[number]} numbers, counted from 0. Give one of them."
            )
        address = int(model.sensor_adr[number]) + quantity.element
        return lambda now, actions: now.sensordata[:, address]
    return _of_a_frame(model, quantity, where)


def reward_of(model: mujoco.MjModel, terms: tuple[Term, ...], commands: Sequence[str] = ()) -> Measure:
    """Return a function that computes the sum of the weighted terms; raises as `measure`."""
    parts = [(term.weight, _rewarded(model, term, f"reward {i + 1}", commands)) for i, term in enumerate(terms)]
    return lambda now, actions: sum((weight * value(now, actions) for weight, value in parts), np.zeros(len(actions)))


def _rewarded(model: mujoco.MjModel, term: Term, where: str, commands: Sequence[str]) -> Measure:
    value, width = measure(model, term, where, commands), term.width
    return value if width is None else lambda now, actions: np.exp(-np.square(value(now, actions) / width))


def ending_of(model: mujoco.MjModel, ends: tuple[End, ...], commands: Sequence[str] = ()) -> Measure:
    """Return a function that is 1 for an episode with a quantity out of its bounds, else 0; raises as `measure`."""
    bounds = []
    for i, end in enumerate(ends):
        low = -math.inf if end.below is None else end.below
        high = math.inf if end.above is None else end.above
        bounds.append((measure(model, end, f"end {i + 1}", commands), low, high))

    def is_over(now: Simulations, actions: Numbers) -> Numbers:
        over = np.zeros(len(actions))
        for value, low, high in bounds:
            measured = value(now, actions)
            over[~((low <= measured) & (measured <= high))] = 1.0
        return over

    return is_over


def _of_a_frame(model: mujoco.MjModel, quantity: MeasuredQuantity, where: str) -> Measure:
    name = getattr(quantity, quantity.kind)
    kind, number = body_or_site(model, name, where)
    place = _place(kind, number)
    axis = "xyz".index(quantity.axis) if quantity.axis else 2
    if quantity.kind == "position":
        return lambda now, actions: place(now)[:, axis]
    if quantity.kind == "upright":
        turn = "xmat" if kind == mujoco.mjtObj.mjOBJ_BODY else "site_xmat"
        return lambda now, actions: getattr(now, turn)[:, number].reshape(-1, 9)[:, 8]  # row z, column z
    if quantity.kind == "velocity":
        body = number if kind == mujoco.mjtObj.mjOBJ_BODY else int(model.site_bodyid[number])
        root = int(model.body_rootid[body])

        def speed(now: Simulations, actions: Numbers) -> Numbers:
            """Move `cvel` (angular, linear), which MuJoCo gives at the centre of mass of the body's kinematic tree."""
            twist, arm = now.cvel[:, body], place(now) - now.subtree_com[:, root]
            return (twist[:, 3:] + np.cross(twist[:, :3], arm))[:, axis]

        return speed
    to = quantity.to
    assert to is not None
    other = _place(*body_or_site(model, to, where)) if isinstance(to, str) else lambda now: np.array(to)
    return lambda now, actions: np.sqrt(np.square(place(now) - other(now)).sum(axis=1))


def _place(kind: mujoco.mjtObj, number: int) -> Callable[[Simulations], Numbers]:
    """Return a function that reads the position of a site or body, (n, 3) [m]."""
    field = "xpos" if kind == mujoco.mjtObj.mjOBJ_BODY else "site_xpos"
    return lambda now: getattr(now, field)[:, number]
