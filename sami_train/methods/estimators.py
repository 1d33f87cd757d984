"""The paper's estimators of mutual information: one K-sample bound on three sample spaces (figure 4)."""

from __future__ import annotations

from dataclasses import dataclass

from sami_train.methods.sampling import Strategy, low_returns_of_all_tasks, other_tasks, same_task


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
