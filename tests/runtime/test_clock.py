import time

from sami_runtime.clock import ManualClock, MonotonicClock


def test_a_manual_clock_moves_only_by_hand_and_never_back():
    clock = ManualClock(start=5.0)
    assert clock.now() == clock.now() == 5.0
    clock.advance(1.5)
    clock.sleep_until(6.0)
    assert clock.now() == 6.5
    clock.sleep_until(7.0)
    assert clock.now() == 7.0
    assert clock.deadlines == [6.0, 7.0]


def test_the_machines_clock_sleeps_until_the_deadline_and_not_for_one_that_passed():
    clock = MonotonicClock()
    begin = clock.now()
    clock.sleep_until(begin + 0.02)
    assert clock.now() >= begin + 0.02
    before = time.perf_counter()
    clock.sleep_until(begin)
    assert time.perf_counter() - before < 0.01
