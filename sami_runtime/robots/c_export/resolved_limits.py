"""The limits of a gate as numbers for each element: what the rules of `sami_runtime.safety` make of a limits.toml."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import DEFAULT_ALARM, FROZEN_LEAST, GUARDS, Limits, by_element, elements_of
from sami_runtime.safety.watch import TrainingRanges, active_guards, signal_bounds


def resolved_limits(limits: Limits, contract: Contract, guards: Iterable[str] = tuple(GUARDS)) -> list[str]:
    """Return statements that put limits into a `sami::Limits` in C++, named `limits`.

    Args:
        limits: What is allowed.
        contract: Of the model.
        guards: Names of `GUARDS` that judge observations as well, as `Run` has them for a robot.

    Raises:
        SamiError: The limits do not fit the model.
    """
    limits.require_fit(contract)
    return [f"limits.{name} = {value};" for name, value in _entries(limits, contract, [*guards])]


def _entries(limits: Limits, contract: Contract, guards: list[str]) -> Iterator[tuple[str, str]]:
    action, elements = contract.action, elements_of(contract.observation)
    signals = [signal.name for signal in contract.observation]
    guards = [*active_guards(contract, guards)]
    yield "period", number(1.0 / contract.rate_hz)
    yield "max_pause_s", number(limits.max_pause(contract))
    yield "hold_ticks", str(limits.hold_ticks)
    yield "stop_after", str(limits.stop_after)
    yield "blend_in_s", number(limits.blend_in_s)
    for name, bound in zip(("low", "high"), limits.bounds(action), strict=True):
        yield name, floats(bound)
    yield "rate", doubles(by_element(limits.rate, action, math.inf))
    yield "acceleration", doubles(by_element(limits.acceleration, action, math.inf))
    if isinstance(limits.rest, str):
        yield "rest_signal", str(signals.index(limits.rest))
    elif limits.rest is not None:
        yield "has_rest", "true"
        yield "rest", floats(by_element(limits.rest, action, 0.0))
    ages = limits.max_age(contract)
    yield "max_age_s", doubles([ages[name] for name in signals])
    repeats = contract.seen.repeats if contract.seen is not None and "frozen" in guards else {}
    frozen = {name: max(FROZEN_LEAST, 2 * longest + 1) for name, longest in repeats.items()} | limits.frozen
    yield "frozen", row(str(frozen.get(name, 0)) for name in signals)
    yield from _spans("inside", {name: (*entry.range, entry.then) for name, entry in limits.inside.items()}, elements)
    bounds = {
        f"{signal.name}.{element}": (*span, limits.beyond(signal.name))
        for signal in contract.observation
        for element, span in signal_bounds(signal, (), limits).items()
    }
    yield from _spans("bounds", bounds, elements)
    yield "jump", doubles([limits.jump[name].most if name in limits.jump else math.inf for name in elements])
    yield "jump_then", thens(limits.jump[name].then if name in limits.jump else "hold" for name in elements)
    if contract.seen is not None and "ranges" in guards:
        yield from _ranges(contract, elements)
    moved = {at: limits.moved(contract).get(name) for at, name in enumerate(action.elements)}
    kept = {at: moves for at, moves in moved.items() if moves is not None and moves.element in limits.workspace}
    yield "moves", row(str(elements.index(kept[at].element)) if at in kept else "-1" for at in moved)
    yield "moves_scale", doubles([kept[at].scale if at in kept else 1.0 for at in moved])
    for side, name in enumerate(("workspace_low", "workspace_high")):
        yield name, doubles([limits.workspace[kept[at].element][side] if at in kept else 0.0 for at in moved])
    alarm = limits.stop_on_alarm or (DEFAULT_ALARM if "ood" in guards else None)
    if alarm is not None:
        yield "alarm_steps", str(alarm.steps)
        yield "alarm_score", number(alarm.score)
        yield "alarm_then", f"sami::Then::{alarm.then}"


def _spans(rule: str, spans: dict[str, Any], elements: list[str]) -> Iterator[tuple[str, str]]:
    """Yield lowest, highest and what happens beyond, by element; infinite where there is no span."""
    full = [spans.get(name, (-math.inf, math.inf, "hold")) for name in elements]
    yield f"{rule}_low", floats([low for low, _, _ in full])
    yield f"{rule}_high", floats([high for _, high, _ in full])
    yield f"{rule}_then", thens(then for _, _, then in full)


def _ranges(contract: Contract, elements: list[str]) -> Iterator[tuple[str, str]]:
    assert contract.seen is not None
    spreads = [contract.seen.signals[s.name] for s in contract.observation if s.name in contract.seen.signals]
    signals = [signal for signal in contract.observation if signal.name in contract.seen.signals]
    rule = TrainingRanges(elements_of(tuple(signals)), [s.unit for s in signals for _ in s.elements], spreads)
    places = [elements.index(name) for name in elements_of(tuple(signals))]
    for name, allowed in (("first", rule.first), ("later", rule.later)):
        for end, values, none in zip(("low", "high"), allowed, (-math.inf, math.inf), strict=True):
            full = np.full(len(elements), none, np.float32)
            full[places] = values
            yield f"{name}_{end}", floats(full)


def number(value: float) -> str:
    """Return a float64 as C++ writes it, with the digits that restore it.

    >>> number(0.1), number(-math.inf), number(3)
    ('0.1', '-sami::kInfinity', '3.0')
    """
    if math.isinf(value):
        return "sami::kInfinity" if value > 0 else "-sami::kInfinity"
    return repr(float(value))


def row(values: Iterable[str]) -> str:
    """Return a row of values as C++ writes it."""
    return f"{{{{{', '.join(values)}}}}}"


def doubles(values: Iterable[float]) -> str:
    """Return a row of float64."""
    return row(map(number, values))


def floats(values: Iterable[float]) -> str:
    """Return a row of float32."""
    return row(f"static_cast<float>({number(float(np.float32(value)))})" for value in values)


def thens(values: Iterable[str]) -> str:
    """Return a row of what happens."""
    return row(f"sami::Then::{value}" for value in values)
