"""The methods: the same SAC, buffer and budget, another encoder or another contrastive loss; and three baselines."""

from __future__ import annotations

from dataclasses import dataclass

from sami_runtime.errors import UnknownName
from sami_train.episodes.numpy_policy import EncoderKind
from sami_train.episodes.sampling import Strategy, low_returns_of_all_tasks, other_tasks, same_task


@dataclass(frozen=True)
class Estimator:
    """What a contrastive loss estimates: `losses.k_sample_bound` of the trajectories that a strategy draws."""

    name: str
    """Name in the paper."""
    strategy: Strategy
    """Which trajectories are compared."""
    ranks: bool = True
    """Whether better trajectories are told from worse."""
    soft: bool = True
    """Whether the soft weight of section 4.3 weighs the bound."""


INFO_NCE = Estimator("InfoNCE", other_tasks, ranks=False, soft=False)
"""Equation 1: the current task against the others."""
SANCE = Estimator("SaNCE", same_task)
"""Equation 3: high returns of the current task against its low returns."""
SA_INFO_NCE = Estimator("Sa+InfoNCE", low_returns_of_all_tasks)
"""Appendix "Sample size of I_Sa+InfoNCE": high returns of the current task against low returns of every task."""


@dataclass(frozen=True)
class Method:
    """A method of the paper (section 5.1), or a baseline that infers nothing."""

    name: str
    """Name on the command line."""
    title: str
    """Name in the paper, or in texts."""
    encoder: EncoderKind = "lstm"
    estimator: Estimator | None = None
    """What its contrastive loss estimates; None has no such loss."""
    least_tasks: int = 1
    """How many tasks an environment must have for it."""

    @property
    def memoryless(self) -> bool:
        """Whether its policy reads the observation alone: what adaptation is worth is measured from here."""
        return self.encoder == "none"

    @property
    def is_told(self) -> bool:
        """Whether its policy is told the task, as no robot is: what adaptation is worth is measured up to here."""
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
"""The paper's five, then the baselines."""


def method(name: str) -> Method:
    """Look a method up by its name.

    Raises:
        UnknownName: there is none; lists those that there are.
    """
    if name not in METHODS:
        raise UnknownName("method", name, list(METHODS))
    return METHODS[name]
