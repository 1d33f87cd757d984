"""Signals and layout of an environment that nobody described: from its spaces, and from what its user says of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from sami_runtime.adapters.gymnasium_adapter import SignalSource
from sami_runtime.errors import SamiError
from sami_runtime.signals import Signal
from sami_train.envs.layout import Layout, keys_in_order

SignalNames = Mapping[str, Any] | Sequence[Signal] | None
"""What a user says of signals: one after the other, by entry of a Dict observation, or nothing."""
UNIT = "1"
"""Of what nobody gave a unit."""


def signal(
    name: str,
    unit: str = UNIT,
    elements: int | Sequence[str] = 1,
    bounds: tuple[float, float] | None = None,
    **fields: Any,
) -> Signal:
    """Return a signal: a named group of numbers of an observation or an action.

    >>> signal("angle", "rad").elements
    ('angle',)
    >>> signal("position", "m", "x y z".split()).size
    3

    Args:
        name: letters, digits and underscores.
        unit: of each number.
        elements: their names; or how many there are, and then they are numbered.
        bounds: smallest and largest value of each; what the environment's space says, if None.
        **fields: `meaning` and `moves`, see `Signal`.
    """
    if isinstance(elements, int):
        elements = (name,) if elements == 1 else tuple(map(str, range(elements)))
    size = len(elements)
    low, high = (None, None) if bounds is None else bounds
    return Signal(
        name=name, size=size, unit=unit, elements=tuple(elements), low=(low,) * size, high=(high,) * size, **fields
    )


def observed(space: spaces.Space[Any], declared: SignalNames, name: str) -> Layout:
    """Return where the signals of an observation lie.

    Args:
        space: a Box, or a Dict of them.
        declared: signals of a Box one after the other; of a Dict, those of each entry by its key. What is left out is
            one signal: `observation`, or the entry's key.
        name: of the environment, for messages.

    Raises:
        SamiError: the space is another one, or what is told of it does not fit.
    """
    parts = _parts(space, name)
    if not isinstance(space, spaces.Dict):
        if isinstance(declared, Mapping):
            raise SamiError(
                f"{name} observes one Box, and its signals are told by entry ({', '.join(declared)}); give a list of "
                "them."
            )
        by_key: dict[str | None, Sequence[Signal]] = {None: _sequence(declared)}
    else:
        if declared is not None and not isinstance(declared, Mapping):
            raise SamiError(f"{name} observes {', '.join(space)}; give the signals of each by its key, a dict.")
        if strange := [key for key in declared or {} if key not in space.spaces]:
            raise SamiError(f"{name} observes {', '.join(space)}, and signals are told of {', '.join(strange)}.")
        by_key = {key: _sequence((declared or {}).get(key)) for key in space}
    sources: list[SignalSource] = []
    for key in parts:
        low, high = (np.ravel(end) for end in (parts[key].low, parts[key].high))
        what = f"{name}'s observation" + ("" if key is None else f" {key!r}")
        start = 0
        for entry in by_key[key] or (signal(_name(key or "observation"), elements=len(low)),):
            end = start + entry.size
            sources.append(SignalSource(_bounded(entry, low[start:end], high[start:end], what), key, start))
            start = end
        if start != len(low):
            raise SamiError(f"the signals told of {what} have {start} numbers together; it has {len(low)}.")
    names = [source.signal.name for source in sources]
    if twice := sorted({entry for entry in names if names.count(entry) > 1}):
        raise SamiError(f"{name} observes two signals that are called {twice[0]}; name them in signals.")
    return Layout(tuple(sources))


def acted(space: spaces.Space[Any], action_signal: Signal | None, name: str) -> Signal:
    """Return what a policy writes: numbers from -1 to 1, whose meaning tells what they stand for.

    Args:
        space: a Box with bounds.
        action_signal: the true action, in its units; one called `action` without units, if None.
        name: of the environment, for messages.

    Raises:
        SamiError: the space is another one, has no bounds, or the signal does not fit it.
    """
    if not isinstance(space, spaces.Box):
        raise SamiError(
            f"{name} acts by {space}; a policy of SaMI acts by continuous numbers, a Box with bounds. Discrete actions "
            "are not supported: give the environment a continuous action, e.g. a force instead of its sign."
        )
    low, high = np.ravel(space.low).astype(float), np.ravel(space.high).astype(float)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise SamiError(
            f"{name} acts by {space}, which has no bounds; give it some, e.g. with "
            "gymnasium.wrappers.TransformAction or in its action_space."
        )
    true = action_signal or signal("action", elements=len(low))
    if true.size != len(low):
        raise SamiError(f"the action told of {name} has {true.size} numbers; it acts by {len(low)}.")
    if (low == -1.0).all() and (high == 1.0).all():
        return true.model_copy(update={"low": (-1.0,) * true.size, "high": (1.0,) * true.size})
    unit = "" if true.unit == UNIT else f" {true.unit}"
    ends = [f"-1 to 1 stands for {a:g} to {b:g}{unit}" for a, b in zip(low, high, strict=True)]
    named = [f"{element}: {end}" for element, end in zip(true.elements, ends, strict=True)]
    scales = ends[0] if len(set(ends)) == 1 else ", ".join(named)
    return true.model_copy(
        update={
            "unit": UNIT,
            "low": (-1.0,) * true.size,
            "high": (1.0,) * true.size,
            "meaning": f"{true.meaning}; {scales}" if true.meaning else scales,
        }
    )


def _parts(space: spaces.Space[Any], name: str) -> dict[str | None, spaces.Box]:
    """Return the Boxes of an observation in the order of the flat vector."""
    if isinstance(space, spaces.Dict):
        entries: dict[str | None, Any] = {key: space[key] for key in keys_in_order(space.spaces)}
    else:
        entries = {None: space}
    for key, entry in entries.items():
        what = "its observation" if key is None else f"its entry {key!r}"
        if not isinstance(entry, spaces.Box):
            raise SamiError(
                f"{name} observes {space}; a policy of SaMI reads a Box or a Dict of them, and {what} is a "
                f"{type(entry).__name__}. Wrap it, e.g. in gymnasium.wrappers.FlattenObservation."
            )
        if len(entry.shape) > 2:
            raise SamiError(f"{name}: {what} has the shape {entry.shape}; a policy of SaMI reads vectors, no pictures.")
    return entries


def _sequence(declared: Any) -> Sequence[Signal]:
    return (declared,) if isinstance(declared, Signal) else tuple(declared or ())


def _name(key: str) -> str:
    """Return an entry's key as the name of a signal."""
    return re.sub(r"^(?=\d)", "_", re.sub(r"\W+", "_", key))


def _bounded(entry: Signal, low: np.ndarray, high: np.ndarray, what: str) -> Signal:
    """Return a signal with the space's bounds where it has none of its own."""
    if len(low) < entry.size:
        raise SamiError(f"signal {entry.name!r} reaches beyond {what}; give fewer elements.")
    if any(bound is not None for bound in (*entry.low, *entry.high)):
        return entry
    ends = {"low": _known(low), "high": _known(high)}
    return entry.model_copy(update=ends)


def _known(bounds: np.ndarray) -> tuple[float | None, ...]:
    """Return bounds; None for those that are only the end of what float32 can hold."""
    return tuple(float(x) if abs(x) < np.finfo(np.float32).max else None for x in bounds)
