"""A loop that is watched, and a stop that reaches the robot while the loop's thread is blocked."""

import math
import threading
import time
from contextlib import nullcontext

import pytest

from sami_runtime import (
    AdapterError,
    DryRun,
    Gapped,
    GapProfile,
    Limits,
    MonotonicClock,
    Run,
    SafetyGate,
    SafetyStop,
    SamiError,
    Session,
    Watchdog,
    run_episode,
)
from tests.making.stops import Stops

NAME, WITHIN, PATIENCE = "my_arm:emergency_stop", 0.15, 1.0


@pytest.fixture
def stops(tmp_path, monkeypatch):
    folder = tmp_path / "robot"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return Stops(folder)


@pytest.fixture
def session(path):
    return Session.load(path)


@pytest.fixture
def blocking(arm):
    """An arm whose third read or write, or every reset or stop, takes as long as it is told, or until it is freed."""

    class Blocking(arm):
        def __init__(self, method="", seconds=60.0):
            super().__init__(MonotonicClock())
            self.method, self.seconds, self.free, self.blocked = method, seconds, threading.Event(), threading.Event()

        def block(self, method, count):
            if method == self.method and count == 2:
                self.blocked.set()
                self.free.wait(self.seconds)

        def reset(self, seed=None):
            self.block("reset", 2)
            super().reset(seed)

        def read(self):
            self.block("read", self.reads)
            return super().read()

        def write(self, action):
            self.block("write", self.writes)
            return super().write(action)

        def stop(self):
            self.block("stop", 2)
            super().stop()

    return Blocking


class ByItself:
    """Adds a stop of its own to an arm."""

    def __init__(self, robot, works=True):
        self.emergency_stops, self.works = 0, works
        robot.emergency_stop = self

    def __call__(self):
        self.emergency_stops += 1
        if not self.works:
            raise OSError("no route")


@pytest.mark.parametrize("method", ["read", "write"])
def test_a_blocked_driver_stops_the_robot_and_latches_the_gate(session, blocking, stops, method):
    robot, steps = blocking(method, 4 * WITHIN), []
    gate = SafetyGate(robot, session.contract, Limits(max_pause_s=math.inf))  # else the gate finds the pause as well
    with Watchdog(NAME, WITHIN) as dog:
        with pytest.raises(
            SafetyStop, match=r"got no heartbeat within 0\.15 s and stopped the robot by .* until rearm"
        ):
            run_episode(session, robot, clock=robot.clock, gate=gate, watchdog=dog, on_step=steps.append)
        assert stops.times
        # The write that hung came to an end; after it, or after the read, nothing more was written.
        assert (len(steps), robot.writes, robot.stops) == (3, 2 + (method == "write"), 1)
        with pytest.raises(SafetyStop):
            run_episode(session, robot, clock=robot.clock, gate=gate, watchdog=dog)
        gate.rearm()
        robot.method = ""
        stops.path.unlink()
        assert run_episode(session, robot, clock=robot.clock, gate=gate, watchdog=dog, max_steps=3).steps == 3
    assert stops.times == []


def test_an_error_of_a_driver_that_blocked_names_the_watchdog_that_fired_before(session, blocking, stops, monkeypatch):
    robot = blocking("read", 4 * WITHIN)
    read = robot.read

    def fail():
        observation = read()
        if robot.blocked.is_set():
            raise AdapterError("the bus is gone")
        return observation

    monkeypatch.setattr(robot, "read", fail)
    message = r"at \d\d:\d\d:\d\d\.\d{3} the watchdog got no heartbeat .* the loop ended: AdapterError: the bus is gone"
    with Watchdog(NAME, WITHIN) as dog, pytest.raises(SafetyStop, match=message):
        run_episode(session, robot, clock=robot.clock, watchdog=dog)
    assert stops.times


@pytest.mark.parametrize("method", ["reset", "stop"])
def test_episodes_with_slow_resets_and_stops_and_pauses_are_no_alarm(session, blocking, stops, method):
    robot = blocking(method, 1.3)
    with Watchdog(NAME, PATIENCE) as dog:
        for _ in range(2):
            assert run_episode(session, robot, clock=robot.clock, watchdog=dog, max_steps=3).loop.outcomes["acted"] == 3
            time.sleep(1.3 * (method == "reset"))
    assert stops.times == []


def test_a_stop_that_hangs_too_long_stops_the_robot_and_ends_the_run_as_such(session, blocking, stops):
    robot = blocking("stop", 1.0)
    with Watchdog(NAME, PATIENCE, stop_s=0.3) as dog, pytest.raises(SafetyStop, match="stopped the robot by"):
        run_episode(session, robot, clock=robot.clock, watchdog=dog, max_steps=3)
    assert stops.times


def test_a_robot_whose_stop_fails_twice_is_stopped_by_the_watchdog(session, arm, stops, monkeypatch):
    robot, calls = arm(), []

    def fail():
        calls.append(1)
        raise AdapterError("the bus is gone")

    monkeypatch.setattr(robot, "stop", fail)
    with Watchdog(NAME, PATIENCE) as dog:
        with pytest.raises(AdapterError, match=r"failed twice: .* The watchdog stopped it by my_arm:emergency_stop\."):
            run_episode(session, robot, watchdog=dog)
        assert (len(calls), len(stops.times) > 0) == (2, True)


def test_an_error_of_the_loop_is_the_loops_to_handle(session, arm, stops):
    robot = arm(raise_at_reads=[2])
    with Watchdog(NAME, PATIENCE) as dog, pytest.raises(AdapterError):
        run_episode(session, robot, watchdog=dog)
    assert (robot.stops, stops.times) == (1, [])


