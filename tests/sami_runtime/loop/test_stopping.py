"""The adapter is stopped wherever the loop is left, also when stopping fails, and by signals."""

import os
import signal
import subprocess
import sys
import time

import pytest

from sami_runtime.errors import AdapterError, SafetyStop
from sami_runtime.loop import stopping
from sami_runtime.loop.episode import run_episode
from sami_runtime.loop.stopping import stopped_after
from sami_runtime.recording.recorder import Recorder
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session


@pytest.fixture
def session(make):
    return Session.load(make.write(make.recurrent()))


@pytest.mark.parametrize("where", ["reset", "read", "write", "step", "executed", "on_step"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_the_adapter_is_stopped_wherever_the_loop_is_left(session, arm, monkeypatch, where, error):
    def leave(*_):
        raise error

    adapter = arm()
    if where in ("step", "executed"):
        monkeypatch.setattr(session, where, leave)
    elif where != "on_step":
        monkeypatch.setattr(adapter, where, leave)
    with pytest.raises(error):
        run_episode(session, adapter, on_step=leave)
    assert adapter.stops == 1


def test_the_adapter_is_stopped_when_the_recorder_fails(session, arm, tmp_path):
    pytest.importorskip("mcap")
    recorder, adapter = Recorder(tmp_path / "a.mcap", session), arm()
    recorder.close()
    with pytest.raises(Exception, match=r"recording to .*a\.mcap failed"):
        run_episode(session, adapter, on_step=recorder)
    assert (adapter.writes, adapter.stops) == (1, 1)


def test_the_adapter_is_stopped_when_the_gate_trips(session, arm):
    adapter = arm(nan_at_reads=range(1, 99))
    with pytest.raises(SafetyStop):
        run_episode(session, adapter, gate=SafetyGate(adapter, session.contract, Limits(stop_after=1)))
    assert (adapter.writes, adapter.stops) == (1, 1)


class Stubborn:
    """Fails, or is interrupted, at some of its stops."""

    def __init__(self, *errors):
        self.errors, self.stops = list(errors), 0

    def stop(self):
        self.stops += 1
        if self.errors and (error := self.errors.pop(0)):
            raise error


@pytest.mark.parametrize("first", [AdapterError("the bus is busy"), KeyboardInterrupt()])
def test_a_stop_that_fails_or_is_interrupted_is_called_again(first):
    adapter = Stubborn(first)
    with pytest.raises(type(first)):
        stopped_after(adapter, lambda: None)
    assert adapter.stops == 2


def too_hot():
    raise SafetyStop("too hot")


@pytest.mark.parametrize("first", [AdapterError("the bus is busy"), KeyboardInterrupt()])
def test_what_ended_the_loop_is_told_where_the_second_stop_worked(first):
    adapter = Stubborn(first)
    with pytest.raises(SafetyStop, match="too hot"):
        stopped_after(adapter, too_hot)
    assert adapter.stops == 2


@pytest.mark.parametrize(
    ("second", "report"),
    [(AdapterError("the bus is gone."), "the bus is gone"), (KeyboardInterrupt(), "KeyboardInterrupt")],
)
def test_a_robot_that_cannot_be_stopped_is_said_to_move_still(second, report):
    adapter = Stubborn(AdapterError("the bus is busy."), second)
    message = rf"Stubborn\.stop\(\) failed twice: the bus is busy; then: {report}\. It may still move"
    with pytest.raises(AdapterError, match=message):
        stopped_after(adapter, too_hot)
    assert adapter.stops == 2


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_keys_pressed_in_alarm_wait_until_the_robot_is_stopped():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    class Interrupted:
        stops = whole = 0

        def stop(self):
            self.stops += 1
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            self.whole += 1

    adapter = Interrupted()
    try:
        with pytest.raises(KeyboardInterrupt):
            stopped_after(adapter, lambda: None)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert (adapter.stops, adapter.whole) == (1, 1)


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_what_ended_the_loop_is_told_also_where_a_signal_came_during_the_stop():
    class Interrupted:
        def stop(self):
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SafetyStop, match="too hot") as raised:
        stopped_after(Interrupted(), too_hot)
    assert raised.value.__cause__.code == 128 + signal.SIGTERM


STORM = """
import os, random, signal, sys, threading, time
from sami_runtime.loop.stopping import stopped_after

NUMBERS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1

class Arm:
    begun, whole = False, 0

    def stop(self):
        max(range(100_000))  # no handler runs meanwhile: the signals that come are pending together
        for _ in range(2000):
            pass
        time.sleep(0.003)
        self.whole += 1

def impatient(*_):
    if not arm.whole:
        raise TimeoutError

def body(ends):
    arm.begun = True
    while not ends or time.monotonic() < ends:
        pass

def send(draw, loop):
    time.sleep(draw.uniform(0.001, 0.008))
    for number in draw.choices(NUMBERS, k=draw.randrange(1, 30)):
        os.kill(loop, number)
        if draw.random() < 0.7:
            time.sleep(draw.uniform(0, 0.001))

arm, loop = Arm(), os.getpid()
for number in NUMBERS:
    signal.signal(number, impatient)
threading.Thread(target=threading.Event().wait, daemon=True).start()  # the kernel may choose it for a signal
for seed in range(int(sys.argv[1])):
    draw, arm = random.Random(seed), Arm()
    ends = draw.choice([0.0, time.monotonic() + draw.uniform(0, 0.01)])
    arm.whole = 1
    if (sender := os.fork()) == 0:
        send(draw, loop)
        os._exit(0)
    arm.whole = 0
    try:
        stopped_after(arm, lambda: body(ends))
    except TimeoutError:
        pass
    assert arm.whole == 1 or not arm.begun, (seed, arm.whole, arm.begun)  # a signal may come before the body began
    arm.whole = 1
    os.waitpid(sender, 0)
print("stopped")
"""


def program(text, *arguments):
    return subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)], capture_output=True, text=True, timeout=60
    )


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_a_stop_that_began_runs_to_its_end_whatever_signals_come():
    process = program(STORM, 40)
    assert (process.stdout, process.returncode) == ("stopped\n", 0), process.stderr


