"""ROS 2 without ROS: policies, robots, peers of another make and those who watch, each in a process of its own.

All on loopback, in a domain of their own; the robot's time passes slowly, and the loop's with it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from sami_runtime import AdapterError, Limits, MonotonicClock, Run, SafetyStop, Session, check_adapter, shipped_models
from sami_runtime.robots.ros2 import make
from sami_runtime.signals import Signal

pytest.importorskip("cyclonedds")
pytest.importorskip("mink")
pytest.importorskip("panda_gym")

from sami_runtime.robots.ros2.messages import Diagnostics, JointMessage, Numbers
from sami_runtime.robots.ros2.open_node import open_node
from sami_runtime.robots.ros2.settings import Qos
from tests.making.ros2 import EXAMPLE, HOST, LOOPBACK, Ear, SimulatedRobot, SlowClock, environment
from tests.making.unitree import PYTHON as CYCLONE_PYTHON

SPEED = 0.5
PATIENCE_S = 10.0
"""Within which things have to happen that take a tenth of a second on a machine that is not busy."""
DOMAIN = 20 + os.getpid() % 70
COMMANDS = "/arm_velocity_controller/commands"
PEER = Path(__file__).parent / "fast_dds_peer" / "peer.cpp"
CYCLONE_PEER = Path(__file__).parent / "cyclone_peer.py"


@pytest.fixture(scope="module", autouse=True)
def loopback():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CYCLONEDDS_URI", LOOPBACK)
        yield


@pytest.fixture(scope="module")
def robot(loopback):
    instance = SimulatedRobot(DOMAIN, "--speed", SPEED)
    yield instance
    instance.close()


@pytest.fixture
def clock():
    return SlowClock(SPEED)


@pytest.fixture(scope="module")
def session():
    return Session.load(shipped_models()["panda-satesac"])


@pytest.fixture
def limits():
    return Limits.load(EXAMPLE / "limits.toml")


@pytest.fixture
def ears():
    """Makes those who hear a topic, and closes them."""
    listeners = []

    def hear(topic, kind):
        listeners.append(Ear(DOMAIN, topic, kind))
        return listeners[-1]

    yield hear
    for item in listeners:
        item.close()


def at_rest(message):
    return abs(message.velocity).max() < 0.02


def moving(message):
    return abs(message.velocity).max() > 0.05


def test_the_policy_brings_cubes_to_their_goals_and_those_who_watch_hear_how(
    robot, session, clock, limits, ears, capsys
):
    diagnostics, commands, joints = (
        ears("/diagnostics", Diagnostics),
        ears(COMMANDS, Numbers),
        ears("/joint_states", JointMessage),
    )
    reports, dones = [], 3
    with (
        robot.adapter(clock) as adapter,
        Run(session, adapter, clock, limits=limits, loop_hz=50.0) as run,
    ):
        for number in range(dones):
            reports.append(run.episode(seed=number))
        assert joints.until(at_rest, PATIENCE_S), "the last command stands, and is to rest"
        time.sleep(0.2)
        assert commands.messages[-1].data.tolist() == [0.0] * 7
    reported = [{status.name: status for status in message.statuses} for message in diagnostics.messages]
    with capsys.disabled():
        print(
            f"\n{[(report.success, report.steps) for report in reports]}, {len(reported)} diagnoses heard\n{run.total}"
        )
    assert sum(bool(report.success) for report in reports) >= dones - 1
    phases = {item["sami: policy"].values["phase"] for item in reported if "sami: policy" in item}
    assert "identifying" in phases
    assert phases <= {"identifying", "settled", "re-adapting"}
    size = session.contract.context_size
    assert any(
        len(item["sami: policy"].values["context"].split(",")) == size for item in reported if "sami: policy" in item
    )
    gate = [item["sami: gate"] for item in reported]
    assert any(status.values["outcome"] == "acted" for status in gate)
    assert gate[-1].message == "stopped"
    ticks = sum(report.loop.ticks for report in reports)
    assert len(reported) > 0.8 * ticks, "a diagnosis a tick"
    assert [robot.published()["episode"] for _ in range(dones)] == [[float(number)] for number in range(dones)]


def test_it_keeps_the_laws_of_adapters_and_answers_as_in_simulation(robot, session, clock, limits):
    with robot.adapter(clock) as adapter:
        verdicts = check_adapter(adapter, session.contract, clock, limits, ticks=10, write=True, excite=True)
    assert [f"{verdict.law}: {verdict.fault}" for verdict in verdicts if verdict.fault] == []
    assert len(verdicts) == 15


def test_a_controller_of_trajectories_is_driven_as_well_and_holds_where_they_end(robot, clock, ears):
    joints = ears("/joint_states", JointMessage)
    changes = {
        "command__topic": "/arm_trajectory_controller/joint_trajectory",
        "command__type": "trajectory_msgs/msg/JointTrajectory",
        "command__standing": "last",
    }
    with robot.adapter(clock, **changes) as adapter:
        adapter.reset(0)
        before, due = adapter.read().values["ee_position"], clock.now()
        for _ in range(15):
            adapter.read()
            adapter.write(np.float32([0.0, 0.0, 0.5, 0.0]))
            due += 0.04
            clock.sleep_until(due)
        change = adapter.read().values["ee_position"] - before
        assert change[2] > 0.05
        assert abs(change[:2]).max() < 0.03
        adapter.stop()
        assert joints.until(at_rest, PATIENCE_S)


def test_a_dry_run_sends_nothing_and_tells_what_would_be_sent(robot, session, clock, limits, ears):
    diagnostics, commands = ears("/diagnostics", Diagnostics), ears(COMMANDS, Numbers)
    with robot.adapter(clock) as adapter:
        adapter.reset(0)
    time.sleep(0.5)
    at = len(commands.messages)
    with (
        robot.adapter(clock, kinematics__move_home=False) as adapter,
        Run(session, adapter, clock, limits=limits, dry_run=True) as run,
    ):
        run.episode(seed=0, max_steps=15)
    time.sleep(0.3)
    assert all((message.data == 0.0).all() for message in commands.messages[at:]), "but for rest"
    *_, report = (
        status for message in diagnostics.messages for status in message.statuses if status.name == "sami: command"
    )
    assert report.message == "would be sent"
    assert max(map(abs, map(float, report.values[COMMANDS].split(",")))) > 0.0


def test_it_refuses_to_begin_with_a_list_of_all_that_does_not_match_and_sends_nothing(robot, session, clock, ears):
    commands = ears(COMMANDS, Numbers)
    changes = {
        "heard_s": 2.0,
        "topics__camera__frame_id": "world",
        "topics__goal__type": "sensor_msgs/msg/JointState",
        "signals__desired_goal": {"of": "goal", "joints": ["x", "y", "z"]},
        "topics__joints__deadline_s": 0.05,
        "command__topic": "/elsewhere/commands",
    }
    with pytest.raises(AdapterError) as refusal, robot.adapter(clock, **changes):
        pass
    report = str(refusal.value)
    assert "nothing was sent, because 4 thing(s) do not match" in report
    assert "/joint_states does not come: its publisher offers no deadline" in report
    assert "/camera/cube: " in report
    assert "its frame is 'camera', and 'world' was expected" in report
    assert "/goal does not come: its publisher has geometry_msgs/msg/PoseStamped" in report
    assert "nobody hears /elsewhere/commands" in report
    finger_source = {"of": "joints", "joints": ["panda_finger_joint3"]}
    with (
        pytest.raises(AdapterError, match="it lacks panda_finger_joint3; it has panda_finger_joint1"),
        robot.adapter(clock, heard_s=1.0, signals__gripper_width=finger_source),
    ):
        pass
    with robot.adapter(clock):
        pass
    time.sleep(0.3)
    assert commands.messages == [], "not even rest: somebody else may be driving"


def test_a_robot_that_falls_silent_ends_in_a_stop_that_says_so(robot, session, clock, limits, ears):
    joints = ears("/joint_states", JointMessage)
    with robot.adapter(clock, success=None) as adapter, Run(session, adapter, clock, limits=limits) as run:

        def freeze(record):
            if record.step == 5:
                robot.process.send_signal(signal.SIGSTOP)

        try:
            with pytest.raises(SafetyStop, match=r"age: \w+ was measured .* before now"):
                run.episode(seed=1, on_step=freeze)
        finally:
            robot.process.send_signal(signal.SIGCONT)
        assert joints.until(at_rest, PATIENCE_S), "what was sent last reaches it once it goes on"


def test_a_second_publisher_of_a_topic_is_refused_before_anything_moves_and_not_heard_later(
    robot, session, clock, limits, ears
):
    commands = ears(COMMANDS, Numbers)
    stranger = open_node("cyclonedds", DOMAIN, MonotonicClock())
    try:
        with robot.adapter(clock) as adapter:
            adapter.reset(1)
            adapter.stop()
            joints = stranger.publisher("/joint_states", JointMessage, Qos())
            forgery = JointMessage(time.time(), tuple(f"panda_joint{n}" for n in range(1, 8)), np.ones(7), np.ones(7))
            end = time.monotonic() + PATIENCE_S
            while len(adapter._node.publishers("/joint_states")) < 2 and time.monotonic() < end:
                time.sleep(0.02)
            joints.send(forgery)
            while not adapter._node.faults and time.monotonic() < end:
                time.sleep(0.02)
            assert "/joint_states: 1 messages of another publisher were dropped" in adapter.read().note
            commands.messages.clear()
            with pytest.raises(AdapterError, match=r"/joint_states has 2 publishers, \S+ and \S+, and the robot"):
                adapter.reset(2)
            with pytest.raises(AdapterError, match="/joint_states has 2 publishers"), robot.adapter(clock):
                pass
            assert commands.messages == []
    finally:
        stranger.close()


@pytest.mark.parametrize("within", [0.4, None], ids=["watched", "not watched"])
def test_the_arm_of_a_loop_that_was_killed_rests_only_by_a_watchdog(robot, ears, within):
    joints = ears("/joint_states", JointMessage)
    report = json.dumps([DOMAIN, SPEED, within])
    process = subprocess.Popen(
        [sys.executable, "-c", HOST, report], stdout=subprocess.PIPE, text=True, env=environment(DOMAIN)
    )
    try:
        assert process.stdout.readline() == "ticked\n"
        assert joints.until(moving, PATIENCE_S)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    if within:
        assert joints.until(at_rest, PATIENCE_S)
        time.sleep(0.3)
        assert at_rest(joints.messages[-1]), "and stays so"
    else:
        time.sleep(0.5)
        assert moving(joints.messages[-1]), "its controller goes on with the last velocities"


def test_a_peer_of_another_make_is_heard_and_obeys(tmp_path):
    """Fast DDS, which most ROS 2 installations speak, in C++."""
    compiler = shutil.which("g++")
    if not (compiler and Path("/usr/include/fastrtps").is_dir()):
        pytest.skip("the Fast DDS peer is not built: g++ or its headers are not installed (Debian: libfastrtps-dev)")
    domain, program = DOMAIN + 1, tmp_path / "peer"
    subprocess.run([compiler, "-std=c++17", "-O0", PEER, "-o", program, "-lfastrtps", "-lfastcdr"], check=True)
    peer = subprocess.Popen([program, str(domain), "60"], stdout=subprocess.PIPE, text=True)
    try:
        assert peer.stdout.readline() == "listening\n"
        drives_the_peer(domain, peer)
    finally:
        peer.kill()
        peer.wait()
        peer.stdout.close()


@pytest.mark.parametrize("first", ["peer", "adapter"])
def test_a_peer_of_cyclone_0_10_is_heard_and_obeys_and_neither_side_dies(first):
    """The versions differ in how they describe types to each other: 0.10 dies of a type that it does not know."""
    if not CYCLONE_PYTHON.exists():
        pytest.skip(f"{CYCLONE_PYTHON} is not there: make unitree-sim makes it")
    domain = DOMAIN + 2 + (first == "adapter")
    early = open_node("cyclonedds", domain, MonotonicClock()) if first == "adapter" else None
    if early:
        early.publisher("/diagnostics", Diagnostics, Qos(depth=10))
        early.publisher("/commands", Numbers, Qos())
    command = [CYCLONE_PYTHON, CYCLONE_PEER, str(domain), "60"]
    peer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(domain))
    try:
        assert peer.stdout.readline() == "listening\n"
        if early:
            early.close()  # a second publisher of the commands would be refused
        drives_the_peer(domain, peer)
        assert peer.stdout.readline() == "stopped\n", "a diagnosis has a field of a byte"
        assert peer.poll() is None
    finally:
        peer.kill()
        peer.wait()
        peer.stdout.close()
        if early:
            early.close()


def drives_the_peer(domain, peer):
    names, free = ("shoulder", "elbow", "wrist"), (None,) * 3
    angles = Signal(name="angles", size=3, unit="rad", elements=names, low=free, high=free)
    action = Signal(name="speeds", size=3, unit="rad/s", elements=names, low=(-1.0,) * 3, high=(1.0,) * 3)
    shipped = Session.load(shipped_models()["panda-satesac"]).contract
    contract = shipped.model_copy(update={"observation": (angles,), "action": action, "sheet": None})
    table = {
        "backend": "cyclonedds",
        "domain": domain,
        "heard_s": 20.0,
        "topics": {"joints": {"topic": "/joint_states", "type": "sensor_msgs/msg/JointState"}},
        "signals": {"angles": {"of": "joints", "joints": list(names)}},
        "command": {
            "topic": "/commands",
            "type": "std_msgs/msg/Float64MultiArray",
            "action": "elements",
            "standing": 0.0,
        },
    }
    clock = MonotonicClock()
    with closing(make(clock, contract, table)) as adapter:
        adapter.reset()
        observation = adapter.read()
        assert observation.values["angles"] == pytest.approx([0.1, 0.2, 0.3]), "by name: the peer tells the wrist first"
        assert abs(clock.now() - observation.time) < 1.0, "stamped by the clock that both keep"
        adapter.write(np.float32([0.5, -0.25, 1.0]))
        assert peer.stdout.readline() == "0.5 -0.25 1\n"
        end = time.monotonic() + 10.0
        while adapter.read().values["angles"][2] < 0.5 and time.monotonic() < end:
            time.sleep(0.02)
        change = adapter.read().values["angles"] - [0.1, 0.2, 0.3]
        assert change / change[2] == pytest.approx([0.5, -0.25, 1.0], abs=1e-3)
        adapter.stop()
        assert peer.stdout.readline() == "0 0 0\n"
        time.sleep(0.2)
        rests = adapter.read().values["angles"]
        time.sleep(0.2)
        assert (adapter.read().values["angles"] == rests).all()
