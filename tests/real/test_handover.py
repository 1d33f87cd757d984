"""The cable is pulled in each stage of a hand-over, on three simulated robots: each ends damped, its reason in the log.

Damp, home, a pose, the policy, and the pose again after it.
"""

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from sami_runtime import AdapterError, Limits, MonotonicClock, Run, SafetyStop, Session, shipped_models
from sami_runtime.files import read_document
from sami_runtime.robots.evidence import EvidenceLog, check_log
from sami_runtime.robots.handover import HandoverSequence, HandoverSettings

pytest.importorskip("mink")
pytest.importorskip("panda_gym")

EXAMPLES = Path(__file__).parents[2] / "examples"
STAGES = ["damp", "home", "up", "policy", "up"]
DECLARED = {
    "stages": ["damp", "home", "up"],
    "recover": "up",
    "velocity": {"ee_velocity": 0.2},
    "damp_s": 0.1,
    "poses": {"up": {"at": {"dz": 0.25}, "seconds": 0.5, "within": 0.03}},
}
POLICY_STEPS = 10
RESTS_S = 2.0
"""Within which a robot rests, on a machine that is busy with other things."""
REST = 0.03
"""Speed of each joint of a robot that rests [rad/s]."""
DOMAIN = 100 + os.getpid() % 60
TRIES = 4
"""A machine that is busy with other things may stop a robot before its cable is pulled: then once more."""


@pytest.fixture(scope="module")
def session():
    return Session.load(shipped_models()["panda-satesac"])


def ticks(session, adapter, robot, folder, stage, pull, moving=("up", "policy"), recover=lambda: None):
    """Drive an episode in which the cable is pulled in the stage of that index; return the error and the log's lines.

    Args:
        pull: called as the stage begins, or a tenth of a second later, where the stage is one of `moving`.
        recover: called before another try.
    """
    limits = Limits.load(EXAMPLES / robot / "limits.toml")
    for number in range(TRIES):
        history, path = [], folder / f"{stage}-{number}.jsonl"
        sequence = HandoverSequence(HandoverSettings.of(DECLARED), adapter, session.contract, limits)
        with EvidenceLog(path, {}) as log:

            def hear(change, log=log, history=history):
                log.hand_over(change)
                history.append(change.after)
                if stage is not None and history == STAGES[: stage + 1]:
                    threading.Timer(0.1, pull).start() if STAGES[stage] in moving else pull()

            sequence.listen, error = hear, None
            with Run(session, adapter, MonotonicClock(), limits=limits, sequence=sequence) as run:
                try:
                    run.episode(0, POLICY_STEPS, log)
                except (SafetyStop, AdapterError) as stop:
                    error = stop
        lines = check_log(path).of_kind("hand-over")
        stages = STAGES if stage is None else STAGES[: stage + 1]
        if history[: len(stages)] == stages and not (stage is None and error):
            break
        time.sleep(0.3)
        recover()
    return error, [(line["from"], line["to"], line.get("reason")) for line in lines]


def ends_damped(error, lines, stage):
    """Whether the error is the last line's reason, and the stages before it came in their order."""
    assert error is not None, "the cable was out, and nobody noticed"
    assert [after for _, after, _ in lines[:-1]][: stage + 1] == STAGES[: stage + 1]
    before, after, reason = lines[-1]
    assert (after, reason) == ("damp", str(error))
    assert before in STAGES[stage : stage + 2]
    assert {line[2] for line in lines[:-1]} == {None}


class Cable:
    """What lies between the own arm and its adapter: passes datagrams on until it is pulled, and reads the robot's."""

    def __init__(self, robot, host):
        """Addresses of the robot, and of where it sends to."""
        self.robot_side, self._host_side = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        self.robot_side.bind(("127.0.0.1", 0))
        self._host_side.bind(host)
        self._robot, self._host = robot, None
        self.out, self.velocities, self.commanded_at, self._open = False, None, 0.0, True
        self._thread = threading.Thread(target=self._pass_on)
        self._thread.start()

    def _pass_on(self):
        while self._open:
            for end in select.select([self.robot_side, self._host_side], [], [], 0.1)[0]:
                message, sender = end.recvfrom(65536)
                if end is self.robot_side:
                    self._host = sender
                    if not self.out:
                        self._host_side.sendto(message, self._robot)
                    continue
                document = json.loads(message)
                if "velocities" in document:
                    self.velocities, self.commanded_at = document["velocities"], time.monotonic()
                if self._host and not self.out:
                    self.robot_side.sendto(message, self._host)

    def close(self):
        self._open = False
        self._thread.join()
        self.robot_side.close()
        self._host_side.close()


