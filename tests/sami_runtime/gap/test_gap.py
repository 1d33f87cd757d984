"""Laws of the gap while it runs: what it does to each number, and that an episode's gap is a function of its seed."""

import numpy as np
import pytest

from sami_runtime.adapters.fake import FakeAdapter
from sami_runtime.gap.gap import Gap
from sami_runtime.gap.profile import GapProfile

PERIOD = 0.04
SIGNALS = FakeAdapter(axes=2).observation  # position and velocity: four numbers
TRUTH = np.random.default_rng(0).normal(0, 1, (60, 4)).astype(np.float32)


def gap_of(period=PERIOD, **profile):
    return Gap(GapProfile.of(profile), SIGNALS, 2, period)


def observed(gap, seed=0, truth=TRUTH):
    """What arrives of the truth, and the number of the tick whose stamp it bears, over one episode."""
    gap.begin(seed)
    values, stamps = zip(*(gap.observe(row, float(tick)) for tick, row in enumerate(truth)), strict=True)
    return np.array(values), np.array(stamps)


def test_an_empty_profile_is_the_identity_to_the_last_bit():
    truth = np.concatenate([TRUTH, np.float32([[-0.0, 0.0, np.nan, np.inf], [1e-40, -1e-40, 3e38, -np.inf]])])
    gap = gap_of()
    values, stamps = observed(gap, truth=truth)
    assert values.tobytes() == truth.tobytes()
    assert stamps.tolist() == list(range(len(truth)))
    command = np.float32([-0.0, 1e-40])
    assert gap.actuate(command).tobytes() == command.tobytes()


@pytest.mark.parametrize(
    ("latency", "ticks"), [(0.04, 1), (0.06, 2), (0.08, 2), (0.12, 3), (0.36, 9), (0.05, 1), (0.019, 0)]
)
def test_a_latency_delivers_the_observation_of_so_many_ticks_ago_to_the_nearest(latency, ticks):
    values, stamps = observed(gap_of(latency_s=latency))
    assert stamps.tolist() == [max(0, tick - ticks) for tick in range(60)]
    np.testing.assert_array_equal(values, TRUTH[stamps.astype(int)])


def test_jitter_delays_by_at_most_so_much_and_nothing_that_was_overtaken_is_read():
    _, stamps = observed(gap_of(jitter_s=3 * PERIOD))
    late = np.arange(60) - stamps
    assert set(late[3:]) == {0, 1, 2, 3}
    assert (np.diff(stamps) >= 0).all()


def test_what_drops_out_leaves_the_one_before_with_its_own_stamp():
    values, stamps = observed(gap_of(dropout=0.5))
    fresh = stamps == np.arange(60)
    assert 15 < fresh.sum() < 45
    assert fresh[0]
    for tick in range(1, 60):
        assert stamps[tick] == (tick if fresh[tick] else stamps[tick - 1])
    np.testing.assert_array_equal(values, TRUTH[stamps.astype(int)])
    assert set(observed(gap_of(dropout=1.0))[1]) == {0.0}


def test_a_bias_is_constant_within_an_episode_and_drawn_anew_in_the_next():
    gap, truth = gap_of(bias={"position": [-1, 1]}), np.zeros((20, 4), np.float32)
    errors = [observed(gap, seed, truth)[0] for seed in range(3)]
    for error in errors:
        assert (error == error[0]).all()
        assert (error[:, 2:] == 0).all()
        assert error[0, 0] != error[0, 1], "each element has its own"
    assert len({error[0, 0] for error in errors}) == 3


def test_a_single_value_is_the_same_in_every_episode():
    gap = gap_of(bias=0.5, bias_relative=0.1)
    for seed in range(3):
        np.testing.assert_allclose(observed(gap, seed)[0], 1.1 * TRUTH + 0.5, rtol=1e-5, atol=1e-6)


def test_noise_is_white_with_the_given_deviation_and_touches_nothing_else():
    truth = np.full((20_000, 4), 2.0, np.float32)
    values, _ = observed(gap_of(noise={"position": 0.1}, noise_relative={"velocity": 0.1}), truth=truth)
    error = values - truth
    np.testing.assert_allclose(error.std(0), [0.1, 0.1, 0.2, 0.2], rtol=0.03)
    np.testing.assert_allclose(error.mean(0), 0.0, atol=0.005)
    assert abs(np.corrcoef(error[1:, 0], error[:-1, 0])[0, 1]) < 0.03
    noisy, _ = observed(gap_of(noise={"position": 0.1}))
    assert noisy[:, 2:].tobytes() == TRUTH[:, 2:].tobytes()


def test_quantisation_rounds_to_the_nearest_step_and_twice_is_as_once():
    gap = gap_of(quantisation=0.3)
    once, _ = observed(gap)
    assert np.abs(once - TRUTH).max() <= 0.15 + 1e-6
    np.testing.assert_allclose(once / 0.3, np.round(once / 0.3), atol=1e-5)
    assert observed(gap, truth=once)[0].tobytes() == once.tobytes()


