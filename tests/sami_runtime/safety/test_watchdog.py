"""A process beside the loop that stops the robot when the heartbeat ceases: real processes, real signals."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sami_runtime import AdapterError, SafetyStop, SamiError, Watchdog
from sami_runtime.safety import watchdog as module
from sami_runtime.safety.watchdog import instruct_watchdogs, release_watchdogs
from tests.making.stops import Stops

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="watchdogs need Linux")

NAME, WITHIN, PATIENCE = "my_arm:emergency_stop", 0.1, 0.6
"""Short for what has to fire; long for what must not on a busy machine."""
BY = r"stops the robot by my_arm:emergency_stop\."


@pytest.fixture
def stops(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return Stops(tmp_path)


def beat_for(seconds, dog):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        dog.beat()
        time.sleep(0.005)


def fail(dog, end=False):
    dog.beat()
    if end:
        dog.end()
    raise ZeroDivisionError


def test_it_stops_the_robot_when_the_beat_ceases(stops):
    with Watchdog(NAME, WITHIN) as dog:
        for _ in range(20):
            dog.beat()
            last = time.monotonic()
            time.sleep(0.01)
        assert stops.times == []
        late = stops.wait() - last
        assert WITHIN - 0.005 < late < WITHIN + 0.5
        with pytest.raises(SafetyStop, match=r"got no heartbeat within 0\.1 s and stopped the robot by my_arm"):
            dog.beat()
        dog.end()


def test_one_line_says_when_and_why_it_fired(stops, capfd):
    """On stderr, and in every error that comes of it."""
    with Watchdog(NAME, WITHIN, stop_s=0.1) as dog:
        dog.beat()
        stops.wait()
        with pytest.raises(SafetyStop, match=r"^at \d\d:\d\d:\d\d\.\d{3} the watchdog got no heartbeat within 0\.1 s"):
            dog.beat()
        dog.stopping()
        dog.end()
        assert "got no heartbeat within 0.1 s" in dog.fault()
        dog.rearm()
        dog.begin()
        stops.path.unlink()
        dog.stopping()
        stops.wait()
        assert "the watchdog saw stop() take longer than 0.1 s and stopped the robot" in dog.fault()
        dog.end()  # `stop()` returned at last; the error that ends the run comes after it
        assert "the watchdog saw stop() take longer than 0.1 s and stopped the robot" in dog.fault()
    first, second = capfd.readouterr().err.splitlines()
    assert re.fullmatch(rf"sami: \d\d:\d\d:\d\d\.\d{{3}} the watchdog got no heartbeat within 0.1 s, and {BY}", first)
    assert "the watchdog saw stop() take longer than 0.1 s, and stops the robot" in second


def test_it_keeps_the_robot_stopped_until_the_loop_knows(stops):
    """A write that hung until now would move it again."""
    with Watchdog(NAME, WITHIN) as dog:
        dog.beat()
        stops.wait()
        time.sleep(0.3)
        assert len(stops.times) > 3
        dog.end()
        time.sleep(0.1)
        count = len(stops.times)
        time.sleep(0.2)
        assert len(stops.times) == count


def test_it_fires_again_once_it_was_rearmed_and_not_before(stops):
    with Watchdog(NAME, WITHIN) as dog:
        dog.beat()
        stops.wait()
        dog.end()
        for refused in (dog.begin, dog.beat):
            with pytest.raises(SafetyStop, match="stopped the robot by"):
                refused()
        dog.rearm()
        assert dog.fault() is None
        dog.begin()
        dog.beat()
        stops.path.unlink()
        stops.wait()
        dog.end()


def test_a_pause_a_long_reset_and_a_slow_stop_are_no_alarm(stops):
    with Watchdog(NAME, WITHIN) as dog:
        time.sleep(3 * WITHIN)
        dog.begin()  # the robot goes home
        time.sleep(3 * WITHIN)
        dog.beat()
        dog.stopping()
        time.sleep(3 * WITHIN)
        dog.end()
        time.sleep(3 * WITHIN)
        assert dog.fault() is None
    assert stops.times == []


def test_a_stop_that_hangs_is_an_alarm(stops):
    with Watchdog(NAME, WITHIN, stop_s=0.2) as dog:
        dog.beat()
        dog.stopping()
        stops.wait()
        dog.end()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_watchdog_that_died_or_stands_still_is_noticed_in_time(stops, number):
    with Watchdog(NAME, PATIENCE) as dog:
        dog.beat()
        os.kill(dog.pid, number)
        start = time.monotonic()
        with pytest.raises(SafetyStop, match=r"gave no sign of life for .* allowed are 0\.6 s: nothing would stop"):
            beat_for(10.0, dog)
        assert PATIENCE / 2 < time.monotonic() - start < PATIENCE + 0.5
        dog.end()
        with pytest.raises(SafetyStop):
            dog.begin()
        os.kill(dog.pid, signal.SIGKILL)


def test_a_late_beat_is_one_even_where_the_watchdog_did_not_look_meanwhile(stops):
    with Watchdog(NAME, WITHIN) as dog:
        dog.beat()
        os.kill(dog.pid, signal.SIGSTOP)
        time.sleep(1.5 * WITHIN)
        with pytest.raises(SafetyStop, match=r"a heartbeat came 0\.0\d+ s after the watchdog's limit of 0\.1 s"):
            dog.beat()
        os.kill(dog.pid, signal.SIGCONT)
        stops.wait()


def test_a_block_left_by_an_error_while_it_watches_stops_the_robot_first(stops):
    with pytest.raises(ZeroDivisionError), Watchdog(NAME, 60.0) as dog:
        fail(dog)
    assert stops.times
    stops.path.unlink()
    with pytest.raises(ZeroDivisionError), Watchdog(NAME, 60.0) as dog:
        fail(dog, end=True)
    with Watchdog(NAME, 60.0) as dog:
        dog.beat()
    assert stops.times == []


def test_it_can_be_told_to_stop_the_robot(stops):
    with Watchdog(NAME, 60.0) as dog:
        assert dog.fire(wait_s=10.0)
        assert stops.times
        with pytest.raises(SafetyStop, match="was asked to and stopped the robot"):
            dog.beat()


def test_a_beat_before_a_watchdog_that_was_told_to_fire_has_begun_says_so_and_takes_nothing_back(stops):
    with Watchdog(NAME, PATIENCE) as dog:
        dog.beat()
        os.kill(dog.pid, signal.SIGSTOP)
        dog.fire()
        with pytest.raises(SafetyStop, match="was asked to stop the robot by my_arm:emergency_stop, and has not begun"):
            dog.beat()
        os.kill(dog.pid, signal.SIGCONT)
        stops.wait()
        dog.end()


@pytest.mark.parametrize("call", ["beat", "begin", "stopping"])
def test_a_call_at_the_moment_of_another_threads_fire_takes_nothing_back(stops, call):
    """It had judged the numbers before, and wrote its own time over the request."""

    class Interleaved:
        def __init__(self, numbers, dog):
            self.numbers, self.dog = numbers, dog

        def __getitem__(self, index):
            return self.numbers[index]

        def __setitem__(self, index, value):
            if self.dog is not None:
                dog, self.dog = self.dog, None
                dog.fire()
            self.numbers[index] = value

    with Watchdog(NAME, 60.0) as dog:
        dog.beat()
        os.kill(dog.pid, signal.SIGSTOP)  # or it might fire before the call takes the request back
        dog._numbers = Interleaved(dog._numbers, dog)
        getattr(dog, call)()
        with pytest.raises(SafetyStop, match="was asked to stop the robot by my_arm:emergency_stop, and has not begun"):
            dog.beat()
        os.kill(dog.pid, signal.SIGCONT)
        stops.wait()
        dog.end()


def test_a_request_to_stop_survives_the_end_until_rearm(stops):
    """`end` took back a request that the watchdog had not begun yet, and the next episode drove the robot."""
    with Watchdog(NAME, 60.0, stop_s=10.0) as dog:
        dog.beat()
        os.kill(dog.pid, signal.SIGSTOP)
        dog.fire()
        threading.Timer(0.05, os.kill, (dog.pid, signal.SIGCONT)).start()
        dog.end()
        assert stops.times
        dog.rearm()
        dog.stop_s = 0.01
        os.kill(dog.pid, signal.SIGSTOP)
        dog.fire()
        dog.end()  # the watchdog hangs
        for refused in (dog.begin, dog.beat):
            with pytest.raises(SafetyStop, match="was asked to stop the robot by my_arm:emergency_stop"):
                refused()
        os.kill(dog.pid, signal.SIGCONT)


@pytest.mark.parametrize("left", [False, True])
def test_a_block_that_ends_at_once_after_a_request_stops_the_robot(stops, left):
    with Watchdog(NAME, 60.0, stop_s=10.0) as dog:
        dog.beat()
        if left:
            dog.end()
        os.kill(dog.pid, signal.SIGSTOP)
        dog.fire()
        threading.Timer(0.05, os.kill, (dog.pid, signal.SIGCONT)).start()
    assert stops.times


def test_a_stop_that_fails_is_tried_again_and_told_once(stops, capfd):
    with Watchdog("my_arm:failing", WITHIN) as dog:
        dog.beat()
        stops.wait()
        time.sleep(0.3)
        assert len(stops.times) > 3
        with pytest.raises(SafetyStop, match="my_arm:failing has not stopped the robot yet: if it moves"):
            dog.beat()
        dog.end()
    assert capfd.readouterr().err.count("the emergency stop failed: OSError: the line is busy") == 1


def test_a_stop_that_fails_is_tried_again_also_where_nobody_reads_what_it_says(stops):
    program = HOST.replace("emergency_stop", "failing")
    command = [sys.executable, "-c", program, str(stops.folder), "0.1", "dog.beat(); moving(); time.sleep(60)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as host:
        try:
            host.stderr.close()
            assert int(host.stdout.readline())
            stops.wait()
            time.sleep(0.3)
            assert len(stops.times) > 3
        finally:
            host.kill()


FULL = """
os.set_blocking(2, False)
try:
    while os.write(2, 4096 * b"."):
        pass
