"""A person at a real terminal beside `sami drive`: keys, what they do to a robot, and the terminal given back."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sami_cli.episodes import row_of
from sami_cli.keyboard import Keyboard, excitation, split

from sami_runtime import Telemetry, read_artifact, shipped_models
from sami_runtime.loop.episode import EpisodeReport
from sami_runtime.loop.pilot import Ending
from sami_runtime.loop.tick import LoopReport
from sami_runtime.recording.reader import read_recording
from sami_runtime.safety.limits import Limits
from sami_runtime.signals import Signal
from tests.making.stander import stander
from tests.making.still_robot import driving

ROBOT = """
import numpy as np
from sami_runtime import Executed, Observation
from sami_runtime.adapters.panda import PANDA_ACTION, PANDA_OBSERVATION


class Still:
    observation, action = PANDA_OBSERVATION, PANDA_ACTION

    def __init__(self, clock):
        self.clock = clock

    def reset(self, seed=None):
        print("reset with seed", seed, flush=True)

    def read(self):
        values = {signal.name: np.full(signal.size, 0.1, np.float32) for signal in self.observation}
        return Observation(values, self.clock.now())

    def write(self, action):
        return Executed(action.copy())

    def stop(self):
        print("stopped", flush=True)

    def close(self):
        pass


make = Still
"""
RECORDED = {"limits": "limits.toml", "record": "r.mcap"}
UP, RIGHT, LEFT = "\x1b[A", "\x1b[C", "\x1bOD"


class AtTerminal:
    """`sami` at a terminal of its own, in the current folder."""

    def __init__(self, *arguments):
        self.person, self.tty = pty.openpty()
        self.before = termios.tcgetattr(self.tty)
        program = "import sys; from sami_cli.app import main; sys.argv[0] = 'sami'; main()"
        command = [sys.executable, "-c", program, *map(str, arguments)]
        # As a shell does: the terminal is the session's, and its keys go to this process.
        attach = (
            "import fcntl, os, signal, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
            "[signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)]; "
        )
        start = [sys.executable, "-c", attach + "os.execv(sys.argv[1], sys.argv[1:])", *command]
        self.process = subprocess.Popen(start, stdin=self.tty, stdout=self.tty, stderr=self.tty)
        self.output = ""

    def wait_for(self, text, timeout_s=60.0):
        """Wait until the terminal has shown a text that was not waited for yet, and return what came with it."""
        until = time.monotonic() + timeout_s
        while not (match := re.search(text, self.output)):
            assert time.monotonic() < until, f"{text!r} does not come: {self.output!r}"
            if select.select([self.person], [], [], 0.1)[0]:
                self.output += os.read(self.person, 65536).decode(errors="replace")
        output, self.output = self.output[: match.end()], self.output[match.end() :]
        return output

    def press(self, keys):
        os.write(self.person, keys.encode())

    def end(self):
        """Its exit code; afterwards the terminal is as it was."""
        while self.process.poll() is None or select.select([self.person], [], [], 0.1)[0]:
            if select.select([self.person], [], [], 0.1)[0]:
                self.output += os.read(self.person, 65536).decode(errors="replace")
        assert termios.tcgetattr(self.tty) == self.before
        return self.process.returncode

    def cooked(self):
        return bool(termios.tcgetattr(self.tty)[3] & termios.ICANON)


@pytest.fixture
def terminal():
    """Makes them; nothing of a test that failed is left running."""
    terminals = []
    yield lambda *arguments: terminals.append(AtTerminal(*arguments)) or terminals[-1]
    for at in terminals:
        at.process.kill()
        at.process.wait()
        os.close(at.person)
        os.close(at.tty)


@pytest.fixture(autouse=True)
def robot(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]))
    Path("still.py").write_text(ROBOT)
    Path("limits.toml").write_text("rest = 0.0\nblend_in_s = 0.2\n[rate]\ndx = 10.0\n")


def outcomes(episode):
    return [step.record.outcome.value for step in read_recording("r.mcap").steps if step.episode == episode]


def executed(episode, outcome):
    steps = [step.record for step in read_recording("r.mcap").steps if step.episode == episode]
    return [record.executed.tolist() for record in steps if record.outcome.value == outcome]


def test_pause_take_over_hand_back_and_success(terminal):
    at = terminal(*driving("still:make", steps=400, **RECORDED))
    at.wait_for(r"keys: p pause or go on, space take over or hand back \(1-4 choose of dx dy dz\s+gripper, ↑ ↓ push\)")
    at.wait_for("step +[1-9]")
    assert not at.cooked()
    at.press("p")
    at.wait_for("PAUSED")
    time.sleep(0.3)
    at.press("p")
    at.wait_for(r"\[Kstep")
    at.press(" 1")
    at.wait_for("YOU DRIVE dx")
    for _ in range(10):
        at.press(UP)
        time.sleep(0.05)
    at.press(" ")
    at.wait_for(r"\[Kstep")
    time.sleep(0.3)
    at.press("s")
    line = at.wait_for("1 of 1 episodes succeeded")
    assert re.search(r"\d+  yes .*success", line)
    assert at.end() == 0
    recording = read_recording("r.mcap")
    assert recording.episodes == {0: (Ending.SUCCESS, True)}
    result = outcomes(0)
    assert re.fullmatch("(acted )+(paused )+(acted )+(piloted )+(acted )+", "".join(f"{item} " for item in result))
    assert executed(0, "paused")[-1] == [0.0] * 4
    pushed = executed(0, "piloted")
    assert max(push[0] for push in pushed) == pytest.approx(0.3)
    assert pushed[-1][1:] == [0.0] * 3


def test_an_episode_that_a_person_ends_in_a_pause_before_its_first_step_has_no_tracking_error():
    """A pause writes the neutral action, which a simulator rewards."""
    world = SimpleNamespace(features=[], skills=(), success=True, tracks="m/s")
    telemetry = Telemetry(read_artifact(shipped_models()["go2-student"]).contract)
    report = EpisodeReport(0, False, {}, np.zeros((0, telemetry.size), np.float32), LoopReport(), Ending.STOP)
    row = row_of(0, report, world, Counter(), [-1.0], None, telemetry)
    assert (row["steps"], row["return"], "tracking_error" in row) == (0, -1.0, False)


def test_a_terminal_that_takes_no_text_does_not_hold_up_the_loop(terminal):
    """Ctrl-S; a robot whose loop hung kept its last action."""
    at = terminal(*driving("still:make", steps=400, **RECORDED))
    at.wait_for("step +[1-9]")
    at.press("\x13")
    time.sleep(1.0)
    at.press("\x11s")
    at.wait_for("1 of 1 episodes succeeded")
    assert at.end() == 0
    assert len(outcomes(0)) > 10


def test_an_episode_is_repeated_judged_afterwards_and_the_next_one_waits_for_enter(terminal):
    at = terminal(*driving("still:make", steps=12, episodes=3, **RECORDED))
    at.wait_for("step +[1-9]")
    at.press(LEFT)
    at.wait_for("Enter begins the next episode")
    time.sleep(0.5)
    at.press("\n")
    assert "reset" not in at.wait_for("reset with seed 0")[:-20], "the same one again"
    at.wait_for("Enter begins")
    at.press("f\n")
    at.wait_for("judged: failure")
    at.wait_for("reset with seed 1")
    at.wait_for("Enter begins")
    at.press("s\x1b")
    at.wait_for("1 of 2 episodes succeeded")
    assert at.end() == 0
    assert read_recording("r.mcap").episodes == {0: ("redo", None), 1: ("failure", False), 2: ("success", True)}


def test_rows_for_programs_hold_what_a_person_said(terminal):
    keys = {"steps": 8, "episodes": 2, "keys": True, "pause_s": 0.5, "record": "r.mcap"}
    at = terminal(*driving("still:make", **keys), "--json")
    at.wait_for(r"keys: no pause and no take-over, because the limits set no rest, s or →\s+success")
    at.wait_for("in 0.5 s, or at Enter, begins the next episode")
    at.press("s")
    first = re.search(r"\{.*\}", at.wait_for("reset with seed 1"))
    at.press("q")
    assert at.end() == 0
    second = re.search(r"\{.*\}", at.output)
    rows = [(row["episode"], row["ended"], row["success"]) for row in map(json.loads, (first[0], second[0]))]
    assert rows == [(0, "success", True), (1, "stop", None)]
    assert read_recording("r.mcap").episodes[0] == ("success", True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_gives_the_terminal_back(terminal, number):
    at = terminal(*driving("still:make", steps=1000, **RECORDED))
    at.wait_for("step +[1-9]")
    assert not at.cooked()
    at.process.send_signal(number)
    at.wait_for("stopped")
    assert at.end() != 0


def test_an_error_gives_the_terminal_back(terminal):
    text = ROBOT.replace(
        "    def write(self, action):\n", "    def write(self, action):\n        raise OSError('bus off')\n"
    )
    Path("still.py").write_text(text)
    at = terminal(*driving("still:make", **RECORDED))
    at.wait_for("bus off")
    assert at.end() == 1


def test_without_a_terminal_or_for_programs_there_are_no_keys(terminal):
    at = terminal(*driving("still:make", steps=40), "--json")
    at.wait_for("reset with seed")
    assert at.cooked()
    assert "keys:" not in at.wait_for('"ended": "steps"')
    assert at.end() == 0


def test_keys_that_nobody_can_press_are_refused():
    command = [sys.executable, "-c", "from sami_cli.app import main; main()", "run", "--set", "keys=true"]
    process = subprocess.run([*map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert process.returncode == 1
    assert "keys=true needs a terminal as standard input, in the foreground." in process.stderr


def test_what_a_terminal_sends_is_split_into_keys():
    assert split(b"sP \x1b[A\x1bOC\n", False) == (["s", "p", " ", "up", "right", "enter"], b"")
    assert split(b"s\x1b[", False) == (["s"], b"\x1b["), "the rest may come yet"
    assert split(b"\x1b", False) == ([], b"\x1b")
    assert split(b"\x1b", True) == (["escape"], b"")
    assert split(b"\x1bq", False) == (["escape", "q"], b"")
    assert split(b"\x1b[1;5A\x1b[3~\xc3\xa9", False) == (["up"], b""), "other keys mean nothing"


@pytest.mark.parametrize("rate", [0.1, 1e3])
def test_a_position_that_a_person_moves_stays_where_the_key_is_released(rate):
    """A robot slower than the keys went on for as long as it was behind them."""
    angle = Signal(name="angle", size=2, unit="rad", elements=("a", "b"), low=(-3.0,) * 2, high=(3.0,) * 2)
    pressed, standing, at_release = [" "], np.zeros(2, np.float32), []
    pilot = Keyboard(SimpleNamespace(pressed=lambda: pressed), SimpleNamespace(action=angle), Limits(rest="angle"))
    for tick in range(200):
        command = pilot.request(standing).command
        standing = standing + (command - standing).clip(-rate / 25, rate / 25)
        pressed = ["up"] if tick < 50 else []
        at_release += [float(standing[0])] * (tick == 50)
    most = min(50 * 0.01 * 6.0, 51 * rate / 25 + 0.03 * 6.0)
    assert at_release[0] <= standing[0] <= most + 1e-3
    assert standing[0] == pytest.approx(most, abs=0.06)
    assert standing[1] == 0.0


def test_keys_command_an_adopted_policy(terminal, tmp_path):
    pytest.importorskip("mujoco")
    stander(tmp_path)
    words = ("play", "stander.onnx", "--robot", "stander.xml", "--command", "keys", "--record", "r.mcap")
    at = terminal(*words, "--set", "steps=100000")
    at.wait_for("keys: i k forward and back")
    at.wait_for(r"forward \+0\.0 left \+0\.0 turn \+0\.0")
    at.press("iij")
    at.wait_for(r"forward \+0\.2 left \+0\.0 turn \+0\.1")
    at.press("x")
    at.wait_for(r"forward \+0\.0 left \+0\.0 turn \+0\.0")
    at.press("q")
    assert at.end() == 0
    values = [step.record.observation.values["command"] for step in read_recording("r.mcap").steps]
    assert {(0.0, 0.0, 0.0), (0.2, 0.0, 0.1)} <= {tuple(value.astype(float).round(3)) for value in values}


def test_an_excited_robot_returns_from_each_step_however_slow_it_and_fast_its_loop_are():
    contract = read_artifact(shipped_models()["panda-satesac"]).contract
    robot = SimpleNamespace(slower=5, loop_hz=2 * contract.rate_hz)
    pilots = [excitation(None, contract, Limits(rest=0.0), True, of, seed=3) for of in (None, robot)]
    at_policy, in_loop = (np.array([pilot.request(None).command for _ in range(500)]) for pilot in pilots)
    np.testing.assert_array_equal(in_loop, at_policy[:50].repeat(10, axis=0))
