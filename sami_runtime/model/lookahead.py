"""Lookahead: how a model file sees through latency, by a forward model in front of the unchanged policy.

The graph predicts each signal from what was observed `age` periods ago to now, over the actions that were executed
since; a signal of age 0 reaches the policy as it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import Field, model_validator

from sami_runtime.signals import Count, Entry, NotNegative, Signal, Text

AGE = "age"
"""The graph's input of ages [periods], one for each signal of the observation, in the contract's order."""
HELD = "held"
"""What golden steps call the periods that passed without a step before each step; it is no tensor of the graph."""
PAST_ACTIONS = "past_actions"
"""The state tensor (K, A) of the actions that were executed before the previous one, the newest first."""
LAST_CONTEXT = "last_context"
"""The state tensor (C,) of the context of the step before, which the forward model reads."""
FRONT = "lookahead/"
"""What the graph's names of all that is in front of the policy begin with; also of what it tells the policy to have
been observed, `lookahead/observation.NAME`."""
MOST_STEPS = 16
"""Most periods that a file may look ahead: each one is a forward model in the graph."""


class SignalErrors(Entry):
    """How far a signal was off on held-out episodes: root of the mean square over elements, in the signal's unit."""

    predicted: tuple[NotNegative, ...]
    """(K,): when predicted by 1, 2, ... periods."""
    standing: tuple[NotNegative, ...]
    """(K,): when it is taken for the present as it was so many periods ago."""


class Lookahead(Entry):
    """What a model file says of its forward model."""

    steps: int = Field(ge=1, le=MOST_STEPS)
    """K: the largest age [periods] that was fitted. What is older is held, not guessed."""
    fitted: Text
    """What it was fitted to, for people."""
    transitions: Count
    """How many transitions it was fitted to."""
    held_out: Count
    """How many others `errors` come from."""
    errors: dict[str, SignalErrors]
    """By signal of the observation."""

    @model_validator(mode="after")
    def _one_for_each_step(self) -> Lookahead:
        lengths = {len(part) for error in self.errors.values() for part in (error.predicted, error.standing)}
        if lengths - {self.steps}:
            raise ValueError(f"errors are told for {sorted(lengths)} periods, and it looks ahead by {self.steps}")
        return self

    @property
    def changing(self) -> frozenset[str]:
        """Signals whose age counts; the others, such as a goal, stay as they are for a whole episode."""
        return frozenset(name for name, error in self.errors.items() if any(error.standing))

    def summary(self) -> str:
        """Return how far it looks and what it was fitted to, as a sentence without its full stop."""
        return (
            f"it looks ahead by up to {self.steps} periods, fitted to {self.transitions:,} transitions "
            f"({self.held_out:,} held out): {self.fitted}"
        )

    def rows(self, observation: Iterable[Signal]) -> list[tuple[str, str, list[str]]]:
        """Return the name, the unit and, by period, the error of each signal that changes: predicted, (standing)."""
        units, rows = {signal.name: signal.unit for signal in observation}, []
        for name, error in self.errors.items():
            if name in self.changing:
                pairs = zip(error.predicted, error.standing, strict=True)
                rows.append((name, units[name], [f"{off:.3g} ({still:.3g})" for off, still in pairs]))
        return rows

    def require_fit(self, state: Mapping[str, tuple[int, ...]], action: Signal, observation: Iterable[Signal]) -> None:
        """Raise ValueError where a contract's state has no room for K actions, or `errors` are of other signals."""
        if state.get(PAST_ACTIONS) != (expected := (self.steps, action.size)):
            raise ValueError(f"it looks ahead, and has no state {PAST_ACTIONS!r} of shape {expected}")
        if self.errors.keys() != {signal.name for signal in observation}:
            raise ValueError("lookahead.errors tell of other signals than the observation has")
