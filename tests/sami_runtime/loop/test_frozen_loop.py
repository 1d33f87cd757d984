"""A loop that stood still does not go on as if nothing had happened: real signals, a real loop, an arm of its own."""

import signal
import subprocess
import sys
import time

import pytest

from tests.making.velocity_arm import ROOT, velocity_arm

LOOP = """
import sys, time
from sami_runtime import Limits, MonotonicClock, SafetyGate, Session, run_episode
from tests.making.velocity_arm import ArmAdapter

path, port, pause, hang = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])

class Hanging(ArmAdapter):
    writes = 0
    def write(self, action):
        self.writes += 1
        if hang and self.writes == 20:
            time.sleep(hang)  # the driver waits for something, and then sends what it was given
        return super().write(action)

def say(record):
    if record.step == 10:
        print("acting", flush=True)

session = Session.load(path)
robot = Hanging(session.contract, port)
limits = Limits(**({"max_pause_s": float(pause)} if pause else {}))
gate = SafetyGate(robot, session.contract, limits)
run_episode(session, robot, max_steps=400, clock=MonotonicClock(), gate=gate, on_step=say, loop_hz=float(sys.argv[5]))
"""


@pytest.fixture
def ticks(make, policy):
    """Starts a loop on an arm, lets something happen to it, and tells how it ended and what the arm was told."""

    def drive(event, pause="", hang=0.0, loop_hz=25.0):
        path = make.write(policy)
        with velocity_arm(make.contract_of(policy)) as (port, witness):
            arguments = [str(path), str(port), str(pause), str(hang), str(loop_hz)]
            loop = subprocess.Popen(
                [sys.executable, "-c", LOOP, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            try:
                assert loop.stdout.readline() == "acting\n", loop.stderr.read()
                result = event(loop)
                _, errors = loop.communicate(timeout=60)
            finally:
                loop.kill()
                loop.wait()
            return errors, witness.commands(), result

    return drive


@pytest.mark.parametrize(("pause", "frozen_s", "loop_hz"), [("", 0.7, 25.0), (0.25, 0.4, 25.0), (0.25, 0.4, 100.0)])
def test_a_loop_that_was_stopped_and_continued_moves_nothing_any_more(ticks, pause, frozen_s, loop_hz):
    def freeze(loop):
        loop.send_signal(signal.SIGSTOP)
        time.sleep(frozen_s)
        continued = time.perf_counter()
        loop.send_signal(signal.SIGCONT)
        return continued

    errors, commands, continued = ticks(freeze, pause, loop_hz=loop_hz)
    assert "SafetyStop: pause: " in errors
    after = [velocity for at, velocity in commands if at >= continued]
    # If it was frozen between the ruling and the write, that one write is on its way.
    assert after[-1] == [0.0, 0.0]
    assert len(after) <= 2
    assert len(commands) > 3, "it acted before"


def test_a_write_that_hangs_is_the_last_one(ticks):
    errors, commands, _ = ticks(lambda loop: None, hang=0.7)
    assert "SafetyStop: pause: " in errors
    assert len(commands) == 21
    assert commands[-1][1] == [0.0, 0.0]
    assert commands[-1][0] - commands[-2][0] < 0.2  # within a period or so, on a machine that is busy
