"""Another clock: its offset and drift under late messages, and what happens when it steps."""

import math

import numpy as np
import pytest

from sami_runtime.errors import AdapterError
from sami_runtime.robots.kit import ClockSync


def messages(seconds, offset=0.0, drift=0.0, least=0.0, late=0.02, hz=30.0, seed=0, start=0.0):
    """(measured by ours, theirs, received) of a sensor whose messages are late by an exponential time, some by far."""
    rng = np.random.default_rng(seed)
    for measured in start + np.arange(0.0, seconds, 1.0 / hz):
        delay = least + rng.exponential(late) + (0.5 if rng.random() < 0.02 else 0.0)
        yield measured, (measured - offset) / (1.0 + drift), measured + delay


@pytest.mark.parametrize("drift", [0.0, 1e-4, -5e-4])
@pytest.mark.parametrize("offset", [0.0, 3.7, -1.7e9])
def test_offset_and_drift_are_found_under_random_delays(offset, drift):
    sync = ClockSync(delay_s=0.03)
    errors = [sync.local_time(t, r) - m for m, t, r in messages(90.0, offset, drift, least=0.03)]
    assert max(map(abs, errors[30:])) < 0.02, "late messages by half a second do not count"
    assert max(map(abs, errors[len(errors) // 2 :])) < 0.004
    assert sync.drift == pytest.approx(drift, abs=5e-5)
    assert sync.steps == 0


def test_a_stamp_never_lies_in_the_future():
    sync = ClockSync()
    assert all(sync.local_time(t, r) <= r for _, t, r in messages(20.0, 5.0, 2e-4))


def test_a_delay_that_every_message_has_is_not_seen_and_is_to_be_told():
    blind, report = ClockSync(), ClockSync(delay_s=0.03)
    for measured, stamp, received in messages(20.0, 5.0, least=0.03, late=1e-4):
        late, reported = blind.local_time(stamp, received) - measured, report.local_time(stamp, received) - measured
    assert (late, reported) == (pytest.approx(0.03, abs=1e-3), pytest.approx(0.0, abs=1e-3))


@pytest.mark.parametrize("step", [0.5, 1e6, -0.5, -1e6])
def test_a_clock_that_steps_is_noticed_and_followed_anew(step):
    sync = ClockSync()
    for _, stamp, received in messages(30.0):
        sync.local_time(stamp, received)
    errors = [sync.local_time(t + step, r) - m for m, t, r in messages(30.0, seed=1, start=30.0)]
    assert sync.steps == 1
    assert max(errors) < 0.1, "at no moment does an old reading pass for a new one by more than it was late"
    assert max(map(abs, errors[-300:])) < 0.01


def test_messages_that_overtake_each_other_are_no_step():
    sync = ClockSync()
    rows = list(messages(30.0, 2.0, late=0.05, hz=100.0))
    errors = [sync.local_time(t, r) - m for m, t, r in sorted(rows, key=lambda row: row[2])]
    assert sync.steps == 0
    assert max(map(abs, errors[200:])) < 0.02


def test_a_network_that_becomes_slow_makes_readings_old_and_does_not_move_the_clock():
    sync = ClockSync()
    for _, stamp, received in messages(20.0, late=0.001):
        sync.local_time(stamp, received)
    for measured, stamp, received in messages(10.0, least=0.3, late=0.001, start=20.0):
        assert sync.local_time(stamp, received) == pytest.approx(measured, abs=0.005)
    assert sync.steps == 0


def test_before_the_first_message_nothing_is_known():
    sync = ClockSync()
    assert math.isnan(sync.offset)
    assert sync.local_time(3.0, 10.0) == 10.0
    assert sync.offset == 7.0


def test_what_is_no_time_is_refused():
    with pytest.raises(AdapterError, match="came at nan"):
        ClockSync().local_time(1.0, math.nan)
    with pytest.raises(AdapterError, match="a delay of 0 or more"):
        ClockSync(delay_s=-0.1)
