"""Converts the limits of a gate to numbers for each element or signal, by the rules of `sami_runtime.safety`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np

from sami_runtime.errors import SamiError
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import GUARDS, Limits, by_element, elements_of
from sami_runtime.safety.watch import TrainingRangeRule, active_guards, signal_bounds

Value = float | int | bool | str | list[Any]
SINGLE = {"low", "high", "rest"} | {
    f"{rule}_{end}" for rule in ("inside", "bounds", "first", "later") for end in ("low", "high")
}
"""Limits that are float32 in C++."""
MISSING = ("known",)
"""Limits that the C++ gate does not support."""


def resolved_limits(limits: Limits, contract: Contract, guards: Collection[str] = tuple(GUARDS)) -> dict[str, Value]:
    """Return the members of the C++ struct `sami::Limits`: values, and lists with a value for each element or signal.

    Args:
        limits: Of the gate.
        contract: Of the model.
        guards: Names of `GUARDS` that also judge observations; all by default, as in a `Run` of a robot.

    Raises:
        SamiError: The limits do not fit the model, or set one that the C++ gate does not support.
    """
    for name in MISSING:
        if getattr(limits, name):
            raise SamiError(f"the limits set {name}, which the gate in C++ lacks. Leave it out, or run in Python.")
    limits.require_fit(contract)
    return dict(_members(limits, contract, active_guards(contract, guards)))


def cpp_value(name: str, value: Value) -> str:
    """Return a member's value as C++ source, with enough digits to restore it exactly.

    >>> cpp_value("period", 0.04), cpp_value("low", [-math.inf]), cpp_value("jump_then", ["hold"])
    ('0.04', '{{static_cast<float>(-sami::kInfinity)}}', '{{sami::Then::hold}}')
    """
    if isinstance(value, list):
        return f"{{{{{', '.join(cpp_value(name, entry) for entry in value)}}}}}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"sami::Then::{value}"
    text = repr(value) if math.isfinite(value) else f"{'-' if value < 0 else ''}sami::kInfinity"
    return f"static_cast<float>({text})" if name in SINGLE else text


def _members(limits: Limits, contract: Contract, guards: Collection[str]) -> Iterator[tuple[str, Value]]:
    action, elements = contract.action, elements_of(contract.observation)
    signals, period = [signal.name for signal in contract.observation], 1.0 / contract.rate_hz
    yield "period", period
    yield "deadline_s", limits.deadline_s or period
    yield "max_pause_s", limits.max_pause(contract)
    yield "hold_ticks", limits.hold_ticks
    yield "stop_after", limits.stop_after
    yield "blend_in_s", limits.blend_in_s
    low, high = limits.bounds(action)
    yield "low", low.tolist()
    yield "high", high.tolist()
    yield "rate", by_element(limits.rate, action, math.inf).tolist()
    yield "acceleration", by_element(limits.acceleration, action, math.inf).tolist()
    if isinstance(limits.rest, str):
        yield "rest_signal", signals.index(limits.rest)
    elif limits.rest is not None:
        yield "has_rest", True
        yield "rest", _single(by_element(limits.rest, action, 0.0))
    ages = limits.max_age(contract)
    yield "max_age_s", [float(ages[name]) for name in signals]
    frozen = limits.repeats(contract, guards)
    yield "frozen", [frozen.get(name, 0) for name in signals]
    yield from _spans("inside", {name: (*entry.range, entry.then) for name, entry in limits.inside.items()}, elements)
    bounds = {
        f"{signal.name}.{element}": (*span, limits.beyond(signal.name))
        for signal in contract.observation
        for element, span in signal_bounds(signal, (), limits).items()
    }
    yield from _spans("bounds", bounds, elements)
    yield "jump", [float(limits.jump[name].most) if name in limits.jump else math.inf for name in elements]
    yield "jump_then", [limits.jump[name].then if name in limits.jump else "hold" for name in elements]
    if contract.training_ranges is not None and "ranges" in guards:
        yield from _ranges(contract, elements)
    entries = [limits.moves_of(contract).get(name) for name in action.elements]
    movers = [moves if moves is not None and moves.element in limits.workspace else None for moves in entries]
    yield "moves", [-1 if moves is None else elements.index(moves.element) for moves in movers]
    yield "moves_scale", [1.0 if moves is None else float(moves.scale) for moves in movers]
    for side, name in enumerate(("workspace_low", "workspace_high")):
        yield name, [0.0 if moves is None else float(limits.workspace[moves.element][side]) for moves in movers]
    if (alarm := limits.longest_alarm(guards)) is not None:
        yield "alarm_steps", alarm.steps
        yield "alarm_score", alarm.score
        yield "alarm_then", alarm.then
    if (adapt := limits.time_to_adapt) is not None:
        yield "adapt_steps", adapt.bound(contract.recovery)[0]
        yield "adapt_gentle", adapt.gentle
        yield "adapt_then", adapt.then


def _spans(rule: str, spans: dict[str, Any], elements: list[str]) -> Iterator[tuple[str, Value]]:
    """Yield lowest value, highest value and reaction for each element; infinite if it has no span."""
    full = [spans.get(name, (-math.inf, math.inf, "hold")) for name in elements]
    yield f"{rule}_low", _single(low for low, _, _ in full)
    yield f"{rule}_high", _single(high for _, high, _ in full)
    yield f"{rule}_then", [then for _, _, then in full]


def _ranges(contract: Contract, elements: list[str]) -> Iterator[tuple[str, Value]]:
    assert contract.training_ranges is not None
    signals = tuple(signal for signal in contract.observation if signal.name in contract.training_ranges.signals)
    spreads = [contract.training_ranges.signals[signal.name] for signal in signals]
    names = elements_of(signals)
    rule = TrainingRangeRule(names, [signal.unit for signal in signals for _ in signal.elements], spreads)
    for name, allowed in (("first", rule.first), ("later", rule.later)):
        for end, values, unlimited in zip(("low", "high"), allowed, (-math.inf, math.inf), strict=True):
            full = np.full(len(elements), unlimited, np.float32)
            full[[elements.index(element) for element in names]] = values
            yield f"{name}_{end}", full.tolist()


def _single(values: Iterable[float]) -> list[float]:
    """Return numbers rounded to float32."""
    return np.fromiter(values, np.float32).tolist()
