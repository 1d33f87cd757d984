"""How training varies its episodes: exploration, and how they go on behind a gap."""

from __future__ import annotations

import numpy as np
from pydantic import AliasChoices, Field

from sami_train.envs.spec import Reach
from sami_train.envs.tasks import Task
from sami_train.settings import Count, Natural, NotNegative, Settings, Share, Span


class BehindGap(Settings):
    """What training may know that no robot does: the world as it is, which a simulator tells beside what arrived.

    None of it becomes an input of a model file. Each is a switch of its own; all off, nothing of the truth is kept.
    """

    true_goals: bool = False
    """Hindsight goals, and whether they are reached, by the true achieved goal; without, by the one that was observed,
    though the world pays and ends an episode by the true one."""
    true_critic: bool = False
    """Critics read the true state in the place of what arrived, and an environment's privileged signals. They read the
    context too: a critic of the state alone is biased where the policy sees less (Baisero and Amato 2021)."""
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


class Exploration(Settings):
    """How actions are made more varied than the policy's own sampling (training only)."""

    random_action: Share = 0.0
    """Share of steps, outside greedy episodes, that act uniformly at random."""
    random_hold: Span = (1, 1)
    """Shortest and longest time, in steps, that a random action is held once the warm-up is over.

    Held ones bring the arm and the cube into places from which the policy has to learn to recover.
    """
    warmup_steps: Natural = 0
    """Environment steps at the start of a run before anything is learned; they act uniformly at random."""
    warmup_by_policy: bool = False
    """Act with the policy in the warm-up: where it was trained before, see `fine_tuning`."""
    reach_episodes: Share = 0.0
    """Share of episodes, at the start of a run, that begin with a scripted reach."""
    reach_until: Count = 1
    """Environment steps after which no episode begins so; the share falls linearly to there."""
    reach_steps: Span = (6, 13)
    """Shortest and longest scripted reach, in steps."""
    greedy_episodes: Share = 0.0
    """Share of episodes that act as a deployed policy does, without exploration; grows linearly until `greedy_from`.

    Noise frees an arm that is stuck; a deployed policy has none. Only from episodes like these can it learn what
    being stuck costs, and to try something else.
    """
    greedy_from: Count = 1
    """Environment steps after which the share is the full one."""


class _Explorer:
    """The exploration of one episode."""

    def __init__(
        self,
        plan: Exploration,
        rng: np.random.Generator,
        steps_done: int,
        low: np.ndarray,
        high: np.ndarray,
        reach: Reach | None,
        task: Task,
    ) -> None:
        self.rng, self._low, self._high, self._reach, self._task = rng, low, high, reach, task
        warm = plan.warmup_by_policy or steps_done >= plan.warmup_steps
        self._hold = plan.random_hold if warm else (1, 1)
        # A held action lasts h steps on average, so it has to begin less often for the same share of steps.
        share, h = plan.random_action, sum(self._hold) / 2
        self._begin = share / (share + h * (1.0 - share)) if warm else 1.0
        self._held_action, self._held_until = np.zeros_like(low), 0
        reaching = plan.reach_episodes * max(0.0, 1.0 - steps_done / plan.reach_until)
        self._reach_steps = 0
        self._greedy = warm and rng.random() < plan.greedy_episodes * min(1.0, steps_done / plan.greedy_from)
        if reach is not None and not self._greedy and rng.random() < reaching:
            self._reach_steps = int(rng.integers(plan.reach_steps[0], plan.reach_steps[1] + 1))

    def noise(self) -> np.ndarray:
        """Draw what the policy's sampling uses at this step, (A,): normal noise, or zero for its likeliest action."""
        return np.zeros_like(self._low) if self._greedy else self.rng.standard_normal(self._low.size, np.float32)

    def act(self, step: int, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """Return the action to execute in place of the policy's `action` (A,)."""
        if self._reach is not None and step < self._reach_steps:
            scripted = self._reach(observation, self.rng, self._task)
            if scripted is not None:
                return scripted
        if self._greedy:
            return action
        if step >= self._held_until and self.rng.random() < self._begin:
            self._held_action = self.rng.uniform(self._low, self._high).astype(np.float32)
            self._held_until = step + int(self.rng.integers(self._hold[0], self._hold[1] + 1))
        return self._held_action if step < self._held_until else action
