"""The methods and three baselines: they share SAC, buffer and budget, and differ in encoder or contrastive loss."""

from __future__ import annotations

from dataclasses import dataclass

from sami_runtime.errors import UnknownName
from sami_train.episodes.numpy_policy import EncoderKind
from sami_train.episodes.sampling import Strategy, low_returns_of_all_tasks, other_tasks, same_task


@dataclass(frozen=True)
class Estimator:
    """An estimator of mutual information: `losses.k_sample_bound` on trajectories that a strategy draws."""

    name: str
    """Name in the paper."""
    strategy: Strategy
    """Draws the trajectories to compare."""
    ranks: bool = True
    """Whether the strategy ranks trajectories by their scores."""
    soft: bool = True
    """Whether the bound has the soft weight of section 4.3."""


INFO_NCE = Estimator("InfoNCE", other_tasks, ranks=False, soft=False)
"""Equation 1: compares the current task with the others."""
SANCE = Estimator("SaNCE", same_task)
"""Equation 3: compares high returns of the current task with its low returns."""
SA_INFO_NCE = Estimator("Sa+InfoNCE", low_returns_of_all_tasks)
"""Appendix "Sample size of I_Sa+InfoNCE": compares high returns of the current task with low returns of every task."""


@dataclass(frozen=True)
class Method:
    """A method of the paper (section 5.1), or a baseline that infers no context."""

    name: str
    """Name on the command line."""
    title: str
    """Name in the paper, in tables and in messages."""
    encoder: EncoderKind = "lstm"
    estimator: Estimator | None = None
    """Estimator of its contrastive loss; None without such a loss."""
    least_tasks: int = 1
    """Least number of training tasks that it needs."""

    @property
    def memoryless(self) -> bool:
        """Whether its policy reads the observation alone: the lower reference for the value of adaptation."""
        return self.encoder == "none"

    @property
    def reads_task(self) -> bool:
        """Whether its policy reads the task, which no robot can: the upper reference for the value of adaptation."""
        return self.encoder == "told"


METHODS = {
    method.name: method
    for method in (
        Method("pearl", "PEARL", encoder="gaussians"),
        Method("tesac", "TESAC"),
        Method("ccm", "CCM", estimator=INFO_NCE, least_tasks=2),
        Method("satesac", "SaTESAC", estimator=SANCE),
        Method("saccm", "SaCCM", estimator=SA_INFO_NCE),
        Method("sac", "SAC", encoder="none"),
        Method("sac-history", "SAC with history", encoder="history"),
        Method("oracle", "Oracle", encoder="told"),
    )
}
"""The paper's five methods, then the baselines, by name."""


def method(name: str) -> Method:
    """Look a method up by its name.

    Raises:
        UnknownName: no method has this name; the message lists them all.
    """
    if name not in METHODS:
        raise UnknownName("method", name, list(METHODS))
    return METHODS[name]
