"""How an observation answers to a small move of one element of the action; see `Responses` for what training saw."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import AdapterError
from sami_runtime.model.seen import Array

Act = Callable[[NDArray[np.float32]], tuple[NDArray[np.float32], Array]]
"""Takes an action (A,) and returns what was executed of it (A,), and what was observed one tick later (D,)."""

LEAST_EXECUTED = 0.1
"""Share of the move that must be executed for an answer to be one."""


class TooLittleError(AdapterError):
    """Too little of a move was executed to judge by."""


def probe(act: Act, rest: NDArray[np.float32], element: int, size: float, ticks: int, settle: int) -> Array:
    """Move one element to one side of rest and back, and return how the observation answered.

    It rests for `settle` ticks, adds `size` to the element for `ticks` ticks, rests, takes `size` away for `ticks`
    ticks, and rests. The answer to a side is how far the observation lay, over these ticks and the resting ones after
    them, from where it was before: a mean over time, so that a delay of some ticks changes it little. Half the
    difference between the sides is the response; what drifts evenly is in both, and falls out. What drifts otherwise,
    as an arm that gives way under its weight, falls out of the mean of two such probes, one with each side first, that
    begin at the same pose.

    Args:
        act: Writes an action and reads one tick later.
        rest: The action that moves nothing (A,).
        element: Index of the element.
        size: How far it is moved, in the action's unit; negative to move to the lower side first.
        ticks: Of each move.
        settle: Ticks at rest before and after each move.

    Returns:
        (D,): the response to one unit of the action, executed for `ticks` ticks.

    Raises:
        TooLittleError: Limits left too little of the move to judge by.
    """
    moved = rest.copy()
    answers, pushes = [], []
    for _ in range(settle):
        _, before = act(rest)
    for side in (size, -size):
        moved[element] = rest[element] + side
        responses = [act(action) for action in (*[moved] * ticks, *[rest] * settle)]
        pushes.append(sum(float(executed[element] - rest[element]) for executed, _ in responses) / ticks)
        answers.append(np.mean([seen for _, seen in responses], axis=0) - before)
        before = responses[-1][1]
    pushed = (pushes[0] - pushes[1]) / 2
    if not pushed * np.sign(size) >= LEAST_EXECUTED * abs(size):
        raise TooLittleError(
            f"of a move of {abs(size):g} to either side {pushed * np.sign(size):.3g} was executed, which is "
            "too little to judge by; let the limits allow more, or correct what write() says it executed"
        )
    return np.asarray((answers[0] - answers[1]) / 2 / pushed)