def until(rests):
    """Whether that holds in time."""
    end = time.monotonic() + RESTS_S
    while time.monotonic() < end:
        if rests():
            return True
        time.sleep(0.02)
    return False


def test_the_own_arm(session, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES / "own_arm"))
    program = importlib.import_module("robot")
    cable = Cable(program.ROBOT, program.HOST)
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "own_arm" / "robot.py")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline().startswith("listening")
        settings = read_document(EXAMPLES / "own_arm" / "arm.toml", "settings")
        settings |= {"robot": list(cable.robot_side.getsockname()), "here": ["127.0.0.1", 47199]}
        with closing(importlib.import_module("arm").OwnArm(MonotonicClock(), session.contract, settings)) as adapter:
            adapter.link.send(stop=True)
            for stage in [*range(len(STAGES)), None]:
                cable.out = False
                error, lines = ticks(session, adapter, "own_arm", tmp_path, stage, lambda: setattr(cable, "out", True))
                if stage is None:
                    assert (error, lines[-1]) == (None, ("up", "damp", None)), "with its cable it goes all the way"
                    continue
                ends_damped(error, lines, stage)
                assert until(lambda: cable.velocities and max(map(abs, cable.velocities)) < REST), STAGES[stage]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        cable.close()


def test_the_robot_on_ros_2(session, tmp_path, monkeypatch):
    pytest.importorskip("cyclonedds")
    from tests.making.ros2 import LOOPBACK, SimulatedRobot

    monkeypatch.setenv("CYCLONEDDS_URI", LOOPBACK)
    robot = SimulatedRobot(DOMAIN)

    def connected(on):
        robot.process.send_signal(signal.SIGCONT if on else signal.SIGSTOP)

    try:
        with robot.adapter(success=None) as adapter:
            adapter.sources.latest.wait_s = 1.0  # not as long as at the beginning
            for stage in [*range(len(STAGES)), None]:
                error, lines = ticks(session, adapter, "ros2", tmp_path, stage, lambda: connected(False))
                connected(True)
                if stage is None:
                    assert (error, lines[-1]) == (None, ("up", "damp", None))
                    continue
                ends_damped(error, lines, stage)
                time.sleep(0.2)  # what was on its way before the cable was put back
                assert until(lambda: abs(adapter.sources.joints.velocities).max() < REST), STAGES[stage]
    finally:
        robot.close()


def test_the_franka(session, tmp_path):
    pytest.importorskip("pylibfranka")
    from tests.making.franka import PYTHON, SimulatedRobot, forgiving

    if not PYTHON.exists():
        pytest.skip(f"{PYTHON} is not there: make franka-sim makes it")
    robot = SimulatedRobot(4)

    def cut(adapter, kind, seconds=0.1):
        """Hold up the process that speaks to the arm: the robot misses its packets, and stops by a reflex."""
        pid = adapter.processes["arm"]
        os.kill(pid, kind)
        if kind == signal.SIGSTOP:
            time.sleep(seconds)
            os.kill(pid, signal.SIGCONT)

    @forgiving
    def hand_over_in_every_stage():
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        with robot.adapter(session) as adapter:
            # First the whole way, so that the arm has a way home; last, the process that speaks to it is killed.
            for stage in [None, *range(1, len(STAGES)), 0]:
                pull = partial(cut, adapter, signal.SIGKILL if stage == 0 else signal.SIGSTOP)
                moving = ("home", "up", "policy")
                error, lines = ticks(session, adapter, "franka", folder, stage, pull, moving, adapter.recover)
                if stage is None:
                    if error is not None:
                        raise error
                    assert lines[-1] == ("up", "damp", None)
                    continue
                ends_damped(error, lines, stage)
                assert until(lambda: abs(adapter.arm.velocities).max() < REST), STAGES[stage]
                if stage:
                    adapter.recover()

    try:
        hand_over_in_every_stage()
    finally:
        robot.close()