except BlockingIOError:
    os.set_blocking(2, True)
dog.beat(); moving(); time.sleep(60)
"""


def test_an_emergency_stop_that_prints_does_not_wait_for_a_reader(stops):
    command = [sys.executable, "-c", HOST.replace("emergency_stop", "chatty"), str(stops.folder), str(WITHIN), FULL]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as host:
        try:
            assert int(host.stdout.readline())
            assert stops.wait() - float(host.stdout.readline()) < WITHIN + 0.5
        finally:
            host.kill()


def test_an_adapter_instructs_what_stops_its_robot_and_nothing_moves_before(stops):
    reads, writes = os.pipe()
    with Watchdog("my_arm:instructed", 60.0) as dog, Watchdog(NAME, 60.0) as other:
        assert "@" not in {line.split()[-1][:1] for line in sockets_of(dog.pid)}, "anybody could reach a name"
        for refused in (dog.begin, dog.beat):
            with pytest.raises(
                SamiError, match=r"my_arm:instructed cannot stop .* of an adapter of arm.* Make the adapter in"
            ):
                refused()
        other.beat()
        other.end()
        assert not dog.fire(wait_s=0.1), "what was not sent has not worked"
        dog.rearm()
        arm, second = threading.Event(), threading.Event()  # any objects
        instruct_watchdogs(arm, "hand", {})
        with pytest.raises(AdapterError, match="no topic"):
            instruct_watchdogs(arm, "arm", {})
        with pytest.raises(SamiError, match="waits for instructions of an adapter of arm"):
            dog.beat()
        instruct_watchdogs(arm, "arm", {"topic": "rest"}, [writes])
        os.close(writes)
        with pytest.raises(AdapterError, match="each watchdog of this process stops another adapter"):
            instruct_watchdogs(second, "arm", {"topic": "other"})
        dog.beat()
        assert dog.fire(wait_s=10.0)
        assert os.read(reads, 4) == b"rest"
        os.kill(dog.pid, signal.SIGKILL)
        with pytest.raises(AdapterError, match="its process"):
            instruct_watchdogs(arm, "arm", {"topic": "rest"})
        release_watchdogs(arm)
        with pytest.raises(AdapterError, match="its process"):
            instruct_watchdogs(second, "arm", {"topic": "rest"})
    instruct_watchdogs(arm, "arm", {})  # nobody watches
    os.close(reads)


def sockets_of(pid):
    """Lines of the kernel's table for the sockets that a process holds."""
    descriptors = {os.readlink(item) for item in Path("/proc", str(pid), "fd").iterdir()}
    table = Path("/proc/net/unix").read_text().splitlines()[1:]
    results = [line for line in table if f"socket:[{line.split()[6]}]" in descriptors]
    assert results
    return results


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "my_arm:refused",
            r"my_arm:refused\(\) failed: OSError: no route to the arm \(my_arm.py, line \d+, in refused\)\. Correct",
        ),
        ("my_arm:forgotten", r"my_arm:forgotten\(\) returned None, which cannot be called\. It connects"),
        ("my_arm:stop", r"unknown factory 'stop'.*Valid: .*emergency_stop, "),
        ("your_arm:stop", r"your_arm of your_arm:stop cannot be imported: ModuleNotFoundError.*It must be installed"),
        ("my_arm", r"the emergency stop is 'my_arm'; write MODULE:FACTORY, e\.g\. my_arm:emergency_stop"),
        ("my_arm:gone", r"its process ended with 7"),
        ("my_arm:slow", r"my_arm:slow\(\) did not return within 0\.5 s"),
    ],
)
def test_what_cannot_stop_the_robot_is_refused_before_anything_moves(stops, monkeypatch, name, reason):
    monkeypatch.setattr(module, "START_S", 0.5 if name == "my_arm:slow" else 30.0)
    with pytest.raises(AdapterError, match="could not stop the robot, so nothing was moved: " + reason):
        Watchdog(name, WITHIN).__enter__()


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(wrong):
    with pytest.raises(SamiError, match=r"within_s of the watchdog is .* more than 0"):
        Watchdog(NAME, wrong)


