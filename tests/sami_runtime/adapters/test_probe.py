"""A small move answers as physics says, whatever drifts besides, and a delay changes it little."""

import numpy as np
import pytest

from sami_runtime import AdapterError, FakeAdapter
from sami_runtime.model.response import probe

TICKS, SETTLE = 5, 5


class Hand:
    """x follows the executed action after some ticks, y drifts; moves are cut off at `limit`."""

    def __init__(self, late=0, drift=0.0, limit=1.0):
        self.queue, self.drift, self.limit = [0.0] * late, drift, limit
        self.position, self.actions = np.zeros(2), []

    def act(self, action):
        executed = np.clip(action, -self.limit, self.limit)
        self.actions.append(action.copy())
        self.queue.append(float(executed[0]))
        self.position = self.position + [0.05 * self.queue.pop(0), self.drift]
        return executed, self.position


def answer(hand, size=0.1, rest=0.0):
    return probe(hand.act, np.float32([rest, 0.0]), 0, size, TICKS, SETTLE)


def test_a_displacement_is_its_mean_over_the_move_and_the_rest_after_it():
    # 1, 2, 3, 4, 5 and then 5 times 5 displacements: 4 in the mean.
    np.testing.assert_allclose(answer(Hand()), [4 * 0.05, 0.0], rtol=1e-6)


def test_what_drifts_falls_out_and_what_limits_leave_is_told_by_what_was_executed():
    np.testing.assert_allclose(answer(Hand(drift=0.3)), [0.2, 0.0], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(answer(Hand(limit=0.05)), [0.2, 0.0], rtol=1e-6)


def test_a_delay_of_three_ticks_takes_less_than_half_of_it():
    assert 0.1 < answer(Hand(late=3))[0] < 0.2


def test_it_goes_to_either_side_of_rest_and_ends_there():
    hand = Hand()
    answer(hand, rest=0.5)
    path = np.round([action[0] for action in hand.actions], 6)
    np.testing.assert_allclose(path, [0.5] * 5 + [0.6] * 5 + [0.5] * 5 + [0.4] * 5 + [0.5] * 5, atol=1e-6)
    assert {float(action[1]) for action in hand.actions} == {0.0}


def test_a_move_of_which_nothing_was_executed_is_refused():
    with pytest.raises(AdapterError, match=r"of a move of 0\.1 to either side 0\.001 was executed"):
        answer(Hand(limit=0.001))


def test_a_force_moves_the_mass_as_newton_says():
    robot = FakeAdapter(axes=1, mass=2.0, period=0.1)
    robot.reset(seed=0)

    def act(action):
        executed = robot.write(action).action
        return executed, np.concatenate(list(robot.read().values.values())).astype(np.float64)

    result = probe(act, np.zeros(1, np.float32), 0, 0.5, TICKS, SETTLE)
    # One N on 2 kg for 0.1 s is 0.05 m/s; 4 of 5 of them in the mean, and in the mean of both sides.
    assert result[1] == pytest.approx(0.05 * 4, rel=1e-4)
    assert result[0] > 0
