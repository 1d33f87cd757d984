"""A robot's MJCF model, the parameters that a fit may change, and its simulation in windows of a recording."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import mujoco
import numpy as np
from mujoco import rollout
from numpy.typing import NDArray

from sami_runtime.errors import SamiError, enumeration
from sami_runtime.model.contract import Contract
from sami_train.envs.mjcf.description import ActionRange, Change, read_description
from sami_train.envs.mjcf.model import Dynamics, control_range, joint_name, names
from sami_train.studies.fit_robot.windows import MOST_DELAY_S, WINDOW_S, Places, RecordedWindows

Array = NDArray[np.float64]
Field = Literal["armature", "damping", "frictionloss", "strength", "delay", "bias"]

HINGE, SLIDE = mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE
UNITS: dict[Field, tuple[str, str]] = {
    "armature": ("kg m^2", "kg"),
    "damping": ("N m s/rad", "N s/m"),
    "frictionloss": ("N m", "N"),
    "strength": ("1", "1"),
    "delay": ("s", "s"),
    "bias": ("rad", "m"),
}
"""Units for a hinge and for a slide joint."""
CHANGES: dict[Field, Change] = {
    "armature": Change(sets="dof_armature"),
    "damping": Change(sets="dof_damping"),
    "frictionloss": Change(sets="dof_frictionloss"),
    "strength": Change(scales="actuator_strength"),
    "delay": Change(sets="actuator_delay"),
}
"""Features of a TOML file that change the same quantity; no feature changes a bias."""


class Parameter(NamedTuple):
    """A parameter of the fit, with its bounds and its prior."""

    field: Field
    of: str
    """Name of the joint or actuator; empty for the delay, which all actuators share."""
    unit: str
    nominal: float
    """Value in the original model; 1 for a strength, 0 for a bias."""
    low: float
    high: float
    scale: float
    """Standard deviation of the prior: a change that is large relative to the joint's inertia."""

    @property
    def key(self) -> str:
        """Name of the parameter as a feature of a TOML file."""
        return re.sub(r"\W+", "_", f"fitted_{self.of}_{self.field}", flags=re.ASCII).replace("__", "_")

    @property
    def feature(self) -> Change:
        """The quantity of the model that the parameter changes; KeyError for a bias."""
        return CHANGES[self.field].model_copy(update={"of": (self.of,) if self.of else "all"})


class RobotBody:
    """A robot on a stand: the recorded joints move, all others are fixed at the model's initial pose.

    Positions are encoder readings. A bias (an encoder's offset) therefore moves the body, and servos act on the
    readings.

    Args:
        path: `NAME.xml`, or the `NAME.toml` of an environment, which names the model and the range of actions.
        contract: Contract of the recorded model file, whose signals have elements with the joints' names.

    Raises:
        SamiError: The model cannot be read or has actuators with a state, or the recording is of another robot.
    """

    def __init__(self, path: Path, contract: Contract) -> None:
        self.path, self.xml, about = path, path, None
        if path.suffix == ".toml":
            described = read_description(path)
            self.xml, about = path.parent / described.model, described.action
        spec = read_spec(self.xml)
        whole = spec.compile()
        self.columns, self.joints = _recorded(path, spec, contract)
        self.actuators = [actuator.name for actuator in spec.actuators]
        self._order, self._middle, self._half = _actions(path, whole, self.actuators, about, contract)
        self.fixed = [joint.name for joint in spec.joints if joint.name not in self.joints]
        self._delay = min(max((actuator.delay for actuator in spec.actuators), default=0.0), MOST_DELAY_S)
        for actuator in spec.actuators:
            if actuator.target in self.fixed:
                raise SamiError(
                    f"{path}: actuator {actuator.name!r} drives {actuator.target!r}, whose position is no element of "
                    f"the recording ({_elements(contract)}). Observe it under the joint's name, in rad or m."
                )
            actuator.nsample, actuator.delay = 0, 0.0  # the fit delays the controls itself
        for key in list(spec.keys):
            spec.delete(key)
        for joint in list(spec.joints):
            if joint.name in self.fixed:
                spec.delete(joint)
        self.model = model = _from_mujoco(spec.compile, self.xml)
        if model.na:
            raise SamiError(
                f"{self.xml}: {model.na} of its actuators have a state of their own (a filter, an integrator), which "
                "no recording contains. Fit the model without it; a delay takes the place of a filter."
            )
        self.steps = max(1, round(1.0 / (contract.rate_hz * model.opt.timestep)))
        model.opt.timestep = 1.0 / (contract.rate_hz * self.steps)
        self._zero, self._spring = model.qpos0.copy(), model.qpos_spring.copy()
        self._data, self._rollout = mujoco.MjData(model), rollout.Rollout(nthread=0)

    @property
    def velocities(self) -> bool:
        """Whether the velocities of all these joints were recorded."""
        return sum(len(at) for _, at in self.columns.values()) == 2 * len(self.joints)

    def control(self, actions: Array) -> Array:
        """Return the actuators' controls (T, A), in the model's order, for actions (T, A) of the contract."""
        return self._middle + self._half * actions[:, self._order]

    def parameters(self, speeds: Array) -> list[Parameter]:
        """Return the parameters of the fit for typical speeds (n,) [rad/s or m/s]; prepare the model for changes."""
        model, result = self.model, list[Parameter]()

        def add(field: Field, of: str, nominal: float, scale: float) -> None:
            result.append(Parameter(field, of, UNITS[field][slide], nominal, 0.0, np.inf, max(scale, nominal, 1e-9)))

        for number, name in enumerate(self.joints):
            slide = int(model.jnt_type[number]) == SLIDE
            inertia = float(model.dof_M0[number])
            add("armature", name, float(model.dof_armature[number]), inertia)
            add("damping", name, float(np.ravel(model.dof_damping[number])[0]), inertia / WINDOW_S)
            add("frictionloss", name, float(model.dof_frictionloss[number]), inertia / WINDOW_S * float(speeds[number]))
            result.append(Parameter("bias", name, UNITS["bias"][slide], 0.0, -1.0, 1.0, (0.3, 0.1)[slide]))
        result += [Parameter("strength", name, "1", 1.0, 0.01, 100.0, 1.0) for name in self.actuators]
        result.append(Parameter("delay", "", "s", self._delay, 0.0, MOST_DELAY_S, 0.05))
        self._dynamics = Dynamics(model, {p.key: p.feature for p in result if p.field not in ("bias", "delay")})
        self._parameters = tuple(result)
        return result

    def simulate(self, windows: RecordedWindows, values: Array, starts: Array) -> Array:
        """Simulate windows; return positions and velocities of the joints at each tick, (W, L + 1, 2 n).

        Args:
            windows: W windows of L ticks.
            values: Values of the parameters, (P,).
            starts: Positions and velocities at the beginning of each window, (W, 2 n) [rad or m, per second].
        """
        delay, bias, count = 0.0, np.zeros(len(self.joints)), len(self.joints)
        task = {}
        for parameter, value in zip(self._parameters, values.tolist(), strict=True):
            if parameter.field == "delay":
                delay = value
            elif parameter.field == "bias":
                bias[self.joints.index(parameter.of)] = value
            else:
                task[parameter.key] = value
        self._dynamics.apply(task)
        self.model.qpos0[:], self.model.qpos_spring[:] = self._zero + bias, self._spring + bias
        begin = np.concatenate([np.zeros((len(windows), 1)), starts], axis=1)
        states, _ = self._rollout.rollout(
            self.model, self._data, begin, windows.delayed(delay, self.steps), skip_checks=False
        )
        states = states[:, self.steps - 1 :: self.steps, 1 : 1 + 2 * count]
        return np.concatenate([starts[:, None], states], axis=1)


