"""Training ranges: statistics of each element in training, and how observations respond to actions."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from sami_runtime.signals import Count, Entry, NotNegative, Number, Positive, Text

Numbers = tuple[Number, ...]
Array = NDArray[np.float64]

DIGITS = 6
"""Significant digits that are stored: more than any sensor has."""
RARE = (0.1, 99.9)
"""Percentiles beyond which a number was rare."""
LEAST = 0.5
"""Least width or deviation of an element, as a share of the largest in its signal: an element that never changed in
training gets a margin, too."""
ALLOWED = 2.0
"""Standard deviations beyond the training range that are allowed at rest, before the policy acts."""
FACTORS: dict[str, dict[str, float]] = {
    "m": {"cm": 100.0, "mm": 1000.0},
    "rad": {"degrees": 180 / np.pi},
    "s": {"ms": 1000.0},
}
"""By unit: units that people use in its place by mistake, each with how many of them make one, the fewest first."""


class Spread(Entry):
    """Statistics of one signal in training, in its unit: each (size,)."""

    mean: Numbers
    deviation: tuple[NotNegative, ...] = Field(min_length=1)
    lowest: Numbers
    rare_low: Numbers
    """The 0.1st percentile."""
    rare_high: Numbers
    """The 99.9th percentile."""
    highest: Numbers

    @model_validator(mode="after")
    def _same_sizes(self) -> Spread:
        if len({len(value) for value in dict(self).values()}) != 1:
            raise ValueError("the numbers of a spread are not all of one size")
        return self

    @property
    def size(self) -> int:
        """Number of the signal's elements."""
        return len(self.mean)

    def widened(self, times: float, by: Literal["width", "deviation"]) -> tuple[Array, Array]:
        """Return the lowest (size,) and highest (size,) values of the training range, widened by a margin.

        If the whole signal was constant in training, its margin has no scale, and the range is infinite.

        Args:
            times: Margin to either side, as a multiple of `by`.
            by: The width of the element's range, or its standard deviation.

        >>> Spread.of(np.array([[0.0, 5.0], [2.0, 5.0]])).widened(0.5, "width")
        (array([-1. ,  4.5]), array([3. , 5.5]))
        """
        low, high = np.array(self.lowest), np.array(self.highest)
        scale = high - low if by == "width" else np.array(self.deviation)
        scale = np.maximum(scale, LEAST * scale.max())
        margin = np.where(scale > 0, times * scale, np.inf)
        return low - margin, high + margin

    @classmethod
    def of(cls, values: NDArray[np.floating]) -> Spread:
        """Return the spread of a signal's values (T, size).

        >>> Spread.of(np.array([[0.0], [1.0]])).mean
        (0.5,)
        """
        rare_low, rare_high = np.percentile(values, RARE, axis=0)
        return cls(
            mean=rounded(values.mean(axis=0, dtype=np.float64)),
            deviation=rounded(values.std(axis=0, dtype=np.float64)),
            lowest=rounded(values.min(axis=0)),
            rare_low=rounded(rare_low),
            rare_high=rounded(rare_high),
            highest=rounded(values.max(axis=0)),
        )


class Response(Entry):
    """Response of one signal to each element of the action, in its unit for a unit of the action: each (A, size)."""

    mean: tuple[Numbers, ...]
    deviation: tuple[Numbers, ...]
    """Standard deviation over tasks and starts."""


class Responses(Entry):
    """Responses of observations to small moves of each element of the action; `response.probe` makes the moves."""

    size: tuple[Positive, ...] = Field(min_length=1)
    """(A,): size of the moves of each element from the neutral action, in the action's unit."""
    ticks: Count
    """Duration of a move to either side [ticks of the policy]."""
    settle: Count
    """Ticks at rest after each move."""
    starts: int = Field(ge=2)
    """Number of starts, in all tasks together, over which the responses were measured."""
    signals: dict[str, Response]
    """By the name of the observation's signal."""


class TrainingRanges(Entry):
    """Statistics of all signals in training."""

    OPTIONAL = ("repeats",)

    measured: Text
    """How it was measured, for people."""
    steps: Count
    episodes: Count
    signals: dict[str, Spread]
    """By signal, the action included: over all steps."""
    begin: dict[str, Spread]
    """By signal of the observation: over the first steps of the episodes, where the robot is at home."""
    responses: Responses | None = None
    repeats: dict[str, Count] = Field(default_factory=dict)
    """By observation signal whose sensor had noise in training: the longest run of values that were equal to the last
    bit, 1 where none repeated. Empty where training had no noise, and in files that were exported before this entry."""

    def require_fit(self, sizes: dict[str, int], action: str) -> None:
        """Raise ValueError if an entry does not match the contract's signals and their sizes.

        Args:
            sizes: Of the observation's signals and of the action, by name.
            action: Name of the action.
        """
        observed = {name: size for name, size in sizes.items() if name != action}
        for field, spreads, valid in (("signals", self.signals, sizes), ("begin", self.begin, observed)):
            if (spread_sizes := {name: spread.size for name, spread in spreads.items()}) != valid:
                raise ValueError(f"seen.{field} describes {spread_sizes}; the contract has {valid}")
        if unknown := sorted(set(self.repeats) - set(observed)):
            raise ValueError(f"seen.repeats names {', '.join(unknown)}; the observation has {', '.join(observed)}")
        if self.responses is None:
            return
        if len(self.responses.size) != sizes[action]:
            raise ValueError(f"seen.responses has {len(self.responses.size)} moves for {sizes[action]} elements")
        for name, size in observed.items():
            response = self.responses.signals.get(name)
            shape = (sizes[action], size)
            if response is None or {np.shape(response.mean), np.shape(response.deviation)} != {shape}:
                raise ValueError(f"seen.responses has no entry of the shape {shape} for {name!r}")


def mistaken_units(unit: str) -> dict[str, float]:
    """Return the `FACTORS` of a unit, also of a rate such as m/s, which a mistaken unit makes cm/s."""
    base, slash, time = unit.partition("/")
    return {f"{name}{slash}{time}": factor for name, factor in FACTORS.get(base, {}).items()}


def other_unit(unit: str, value: Array, low: Array, high: Array) -> tuple[str, float] | None:
    """Guess the unit of a signal that is out of its range: (unit, how many of it make one `unit`); None if none fits.

    Args:
        unit: The unit that the signal should have.
        value: The signal's numbers (size,).
        low: Lowest allowed numbers in `unit`, (size,).
        high: Highest allowed numbers in `unit`, (size,).

    >>> other_unit("rad", np.array([86.0, 0.0]), np.array([-1.6, -1.0]), np.array([1.6, 1.0]))
    ('degrees', 57.29577951308232)
    """
    fitting = mistaken_units(unit).items()
    return next(((name, by) for name, by in fitting if ((low <= value / by) & (value / by <= high)).all()), None)


def rounded(values: ArrayLike) -> Numbers:
    """Return numbers (size,) rounded to `DIGITS` significant digits."""
    return tuple(float(f"{value:.{DIGITS}g}") for value in np.asarray(values, np.float64))
