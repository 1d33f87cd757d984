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
    assert list(clock.deadlines) == [6.0, 7.0]


class DrowsyMachine:
    """The module `time` of a machine that sleeps a millisecond too long, and looks at its clock in a microsecond."""

    def __init__(self):
        self.time = 100.0

    def perf_counter(self):
        self.time += 1e-6
        return self.time

    def clock_gettime(self, clock):
        assert clock == BOOTTIME
        return self.perf_counter()

    def sleep(self, seconds):
        self.time += seconds + 1e-3


@pytest.mark.parametrize(("awake_s", "late"), [(0.0, 1e-3), (2e-3, 1e-6)])
def test_a_clock_that_stays_awake_is_on_time_on_a_machine_that_wakes_up_late(monkeypatch, awake_s, late):
    machine = DrowsyMachine()
    monkeypatch.setattr("sami_runtime.clock.time", machine)
    monkeypatch.setattr("sami_runtime.clock._SUSPENDED_S", 0.0)
    MonotonicClock(awake_s).sleep_until(deadline := machine.time + 0.004)
    assert 0.0 <= machine.time - deadline <= late + 1e-6


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
    clock, gettime, suspended_s = MonotonicClock(), time.clock_gettime, 0.0
    assert clock.now() == pytest.approx(time.perf_counter(), abs=0.1)  # what adapters stamp with
    monkeypatch.setattr(time, "clock_gettime", lambda clock_id: gettime(clock_id) + suspended_s)
    before, suspended_s = clock.now(), 3.0
    assert clock.now() - before == pytest.approx(3.0, abs=0.5)
