"""Layouts: they convert between flat vectors, signals by name, and the observations of an environment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces

from sami_runtime.errors import SamiError
from sami_runtime.signals import Signal, SignalSource

UNIT = "1"
"""Unit of signals without one."""
PRIVILEGED = "privileged"
"""Key of `info` by which an environment reports its privileged signals, flat (P,); see `EnvironmentSpec.privileged`."""
FLAT_KEYS = ("observation", "achieved_goal", "desired_goal")
"""Entries of a goal environment's observation, which come first in the flat vector, in this order."""


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
        unit: the unit of each number.
        elements: the numbers' names; or how many numbers there are, which are then numbered.
        bounds: smallest and largest value of each number, in the unit; if None, those of the environment's space.
        **fields: `meaning` and `moves`, see `Signal`.
    """
    if isinstance(elements, int):
        elements = (name,) if elements == 1 else tuple(map(str, range(elements)))
    size = len(elements)
    low, high = (None, None) if bounds is None else bounds
    return Signal(
        name=name, size=size, unit=unit, elements=tuple(elements), low=(low,) * size, high=(high,) * size, **fields
    )


def keys_in_order(keys: Iterable[str]) -> list[str]:
    """Return the keys of a Dict observation in the order of the flat vector: Gymnasium's goal keys, then by name."""
    return sorted(keys, key=lambda key: (FLAT_KEYS.index(key) if key in FLAT_KEYS else len(FLAT_KEYS), key))


def flatten(observation: Any) -> np.ndarray:
    """Return an observation, an array or a dictionary of arrays, as flat float32 vectors (..., D)."""
    if isinstance(observation, dict):
        parts = [observation[key] for key in keys_in_order(observation)]
        return np.concatenate(parts, -1).astype(np.float32, copy=False)
    return np.asarray(observation, dtype=np.float32)


def flat_size(space: spaces.Space) -> int:
    """Return the length D of a flat observation.

    Raises:
        SamiError: the space is neither a Box nor a Dict of Boxes.
    """
    parts = list(space.spaces.values()) if isinstance(space, spaces.Dict) else [space]
    if strange := [part for part in parts if not isinstance(part, spaces.Box)]:
        raise SamiError(
            f"the observation is {space}; it must be a Box or a Dict of Boxes, but contains {strange[0]}. Wrap the "
            "environment, e.g. in gymnasium.wrappers.FlattenObservation."
        )
    return sum(int(np.prod(part.shape or ())) for part in parts)


@dataclass(frozen=True)
class Layout:
    """Where each signal is in an environment's observation, and thereby in the flat vector of training.

    >>> from sami_train.envs import environment
    >>> layout = environment("panda").layout
    >>> layout.columns("cube_position")
    slice(7, 10, None)
    >>> layout.by_name(np.arange(layout.size))["cube_position"]
    array([7, 8, 9])
    """

    sources: tuple[SignalSource, ...]
    """The signals with their positions, in the contract's order; together they cover the whole observation."""

    @classmethod
    def of(cls, signals: Sequence[Signal]) -> Layout:
        """Return the layout of signals that follow one another in one vector."""
        starts = np.cumsum([0, *(signal.size for signal in signals[:-1])]).tolist()
        return cls(tuple(SignalSource(signal, start=start) for signal, start in zip(signals, starts, strict=True)))

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The signals, in the contract's order."""
        return tuple(source.signal for source in self.sources)

    @property
    def size(self) -> int:
        """Length D of the flat vector."""
        return sum(self._part_sizes.values())

    @cached_property
    def order(self) -> list[int]:
        """The flat vector's columns in the contract's order of signals, (D,)."""
        return [index for indices in self._indices.values() for index in indices]

    def columns(self, name: str) -> slice:
        """Return a signal's columns in the flat vector as a slice."""
        indices = self._indices[name]
        return slice(indices[0], indices[-1] + 1)

    def numbers(self, name: str) -> list[int]:
        """Return a signal's columns in the flat vector as a list."""
        return list(self._indices[name])

    def by_name(self, flat: np.ndarray, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Return copies of the signals (..., size) in flat vectors (..., D).

        Args:
            flat: flat vectors, as `flatten` returns them.
            names: names of the signals to return; all if None.
        """
        return {name: flat[..., self._indices[name]] for name in (self._indices if names is None else names)}

    def unflatten(self, flat: np.ndarray) -> Any:
        """Return the environment's own observation, an array or a dictionary of arrays, of a flat vector (D,)."""
        sizes = self._part_sizes
        if None in sizes:
            return flat
        return dict(zip(sizes, np.split(flat, np.cumsum(list(sizes.values()))[:-1]), strict=True))

    @cached_property
    def _part_sizes(self) -> dict[str | None, int]:
        """Length of each part of the environment's observation, in the order of the flat vector."""
        ends: dict[str | None, list[int]] = {}
        for source in self.sources:
            ends.setdefault(source.key, []).append(source.start + source.signal.size)
        order: list[str | None] = [None] if None in ends else [*keys_in_order(key for key in ends if key is not None)]
        return {key: max(ends[key]) for key in order}

    @cached_property
    def _indices(self) -> dict[str, list[int]]:
        """Columns of each signal in the flat vector."""
        offsets = dict(zip(self._part_sizes, np.cumsum([0, *self._part_sizes.values()]).tolist(), strict=False))
        starts = {source.signal.name: offsets[source.key] + source.start for source in self.sources}
        return {signal.name: [starts[signal.name] + i for i in range(signal.size)] for signal in self.signals}
