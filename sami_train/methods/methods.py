"""The five methods: the same SAC, buffer and budget, another encoder (PEARL) or another contrastive loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sami_runtime.errors import UnknownName
from sami_train.methods.sampling import Strategy, low_returns_of_all_tasks, other_tasks, same_task


@dataclass(frozen=True)
class Method:
    """One method of the paper (section 5.1)."""

    name: str
    """Name on the command line."""
    title: str
    """Name in the paper."""
    encoder: Literal["lstm", "gaussians"] = "lstm"
    """The LSTM of the paper, or PEARL's product of Gaussians."""
    strategy: Strategy | None = None
    """Which trajectories its contrastive loss compares; None has no such loss."""
    least_tasks: int = 1
    """How many tasks an environment must have for it."""
    soft: bool = True
    """Whether the soft weight of section 4.3 weighs the contrastive loss."""


METHODS = {
    method.name: method
    for method in (
        Method("pearl", "PEARL", encoder="gaussians"),
        Method("tesac", "TESAC"),
        Method("ccm", "CCM", strategy=other_tasks, least_tasks=2, soft=False),
        Method("satesac", "SaTESAC", strategy=same_task),
        Method("saccm", "SaCCM", strategy=low_returns_of_all_tasks),
    )
}


def method(name: str) -> Method:
    """Look a method up by its name.

    Raises:
        UnknownName: there is none; lists those that there are.
    """
    if name not in METHODS:
        raise UnknownName("method", name, list(METHODS))
    return METHODS[name]
