"""Laws of a gap between a command and what becomes of it: pace, limits, and elements that finish what they began."""

import numpy as np
import pytest

from sami_runtime.adapters.fake import FakeAdapter
from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.gap.gap import Gap
from sami_runtime.gap.profile import GapProfile

PERIOD = 0.04
SIGNALS, ELEMENTS = FakeAdapter(axes=2).observation, ("arm", "hand")
COMMANDS = np.random.default_rng(2).uniform(-1, 1, (40, 2)).astype(np.float32)


def made_of(commands=COMMANDS, seed=0, size=1.0, **profile):
    gap = Gap(GapProfile.of(profile), SIGNALS, 2, PERIOD, elements=ELEMENTS)
    gap.begin(seed, size)
    return np.array([gap.actuate(command) for command in commands])


def test_without_them_a_lag_and_a_latency_do_what_they_did_to_the_last_bit():
    late = {"actuator_lag_s": [0.0, 0.1], "action_latency_s": [0.0, 0.1], "bias": [-1.0, 1.0]}
    plain = {"action_pace": 1.0, "action_limit": {}, "action_commit_s": {"hand": 0.5}}
    assert made_of(**late).tobytes() == made_of(**late, **plain).tobytes()


def test_a_pace_is_the_share_of_an_action_that_is_executed():
    np.testing.assert_allclose(made_of(action_pace=0.3), 0.3 * COMMANDS, rtol=1e-6)
    np.testing.assert_allclose(made_of(action_pace={"hand": 0.5}), COMMANDS * [1.0, 0.5], rtol=1e-6)


def test_a_range_without_a_table_is_drawn_once_for_all_elements_and_by_the_seed():
    shares = [made_of(seed=seed, action_pace=[0.2, 0.4])[0] / COMMANDS[0] for seed in (0, 0, 1)]
    for share in shares:
        assert share[0] == pytest.approx(share[1])
        assert 0.2 <= share[0] <= 0.4
    assert shares[0].tolist() == shares[1].tolist() != shares[2].tolist()
    item = made_of(action_pace={"arm": [0.2, 0.4], "hand": [0.2, 0.4]})[0] / COMMANDS[0]
    assert item[0] != pytest.approx(item[1])


def test_a_range_of_actions_does_not_change_what_else_is_drawn():
    lag = {"actuator_lag_s": [0.0, 0.1]}
    np.testing.assert_allclose(made_of(**lag, action_pace=[0.5, 0.5]), 0.5 * made_of(**lag), rtol=1e-6)


def test_a_limit_is_the_most_of_an_element_to_either_side():
    expected = COMMANDS.copy()
    expected[:, 1] = np.clip(expected[:, 1], -0.1, 0.1)
    np.testing.assert_allclose(made_of(action_limit={"hand": 0.1}), expected, rtol=1e-6)


def test_an_element_at_its_limit_goes_on_for_as_long_as_it_has_to_and_then_obeys():
    hand = np.float32([0.05, 1.0, -1.0, -1.0, 0.0, -1.0, 1.0, 1.0, 0.02])
    commands = np.stack([hand, hand], axis=1)
    actions = made_of(commands, action_limit={"hand": 0.1}, action_commit_s={"hand": 3 * PERIOD})
    np.testing.assert_allclose(actions[:, 1], [0.05, 0.1, 0.1, 0.1, 0.0, -0.1, -0.1, -0.1, 0.02], rtol=1e-6)
    np.testing.assert_array_equal(actions[:, 0], hand)


def test_a_smaller_gap_is_nearer_to_none():
    profile = {"action_pace": 0.2, "action_limit": {"hand": 0.05}, "action_commit_s": {"hand": 1.0}}
    np.testing.assert_allclose(made_of(size=0.0, **profile), COMMANDS, rtol=1e-6)
    half = made_of(size=0.5, **profile)
    np.testing.assert_allclose(half[:, 0], 0.6 * COMMANDS[:, 0], rtol=1e-6)
    assert abs(half[:, 1]).max() == pytest.approx(0.1)


def test_no_episode_inherits_what_another_was_about_to_finish():
    gap = Gap(GapProfile.of({"action_limit": 0.1, "action_commit_s": 1.0}), SIGNALS, 2, PERIOD, elements=ELEMENTS)
    gap.begin(0)
    gap.actuate(np.ones(2, np.float32))
    gap.begin(0)
    np.testing.assert_allclose(gap.actuate(-np.ones(2, np.float32)), [-0.1, -0.1], rtol=1e-6)


def test_an_element_that_the_action_has_not_is_refused_by_its_name():
    with pytest.raises(UnknownName, match=r"unknown element of the action 'finger'.*arm, hand"):
        made_of(action_limit={"finger": 0.1})
    with pytest.raises(SamiError, match=r"action_pace is -1; it must be a number of at least 0"):
        made_of(action_pace=-1)
