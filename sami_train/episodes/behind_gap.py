"""How training goes on behind a gap: what it takes from the true state, and how the gap grows."""

from __future__ import annotations

import numpy as np
from pydantic import AliasChoices, Field

from sami_train.settings import Natural, NotNegative, Settings, Share


class BehindGap(Settings):
    """What training may know that no robot does: the world as it is, which a simulator tells beside what arrived.

    None of it becomes an input of a model file. Each is a switch of its own; all off, nothing of the truth is kept.
    """

    true_goals: bool = False
    """Hindsight goals, and whether they are reached, by the true achieved goal; without, by the one that was observed,
    though the world pays and ends an episode by the true one."""
    true_critic: bool = False
    """Critics read the true state in the place of what arrived. They read the context too: a critic of the state alone
    is biased where the policy sees less (Baisero and Amato 2021)."""
    critic_actions: Natural = 0
    """So many of the actions executed last are read by the critics: what is still under way belongs to the state."""
    estimate: NotNegative = 0.0
    """Weight of the loss by which the encoder learns to estimate the present from what arrived late, noisy or biased.
    Above 0 the policy acts on its estimate in place of what arrived; a model file answers it as `present_SIGNAL`."""
    full_from: Natural = 0
    """Environment steps over which the gap grows linearly to what its profile says; 0 has all of it from the first."""
    clean_share: Share = Field(default=0.0, validation_alias=AliasChoices("clean_share", "spared"))
    """Share of the episodes without any gap: a policy has to meet a clean world too. Older files call it `spared`."""

    @property
    def keeps_truth(self) -> bool:
        """Whether episodes bring along the true state."""
        return self.true_goals or self.true_critic or self.estimate > 0

    def size(self, steps_done: int, seed: int, index: int) -> float:
        """Return how large the gap of an episode is, as a share of its profile, 0 to 1.

        Args:
            steps_done: environment steps that the run has done so far.
            seed: the run's.
            index: number of the episode in the run.
        """
        if self.clean_share and np.random.default_rng([seed, index]).random() < self.clean_share:
            return 0.0
        return min(1.0, steps_done / self.full_from) if self.full_from else 1.0
