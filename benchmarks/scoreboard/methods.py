"""Defines the compared methods by name; a library is imported only when one of its methods trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.scoreboard.budget import Clock


@dataclass(frozen=True)
class Method:
    """One learner."""

    learn: Callable[[Clock, int], dict[str, Any]]
    """Trains with a clock and a seed, and returns the hyperparameters."""
    in_house: bool = False
    reads_task: bool = False
    """Whether the method observes the physics; its score is an upper bound rather than a competitor's."""
    control: bool = False
    """Whether it was added after the first runs, to explain them: a conclusion needs no seeds of it."""


def _sac(stacked: bool = False, rare_updates: bool = False) -> Callable[[Clock, int], dict[str, Any]]:
    def learn(clock: Clock, seed: int) -> dict[str, Any]:
        from benchmarks.scoreboard.peers import FRAMES, RARE_UPDATES, train_sac

        return train_sac(clock, seed, FRAMES if stacked else 1, RARE_UPDATES if rare_updates else None)

    return learn


def _recurrent_ppo(clock: Clock, seed: int) -> dict[str, Any]:
    from benchmarks.scoreboard.peers import train_recurrent_ppo

    return train_recurrent_ppo(clock, seed)


def _skrl(small: bool = False) -> Callable[[Clock, int], dict[str, Any]]:
    def learn(clock: Clock, seed: int) -> dict[str, Any]:
        from benchmarks.scoreboard.peers import PUBLISHED, SMALL, train_skrl

        return train_skrl(clock, seed, SMALL if small else PUBLISHED)

    return learn


def _agent(method: str) -> Callable[[Clock, int], dict[str, Any]]:
    def learn(clock: Clock, seed: int) -> dict[str, Any]:
        from benchmarks.scoreboard.in_house import train_in_house

        return train_in_house(clock, seed, method)

    return learn


METHODS = {
    "sami-tesac": Method(_agent("tesac"), in_house=True),
    "sb3-sac-stacked": Method(_sac(stacked=True)),
    "sb3-recurrent-ppo": Method(_recurrent_ppo),
    "skrl-recurrent-sac": Method(_skrl()),
    "sb3-sac-told": Method(_sac(), reads_task=True),
    "sami-sac": Method(_agent("sac"), in_house=True),
    "sb3-sac-seldom": Method(_sac(stacked=True, rare_updates=True), control=True),
    "sb3-sac-told-seldom": Method(_sac(rare_updates=True), reads_task=True, control=True),
    "skrl-small": Method(_skrl(small=True), control=True),
}
"""Methods in the order of their runs; every method runs with one seed before the next seed."""
