"""The batch in which the humanoid's teacher learns: what it pays, where it begins, and what ends an episode."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.humanoid_stand_ups import FEET, LYING, StandUpBatch

ROWS = 200


@pytest.fixture(scope="module")
def first_step():
    """Heights of the torso [m] before a step without torques, and its rewards."""
    batch = StandUpBatch("humanoid-standup", ROWS)
    batch.reset(range(ROWS))
    heights = batch.observations()[:, 0]
    return heights, batch.step(np.zeros((ROWS, 17), np.float32))[1]


def test_standing_pays_about_1_lying_almost_nothing_and_kneeling_lies_between(first_step):
    heights, rewards = first_step
    lying, kneeling, upright = (rewards[part] for part in (heights < 0.2, abs(heights - 0.7) < 0.15, heights > 1.15))
    assert upright.mean() > 0.85
    assert lying.mean() < 0.1
    assert lying.max() < kneeling.mean() < upright.min()


def test_an_episode_begins_lying_or_along_a_way_up(first_step):
    heights, _ = first_step
    assert LYING < np.mean(heights < 0.2) < 2.5 * LYING
    assert 0.1 < np.mean(heights > FEET) < 0.4


def test_a_robot_without_torques_falls_from_its_feet_and_its_episode_ends():
    batch = StandUpBatch("humanoid-standup", ROWS)
    on_feet = batch.reset(range(ROWS))[:, 0] > FEET
    is_over = np.zeros(ROWS, bool)
    for _ in range(100):
        batch.step(np.zeros((ROWS, 17), np.float32))
        is_over |= batch.terminated
    assert is_over[on_feet].all()
