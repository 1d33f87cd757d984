"""The batch in which the humanoid's teacher learns: what it pays, where it begins, and what ends an episode."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.humanoid_stand_ups import FEET, RISEN, LessonBatch, StandUpBatch

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


def test_episodes_begin_low_only_as_far_as_robots_that_begin_higher_end_on_their_feet():
    batch = StandUpBatch("humanoid-standup", ROWS)
    batch.reset(range(ROWS))
    assert np.bincount(batch.beginnings).min() > 4, "at first, each beginning is as likely"
    assert 0.1 < np.mean(batch.observations()[:, 0] < 0.2) < 0.3
    upright = batch.beginnings.max()
    for ends_well, share in ((False, (0.9, 1.0)), (True, (0.4, 0.8))):
        for _ in range(30):
            batch._on_feet[:] = ends_well & (batch.beginnings == upright)
            batch.reset()
        low, high = share
        assert low <= np.mean(batch.beginnings == upright) <= high
        assert np.mean(batch.beginnings < upright - 1) < 0.1, "those below learn from what comes above them"


def test_a_teachers_actions_are_targets_of_the_joints():
    batch = StandUpBatch("humanoid-standup", 3)
    batch.reset(range(3))
    angles, speeds = batch.observations()[:, 5:22], batch.observations()[:, 28:45]
    joints = [name for name in batch.robot.body.joints]
    targets = np.random.default_rng(0).uniform(-1, 1, (3, len(joints))).astype(np.float32)
    order = batch._angles - 7
    control = np.clip(0.8 * (1.5 * targets - angles[:, order]) - 0.05 * speeds[:, order], -0.4, 0.4)
    np.testing.assert_allclose(0.4 * batch.command(targets), control, atol=1e-6)


def test_a_robot_that_is_turned_about_the_vertical_reads_the_same():
    batch = StandUpBatch("humanoid-standup", ROWS)
    batch.reset(range(ROWS))
    before, (turn, half) = batch.privileged(), (np.array([[0.0, -1.0], [1.0, 0.0]]), np.sqrt(0.5))
    w, x, y, z = batch._qpos[:, 3:7].T.copy()
    batch._qpos[:, 3:7] = np.stack([half * (w - z), half * (x - y), half * (x + y), half * (w + z)], axis=1)
    batch._qpos[:, :2], batch._qvel[:, :2] = batch._qpos[:, :2] @ turn.T, batch._qvel[:, :2] @ turn.T
    batch._batch.forward(np.arange(ROWS))
    np.testing.assert_allclose(batch.privileged(), before, atol=1e-4)


def test_a_robot_without_torques_falls_from_its_feet_and_its_episode_ends():
    batch = StandUpBatch("humanoid-standup", ROWS)
    on_feet = batch.reset(range(ROWS))[:, 0] > FEET
    is_over = np.zeros(ROWS, bool)
    for _ in range(100):
        batch.step(np.zeros((ROWS, 17), np.float32))
        is_over |= batch.terminated
    assert is_over[on_feet].all()


def test_in_a_lesson_the_kneeling_teacher_acts_until_the_robot_is_up_and_again_once_it_fell():
    batch = LessonBatch("humanoid-standup", ROWS)
    batch.reset(range(ROWS))
    lying, limp = batch.beginnings == 0, np.zeros((ROWS, 17), np.float32)
    assert 0.4 < lying.mean() < 0.6

    def kneeling_teacher_acts():
        return ~np.isclose(batch.command(limp), StandUpBatch.command(batch, limp)).all(axis=1)

    np.testing.assert_array_equal(kneeling_teacher_acts(), lying)
    was_up = ~lying
    for _ in range(50):
        batch.step(batch.command(limp))
        was_up |= batch.observations()[:, 0] > RISEN
    assert was_up.mean() > 0.9, "it brings robots up"
    for _ in range(100):
        batch.step(limp)
    assert not batch.terminated.any(), "a fall ends no lesson"
    assert kneeling_teacher_acts()[was_up].mean() > 0.9
