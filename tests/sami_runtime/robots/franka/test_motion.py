"""Laws of what the Franka's hand is allowed to do, over random wishes; no robot and no library of one."""

import numpy as np
import pytest

from sami_runtime.robots.franka.link import HandState
from sami_runtime.robots.franka.settings import FrankaSettings

adapter = pytest.importorskip("sami_runtime.robots.franka.adapter")

SETTINGS = FrankaSettings.of({"robot": "127.0.0.1", "camera": {"here": ("127.0.0.1", 1), "there": ("127.0.0.1", 2)}})
BASE, PERIOD = np.array([-0.6, 0.0, 0.0]), 0.04
REST = {"measured": 0.0, "width": 0.05, "speed": 0.0, "target": 0.05, "grasped": False, "commands": 0}


def far(place):
    return float(np.linalg.norm((place - BASE)[:2]))


def test_whatever_is_asked_the_hand_ends_within_its_workspace_and_the_arms_reach():
    rng, room = np.random.default_rng(0), SETTINGS.workspace
    ends = []
    for _ in range(50):
        place = rng.uniform([-0.1, -0.1, 0.1], [0.1, 0.1, 0.3])
        shift = rng.uniform(-0.05, 0.05, 3)
        for _ in range(200):
            place = place + adapter.allowed(shift, place, BASE, SETTINGS, PERIOD)
            assert far(place) <= room.reach + 1e-3  # along the edge, a step is a tangent
        assert (place >= np.array(room.low) - 1e-9).all()
        assert (place <= np.array(room.high) + 1e-9).all()
        ends.append(far(place))
    assert max(ends) > room.reach - 0.01  # some were stopped by it


def test_a_hand_that_was_pushed_beyond_the_reach_is_brought_back_and_may_go_along_its_edge():
    beyond = np.array([0.23, 0.0, 0.1])
    back = adapter.allowed(np.array([0.02, 0.01, 0.0]), beyond, BASE, SETTINGS, PERIOD)
    assert back[0] < 0.0
    assert back[1] == pytest.approx(0.01)


def test_inside_nothing_is_changed_but_what_is_too_fast():
    place = np.array([0.0, 0.0, 0.2])
    slow, fast = np.array([0.005, -0.004, 0.003]), np.array([0.04, 0.0, 0.0])
    np.testing.assert_allclose(adapter.allowed(slow, place, BASE, SETTINGS, PERIOD), slow)
    assert np.linalg.norm(adapter.allowed(fast, place, BASE, SETTINGS, PERIOD)) == pytest.approx(
        SETTINGS.motion.hand_speed * PERIOD
    )


@pytest.mark.parametrize(
    ("change", "hand", "expected"),
    [
        (0.0, {}, False),
        (0.005, {}, False),
        (0.02, {}, True),
        (-0.02, {}, True),
        (-0.02, {"grasped": True}, False),
        (0.02, {"grasped": True}, True),
        (0.0, {"speed": -0.1}, True),
    ],
)
def test_the_arm_waits_for_fingers_that_move_or_are_about_to_and_not_for_those_that_hold(change, hand, expected):
    assert adapter.moves(change, HandState(**{**REST, **hand}), SETTINGS.hand.least_change) is expected


@pytest.mark.parametrize("speed", [-0.05, 0.05])
def test_the_width_of_a_moving_hand_is_fresh_until_its_motion_hangs_and_then_ages(speed):
    hand = HandState(**REST | {"speed": speed, "target": 0.05 + speed})
    for at in np.linspace(0.0, 1.99, 200):
        width, measured = adapter.reckoned(hand, at)
        assert measured == at
        assert width == pytest.approx(0.05 + speed * min(at, 1.0))
    for at in (2.01, 60.0):
        assert adapter.reckoned(hand, at) == (0.05, 0.0)
    assert adapter.reckoned(HandState(**REST), 60.0) == (0.05, 0.0)
