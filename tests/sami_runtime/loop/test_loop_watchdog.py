"""How a loop uses a watchdog, on a fake that writes down what it hears between what the robot does."""

import pytest

from sami_runtime import SafetyGate, SafetyStop, Session, Watchdog, run_episode
from sami_runtime.loop.stopping import LoopWatchdog

STOPPED = ["stopping", "stop", "end"]


@pytest.fixture
def watched(arm):
    """An arm and a watchdog, which share a list of what happened; `watchdog.reason` is what the latter finds wrong."""
    calls = []

    class Arm(arm):
        def write(self, action):
            calls.append("write")
            return super().write(action)

        def stop(self):
            calls.append("stop")
            super().stop()

    class FakeWatchdog:
        name, stop_s, fired, reason = "fake:stop", 2.0, False, None

        def __getattr__(self, name):
            return lambda *_: calls.append(name)

        def fault(self):
            return self.reason

    return Arm(), FakeWatchdog(), calls


def test_each_write_follows_a_beat_and_the_watch_ends_once_the_robot_has_stopped(make, watched):
    robot, watchdog, calls = watched
    run_episode(Session.load(make.write(make.recurrent())), robot, max_steps=3, watchdog=watchdog)
    assert calls == ["rearm", "begin", *["beat", "write"] * 3, *STOPPED]


def test_what_the_watchdog_finds_latches_the_gate_and_stops_the_robot(make, watched):
    robot, watchdog, calls = watched
    session = Session.load(make.write(make.recurrent()))
    gate = SafetyGate(robot, session.contract)

    def fail(record):
        watchdog.reason = "the watchdog saw smoke" if record.step == 1 else None

    with pytest.raises(SafetyStop, match="the watchdog saw smoke"):
        run_episode(session, robot, watchdog=watchdog, gate=gate, on_step=fail)
    assert gate.tripped == "the watchdog saw smoke"
    assert calls[-3:] == STOPPED
    assert calls.count("write") == 3


def test_the_watchdog_of_the_package_is_one_for_a_loop():
    watchdog = Watchdog("my_arm:emergency_stop", 1.0)
    for name in {*LoopWatchdog.__annotations__, *vars(LoopWatchdog)} - {*dir(object), "_is_protocol"}:
        assert name.startswith("_") or hasattr(watchdog, name), name
