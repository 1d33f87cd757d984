"""Signals of several rates become one observation: the newest of each, with its own stamp."""

import threading
import time

import numpy as np
import pytest

from sami_runtime.clock import ManualClock
from sami_runtime.errors import AdapterError, SignalError, UnknownName
from sami_runtime.robots.kit import Latest
from sami_runtime.signals import Signal


def signal(name, size):
    unbounded = (None,) * size
    return Signal(name=name, size=size, unit="m", elements=tuple("xyz"[:size]), low=unbounded, high=unbounded)


SIGNALS = (signal("cube", 3), signal("hand", 3), signal("goal", 1))


@pytest.fixture
def latest():
    instance = Latest(SIGNALS, ManualClock(10.0), wait_s=0.05)
    instance.always(goal=[7.0])
    return instance


def test_each_signal_keeps_its_newest_reading_and_its_stamp(latest):
    latest.put(10.1, cube=[1, 1, 1], hand=[2, 2, 2])
    latest.put(10.2, hand=[3, 3, 3])
    latest.put(10.15, hand=[9, 9, 9])
    observation = latest.observation()
    assert {name: value.tolist() for name, value in observation.values.items()} == {
        "cube": [1, 1, 1],
        "hand": [3, 3, 3],
        "goal": [7],
    }
    assert (observation.measured("cube"), observation.measured("hand")) == (10.1, 10.2)
    assert observation.time == observation.measured("goal") == 10.1, "a sensor that died shows"
    assert all(value.dtype == np.float32 for value in observation.values.values())


def test_what_never_came_is_named(latest):
    latest.put(10.1, hand=[0, 0, 0])
    with pytest.raises(AdapterError, match=r"^cube never came, in the 0.05 s that were waited; hand, goal did\."):
        latest.observation()


def test_a_reset_forgets_and_takes_nothing_that_was_measured_before_it(latest):
    latest.put(10.0, cube=[1, 1, 1], hand=[2, 2, 2])
    latest.clock.advance(1.0)
    latest.reset()
    assert latest.missing == ("cube", "hand", "goal")
    latest.put(10.9, cube=[1, 1, 1])
    with pytest.raises(AdapterError, match="1 readings came that were measured before the reset"):
        latest.observation()
    latest.put(11.0, cube=[4, 4, 4], hand=[5, 5, 5], goal=[6])
    assert latest.observation().values["cube"].tolist() == [4, 4, 4]


def test_it_waits_for_the_first_reading_and_for_no_other(latest):
    latest.wait_s = 30.0
    latest.put(10.1, cube=[1, 1, 1])
    late = threading.Timer(0.1, latest.put, (10.2,), {"hand": [2, 2, 2]})
    start = time.monotonic()
    late.start()
    assert latest.observation().values["hand"].tolist() == [2, 2, 2]
    assert 0.05 < time.monotonic() - start < 20.0
    late.join()
    assert latest.observation().time == 10.1, "the same once more, at once"


def test_threads_never_see_half_a_reading(latest):
    latest.put(10.0, cube=[0] * 3, hand=[0] * 3)
    stop = threading.Event()

    def write(name):
        count = 0
        while not stop.is_set():
            count += 1
            latest.put(10.0 + count, **{name: [count] * 3})

    writers = [threading.Thread(target=write, args=(name,)) for name in ("cube", "hand")]
    for writer in writers:
        writer.start()
    try:
        for _ in range(2000):
            observation = latest.observation()
            for name in ("cube", "hand"):
                assert set(observation.values[name].tolist()) == {observation.measured(name) - 10.0}
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def test_what_it_gives_and_takes_are_copies(latest):
    value = np.ones(3, np.float32)
    latest.put(10.1, cube=value, hand=value)
    value[:] = 5.0
    latest.observation().values["cube"][:] = 6.0
    assert latest.observation().values["cube"].tolist() == [1, 1, 1]


def test_what_is_no_reading_is_refused(latest):
    with pytest.raises(UnknownName, match=r"'cubes'.*Did you mean 'cube'"):
        latest.put(10.1, cubes=[1, 1, 1])
    with pytest.raises(SignalError, match="'cube' has 2 values, expected 3"):
        latest.put(10.1, cube=[1, 1])
    with pytest.raises(AdapterError, match="stamped nan"):
        latest.put(float("nan"), cube=[1, 1, 1])
    assert latest.missing == ("cube", "hand")
