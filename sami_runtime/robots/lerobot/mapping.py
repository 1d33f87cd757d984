"""Maps the robot's keys to the elements of the model's signals, and converts their units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import AdapterError
from sami_runtime.model.contract import Contract
from sami_runtime.robots.lerobot.settings import HOLD, LeRobotAction, LeRobotSettings, LeRobotSource
from sami_runtime.signals import Signal

Array = NDArray[np.float64]
DEGREE = math.pi / 180.0
CONVERSIONS = {("deg", "rad"): DEGREE, ("deg/s", "rad/s"): DEGREE, ("mm", "m"): 1e-3, ("mm/s", "m/s"): 1e-3}
CONVERSIONS |= {(to, of): 1.0 / factor for (of, to), factor in CONVERSIONS.items()}
"""By pair of units, the absolute value of the factor between them."""
ROUNDING = 0.01
"""Largest relative difference from that factor, since people write few digits."""
DIMENSIONLESS = ("1", "%")
"""Dimensionless units, from and to which any factor is valid."""
MOTOR_UNITS = {"degrees": "deg", "range_0_100": "%", "range_m100_100": "%"}
"""Unit of a motor's position, by the `norm_mode` of LeRobot."""


class Affine(NamedTuple):
    """A conversion between units, factor * number + offset, (N,) each."""

    factor: Array
    offset: Array

    @classmethod
    def of(cls, table: LeRobotSource | LeRobotAction, size: int) -> Affine:
        """Return the conversion of `size` numbers that checked settings declare."""
        factor = 1.0 if table.factor is None else table.factor
        return cls(np.broadcast_to(np.array(factor, float), size), np.broadcast_to(np.array(table.offset, float), size))


def picked(values: Mapping[str, Any], keys: tuple[str, ...], call: str) -> Array:
    """Return the numbers (N,) of N keys, which `call` has returned.

    Raises:
        AdapterError: A value is missing, or is no number.
    """
    numbers = np.empty(len(keys))
    for at, key in enumerate(keys):
        try:
            numbers[at] = values[key]
        except KeyError:
            raise AdapterError(
                f"{call} of LeRobot's robot returned no {key!r}, which its features promise; it returned "
                f"{', '.join(map(str, values)) or 'nothing'}. Check the robot's driver."
            ) from None
        except (TypeError, ValueError):
            raise AdapterError(
                f"{call} of LeRobot's robot returned {values[key]!r} for {key!r}, which is no number. Check the "
                "robot's driver."
            ) from None
    return numbers


def faults_of_mapping(settings: LeRobotSettings, contract: Contract, robot: Any) -> list[str]:
    """Return one sentence for each point in which settings, model and robot differ; it need not be connected."""
    observed, actions = robot.observation_features, robot.action_features
    motors = _motor_units(robot)
    signals = {signal.name: signal for signal in contract.observation}
    faults = [
        f"settings.observation has {name!r}, which the model does not read; it reads {', '.join(signals)}"
        for name in settings.observation
        if name not in signals
    ]
    for name, signal in signals.items():
        if name not in settings.observation:
            faults.append(f"settings.observation lacks {name!r}, which the model reads")
        else:
            faults += _faults_of_source(settings, signal, signals, observed, motors)
    return faults + _faults_of_action(settings.action, contract.action, observed, actions, motors)


def _faults_of_source(
    settings: LeRobotSettings,
    signal: Signal,
    signals: Mapping[str, Signal],
    observed: Mapping[str, Any],
    motors: Mapping[str, str],
) -> list[str]:
    source, where = settings.observation[signal.name], f"observation.{signal.name}"
    if source.constant is not None:
        return _faults_of_size(f"{where}.constant", len(source.constant), signal)
    if source.keys is not None:
        return _faults_of_keys(f"{where}.keys", source.keys, signal, observed, "observes") + _faults_of_units(
            where, source, signal, motors, False
        )
    origin, other = (table.get(source.velocity_of or "") for table in (settings.observation, signals))
    if not isinstance(origin, LeRobotSource) or origin.keys is None or not isinstance(other, Signal):
        return [f"{where}.velocity_of is {source.velocity_of!r}, which is no signal with keys in settings.observation"]
    faults = []
    if other.size != signal.size:
        faults.append(f"{where} has {signal.size} elements, and {other.name}, whose velocity it is, {other.size}")
    if signal.unit != f"{other.unit}/s":
        faults.append(f"{where} is in {signal.unit}, and a velocity of {other.name} in {other.unit}/s")
    return faults


