"""The probe: what a context says of the physics, read by a small network in the graph, and how far it can be believed.

A feature that contexts do not carry is told of here, and is no output: a number that says nothing is worse than none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from pydantic import Field, model_validator

from sami_runtime.signals import Count, Entry, NotNegative, Number, Signal, Text

PROBE = "probe_"
"""What the names of the graph's outputs begin with that estimate a feature of the task; its name follows."""
NODES = "probe/"
"""What the graph's names of all begin with that computes them."""
LEAST_R2 = 0.1
"""R2 on tasks that nothing was fitted to, below which a context does not identify a feature."""
ESTIMATE = ("estimate", "low", "high")
"""The elements of an output for a number: the estimate, and the interval that holds the truth."""


class ProbedFeature(Entry):
    """How well contexts tell one feature, on episodes in tasks that nothing was fitted to."""

    name: Text
    unit: Text
    low: Number
    """Smallest value in the tasks; of parts 0, intact."""
    high: Number
    """Largest value in the tasks; of parts 1, crippled."""
    logarithmic: bool = False
    """Whether errors are ratios: the margin is then of the natural logarithm."""
    parts: tuple[str, ...] = ()
    """Names of the parts that may be crippled; empty for a number."""
    r2: Number
    """Share of the variance that is explained, on the feature's scale; 0 or less where contexts tell nothing."""
    margin: NotNegative
    """Half the width of the interval, on the feature's scale: calibrated on other episodes than those of the fit."""
    coverage: float = Field(ge=0, le=1)
    """Share of held-out steps, each episode as a whole counting alike, whose interval holds the truth."""

    @property
    def carried(self) -> bool:
        """Whether contexts tell it, so that the graph answers it."""
        return self.r2 >= LEAST_R2

    @property
    def signal(self) -> Signal:
        """The graph's output."""
        if self.parts:
            elements, meaning = self.parts, f"how likely each {self.name} part is; off by at most {self.margin:.2g}"
        else:
            elements, meaning = ESTIMATE, f"what {self.name} is estimated to be, by the context"
        size = len(elements)
        low, high = (self.low,) * size, (self.high,) * size
        name = PROBE + self.name
        return Signal(name=name, size=size, unit=self.unit, elements=elements, low=low, high=high, meaning=meaning)

    def __str__(self) -> str:
        unit = "" if self.unit == "1" else f" {self.unit}"
        within = f"{self.name}, {self.low:g} to {self.high:g}{unit}" if not self.parts else self.name
        if not self.carried:
            return f"{within}: the context does not identify it (R2 {self.r2:.2f})"
        margin = f"a factor of {math.exp(self.margin):.2g}" if self.logarithmic else f"{self.margin:.2g}{unit}"
        return f"{within}: R2 {self.r2:.2f}, within {margin} in {self.coverage:.0%} of held-out cases"


class Probe(Entry):
    """What a model file says of its probe."""

    step: int = Field(ge=0)
    """First step of an episode, from 0, from which it was fitted; before it the encoder has not seen enough."""
    rate: float = Field(gt=0, lt=1)
    """Share of intervals that are to hold the truth."""
    fitted: Count
    """Episodes that it was fitted to, each in a task of its own."""
    calibrated: Count
    """Others, that the margins come from."""
    held_out: Count
    """Others, that R2 and coverage come from."""
    features: tuple[ProbedFeature, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _named_once(self) -> Probe:
        names = [feature.name for feature in self.features]
        if len(set(names)) < len(names):
            raise ValueError(f"features named twice among {', '.join(names)}")
        return self

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The graph's outputs: of features that contexts carry."""
        return tuple(feature.signal for feature in self.features if feature.carried)

    @property
    def silent(self) -> tuple[str, ...]:
        """Features that contexts do not identify."""
        return tuple(feature.name for feature in self.features if not feature.carried)

    def require_fit(self, outputs: Iterable[Signal]) -> None:
        """Raise ValueError where the probe's among a contract's extra outputs are not the features that are carried."""
        names = [signal.name for signal in outputs if is_probe(signal)]
        expected = [signal.name for signal in self.signals]
        if names != expected:
            raise ValueError(f"the probe tells of the outputs {expected}; the contract has {names}")

    def lines(self) -> list[str]:
        """Return what it says of itself, a line a feature."""
        head = (
            f"probe: from step {self.step} on, fitted to {self.fitted} episodes in tasks of their own, intervals for "
            f"{self.rate:.0%} of cases calibrated on {self.calibrated} others, judged on {self.held_out} more"
        )
        return [head, *(f"  {feature}" for feature in self.features)]


def is_probe(signal: Signal) -> bool:
    """Whether an output of a graph is a probe's."""
    return signal.name.startswith(PROBE)