def test_a_watchdog_that_would_fire_between_two_ticks_is_refused(session, blocking):
    robot = blocking()
    with pytest.raises(SamiError, match=r"a heartbeat every 0\.03 s, but the loop has one every 0\.04 s.*0\.12 s"):
        Run(session, robot, robot.clock, watchdog=Watchdog(NAME, 0.03))
    Run(session, robot, robot.clock, watchdog=Watchdog(NAME, 0.03), loop_hz=100.0)


def test_one_that_does_not_run_is_refused_before_the_robot_is_reset(session, blocking):
    robot = blocking()
    asleep = Watchdog(NAME, 0.5)
    with Run(session, robot, robot.clock, watchdog=asleep) as run, pytest.raises(SamiError, match="is not running"):
        run.episode()
    assert robot.resets == 0


# --- a stop from another thread


@pytest.fixture
def ticks(session):
    """Starts an episode in a thread of its own; the run, and what came of it."""
    threads = []

    def start(robot, **options):
        run, reports = Run(session, robot, robot.clock, **options), []

        def drive():
            try:
                with run:
                    reports.append(run.episode(max_steps=10_000))
            except SamiError as error:
                reports.append(error)

        thread = threading.Thread(target=drive)
        thread.start()
        threads.append((robot, thread))
        return run, thread, reports

    yield start
    for robot, thread in threads:
        robot.free.set()
        thread.join(10)


@pytest.mark.parametrize("method", ["read", "write"])
def test_a_stop_reaches_a_robot_whose_driver_is_blocked(ticks, blocking, method):
    robot = blocking(method)
    by_itself = ByItself(robot)
    run, thread, reports = ticks(robot)
    assert robot.blocked.wait(10)
    start = time.monotonic()
    run.stop("too hot", within_s=0.2)
    assert 0.2 <= time.monotonic() - start < 5.0
    assert (by_itself.emergency_stops > 0, robot.stops, thread.is_alive()) == (True, 0, True)
    writes = robot.writes
    robot.free.set()
    thread.join(10)
    assert "too hot. Nothing more is written" in str(reports[0])
    assert (robot.writes, robot.stops) == (writes + (method == "write"), 1)


@pytest.mark.parametrize("works", [True, False])
def test_a_write_that_hangs_is_stopped_again_and_again_until_the_loop_rests(ticks, blocking, works):
    """It may send its command while it hangs."""
    robot = blocking("write")
    by_itself = ByItself(robot, works)
    run, thread, reports = ticks(robot)
    assert robot.blocked.wait(10)
    with nullcontext() if works else pytest.raises(AdapterError, match="no route"):
        run.stop("too hot", within_s=0.05)
    start, first = time.monotonic(), by_itself.emergency_stops
    while by_itself.emergency_stops < first + 3:
        assert time.monotonic() - start < 10.0, "it is not stopped again"
        time.sleep(0.01)
    robot.free.set()
    thread.join(10)
    assert "too hot" in str(reports[0])
    time.sleep(0.1)
    count = by_itself.emergency_stops
    time.sleep(0.15)
    assert (by_itself.emergency_stops, robot.stops) == (count, 1)


def test_a_stop_reaches_the_robot_also_where_no_thread_can_be_started(ticks, blocking, monkeypatch):
    robot = blocking("write")
    by_itself = ByItself(robot)
    run, _, _ = ticks(robot)
    assert robot.blocked.wait(10)

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        run.stop("too hot", within_s=0.05)
    assert by_itself.emergency_stops == 1


def test_a_loop_that_can_stop_the_robot_does_so_itself(ticks, blocking):
    robot = blocking()
    by_itself = ByItself(robot)
    run, thread, reports = ticks(robot)
    while robot.writes < 3:
        time.sleep(0.005)
    run.stop("enough", within_s=10.0)
    assert (robot.stops, by_itself.emergency_stops) == (1, 0)
    thread.join(10)
    assert "enough" in str(reports[0])
    run.stop("once more")  # while nothing runs it latches the gate, which it already is
    assert (robot.stops, by_itself.emergency_stops) == (1, 0)


def test_in_the_loops_own_thread_it_ends_the_tick(session, blocking):
    robot = blocking()
    with Run(session, robot, robot.clock) as run, pytest.raises(SafetyStop, match="seen enough"):
        run.episode(on_step=lambda _: run.stop("seen enough"))
    assert (robot.writes, robot.stops) == (1, 1)


def test_a_robot_that_nobody_can_stop_is_said_to_move_still(ticks, blocking):
    robot = blocking("read")
    run, _, _ = ticks(robot)
    assert robot.blocked.wait(10)
    with pytest.raises(AdapterError, match=r"within 0\.1 s, and the adapter has no emergency_stop\(\)\. It may still"):
        run.stop("too hot", within_s=0.1)
    ByItself(robot, works=False)
    with pytest.raises(AdapterError, match=r"its emergency_stop\(\) failed: no route\. It may still move: press"):
        run.stop("too hot", within_s=0.1)


def test_the_watchdog_reaches_it_where_the_adapter_cannot(ticks, blocking, stops):
    robot = blocking("read")
    ByItself(robot, works=False)
    with Watchdog(NAME, 60.0) as dog:
        run, thread, reports = ticks(robot, watchdog=dog)
        assert robot.blocked.wait(10)
        run.stop("too hot", within_s=0.1)
        assert stops.times
        robot.free.set()
        thread.join(10)
        assert "too hot" in str(reports[0])


def test_what_wraps_an_adapter_passes_its_emergency_stop_on(blocking):
    bare, robot = blocking(), blocking()
    by_itself = ByItself(robot)
    for wrap in (DryRun, lambda adapter: Gapped(adapter, GapProfile(), 25.0)):
        assert wrap(bare).emergency_stop is None
        wrap(robot).emergency_stop()
    assert by_itself.emergency_stops == 2
