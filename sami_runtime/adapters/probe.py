"""Small moves of one element of the action, and how the observation answers: the same in simulation and on a robot."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import AdapterError

Array = NDArray[np.float32]
Act = Callable[[Array], tuple[Array, NDArray[np.float64]]]
"""Takes an action (A,) and returns what was executed of it (A,), and what was observed one tick later (D,)."""

LEAST_EXECUTED = 0.1
"""Share of the move that must be executed for an answer to be one."""


class Answer(NamedTuple):
    """What came of a move to one side."""

    moved: NDArray[np.float64]
    """(D,): how far the observation lay from where it was before, a mean over the move and the rest after it."""
    pushed: float
    """How far the element was moved, as executed; negative to the lower side."""


def move(act: Act, rest: Array, element: int, by: float, ticks: int, settle: int) -> Answer:
    """Move one element to one side of rest, and return how the observation answered.

    It rests for `settle` ticks, adds `by` to the element for `ticks` ticks, and rests for `settle` ticks. The answer is
    a mean over time, so that a delay of some ticks changes it little.

    Args:
        act: Writes an action and reads one tick later.
        rest: The action that moves nothing (A,).
        element: Index of the element.
        by: How far it is moved, and to which side, in the action's unit.
        ticks: Of the move.
        settle: Ticks at rest before and after it.
    """
    moved = rest.copy()
    moved[element] = rest[element] + by
    for _ in range(settle):
        _, before = act(rest)
    done = [act(action) for action in (*[moved] * ticks, *[rest] * settle)]
    pushed = sum(float(executed[element] - rest[element]) for executed, _ in done) / ticks
    return Answer(np.mean([seen for _, seen in done], axis=0) - before, pushed)


def response(up: Answer, down: Answer, size: float) -> NDArray[np.float64]:
    """Return half the difference between the answers to both sides, (D,), for one unit of the action.

    What the robot does anyway, such as give way under its weight, is in both answers and falls out. That is exact where
    both moves begin at the same pose, so an episode is begun for each.

    Args:
        up: The answer to a move to the upper side.
        down: The answer to the same move to the lower side.
        size: How far each of them was meant to go, in the action's unit.

    Raises:
        AdapterError: Limits left too little of the moves to judge by.
    """
    pushed = (up.pushed - down.pushed) / 2
    if not pushed >= LEAST_EXECUTED * size:
        raise AdapterError(
            f"of a move of {size:g} to either side {pushed:.3g} was executed, which is too little to judge by; let the "
            "limits allow more, or correct what write() says it executed"
        )
    return np.asarray((up.moved - down.moved) / 2 / pushed)
