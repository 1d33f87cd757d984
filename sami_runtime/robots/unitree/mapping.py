"""Maps the robot's measurements to the policy's signals, and the policy's actions to the motors' set-points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import SamiError
from sami_runtime.model.contract import ADOPTED, Contract
from sami_runtime.robots.kit.faults import refuse
from sami_runtime.robots.kit.quantities import JOINT_UNITS, NAMES, command_element, command_elements, matched_joints
from sami_runtime.robots.unitree.messages import MOTORS, Go2Reading, Setpoint
from sami_runtime.robots.unitree.settings import UnitreeSettings
from sami_runtime.signals import Signal, numbers_of

Array = NDArray[np.float64]
MEASURED: dict[str, Callable[[Go2Reading], Array]] = {
    "angular_velocity": lambda reading: reading.angular_velocity,
    "gravity": lambda reading: reading.gravity,
}
"""Measurements of the trunk in its own frame, (3,): angular velocity [rad/s], unit vector down."""
LAST_ACTION = "last_action"
UNMEASURED = ("command", LAST_ACTION)
"""Quantities that no sensor measures."""


@dataclass
class Go2Mapping:
    """The mapping between a policy and a Go2.

    Raises:
        AdapterError: Contract and settings do not match, in all points listed.
    """

    settings: UnitreeSettings
    contract: Contract
    commands: dict[str, list[str]] = field(default_factory=dict)
    """Elements (forward, left, turn) of each signal that is a command."""
    last_action: str | None = None
    """Name of the signal that is the last action; None if there is none."""

    def __post_init__(self) -> None:
        faults: list[str] = []
        elements = self.contract.action.elements
        self._motors, terms = self._indices(elements, faults), _recipe(self.contract).get("signals", [])
        if limp := [motor for at, motor in enumerate(MOTORS) if at not in self._motors]:
            faults.append(f"the policy moves no {', '.join(limp)}, which would be limp: it must move all joints")
        self._in_world = {term["name"] for term in terms if term.get("frame") == "world"}
        self._readers = {signal.name: self._reader(signal, faults) for signal in self.contract.observation}
        if strange := sorted(self.settings.signals.keys() - self._readers.keys()):
            faults.append(f"settings.signals has {', '.join(strange)}, and the model no such signal")
        stated = _stated(self.contract)
        direct = self.contract.action.unit == "rad"
        self.scale = self._numbers("scale", stated.get("reach", 1.0 if direct else None), faults)
        self.offset = self._numbers("offset", 0.0 if direct else stated.get("stance"), faults)
        ends = (stated.get("lowest", -np.inf), stated.get("highest", np.inf))
        self._lowest, self._highest = (np.broadcast_to(end, self.contract.action.size) for end in ends)
        self._kp, self._kd = (self._in_order(self._numbers(name, stated.get(name), faults)) for name in ("kp", "kd"))
        self.stand = self._in_order(self._numbers("stand", stated.get("stance"), faults))
        """Angles (12,) of the stance, in the order of `MOTORS` [rad]."""
        if (self.scale == 0.0).any():
            faults.append("settings.scale has a 0, so that action would move nothing")
        if self.settings.hold_s < 2.0 / self.contract.rate_hz:
            faults.append(
                f"settings.hold_s is {self.settings.hold_s:g} s, and the policy acts every "
                f"{1.0 / self.contract.rate_hz:g} s: give it two of these at least"
            )
        refuse(faults, "sent")

    def observed(self, reading: Go2Reading) -> dict[str, Array]:
        """Return the values of the signals that the robot measures."""
        return {name: read(reading) for name, read in self._readers.items() if read is not None}

    def setpoint(self, action: NDArray[np.float32]) -> Setpoint:
        """Return the set-point for an action (A,); targets are clipped to the range that the model file declares."""
        targets = (self.offset + self.scale * action).clip(self._lowest, self._highest)
        return Setpoint(self._in_order(targets), self._kp, self._kd)

    def _reader(self, signal: Signal, faults: list[str]) -> Callable[[Go2Reading], Array] | None:
        quantity = self.settings.signals.get(signal.name) or _quantity(signal)
        if quantity == LAST_ACTION and signal.size == self.contract.action.size:
            self.last_action = signal.name
        elif quantity == "command":
            self.commands[signal.name] = [command_element(name) for name in command_elements(signal)]
        elif quantity in JOINT_UNITS.values():
            motors = self._indices(signal.elements, faults)
            if quantity == "joint_angles":
                return lambda reading: reading.angles[motors]
            return lambda reading: reading.velocities[motors]
        elif quantity in MEASURED and signal.size == 3 and signal.name not in self._in_world:
            return MEASURED[quantity]
        else:
            names = ", ".join((*MEASURED, *JOINT_UNITS.values(), *UNMEASURED))
            faults.append(
                f"a Go2 does not measure {signal.name} ({', '.join(signal.elements)}). If it is one of {names}, in the "
                f'trunk\'s frame, say so: settings.signals.{signal.name} = "gravity"'
            )
        return None

    def _indices(self, elements: tuple[str, ...], faults: list[str]) -> list[int]:
        aliases = {element: motor for element, motor in self.settings.joints.items() if element in elements}
        try:
            names = matched_joints(elements, MOTORS, aliases, "the robot", "in settings.joints:")
        except SamiError as error:
            faults.append(str(error).rstrip("."))
            return list(range(len(elements)))
        return [MOTORS.index(name) for name in names]

    def _numbers(self, key: str, default: Any, faults: list[str]) -> Array:
        """Return a setting for each element of the action, (A,); if it is left out, `default` (the model file's)."""
        set_value, size = getattr(self.settings, key), self.contract.action.size
        value = default if set_value is None else set_value
        if value is None:
            faults.append(f"settings.{key} is missing, and the model file does not say it")
            return np.ones(size)
        numbers, least = np.atleast_1d(numbers_of(value)).astype(float), 0.0 if key in ("kp", "kd") else -np.inf
        if not (np.isfinite(numbers) & (numbers >= least)).all():  # the model file's: settings are checked
            faults.append(f"{key} of the model file is {value}, which no motor may get: set settings.{key}")
        if numbers.size not in (1, size):
            faults.append(f"settings.{key} has {numbers.size} numbers for {size} joints")
            return np.ones(size)
        return np.broadcast_to(numbers, size).astype(float)

    def _in_order(self, numbers: Array) -> Array:
        """Return numbers (A,) of the action's elements in the order of the robot's motors, (12,)."""
        return numbers[np.argsort(self._motors)]


def _quantity(signal: Signal) -> str:
    """Return the quantity of a signal by its name, else by its unit."""
    if signal.name == LAST_ACTION:
        return LAST_ACTION
    match = next((quantity for quantity, names in NAMES.items() if signal.name in names.split()), None)
    return "command" if signal.command else match or JOINT_UNITS.get(signal.unit, "")


def _recipe(contract: Contract) -> Mapping[str, Any]:
    """Return the recipe of an adopted policy; empty for other policies."""
    adopted = contract.training.get(ADOPTED)
    recipe = adopted.get("recipe") if isinstance(adopted, dict) else None
    return recipe if isinstance(recipe, dict) else {}


def _stated(contract: Contract) -> dict[str, Any]:
    """Return the robot's numbers in the model file: stance, reach, lowest and highest target [rad], kp, kd."""
    numbers = {name: quantity.values for name, quantity in contract.sheet.numbers.items()} if contract.sheet else {}
    action = _recipe(contract).get("action", {})
    stated = {"stance": action.get("default"), "kp": action.get("kp"), "kd": action.get("kd"), **numbers}
    return {name: value for name, value in stated.items() if value is not None}
