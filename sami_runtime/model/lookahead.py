"""Lookahead: a forward model in front of the unchanged policy, which compensates latency.

The graph predicts the present value of each signal from its value `age` periods ago and the actions executed since. A
signal of age 0 reaches the policy unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import Field, model_validator

from sami_runtime.signals import Count, Entry, NotNegative, Signal, Text

AGE = "age"
"""Name of the graph's input of ages [periods], one for each signal of the observation, in the contract's order."""
HOLDS = "held"
"""Name, in golden steps, of the number of periods without a step before each step; it is no tensor of the graph."""
PAST_ACTIONS = "past_actions"
"""The state tensor (K, A) of the actions that were executed before the previous one, the newest first."""
LAST_CONTEXT = "last_context"
"""The state tensor (C,) of the context of the step before, which the forward model reads."""
FRONT = "lookahead/"
"""Prefix of the graph's names in the forward model, including its predictions for the policy,
`lookahead/observation.NAME`."""
MOST_STEPS = 16
"""Largest lookahead [periods]: each period adds a copy of the forward model to the graph."""


class SignalErrors(Entry):
    """Errors of a signal on held-out episodes: root mean square over its elements, in the signal's unit."""

    predicted: tuple[NotNegative, ...]
    """(K,): error of the prediction over 1, 2, ... periods."""
    standing: tuple[NotNegative, ...]
    """(K,): error without prediction, if the value of 1, 2, ... periods ago is used as the present one."""


class Lookahead(Entry):
    """Description of a model's forward model, in its contract."""

    steps: int = Field(ge=1, le=MOST_STEPS)
    """K: the largest age [periods] that was fitted. The policy is held if an observation is older."""
    fitted: Text
    """Data that it was fitted to, for people."""
    transitions: Count
    """Number of transitions that it was fitted to."""
    held_out: Count
    """Number of other transitions, on which `errors` were measured."""
    errors: dict[str, SignalErrors]
    """By the observation signal's name."""

    @model_validator(mode="after")
    def _one_for_each_step(self) -> Lookahead:
        lengths = {len(part) for error in self.errors.values() for part in (error.predicted, error.standing)}
        if lengths - {self.steps}:
            raise ValueError(f"errors are given for {sorted(lengths)} periods, but it looks ahead by {self.steps}")
        return self

    @property
    def changing(self) -> frozenset[str]:
        """Signals whose age matters; the others, such as a goal, are constant during an episode."""
        return frozenset(name for name, error in self.errors.items() if any(error.standing))

    def summary(self) -> str:
        """Return a sentence, without its full stop, about the number of periods and the fitted data."""
        return (
            f"it looks ahead by up to {self.steps} periods, fitted to {self.transitions:,} transitions "
            f"({self.held_out:,} held out): {self.fitted}"
        )

    def rows(self, observation: Iterable[Signal]) -> list[tuple[str, str, list[str]]]:
        """Return (name, unit, errors) of each signal that changes; errors by period as `predicted (standing)`."""
        units, rows = {signal.name: signal.unit for signal in observation}, []
        for name, error in self.errors.items():
            if name in self.changing:
                pairs = zip(error.predicted, error.standing, strict=True)
                rows.append((name, units[name], [f"{off:.3g} ({still:.3g})" for off, still in pairs]))
        return rows

    def require_fit(self, state: Mapping[str, tuple[int, ...]], action: Signal, observation: Iterable[Signal]) -> None:
        """Raise ValueError if the contract's state cannot store K past actions, or `errors` have other signals."""
        if state.get(PAST_ACTIONS) != (expected := (self.steps, action.size)):
            raise ValueError(f"it looks ahead, but has no state {PAST_ACTIONS!r} of shape {expected}")
        if self.errors.keys() != {signal.name for signal in observation}:
            raise ValueError("lookahead.errors has other signals than the observation")