def test_one_that_does_not_run_says_so(stops):
    dog = Watchdog(NAME, PATIENCE)
    with pytest.raises(SamiError, match=r"is not running.*inside `with Watchdog"):
        dog.beat()
    with dog:
        dog.beat()
    with pytest.raises(SamiError, match="is not running"):
        dog.beat()


def test_it_leaves_nothing_behind(stops, capfd):
    descriptors, names = len(os.listdir("/proc/self/fd")), set(os.listdir("/dev/shm"))
    for _ in range(3):
        with Watchdog("my_arm:noisy", PATIENCE) as dog:
            dog.beat()
            assert os.getsid(dog.pid) == dog.pid, "keys that stop this process would reach it"
            pid = dog.pid
        assert not Path("/proc", str(pid)).exists()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert not {name for name in set(os.listdir("/dev/shm")) - names if "sami" in name}
    assert capfd.readouterr().out == "", "what a module prints is kept apart"


HOST = """
import ctypes, os, sys, threading, time
from sami_runtime import Watchdog

def moving():
    print(time.monotonic(), flush=True)

sys.path.insert(0, sys.argv[1])
with Watchdog("my_arm:emergency_stop", within_s=float(sys.argv[2])) as dog:
    print(dog.pid, flush=True)
    exec(sys.argv[3])
"""