def read_spec(path: Path) -> mujoco.MjSpec:
    """Return an editable MJCF model; unnamed joints and actuators get the names that environments give them.

    Raises:
        SamiError: The file does not exist, or MuJoCo cannot read it.
    """
    if path.suffix != ".xml" or not path.is_file():
        raise SamiError(f"{path} is no MJCF model. Give NAME.xml, or the NAME.toml of the environment that names one.")
    spec: mujoco.MjSpec = _from_mujoco(lambda: mujoco.MjSpec.from_file(str(path)), path)
    model: mujoco.MjModel = _from_mujoco(spec.compile, path)
    for joint in spec.joints:
        joint.name = joint_name(model, joint.id)
    if len(names(model, "actuator")) < model.nu:
        for actuator in spec.actuators:
            actuator.name = f"actuator_{actuator.id}"
    return spec


def _from_mujoco(make: Callable[[], Any], path: Path) -> Any:
    try:
        return make()
    except ValueError as error:
        raise SamiError(f"MuJoCo cannot read {path}: {' '.join(str(error).split())}. Correct the model.") from None


def _recorded(
    path: Path, spec: mujoco.MjSpec, contract: Contract
) -> tuple[dict[str, tuple[Places, Places]], list[str]]:
    """Return, by signal, the elements that are joint readings and their columns in the readings; and the joints.

    Raises:
        SamiError: No joint's position was recorded.
    """
    places: list[dict[str, tuple[str, int]]] = [{}, {}]
    for order, units in enumerate((("rad", "m"), ("rad/s", "m/s"))):
        for signal in contract.observation:
            measured = signal.unit in units and not signal.command
            for index, element in enumerate(signal.elements if measured else ()):
                places[order].setdefault(element, (signal.name, index))
    positions, speeds = places
    joints = [joint.name for joint in spec.joints if joint.type in (HINGE, SLIDE) and joint.name in positions]
    if not joints:
        raise SamiError(
            f"{path}: no joint's position was recorded. Its joints are {enumeration([j.name for j in spec.joints])}; "
            f"the recording has {_elements(contract)}. Observe joints under their names, in rad or m."
        )
    columns: dict[str, tuple[list[int], list[int]]] = {}
    kinds = [positions, speeds] if all(joint in speeds for joint in joints) else [positions]
    for order, kind in enumerate(kinds):
        for number, joint in enumerate(joints):
            name, index = kind[joint]
            elements, at = columns.setdefault(name, ([], []))
            elements.append(index)
            at.append(order * len(joints) + number)
    return {name: (np.array(elements), np.array(at)) for name, (elements, at) in columns.items()}, joints


def _actions(
    path: Path, model: mujoco.MjModel, actuators: list[str], about: ActionRange | None, contract: Contract
) -> tuple[list[int], Array, Array]:
    """Return each actuator's element of the action, its control for an action of 0, and the control's gain."""
    action = contract.action
    if sorted(action.elements) != sorted(actuators):
        recorded = enumeration(action.elements)
        raise SamiError(
            f"{path}: its actuators are {enumeration(actuators) or 'none'}; the recorded action has {recorded}. "
            "Call the actuators as the action's elements are called."
        )
    order = [action.elements.index(name) for name in actuators]
    if action.unit != "1":
        return order, np.zeros(len(order)), np.ones(len(order))
    return order, *control_range(model, about)


def _elements(contract: Contract) -> str:
    return enumeration([f"{signal.name}.{element}" for signal in contract.observation for element in signal.elements])