def test_a_stuck_sensor_says_the_same_with_fresh_stamps_until_it_works_again():
    values, stamps = observed(gap_of(stuck_at_s={"position": 0.2}, stuck_for_s=0.4, noise=0.1))
    assert stamps.tolist() == list(range(60))
    assert (values[5:15, :2] == values[5, :2]).all()
    assert (values[15, :2] != values[5, :2]).all()
    assert (values[4, :2] != values[5, :2]).all()
    assert (np.diff(values[:, 2:], axis=0) != 0).all(), "the other sensor works"
    for_ever, _ = observed(gap_of(stuck_at_s=0.19))
    assert (for_ever[5:] == TRUTH[5]).all()


def test_signals_of_one_sensor_have_the_same_errors():
    values, _ = observed(gap_of(noise=1.0, bias=[-1, 1], same_as={"velocity": "position"}))
    assert values[:, 2:].tobytes() == values[:, :2].tobytes()


def test_a_fast_clock_stamps_ahead_by_its_rate_and_offset():
    _, stamps = observed(gap_of(clock_skew=0.01, clock_offset_s=2.0))
    np.testing.assert_allclose(stamps, 1.01 * np.arange(60) + 2.0)


def draws():
    return gap_of(
        latency_s=[0.0, 0.1],
        jitter_s=[0.0, 0.1],
        dropout=[0.0, 0.5],
        noise=[0.0, 0.1],
        bias=[-1, 1],
        quantisation=[0.01, 0.1],
        stuck_at_s=[0.0, 2.0],
        stuck_for_s=0.4,
        actuator_lag_s=[0.0, 0.1],
        clock_skew=[-0.1, 0.1],
    )


def test_the_same_seed_gives_the_same_stream_and_another_seed_another():
    gap, other = draws(), draws()
    first = observed(gap, 3)
    observed(other, 8)
    again = observed(other, 3)  # whatever was run before
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], observed(gap, 4)[0])


def test_a_seed_means_the_same_gap_in_every_version():
    """Recordings and trainings tell a seed: what is drawn by it, and in which order, must not change."""
    gap = gap_of(
        bias=[-1, 1],
        bias_relative=[-0.5, 0.5],
        latency_s=[0.0, 0.2],
        clock_skew=[-0.5, 0.5],
        clock_offset_s=[0, 1],
        actuator_lag_s=[0, 0.1],
        noise=[0.0, 1e-9],
        quantisation=[0.0, 1e-9],
    )
    values, stamps = observed(gap, 3, np.repeat([[0.0], [1.0]], (1, 5), axis=0) * np.ones((6, 4)))
    at_zero, at_one = [-0.90966, -0.62717, -0.86795, 0.77681], [0.1564, -0.0586, -0.11248, 2.09734]
    np.testing.assert_allclose(values[:4], [at_zero, at_zero, at_zero, at_one], atol=1e-5)
    np.testing.assert_allclose(stamps[:4], [0.62218, 0.62218, 0.62218, 1.86276], atol=1e-5)
    np.testing.assert_allclose(gap.actuate(np.ones(2)), 0.42531202, atol=1e-7)


def test_without_a_seed_the_stream_of_the_last_one_goes_on():
    twin, other = draws(), draws()
    streams = [[observed(gap, seed)[0] for seed in (3, None, None)] for gap in (twin, other)]
    for a, b in zip(*streams, strict=True):
        assert a.tobytes() == b.tobytes()
    assert not np.array_equal(streams[0][1], streams[0][2])


def test_one_kind_of_error_does_not_change_the_luck_of_another():
    readings = observed(gap_of(dropout=0.5))[1]
    assert readings.tolist() == observed(gap_of(dropout=0.5, noise=1.0, bias=[0, 1]))[1].tolist()


def test_lag_converges_to_the_command_as_a_first_order_system():
    gap, command = gap_of(actuator_lag_s=0.08), np.float32([1.0, -0.5])
    gap.begin(0)
    reached = np.array([gap.actuate(command) for _ in range(60)])
    expected = (1 - np.exp(-np.arange(1, 61) * PERIOD / 0.08))[:, None] * command
    np.testing.assert_allclose(reached, expected, rtol=1e-6)
    np.testing.assert_allclose(reached[-1], command, rtol=1e-6)


def test_an_action_arrives_late_and_nothing_moves_before():
    gap = gap_of(action_latency_s=0.08)
    gap.begin(0)
    commands = np.random.default_rng(1).uniform(-1, 1, (20, 2)).astype(np.float32)
    reached = np.array([gap.actuate(command) for command in commands])
    assert (reached[:2] == 0).all()
    np.testing.assert_array_equal(reached[2:], commands[:-2])


def test_no_episode_inherits_from_the_one_before():
    gap = gap_of(latency_s=0.2, actuator_lag_s=1.0, action_latency_s=0.2)
    first = observed(gap), [gap.actuate(np.ones(2)) for _ in range(10)]
    second = observed(gap), [gap.actuate(np.ones(2)) for _ in range(10)]
    np.testing.assert_array_equal(first[0][0], second[0][0])
    np.testing.assert_array_equal(first[1], second[1])
