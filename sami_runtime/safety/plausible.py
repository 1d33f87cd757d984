"""Limits that cannot be meant: those that a wrong unit makes so wide that they never limit anything."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sami_runtime.errors import SamiError
from sami_runtime.model.contract import Contract

if TYPE_CHECKING:
    from sami_runtime.safety.limits import Limits

FACTOR = 10.0
"""So many times beyond what an action can do, a limit is a mistake."""
FACTOR_SEEN = {"rad": 10.0, "rad/s": 10.0}
"""By unit, the same beyond what the contract allows of an observation or training saw; 100 for other units. A range
around a workspace is wide at times, and degrees are 57 times radians."""
TURNS = 100.0
"""An angle [rad] beyond which nothing that is known of it makes a limit plausible."""
PERIODS = {"deadline_s": 100, "max_age_s": 1000, "max_pause_s": 1000, "blend_in_s": 1000}
"""Periods of the policy beyond which a time is a mistake. `inf` takes any."""
UNITS = {"rad": ("degrees", 180.0 / math.pi), "m": ("millimetres", 1000.0), "s": ("milliseconds", 1000.0)}
"""By unit, which other one is written in its place, and how many of these one of it is."""


def require_plausible(limits: Limits, contract: Contract) -> None:
    """Refuse limits that cannot be meant; infinite ones limit nothing on purpose.

    Raises:
        SamiError: One is an order of magnitude beyond what it limits.
    """
    _require_times(limits, 1.0 / contract.rate_hz)
    _require_actions(limits, contract)
    _require_observations(limits, contract)


def _require_times(limits: Limits, period: float) -> None:
    for name, periods in PERIODS.items():
        value = getattr(limits, name)
        for key, seconds in value.items() if isinstance(value, Mapping) else [("", value)]:
            if seconds is not None and periods * period * (1 + 1e-9) < seconds < math.inf:
                what = f"{name}.{key}" if key else name
                allows = f"more than {periods} periods of the policy ({periods * period:g} s)"
                raise SamiError(_sentence(what, seconds, "s", allows, "inf"))


def _require_actions(limits: Limits, contract: Contract) -> None:
    action, period = contract.action, 1.0 / contract.rate_hz
    for name in ("low", "high", "rate", "acceleration"):
        value = getattr(limits, name)
        if value is None:
            continue
        beyond = {}
        for element, low, high in zip(action.elements, action.low, action.high, strict=True):
            if low is None or high is None:
                continue
            width = high - low
            if name in ("low", "high"):
                most, words = max(abs(low), abs(high)), f"the model's bounds are {low:g} to {high:g}"
            elif name == "rate":
                most, words = width / period, f"the model's action changes by at most {width / period:g} in a second"
            else:
                most = 2.0 * width / period**2
                words = f"the model's action accelerates by at most {most:g}"
            number = value.get(element) if isinstance(value, Mapping) else value
            if number is not None and FACTOR * most < abs(number) < math.inf:
                beyond[element] = (number, words)
        # One number for all elements is for those that it can limit.
        if beyond and (isinstance(value, Mapping) or len(beyond) == action.size):
            element, (number, words) = next(iter(beyond.items()))
            what = f"{name}.{element}" if isinstance(value, Mapping) else name
            by = {"rate": "/s", "acceleration": "/s^2"}.get(name, "")
            raise SamiError(_sentence(what, number, action.unit + by, words, "out"))


def _require_observations(limits: Limits, contract: Contract) -> None:
    signals = {signal.name: signal for signal in contract.observation}
    for what, values in _observed(limits):
        name, _, element = what.partition(".")[2].partition(".")
        signal = signals[name]
        at = signal.elements.index(element)
        low, high = signal.low[at], signal.high[at]
        factor = FACTOR_SEEN.get(signal.unit, 100.0)
        if low is not None and high is not None:
            most, words = max(abs(low), abs(high)), f"the model's bounds are {low:g} to {high:g}"
        elif contract.seen is not None and name in contract.seen.signals:
            spread = contract.seen.signals[name]
            most = max(abs(spread.lowest[at]), abs(spread.highest[at]))
            words = f"in training it was {spread.lowest[at]:g} to {spread.highest[at]:g}"
        elif signal.unit == "rad":
            most, factor, words = TURNS, 1.0, f"that is {max(map(abs, values)) / math.tau:.0f} turns"
        else:
            continue
        for number in values:
            if most and factor * most < abs(number) < math.inf:
                raise SamiError(_sentence(what, number, signal.unit, words, "inf"))


def _observed(limits: Limits) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield the limits on elements of observations, and their values in the element's unit."""
    entries: dict[str, Mapping[str, Any]] = {name: getattr(limits, name) for name in ("inside", "jump", "workspace")}
    for element, inside in entries["inside"].items():
        yield f"inside.{element}", inside.range
    for element, jump in entries["jump"].items():
        yield f"jump.{element}", (jump.most,)
    for element, ends in entries["workspace"].items():
        yield f"workspace.{element}", ends


def _sentence(what: str, number: float, unit: str, words: str, instead: str) -> str:
    base, _, by = unit.partition("/")
    guess = ""
    if base in UNITS:
        other, per = UNITS[base]
        by = f"/{by}" if by else ""
        guess = f" In {other}{by}? Then it is {number / per:.4g} {unit}."
    out = "set inf, which limits nothing" if instead == "inf" else "leave it out"
    return (
        f"{what} is {number:g} [{unit}], which cannot be meant: {words}, and it would never limit anything.{guess} "
        f"Correct it, or {out}."
    )
