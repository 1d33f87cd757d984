"""The probe: a small network in the model's graph that estimates features of the physics from the context.

A feature that contexts do not identify is listed here, but has no output: a meaningless number is worse than none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from pydantic import Field, model_validator

from sami_runtime.signals import Count, Entry, NotNegative, Number, Signal, Text

PROBE = "probe_"
"""Prefix of the graph's outputs that estimate a feature of the task; the feature's name follows."""
NODES = "probe/"
"""Prefix of all nodes and tensors in the graph that compute these outputs."""
LEAST_R2 = 0.1
"""R2 on held-out tasks below which contexts do not identify a feature."""
ESTIMATE = ("estimate", "low", "high")
"""Elements of the output for a number: the estimate, and the ends of its interval."""


class ProbedFeature(Entry):
    """How well contexts identify one feature, on episodes in held-out tasks."""

    name: Text
    unit: Text
    low: Number
    """Smallest value in the tasks; 0 (intact) for parts."""
    high: Number
    """Largest value in the tasks; 1 (crippled) for parts."""
    logarithmic: bool = False
    """Whether the feature's scale is its natural logarithm, so that errors are ratios."""
    parts: tuple[str, ...] = ()
    """Names of the parts that may be crippled; empty for a number."""
    r2: Number
    """Explained share of the variance, on the feature's scale; 0 or less if contexts contain no information."""
    margin: NotNegative
    """Half the width of the interval, on the feature's scale; calibrated on other episodes than those of the fit."""
    coverage: float = Field(ge=0, le=1)
    """Share of held-out steps whose interval contains the true value; every episode has the same weight."""

    @property
    def carried(self) -> bool:
        """Whether contexts identify the feature, so that the graph has an output for it."""
        return self.r2 >= LEAST_R2

    @property
    def signal(self) -> Signal:
        """The graph's output for the feature."""
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
    """Metadata of the probe in a model file."""

    step: int = Field(ge=0)
    """First step of an episode, from 0, that the fit includes; before it, the encoder has seen too little."""
    rate: float = Field(gt=0, lt=1)
    """Share of intervals that should contain the true value."""
    fitted: Count
    """Episodes of the fit, each in its own task."""
    calibrated: Count
    """Other episodes, on which the margins were calibrated."""
    held_out: Count
    """Other episodes, on which R2 and coverage were measured."""
    features: tuple[ProbedFeature, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _named_once(self) -> Probe:
        names = [feature.name for feature in self.features]
        if len(set(names)) < len(names):
            raise ValueError(f"features named twice among {', '.join(names)}")
        return self

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The graph's outputs, for the features that contexts identify."""
        return tuple(feature.signal for feature in self.features if feature.carried)

    @property
    def silent(self) -> tuple[str, ...]:
        """Features that contexts do not identify."""
        return tuple(feature.name for feature in self.features if not feature.carried)

    def require_fit(self, outputs: Iterable[Signal]) -> None:
        """Raise ValueError unless the probe's outputs among a contract's extra outputs are `signals`, in order."""
        names = [signal.name for signal in outputs if is_probe(signal)]
        expected = [signal.name for signal in self.signals]
        if names != expected:
            raise ValueError(f"the probe describes the outputs {expected}; the contract has {names}")

    def lines(self) -> list[str]:
        """Return the metadata for people: a head line, then a line for each feature."""
        head = (
            f"probe: from step {self.step} on, fitted to {self.fitted} episodes in tasks of their own, intervals for "
            f"{self.rate:.0%} of cases calibrated on {self.calibrated} others, judged on {self.held_out} more"
        )
        return [head, *(f"  {feature}" for feature in self.features)]


def is_probe(signal: Signal) -> bool:
    """Return whether an output of the graph belongs to the probe."""
    return signal.name.startswith(PROBE)
