"""Drives a robot to identify its delays: rests, then steps and returns, so that a recording shows lag and noise too."""

from __future__ import annotations

import numpy as np

from sami_runtime.errors import SamiError
from sami_runtime.loop.pilot import Array, Pilot, Request
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import Limits, by_element

REST_TICKS = 12
"""How long it rests before the first motion: what sensors say then is noise and bias."""
LONGEST = 4
"""Ticks that a step lasts, at most; at least one."""


class Excitation:
    """Drives in the policy's place: every element steps to one side and as long to the other, each in its own time.

    What it asks for goes through the gate like a person's command, so that limits shape it and stop it. Each episode
    has another pattern, a function of the seed and of how many there were before.

    Args:
        contract: Of the model that would drive.
        limits: The gate's: their bounds hold, and they say what rest is.
        share: How far a step goes, as a share of the way from rest to the nearer bound; over 0, at most 1.
        seed: Of the patterns.
        every: Ticks of the loop for each of the policy's.
        person: Whose commands, pauses and endings come first; None where nobody attends.

    Raises:
        SamiError: An element has no bounds, or the limits do not say what rest is.
    """

    def __init__(
        self,
        contract: Contract,
        limits: Limits,
        share: float = 0.5,
        seed: int = 0,
        every: int = 1,
        person: Pilot | None = None,
    ) -> None:
        action = contract.action
        if not 0.0 < share <= 1.0:
            raise SamiError(f"the share is {share}; it must be over 0 and at most 1.")
        if limits.rest is None or isinstance(limits.rest, str):
            raise SamiError(
                "to excite a robot, the limits must say what rest is, in numbers: what does not move it, and what its "
                "motions go to both sides of. Set rest, such as rest = 0.0."
            )
        low, high = limits.bounds(action)
        self._rest = by_element(limits.rest, action, 0.0)
        self._far = share * np.minimum(high - self._rest, self._rest - low)
        for element, far in zip(action.elements, self._far, strict=True):
            if not np.isfinite(far):
                raise SamiError(f"{element} has no bounds, so that nothing says how far to move it. Set low and high.")
        self._seed, self._every, self._person, self._episode = seed, every, person, -1
        self.reset()

    def reset(self) -> None:
        """Begin an episode: at rest."""
        self._episode += 1
        self._requests = 0
        self._patterns = [self._pattern(element) for element in range(len(self._rest))]
        if self._person:
            self._person.reset()

    def request(self, standing: Array | None) -> Request:
        """Return the next motion, unless a person wants something else."""
        request = self._person.request(standing) if self._person else Request()
        if request.pause or request.end is not None or request.command is not None:
            return request
        tick, self._requests = self._requests // self._every, self._requests + 1
        sides = np.array([pattern[tick % len(pattern)] for pattern in self._patterns])
        return Request(command=(self._rest + self._far * sides).astype(np.float32))

    def _pattern(self, element: int) -> list[float]:
        """Return -1, 0 or 1 of each tick; begun anew when it is over."""
        random = np.random.default_rng((self._seed, self._episode, element))
        pattern = [0.0] * REST_TICKS
        while len(pattern) < 60:
            side, lasts, pause = random.choice([-1.0, 1.0]), random.integers(1, LONGEST + 1), random.integers(0, 3)
            pattern += [side] * lasts + [-side] * lasts + [0.0] * pause
        return pattern
