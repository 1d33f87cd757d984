import time

import pytest

from sami_runtime.clock import BOOTTIME, ManualClock, MonotonicClock
from sami_runtime.errors import SamiError


def test_a_manual_clock_moves_only_by_hand_and_never_back():
    clock = ManualClock(start=5.0)
    assert clock.now() == clock.now() == 5.0
    clock.advance(1.5)
    clock.sleep_until(6.0)
    assert clock.now() == 6.5
    clock.sleep_until(7.0)
    assert clock.now() == 7.0
    assert clock.deadlines == [6.0, 7.0]


def test_a_clock_that_stays_awake_is_on_time():
    """Sleeping alone is late by what the system takes to wake up; the median of these is not."""
    clock, late = MonotonicClock(awake_s=0.002), []
    for _ in range(20):
        deadline = clock.now() + 0.004
        clock.sleep_until(deadline)
        late.append(clock.now() - deadline)
    assert min(late) >= 0.0
    assert sorted(late)[10] < 2e-5


@pytest.mark.parametrize("awake_s", [-0.1, float("nan"), float("inf")])
def test_a_clock_that_cannot_be_is_refused(awake_s):
    with pytest.raises(SamiError, match="awake_s is"):
        MonotonicClock(awake_s)


def test_the_machines_clock_sleeps_until_the_deadline_and_not_for_one_that_passed():
    clock = MonotonicClock()
    begin = clock.now()
    clock.sleep_until(begin + 0.02)
    assert clock.now() >= begin + 0.02
    before = time.perf_counter()
    clock.sleep_until(begin)
    assert time.perf_counter() - before < 0.01


@pytest.mark.skipif(BOOTTIME is None, reason="this system does not tell how long it was suspended")
def test_time_passes_while_the_machine_is_suspended(monkeypatch):
    clock, gettime, slept = MonotonicClock(), time.clock_gettime, 0.0
    assert clock.now() == pytest.approx(time.perf_counter(), abs=0.1)  # what adapters stamp with
    monkeypatch.setattr(time, "clock_gettime", lambda which: gettime(which) + slept)
    before, slept = clock.now(), 3.0
    assert clock.now() - before == pytest.approx(3.0, abs=0.5)
