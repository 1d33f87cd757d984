"""What rewards and ends are made of: numbers measured in MuJoCo's state after each step."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np

from sami_runtime.errors import SamiError
from sami_train.envs.mjcf.description import End, MeasuredQuantity, Term
from sami_train.envs.mjcf.names import body_or_site, element

Measure = Callable[[mujoco.MjData, np.ndarray], float]
"""State after a step, action (A,) that was executed -> number."""


def measure(model: mujoco.MjModel, quantity: MeasuredQuantity, where: str) -> Measure:
    """Return what measures a quantity.

    Args:
        model: the compiled model, whose parameters may change later.
        quantity: what is measured.
        where: the key of the file that asks for it, for messages.

    Raises:
        UnknownName: the model has no element of a name.
        SamiError: a sensor has fewer numbers.
    """
    kind = quantity.kind
    if kind == "alive":
        return lambda data, action: 1.0
    if kind == "effort":
        return lambda data, action: float(np.square(action).sum())
    if kind == "sensor":
        assert quantity.sensor is not None
        number = element(model, "sensor", quantity.sensor, where)
        if quantity.element >= model.sensor_dim[number]:
            raise SamiError(
                f"{where}: element is {quantity.element}, and sensor {quantity.sensor!r} has "
                f"{model.sensor_dim[number]} numbers, counted from 0. Give one of them."
            )
        address = int(model.sensor_adr[number]) + quantity.element
        return lambda data, action: float(data.sensordata[address])
    return _of_a_frame(model, quantity, where)


def reward_of(model: mujoco.MjModel, terms: tuple[Term, ...]) -> Measure:
    """Return the sum of the terms, each times its weight.

    Raises:
        UnknownName, SamiError: as `measure`.
    """
    parts = [(term.weight, measure(model, term, f"reward {i + 1}")) for i, term in enumerate(terms)]
    return lambda data, action: sum(weight * value(data, action) for weight, value in parts)


def ending_of(model: mujoco.MjModel, ends: tuple[End, ...]) -> Callable[[mujoco.MjData, np.ndarray], bool]:
    """Return what says whether an episode is over before its time.

    Raises:
        UnknownName, SamiError: as `measure`.
    """
    infinite = float("inf")
    bounds = [
        (
            measure(model, end, f"end {i + 1}"),
            -infinite if end.below is None else end.below,
            infinite if end.above is None else end.above,
        )
        for i, end in enumerate(ends)
    ]
    return lambda data, action: any(not low <= value(data, action) <= high for value, low, high in bounds)


def _of_a_frame(model: mujoco.MjModel, quantity: MeasuredQuantity, where: str) -> Measure:
    name = getattr(quantity, quantity.kind)
    kind, number = body_or_site(model, name, where)
    place = _place(kind, number)
    axis = "xyz".index(quantity.axis) if quantity.axis else 2
    if quantity.kind == "position":
        return lambda data, action: float(place(data)[axis])
    if quantity.kind == "upright":
        turn = "xmat" if kind == mujoco.mjtObj.mjOBJ_BODY else "site_xmat"
        return lambda data, action: float(getattr(data, turn)[number, 8])  # row z, column z
    if quantity.kind == "velocity":
        twist = np.zeros(6)  # angular, then linear

        def speed(data: mujoco.MjData, action: np.ndarray) -> float:
            mujoco.mj_objectVelocity(model, data, kind, number, twist, 0)
            return float(twist[3 + axis])

        return speed
    if isinstance(quantity.to, str):
        other = _place(*body_or_site(model, quantity.to, where))
        return lambda data, action: float(np.linalg.norm(place(data) - other(data)))
    point = np.array(quantity.to)
    return lambda data, action: float(np.linalg.norm(place(data) - point))


def _place(kind: mujoco.mjtObj, number: int) -> Callable[[mujoco.MjData], np.ndarray]:
    """Return what reads where a site or body is, (3,) [m]."""
    field = "xpos" if kind == mujoco.mjtObj.mjOBJ_BODY else "site_xpos"
    return lambda data: getattr(data, field)[number]