def hosted(stops, within_s, ends):
    """A program that beats and comes to its end; when that was, and what it and its watchdog wrote."""
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(stops.folder), str(within_s), ends],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert int(host.stdout.readline())
        seconds = float(host.stdout.readline())
        time.sleep(2 * WITHIN)
        return seconds, host.communicate(timeout=30)[1]  # its end is also the watchdog's, which shares the stream
    finally:
        host.kill()
        host.communicate()


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "ctypes.string_at(0)", "os._exit(0)", "os.abort()"])
def test_the_end_of_the_process_stops_the_robot_at_once_and_ends_the_watchdog(stops, end):
    end_time, message = hosted(stops, 60.0, f"dog.beat(); moving(); {end}")
    assert -0.1 < stops.wait() - end_time < 1.0, "it does not wait for the beat that will not come"
    assert len(stops.times) > 1, "a message may be lost"
    assert len(re.findall(rf"the watchdog lost the loop's process, and {BY}", message)) == 1, message


def test_it_also_does_before_the_first_beat_but_not_after_the_last(stops):
    """The adapter's reset may move the robot; between episodes it rests."""
    hosted(stops, 0.5, "dog.begin(); moving(); os._exit(0)")
    assert stops.times
    stops.path.unlink()
    hosted(stops, 0.5, "dog.beat(); dog.end(); moving(); os._exit(0)")
    assert stops.times == []


@pytest.mark.parametrize("hang", ["threading.Event().wait()", "ctypes.PyDLL(None).sleep(1000)"])
def test_a_call_that_blocks_for_ever_stops_the_robot(stops, hang):
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(stops.folder), "0.1", f"dog.beat(); moving(); {hang}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert int(host.stdout.readline())
        assert stops.wait() - float(host.stdout.readline()) < 0.6
    finally:
        host.kill()
        host.communicate()