PENDING = """
import os, signal, time
from sami_runtime.loop.stopping import stopped_after

class Arm:
    def stop(self):
        print("stopping", flush=True)
        max(range(5_000_000))  # no handler runs meanwhile
        os.waitpid(sender, 0)
        print("stopped", flush=True)

for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
if (sender := os.fork()) == 0:
    time.sleep(0.1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(os.getppid(), number)
        time.sleep(0.02)
    os._exit(0)
stopped_after(Arm(), lambda: None)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_three_signals_that_are_pending_together_do_not_keep_the_robot_from_its_stop():
    process = program(PENDING)
    assert process.stdout == "stopping\nstopped\n"
    assert process.returncode in (-signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGHUP), process.stderr


def test_who_signals_a_stop_that_hangs_is_told_what_still_ends_it(monkeypatch, capfd):
    monkeypatch.setattr(stopping, "HANGS_S", 0.02)

    class Hanging:
        def stop(self):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)

    with pytest.raises(SystemExit):
        stopped_after(Hanging(), lambda: None)
    assert (
        "sami: SIGTERM waits until stop() has returned, which it has not for 0.02 s. If the" in capfd.readouterr().err
    )


DRIVING = """
import signal, sys, time
from sami_runtime import FakeAdapter, Observation, Session, run_episode

class Arm(FakeAdapter):
    def __init__(self):
        super().__init__(axes=2)
        goal = {"name": "goal", "size": 1, "elements": ("x",), "low": (None,), "high": (None,)}
        self.observation = (*self.observation, self.observation[0].model_copy(update=goal))

    def read(self):
        seen = super().read()
        return Observation({**seen.values, "goal": [0.5]}, seen.time)

    def write(self, action):
        if self.writes == 2:
            print("moving", flush=True)
        time.sleep(0.005)
        return super().write(action)

    def stop(self):
        super().stop()
        print("stopped", self.stops, flush=True)

# As in a terminal, wherever the tests run.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
session = Session.load(sys.argv[1])
run_episode(session, Arm(), max_steps=100_000)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"])
def test_a_signal_that_ends_the_process_stops_the_robot_first(make, name):
    number = getattr(signal, name)
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVING, str(make.write(make.recurrent()))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "moving\n"
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert out == "stopped 1\n"
    assert process.returncode in (128 + number, -number)


def test_signals_that_the_program_handles_are_left_to_it(arm):
    signals = []
    before = signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    try:
        stopped_after(arm(), lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert signals == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_signals_are_as_they_were_after_the_loop(arm):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    outside = {number: signal.getsignal(number) for number in numbers}
    handlers = [signal.default_int_handler, signal.SIG_DFL, signal.SIG_IGN]
    try:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)
        inside = stopped_after(arm(), lambda: [signal.getsignal(number) for number in numbers])
        assert [signal.getsignal(number) for number in numbers] == handlers
    finally:
        for number, handler in outside.items():
            signal.signal(number, handler)
    assert [handler is other for handler, other in zip(inside, handlers, strict=True)] == [False, False, True]
