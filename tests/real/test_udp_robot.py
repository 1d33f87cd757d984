"""The robot of the example, behind a network, in real time: driven, watched, left alone and stopped."""

import json
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "models" / "panda-satesac.onnx"
MOVEMENT = ("moves", "rests")

pytestmark = pytest.mark.usefixtures("ports_of_the_robot")


def call(*command, **options):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, **options)


@pytest.fixture
def udp_robot():
    """Starts the robot of the example for so many seconds, and waits until it listens."""
    processes = []

    def start(seconds):
        command = [sys.executable, str(ROOT / "examples" / "udp_robot.py"), str(seconds)]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert processes[0].stdout.readline().startswith("listening")
        return processes[0]

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def sami(*words):
    main = "import sys; sys.path[0] = '.'; from sami_cli.app import main; main()"
    return call(sys.executable, "-c", main, *words, cwd=ROOT / "examples")


def drive(folder, *options, **changes):
    """Call `sami drive` with the example's file, but for these keys; a busy machine gets a watchdog that waits."""
    examples = ROOT / "examples"
    robot = tomllib.loads((examples / "udp_robot.toml").read_text(encoding="utf-8"))
    robot |= {"model": str(MODEL), "limits": str(examples / "limits.toml"), "watchdog_s": 0.5, **changes}
    (folder / "robot.json").write_text(json.dumps(robot))
    return sami("drive", folder / "robot.json", *options)


def test_a_robot_behind_a_network_keeps_the_laws_and_is_driven(udp_robot, tmp_path):
    udp_robot(240)
    result = sami("check-adapter", "udp_robot:make", "--model", MODEL, "--excite", "--limits", "limits.toml")
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert "0 of 15 checks failed" in result.stdout
    result = sami("drive", "udp_robot.toml", "--check")
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert "WRONG" not in result.stdout
    result = drive(tmp_path, "--set", "steps=10")
    assert (result.returncode, result.stderr) == (0, "")
    assert "10 acted, 0 held, 0 late, 0 refused" in result.stdout


def test_a_robot_that_goes_silent_is_held_and_then_stopped(udp_robot, tmp_path):
    udp_robot(8)  # long enough for a busy machine to begin
    result = drive(tmp_path, "--set", "steps=1000")
    assert result.returncode == 3
    assert re.search(r"ticks in a row \(stop_after\), lastly: age: .*Nothing more is written", result.stderr)
    assert "not acted: age " in result.stdout


def events_of(robot):
    """What the robot of the example says until it ends: when it moves and when it rests."""
    return [json.loads(line) for line in robot.stdout.read().splitlines()]


def test_the_robot_of_the_example_stops_by_itself_when_the_host_is_silent(udp_robot, free_ports):
    robot = udp_robot(3)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as host:
        host.sendto(b'{"action": [1, 0, 0, 0]}', ("127.0.0.1", free_ports))
    moves, rests = events_of(robot)
    assert (moves["moves"], rests["rests"]) == ("action", "deadman")
    assert 0.25 < rests["time"] - moves["time"] < 0.5


def test_the_robot_of_the_example_moves_no_more_after_an_emergency_stop_until_it_is_reset(udp_robot, free_ports):
    robot = udp_robot(3)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as host:
        for message in ('{"action": [1, 0, 0, 0]}', '{"emergency_stop": true}', '{"action": [1, 0, 0, 0]}'):
            host.sendto(message.encode(), ("127.0.0.1", free_ports))
        time.sleep(0.3)
        for message in ('{"reset": 0}', '{"action": [1, 0, 0, 0]}', '{"stop": true}'):
            host.sendto(message.encode(), ("127.0.0.1", free_ports))
    events = [(event, item[event], item["ignored"]) for item in events_of(robot) for event in item if event in MOVEMENT]
    assert events == [
        ("moves", "action", 0), ("rests", "emergency stop", 0), ("moves", "action", 1), ("rests", "stop", 1)
    ]  # fmt: skip


def test_a_watched_run_ends_as_any_other_and_refuses_what_cannot_stop_the_robot(udp_robot, tmp_path):
    udp_robot(60)
    result = drive(tmp_path, "--set", "steps=10")
    assert (result.returncode, result.stderr) == (0, "")
    assert "10 acted, 0 held, 0 late, 0 refused" in result.stdout
    result = drive(tmp_path, emergency_stop="udp_robot:brake")
    assert (result.returncode, result.stdout) == (1, "")
    assert "could not stop the robot, so nothing was moved: unknown factory 'brake'" in result.stderr


def test_a_robot_that_was_never_there_is_told_of(tmp_path):
    result = drive(tmp_path)
    assert (result.returncode, result.stdout.count("acted")) == (1, 0)
    assert "sent nothing for a second. Is it running?" in result.stderr
