"""Velocities of known motions."""

import numpy as np
import pytest

from sami_runtime.errors import AdapterError
from sami_runtime.robots.kit import Differentiator, matrix_from_rpy
from sami_runtime.robots.kit.rotation import matrix_from_xyzw

rng = np.random.default_rng(7)


@pytest.mark.parametrize("window_s", [0.0, 0.2])
def test_a_steady_motion_has_its_velocity_however_uneven_the_stamps(window_s):
    velocity, expected = Differentiator(window_s), np.array([0.3, -1.2, 0.0])
    for time in np.cumsum(rng.uniform(0.005, 0.06, 100)):
        result = velocity(expected * time + 5.0, time)
    np.testing.assert_allclose(result, expected, atol=1e-9)


def test_a_window_is_right_for_the_middle_of_it_and_calmer():
    sine, noise = Differentiator(0.1), 0.001 * rng.normal(size=500)
    rough, calm = Differentiator(), Differentiator(0.1)
    times = np.arange(500) / 100
    results = [sine([np.sin(time)], time)[0] for time in times]
    np.testing.assert_allclose(results[50:], np.cos(times[50:] - 0.05), atol=0.002)
    roughly, calmly = ([item([n], t)[0] for n, t in zip(noise, times, strict=True)] for item in (rough, calm))
    assert np.std(calmly[50:]) < 0.2 * np.std(roughly[50:])


def test_angles_that_jump_at_pi_go_on():
    velocity = Differentiator(0.1, period=2 * np.pi)
    for time in np.arange(0.0, 10.0, 0.01):
        angles = np.array([3.0, -2.0]) * time
        result = velocity((angles + np.pi) % (2 * np.pi) - np.pi, time)
    np.testing.assert_allclose(result, [3.0, -2.0], atol=1e-9)


@pytest.mark.parametrize("window_s", [0.0, 0.1])
def test_a_turning_thing_has_its_angular_velocity_about_the_fixed_axes(window_s):
    spin, start = np.array([1.0, -2.0, 4.0]), matrix_from_rpy([0.5, 1.0, -2.0])
    rate = np.linalg.norm(spin)
    velocity = Differentiator.of_rotations(window_s)
    for time in np.arange(0.0, 5.0, 0.03):
        half = np.append(spin / rate * np.sin(rate * time / 2), np.cos(rate * time / 2))
        result = velocity(matrix_from_xyzw(half) @ start, time)
    np.testing.assert_allclose(result, spin, atol=1e-6)


def test_the_first_reading_the_same_one_again_and_an_overtaken_one_change_nothing():
    velocity = Differentiator()
    assert velocity([1.0], 0.0) == [0.0]
    assert velocity([2.0], 0.5) == [2.0]
    assert velocity([9.0], 0.5) == [2.0]
    assert velocity([9.0], 0.4) == [2.0]
    assert velocity([3.0], 1.0) == [2.0]
    velocity.reset()
    assert velocity([0.0], 1.1) == [0.0], "what was put back has not flown there"


def test_a_refused_reading_leaves_no_trace():
    velocity = Differentiator()
    velocity([1.0], 0.0)
    for value, time, message in (([np.nan], 1.0, "finite"), ([1.0], np.inf, "stamped inf"), ([1.0, 2.0], 1.0, "shape")):
        with pytest.raises(AdapterError, match=message):
            velocity(value, time)
    assert velocity([2.0], 1.0) == [1.0]


def test_what_is_given_away_is_a_copy():
    velocity = Differentiator()
    velocity([0.0], 0.0)
    velocity([1.0], 1.0)[:] = 99.0
    assert velocity([1.0], 1.0) == [1.0]