def _faults_of_action(
    action: LeRobotAction,
    signal: Signal,
    observed: Mapping[str, Any],
    actions: Mapping[str, Any],
    motors: Mapping[str, str],
) -> list[str]:
    faults = _faults_of_keys("action.keys", action.keys, signal, actions, "takes")
    faults += _faults_of_units("action", action, signal, motors, True)
    faults += _faults_of_keys_held("action.mode is 'relative'", action.keys, observed, action.mode == "relative")
    if isinstance(action.standing, tuple):
        faults += _faults_of_size("action.standing", len(action.standing), signal)
    faults += _faults_of_keys_held("action.standing is 'hold'", action.keys, observed, action.standing == HOLD)
    hold_keys = tuple(key for key, value in action.others.items() if value == HOLD)
    faults += _faults_of_keys_held("action.others says 'hold'", hold_keys, observed, True)
    for key in action.others:
        if key not in actions:
            faults.append(f"action.others has {key!r}, which the robot does not take")
        elif key in action.keys:
            faults.append(f"{key!r} is both in action.keys and in action.others")
    if missing := [key for key in actions if key not in (*action.keys, *action.others)]:
        faults.append(
            f"the robot also takes {', '.join(missing)}: put each into action.others, with a number or 'hold'"
        )
    return faults


def _faults_of_keys(
    where: str, keys: tuple[str, ...], signal: Signal, features: Mapping[str, Any], verb: str
) -> list[str]:
    faults = _faults_of_size(where, len(keys), signal)
    faults += [f"{where} has {key!r} twice" for key in sorted({key for key in keys if keys.count(key) > 1})]
    if unknown := [key for key in keys if key not in features]:
        faults.append(f"{where} has {', '.join(map(repr, unknown))}; the robot {verb} {', '.join(features)}")
    images = [key for key in keys if isinstance(features.get(key), tuple)]
    return faults + [f"{where} has {key!r}, which is no number but an array {features[key]}" for key in images]


def _faults_of_keys_held(reason: str, keys: tuple[str, ...], observed: Mapping[str, Any], needed: bool) -> list[str]:
    blind = [key for key in keys if key not in observed or isinstance(observed[key], tuple)] if needed else []
    return [f"{reason}, and the robot does not observe {', '.join(blind)}"] if blind else []


def _faults_of_size(where: str, count: int, signal: Signal) -> list[str]:
    if count == signal.size:
        return []
    return [f"{where} has {count} entries for {signal.size} elements ({', '.join(signal.elements)})"]


def _faults_of_units(
    where: str, table: LeRobotSource | LeRobotAction, signal: Signal, motors: Mapping[str, str], outwards: bool
) -> list[str]:
    """Return a phrase for each fault of units, factors and offsets in the table `where` of the settings.

    `motors` has units by key, as far as the robot declares them; numbers go `outwards` from the model to the robot.
    """
    keys, faults = table.keys or (), []
    for name in ("unit", "factor", "offset"):
        if isinstance(value := getattr(table, name), tuple) and len(value) != len(keys):
            faults.append(f"{where}.{name} has {len(value)} entries for {len(keys)} keys")
    if faults:
        return faults
    units = table.unit if isinstance(table.unit, tuple) else (str(table.unit),) * len(keys)
    factors = table.factor if isinstance(table.factor, tuple) else (table.factor,) * len(keys)
    keys_of: dict[str, list[str]] = {}
    for key, unit, factor in zip(keys, units, factors, strict=True):
        if key in motors and unit != motors[key]:
            keys_of.setdefault(f"{where}.unit says {unit}, and the robot has {motors[key]}", []).append(key)
        if fault := _fault_of_factor(factor, *((signal.unit, unit) if outwards else (unit, signal.unit))):
            keys_of.setdefault(f"{where}.{fault}", []).append(key)
    return [f"{fault}, for {', '.join(wrong)}" for fault, wrong in keys_of.items()]


def _fault_of_factor(factor: float | None, of: str, to: str) -> str:
    """Return the fault of a factor from one unit to another; empty if it has none."""
    # From 1 to 1 any factor is valid; from rad to rad, a factor other than 1 contradicts the unit.
    right = 1.0 if of == to and of not in DIMENSIONLESS else CONVERSIONS.get((of, to))
    hint = "" if right is None else f", which is {right:.6g}"
    if factor is None:
        return "" if of == to else f"factor is missing, from {of} to {to}{hint}"
    if factor == 0.0:
        return "factor is 0"
    if right is not None and abs(abs(factor) - right) > ROUNDING * right:
        return f"factor is {factor:g}, and not that from {of} to {to}{hint}"
    return ""


def _motor_units(robot: Any) -> dict[str, str]:
    """Return the units of positions by key, for robots on one of LeRobot's buses, whose motors declare them."""
    motors = getattr(getattr(robot, "bus", None), "motors", None)
    modes = {name: getattr(motor, "norm_mode", None) for name, motor in (motors or {}).items()}
    by_key = {f"{name}.pos": getattr(mode, "value", None) for name, mode in modes.items()}
    return {key: MOTOR_UNITS[mode] for key, mode in by_key.items() if mode in MOTOR_UNITS}
