"""Measures the response of the observation to a small move of an action's element; `Responses` has simulation's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import AdapterError
from sami_runtime.model.training_ranges import Array

Act = Callable[[NDArray[np.float32]], tuple[NDArray[np.float32], Array]]
"""Writes an action (A,), and returns the executed action (A,) and the observation (D,) one tick later."""

LEAST_EXECUTED = 0.1
"""Least share of a move that must be executed for its response to count."""


class TooLittleError(AdapterError):
    """Too little of a move was executed to measure a response."""


def probe(act: Act, rest: NDArray[np.float32], element: int, size: float, ticks: int, settle: int) -> Array:
    """Move one element to both sides of rest and back, and return the response of the observation.

    Rest for `settle` ticks, add `size` to the element for `ticks` ticks, rest, subtract `size` for `ticks` ticks, and
    rest. The answer to a side is the observation's mean difference, over the ticks of the move and of the rest after
    it, from its value before the move; in a mean over time, a delay of some ticks changes little. The response is half
    the difference between the sides, in which an even drift cancels out. Another drift, as of an arm that sags under
    its weight, cancels out in the mean of two probes that begin at the same pose, each with another side first.

    Args:
        act: Writes an action and reads one tick later.
        rest: The neutral action (A,).
        element: Index of the element.
        size: Size of the move, in the action's unit; negative to move to the lower side first.
        ticks: Duration of the move to each side.
        settle: Ticks at rest before and after each move.

    Returns:
        (D,): the response to one unit of the action, executed for `ticks` ticks.

    Raises:
        TooLittleError: Less than `LEAST_EXECUTED` of the move was executed.
    """
    excited = rest.copy()
    answers, pushes = [], []
    for _ in range(settle):
        _, before = act(rest)
    for side in (size, -size):
        excited[element] = rest[element] + side
        responses = [act(action) for action in (*[excited] * ticks, *[rest] * settle)]
        pushes.append(sum(float(executed[element] - rest[element]) for executed, _ in responses) / ticks)
        answers.append(np.mean([values for _, values in responses], axis=0) - before)
        before = responses[-1][1]
    pushed = (pushes[0] - pushes[1]) / 2
    if not pushed * np.sign(size) >= LEAST_EXECUTED * abs(size):
        raise TooLittleError(
            f"of a move of {abs(size):g} to either side {pushed * np.sign(size):.3g} was executed, which is "
            "too little to judge by; let the limits allow more, or correct what write() says it executed"
        )
    return np.asarray((answers[0] - answers[1]) / 2 / pushed)
