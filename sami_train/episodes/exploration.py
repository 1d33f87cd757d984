"""How training varies its episodes: exploration, the size of the sim-to-real profile, and privileged information."""

from __future__ import annotations

import numpy as np

from sami_train.envs.spec import Reach
from sami_train.envs.tasks import Task
from sami_train.settings import Count, Natural, NotNegative, Settings, Share, Span


class WithProfile(Settings):
    """Training with a sim-to-real profile: privileged information that the simulator has, and the profile's size.

    None of it becomes an input of a model file. Each key is independent; with the defaults no true state is stored.
    """

    privileged_goals: bool = False
    """Whether hindsight takes and judges goals by the true achieved goal; otherwise by the observed one, although the
    environment rewards and ends an episode by the true one."""
    privileged_critic: bool = False
    """Whether critics read the true state and privileged signals in place of the observation. They read the context,
    too: a critic of the state alone is biased if the policy observes less (Baisero and Amato 2021)."""
    critic_actions: Natural = 0
    """How many recent executed actions the critics read: commands that have not taken effect belong to the state."""
    estimate: NotNegative = 0.0
    """Weight of the loss by which the encoder learns to estimate the present from late, noisy or biased observations.
    Above 0 the policy acts on its estimates, and a model file outputs them as `present_SIGNAL`."""
    full_from: Natural = 0
    """Environment steps over which the profile grows linearly to its full size; 0 has the full size at once."""
    clean_share: Share = 0.0
    """Share of episodes without the profile, so that a policy also sees an undisturbed world."""

    @property
    def keeps_true_state(self) -> bool:
        """Whether episodes store the true state."""
        return self.privileged_goals or self.privileged_critic or self.estimate > 0

    def size(self, steps_done: int, seed: int, index: int) -> float:
        """Return the size of an episode's sim-to-real gap, as a fraction of the profile, 0 to 1.

        Args:
            steps_done: environment steps of the run so far.
            seed: the run's seed.
            index: number of the episode in the run.
        """
        if self.clean_share and np.random.default_rng([seed, index]).random() < self.clean_share:
            return 0.0
        return min(1.0, steps_done / self.full_from) if self.full_from else 1.0


class Exploration(Settings):
    """Exploration beyond the policy's own sampling; training only."""

    random_action: Share = 0.0
    """Share of steps with a uniformly random action; greedy episodes have none."""
    random_hold: Span = (1, 1)
    """Shortest and longest time, in steps, to hold a random action, once the warm-up is over.

    Held actions move the arm and the cube to states from which the policy has to learn to recover.
    """
    warmup_steps: Natural = 0
    """Environment steps at the start of a run without updates; actions are uniformly random."""
    warmup_by_policy: bool = False
    """Whether the policy acts in the warm-up, for a policy that is already trained; see `fine_tuning`."""
    reach_episodes: Share = 0.0
    """Share of episodes, at the start of a run, that start with a scripted reach."""
    reach_until: Count = 1
    """Environment steps over which that share falls linearly to 0."""
    reach_steps: Span = (6, 13)
    """Shortest and longest scripted reach, in steps."""
    greedy_episodes: Share = 0.0
    """Share of episodes without exploration, as a deployed policy acts; it grows linearly until `greedy_from`.

    Exploration noise frees an arm that is stuck, but a deployed policy has no noise. Only greedy episodes show the
    learner what being stuck costs.
    """
    greedy_from: Count = 1
    """Environment steps over which that share grows to its full size."""


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
        # A held action lasts h steps on average, so that it must start less often for the same share of steps.
        share, h = plan.random_action, sum(self._hold) / 2
        self._begin = share / (share + h * (1.0 - share)) if warm else 1.0
        self._held_action, self._held_until = np.zeros_like(low), 0
        reaching = plan.reach_episodes * max(0.0, 1.0 - steps_done / plan.reach_until)
        self._reach_steps = 0
        self._greedy = warm and rng.random() < plan.greedy_episodes * min(1.0, steps_done / plan.greedy_from)
        if reach is not None and not self._greedy and rng.random() < reaching:
            self._reach_steps = int(rng.integers(plan.reach_steps[0], plan.reach_steps[1] + 1))

    def noise(self) -> np.ndarray:
        """Return the noise of the policy's sampling at this step, (A,): standard normal, zero in a greedy episode."""
        return np.zeros_like(self._low) if self._greedy else self.rng.standard_normal(self._low.size, np.float32)

    def act(self, step: int, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """Return the action (A,) to execute: scripted, random, or the policy's own `action` (A,)."""
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
