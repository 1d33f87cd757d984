"""The control loop in C++ drives the robot of the UDP example, and stops it on every way out."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.usefixtures("ports_of_the_robot")

OVERHEARD = """
import json, sys, udp_robot
loads = json.loads
json.loads = lambda text: (print('heard', text.decode(), flush=True), loads(text))[1]
udp_robot.robot(float(sys.argv[1]), 0.12)
"""
"""The robot of the example, which prints each message that it gets."""


@pytest.fixture
def robot(tmp_path):
    """Start the robot for so many seconds; `heard()` ends it, and tells its messages."""

    class Robot:
        def __init__(self):
            self.log, self.process = tmp_path / "heard.txt", None

        def start(self, seconds):
            with self.log.open("w") as log:
                self.process = subprocess.Popen(
                    [sys.executable, "-c", OVERHEARD, str(seconds)], cwd=ROOT / "examples", stdout=log
                )
            while "listening" not in self.log.read_text():
                assert self.process.poll() is None
                time.sleep(0.01)

        def messages(self):
            lines = self.log.read_text().splitlines()
            return [json.loads(line.removeprefix("heard ")) for line in lines if line.startswith("heard ")]

        def wait_for(self, word):
            end = time.monotonic() + 10
            while not any(word in message for message in self.messages()):
                assert time.monotonic() < end, f"the robot heard no {word}"
                time.sleep(0.01)

    instance = Robot()
    yield instance
    if instance.process:
        instance.process.kill()
        instance.process.wait()


def start(cpp_build, *options):
    command = [*map(str, (cpp_build / "loop", *options))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_it_acts_at_the_rate_of_the_policy_within_the_limits_and_stops(cpp_build, robot):
    robot.start(30)
    start_time = time.monotonic()
    loop = start(cpp_build, 50)
    out, err = loop.communicate(timeout=30)
    assert (loop.returncode, err) == (0, "")
    assert 50 / 25 <= time.monotonic() - start_time < 50 / 25 + 3
    acted, holds, missed = map(int, re.fullmatch(r"(\d+) acted, (\d+) held, (\d+) missed\n", out).groups())
    assert acted + holds + missed >= 50
    assert acted >= 40
    robot.wait_for("stop")
    first, *actions, last = robot.messages()
    assert ("reset" in first, last) == (True, {"stop": True})
    assert len(actions) == acted + holds
    elements = zip(*(message["action"] for message in actions), strict=True)
    for element, rate in zip(elements, (12.5, 12.5, 12.5, 25.0), strict=True):
        steps = [abs(after - before) for before, after in zip((0.0, *element), element, strict=False)]
        assert max(map(abs, element)) <= 1.0
        assert max(steps) <= rate * 2 / 25 + 1e-6  # at most two periods' worth
    assert abs(actions[0]["action"][0]) <= 12.5 / 25 + 1e-6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_it_stops_the_robot_when_it_is_told_to_end(cpp_build, robot, number):
    robot.start(30)
    loop = start(cpp_build, 10_000)
    robot.wait_for("action")
    loop.send_signal(number)
    out, _ = loop.communicate(timeout=10)
    assert (loop.returncode, " acted, " in out) == (128 + number, True)
    robot.wait_for("stop")
    assert robot.messages()[-1] == {"stop": True}


def test_a_robot_that_goes_silent_is_held_and_then_stopped(cpp_build, robot):
    robot.start(30)
    loop = start(cpp_build, 10_000)
    robot.wait_for("action")
    robot.process.send_signal(signal.SIGSTOP)
    out, err = loop.communicate(timeout=10)
    robot.process.send_signal(signal.SIGCONT)
    assert (loop.returncode, int(re.search(r"(\d+) held", out)[1]) > 0) == (3, True)
    assert re.search(r"loop: age: .* The robot is stopped\.", err)
    robot.wait_for("stop")
    assert robot.messages()[-1] == {"stop": True}


def test_messages_of_another_sender_change_nothing(cpp_build, robot, free_ports):
    robot.start(30)
    loop = start(cpp_build, 25)
    with socket.socket(type=socket.SOCK_DGRAM) as stranger:
        while loop.poll() is None:
            stranger.sendto(b"\0", ("127.0.0.1", free_ports + 1))
            time.sleep(0.005)
    assert (loop.returncode, loop.communicate()[1]) == (0, "")


def test_a_loop_that_stood_still_stops_the_robot_instead_of_going_on(cpp_build, robot):
    robot.start(30)
    loop = start(cpp_build, 10_000)
    robot.wait_for("action")
    loop.send_signal(signal.SIGSTOP)
    time.sleep(0.2)
    count = len(robot.messages())
    time.sleep(0.8)
    loop.send_signal(signal.SIGCONT)
    _, err = loop.communicate(timeout=10)
    assert (loop.returncode, "pause: " in err) == (3, True)
    robot.wait_for("stop")
    assert robot.messages()[count:] == [{"stop": True}]


def test_its_clock_counts_while_the_machine_is_suspended(tmp_path):
    """A machine that was suspended for 1000 s is one whose two clocks are that far apart."""
    program = """
    #include <cstdio>
    namespace sami { template <class M> struct Observation; }
    #include "udp_robot.hpp"
    int main() { std::printf("%.9f", sami::UdpRobot::now()); }
    """
    (tmp_path / "now.cpp").write_text(program)
    command = ["c++", "-std=c++17", "-I", ROOT / "examples" / "cpp", tmp_path / "now.cpp", "-o", tmp_path / "now"]
    suspended = ["unshare", "--time", "--boottime", "1000"]
    if not shutil.which("c++") or not shutil.which("unshare") or subprocess.run([*suspended, "true"]).returncode:
        pytest.skip("it needs c++, and the right to set the clocks of a process")
    subprocess.run([*map(str, command)], check=True)
    process = subprocess.run([*suspended, str(tmp_path / "now")], capture_output=True, text=True, check=True)
    assert float(process.stdout) - time.clock_gettime(time.CLOCK_BOOTTIME) == pytest.approx(1000.0, abs=60.0)


def test_a_robot_that_was_never_there_is_told_of(cpp_build):
    loop = start(cpp_build)
    out, err = loop.communicate(timeout=10)
    assert (loop.returncode, out, err) == (1, "", "loop: the robot sent nothing for a second. Is it running?\n")
