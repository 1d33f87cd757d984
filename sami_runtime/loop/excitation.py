"""Drives a robot to identify its delays: it rests, then steps and returns, so a recording also shows lag and noise."""

from __future__ import annotations

import numpy as np

from sami_runtime.errors import SamiError
from sami_runtime.loop.pilot import Array, Pilot, Request, request_of
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import Limits, by_element

REST_TICKS = 12
"""Ticks of the neutral action before the first motion, which show the noise and bias of the sensors."""
LONGEST = 4
"""Most ticks of a step to one side; the least is 1."""


class Excitation:
    """A pilot in place of the policy: each element steps to one side, then as long to the other, at random times.

    Its requests pass the gate like a person's commands, so all limits apply. Each episode has another random pattern,
    which depends on the seed and the number of the episode.

    Args:
        contract: Of the model that would drive.
        limits: The gate's limits, whose bounds and neutral action (`rest`) it uses.
        share: Size of a step, as a share of the way from `rest` to the nearer bound; more than 0, at most 1.
        seed: Of the patterns.
        every: Ticks of the loop for each tick of the policy.
        person: A pilot whose commands, pauses and endings take precedence; None if no person attends.

    Raises:
        SamiError: The share is invalid, an element has no bounds, or the limits do not set `rest` in numbers.
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
            raise SamiError(f"the share is {share}; it must be more than 0 and at most 1.")
        if limits.rest is None or isinstance(limits.rest, str):
            raise SamiError(
                f"to excite a robot, the limits must set rest in numbers, and it is {limits.rest!r}. Motions go to "
                "both sides of this neutral action. Set rest, such as rest = 0.0."
            )
        low, high = limits.bounds(action)
        self._rest = by_element(limits.rest, action, 0.0)
        self._far = share * np.minimum(high - self._rest, self._rest - low)
        for element, far in zip(action.elements, self._far, strict=True):
            if not np.isfinite(far):
                raise SamiError(f"{element} has no bounds, from which the size of a step follows. Set low and high.")
        self._seed, self._every, self._person, self._episode = seed, every, person, -1
        self.reset()

    def reset(self) -> None:
        """Begin an episode, at rest and with a new pattern."""
        self._episode += 1
        self._requests = 0
        self._patterns = [self._pattern(element) for element in range(len(self._rest))]
        if self._person:
            self._person.reset()

    def request(self, standing: Array | None) -> Request:
        """Return the next motion, or the person's request if there is one; `standing` (A,) was executed last."""
        request = request_of(self._person, standing)
        if request.pause or request.end is not None or request.command is not None:
            return request
        tick, self._requests = self._requests // self._every, self._requests + 1
        sides = np.array([pattern[tick % len(pattern)] for pattern in self._patterns])
        return Request(command=(self._rest + self._far * sides).astype(np.float32))

    def _pattern(self, element: int) -> list[float]:
        """Return an element's side at each tick: -1, 0 or 1. The pattern repeats when it is over."""
        random = np.random.default_rng((self._seed, self._episode, element))
        pattern = [0.0] * REST_TICKS
        while len(pattern) < 60:
            side, lasts, pause = random.choice([-1.0, 1.0]), random.integers(1, LONGEST + 1), random.integers(0, 3)
            pattern += [side] * lasts + [-side] * lasts + [0.0] * pause
        return pattern
