"""The hand-over damp - stand - policy - damp, with a double of the robot's topics in this process.

A robot with physics, behind Unitree's own classes, is in tests/real/test_unitree.py.
"""

import json
import os
import threading
import time
from contextlib import closing

import numpy as np
import pytest

from sami_runtime import AdapterError, MonotonicClock, SafetyStop, clock
from sami_runtime.robots.unitree import emergency_stop, make
from tests.making.unitree import JOINTS, LOOPBACK, NUMBERS, STATE, contract_of

pytest.importorskip("cyclonedds")
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from sami_runtime.robots.unitree import adapter as adapters
from sami_runtime.robots.unitree import idl
from sami_runtime.robots.unitree import link as links
from sami_runtime.robots.unitree.messages import crc_of

DOMAIN = 160 + os.getpid() % 60
STANCE = np.array(NUMBERS["stand"])
PATIENCE_S = 60.0
"""How long is waited for what has to come, and how long a set-point holds: a busy machine may sleep through seconds."""


class RobotDouble:
    """Joints that are at once where they are asked to be, and the service that says which mode is on."""

    def __init__(self):
        participant = DomainParticipant(DOMAIN)
        topics = {"lowstate": idl.LowState, "lowcmd": idl.LowCmd}
        topics |= {
            f"api/motion_switcher/{way}": getattr(idl, f"Service{way.title()}") for way in ("request", "response")
        }
        by_name = {name: Topic(participant, f"rt/{name}", kind) for name, kind in topics.items()}
        self.states = DataWriter(participant, by_name["lowstate"])
        self.answers = DataWriter(participant, by_name["api/motion_switcher/response"])
        self.commands = DataReader(participant, by_name["lowcmd"])
        self.requests = DataReader(participant, by_name["api/motion_switcher/request"])
        self.angles, self.kp, self.kd, self.count = np.tile([0.0, 1.3, -2.6], 4), 0.0, 0.0, 0
        self.mode, self.quaternion, self.silent, self.open = "", [1.0, 0.0, 0.0, 0.0], False, True
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while self.open:
            for command in (message for message in self.commands.take(10) if isinstance(message, idl.LowCmd)):
                self.count += 1
                motors = command.motor_cmd[:12]
                self.kp, self.kd = motors[0].kp, motors[0].kd
                if self.kp:
                    self.angles = np.array([motor.q for motor in motors])
            for request in (message for message in self.requests.take(10) if isinstance(message, idl.ServiceRequest)):
                identity, data = request.header.identity, json.dumps({"form": "0", "name": self.mode})
                self.answers.write(idl.ServiceResponse(idl.ResponseHeader(identity, idl.ResponseStatus(0)), data, []))
            if not self.silent:
                self.states.write(self.state())
            time.sleep(0.005)

    def state(self):
        memory = bytearray(1180)
        memory[24:40] = np.float32(self.quaternion).tobytes()
        for motor, angle in enumerate(self.angles):
            memory[84 + 48 * motor : 88 + 48 * motor] = np.float32(angle).tobytes()
        body = memory[:77] + memory[80:81] + bytes(2) + memory[84:1176]
        return RawState(b"\x00\x01\x00\x00" + bytes(body) + crc_of(bytes(memory[:1176])).to_bytes(4, "little"))

    def until(self, condition):
        end = time.monotonic() + PATIENCE_S
        while not condition() and time.monotonic() < end:
            time.sleep(0.005)
        assert condition()


class RawState(idl.LowState):
    """A state of these bytes."""

    def __init__(self, octets):
        self.octets = octets

    def serialize(self, *_, **__):
        return self.octets


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setattr(adapters, "STANDING_S", PATIENCE_S)
    monkeypatch.setattr(adapters, "LISTENING_S", 0.0)


@pytest.fixture(scope="module")
def robot():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CYCLONEDDS_URI", LOOPBACK)
        double = RobotDouble()
        yield double
        double.open = False
        double.thread.join()


def connect(**changes):
    patient = {"heard_s": PATIENCE_S, "hold_s": PATIENCE_S}
    settings = {"domain": DOMAIN, "stand_s": 0.1, **patient, **NUMBERS, **changes}
    return make(MonotonicClock(), contract_of(*STATE), settings)


def test_it_stands_is_driven_and_is_damped_and_nothing_is_sent_before(robot):
    robot.count = 0
    with closing(connect(command="forward=0.5,turn=-0.2")) as adapter:
        values = adapter.read().values
        assert values["joint_angles"] == pytest.approx([0.0, 1.3, -2.6] * 4)
        assert values["commanded_velocity"].tolist() == [0.5, 0.0]
        assert values["commanded_yaw_rate"] == pytest.approx([-0.2])
        adapter.stop()
        assert robot.count == 0
        adapter.reset()
        robot.until(lambda: robot.kp == 60.0 and abs(robot.angles - STANCE).max() < 0.01)
        executed = adapter.write(np.float32([1.0] + [0.0] * 11))
        robot.until(lambda: robot.kp == 20.0 and abs(robot.angles[0] - 0.25) < 1e-6)
        assert executed.action.tolist()[:2] == [1.0, 0.0]
        assert adapter.read().values["last_action"].tolist() == executed.action.tolist()
        count = robot.count
        robot.until(lambda: robot.count > count + 3)  # again and again, without another action
        adapter.stop()
        robot.until(lambda: robot.kp == 0.0 and robot.kd == 3.0)
        adapter.stop()
        assert adapter.read().values["joint_angles"].shape == (len(JOINTS),)
    with pytest.raises(AdapterError, match="the adapter was closed"):
        adapter.read()


def test_a_reading_that_waited_counts_as_old(robot, monkeypatch):
    """It was stamped on receipt, so that after half a second in a queue the policy acted on it as fresh."""
    ages = []
    with closing(connect()) as adapter:
        hear = adapter._link._hear
        robot.until(lambda: adapter._sync._count > 20)

        def hear_late(reading):
            time.sleep(0.5)
            hear(reading)
            ages.append(adapter.clock.now() - adapter.read().time)

        monkeypatch.setattr(adapter._link, "_hear", hear_late)
        robot.until(lambda: len(ages) > 1)
    assert min(ages) > 0.45


def test_without_another_action_the_motors_are_damped_and_the_next_one_is_refused(robot):
    with closing(connect()) as adapter:
        adapter.reset()
        robot.until(lambda: robot.kp == 60.0)
        adapter.settings = adapter.settings.model_copy(update={"hold_s": 0.2})
        adapter.write(np.zeros(12, np.float32))
        robot.until(lambda: robot.kp == 0.0 and robot.kd == 3.0)
        with pytest.raises(SafetyStop, match=r"no action came within 0\.2 s"):
            adapter.write(np.zeros(12, np.float32))


@pytest.mark.skipif(clock.BOOTTIME is None, reason="this system does not say how long it was suspended")
def test_the_last_action_is_over_when_the_machine_wakes_up(robot, monkeypatch):
    with closing(connect()) as adapter:
        adapter.reset()
        adapter.write(np.zeros(12, np.float32))
        robot.until(lambda: robot.kp == 20.0)
        monkeypatch.setattr(clock, "_SUSPENDED_S", clock._SUSPENDED_S - 2 * PATIENCE_S)  # as long as it slept
        end = time.monotonic() + 5.0
        while robot.kp and time.monotonic() < end:
            time.sleep(0.01)
        assert (robot.kp, robot.kd) == (0.0, 3.0)


def test_the_motors_are_damped_in_time_also_where_a_write_between_failed_in_any_way(robot, monkeypatch):
    with closing(connect()) as adapter:
        adapter.reset()
        robot.until(lambda: robot.kp == 60.0)
        write, failed = adapter._link._write, []

        def fail(message):
            if threading.current_thread() is not threading.main_thread() and not failed:
                failed.append(message)
                raise MemoryError
            write(message)

        monkeypatch.setattr(adapter._link, "_write", fail)
        adapter.settings = adapter.settings.model_copy(update={"hold_s": 0.2})
        adapter.write(np.zeros(12, np.float32))
        robot.until(lambda: failed and robot.kp == 20.0)
        end = time.monotonic() + 2.0
        while robot.kp and time.monotonic() < end:
            time.sleep(0.01)
        assert (robot.kp, robot.kd) == (0.0, 3.0)


def test_after_a_stop_for_want_of_actions_the_next_episode_stands_up_again(robot):
    with closing(connect()) as adapter:
        adapter.reset()
        adapter._link.expired = True  # as where no action came in time
        with pytest.raises(SafetyStop, match="no action came"):
            adapter.read()
        adapter.stop()
        adapter.reset()
        assert adapter.read().values["joint_angles"].shape == (len(JOINTS),)


def test_an_emergency_stop_while_it_stands_up_is_not_undone_by_the_way_up(robot):
    with closing(connect(stand_s=PATIENCE_S)) as adapter:
        threading.Timer(0.3, adapter.emergency_stop).start()
        with pytest.raises(SafetyStop, match=r"emergency_stop\(\) was called\. The motors are damped"):
            adapter.reset()
        robot.until(lambda: robot.kp == 0.0)
        adapter.settings = adapter.settings.model_copy(update={"stand_s": 0.1})
        adapter.reset()


def test_an_emergency_stop_while_the_sport_mode_lets_go_counts(robot, monkeypatch):
    with closing(connect(release_sport_mode=True)) as adapter:
        monkeypatch.setattr(adapters, "release_mode", lambda *_: adapter.emergency_stop())
        with pytest.raises(SafetyStop, match=r"emergency_stop\(\) was called"):
            adapter.reset()


def test_a_robot_that_lies_on_its_side_is_not_driven(robot):
    robot.quaternion = [0.7, 0.7, 0.0, 0.0]
    try:
        with closing(connect()) as adapter, pytest.raises(SafetyStop, match="tilted by 90 degrees"):
            adapter.reset()
    finally:
        robot.quaternion = [1.0, 0.0, 0.0, 0.0]


def test_a_robot_whose_sport_mode_is_on_is_refused_and_when_it_comes_on_later_too(robot):
    robot.count = 0
    try:
        with closing(connect()) as adapter:
            robot.mode = "mcf"
            with pytest.raises(AdapterError, match=r"Unitree's sport mode is on \('mcf'\)"):
                adapter.reset()
        with pytest.raises(AdapterError, match="release_sport_mode = true"):
            connect()
    finally:
        robot.mode = ""
    assert robot.count == 0


def test_an_emergency_stop_without_an_adapter_says_that_it_sent_nothing():
    with pytest.raises(AdapterError, match="no adapter has connected to a robot"):
        emergency_stop()()


def test_no_motor_is_sent_to_nan_where_an_encoder_fails_before_the_robot_stands_up(robot, monkeypatch):
    sane, take, targets = robot.state, robot.commands.take, []

    def broken():
        angles, robot.angles = robot.angles, np.where(np.arange(12) == 4, np.nan, robot.angles)
        try:
            return sane()
        finally:
            robot.angles = angles

    def watched_take(count):
        commands = take(count)
        targets.extend(command.motor_cmd[4].q for command in commands if isinstance(command, idl.LowCmd))
        return commands

    with closing(connect(hold_s=0.2, stand_s=1.0)) as adapter:
        monkeypatch.setattr(robot.commands, "take", watched_take)
        monkeypatch.setattr(robot, "state", broken)
        time.sleep(0.05)
        with pytest.raises(SafetyStop, match="the robot reported nothing"):
            adapter.reset()
    assert np.isfinite(targets).all()


def test_a_second_robot_in_the_domain_ends_the_episode_and_is_refused_at_the_start(robot, monkeypatch):
    """The states of both were mixed, and both obeyed; a second robot that was heard a moment later was not refused."""
    with closing(connect(hold_s=0.5)) as adapter:
        adapter.reset()
        adapter.write(np.zeros(12, np.float32))
        second = RobotDouble()
        try:
            robot.until(lambda: adapter._link.is_doubled)
            with pytest.raises(SafetyStop, match="two robots publish rt/lowstate in this domain"):
                adapter.read()
            robot.until(lambda: robot.kp == 0.0)
            adapter.close()
            robot.until(lambda: not robot.commands.get_matched_publications())
            monkeypatch.setattr(adapters, "LISTENING_S", PATIENCE_S)
            with pytest.raises(AdapterError, match=r"nothing was sent.*\n.*two robots publish rt/lowstate"):
                connect()
            assert robot.kp == second.kp == 0.0
        finally:
            second.open = False
            second.thread.join()


def test_a_second_adapter_of_the_robot_is_refused_and_the_first_drives_on(robot, monkeypatch):
    """Both connected, and the motors followed the targets of both in turn."""
    monkeypatch.setattr(adapters, "LISTENING_S", 1.0)
    with closing(connect()) as adapter:
        with pytest.raises(AdapterError, match=r"nothing was sent.*\n.*another adapter can command this robot"):
            connect(heard_s=3.0)
        adapter.reset()
        adapter.write(np.zeros(12, np.float32))
        robot.until(lambda: robot.kp == 20.0)
    connect().close()


def test_a_robot_that_was_started_again_is_driven_on(robot, monkeypatch):
    """Its publisher is another one then."""
    monkeypatch.setattr(links, "TOGETHER_S", 0.1)
    with closing(connect()) as adapter:
        adapter.reset()
        adapter.stop()
        robot.silent, again = True, RobotDouble()
        try:
            robot.until(lambda: len(adapter._link._receipts) > 1 and not adapter._link.is_doubled)
            adapter.reset()
            adapter.write(np.zeros(12, np.float32))
            again.until(lambda: again.kp > 0.0)
        finally:
            robot.silent, again.open = False, False
            again.thread.join()


def test_a_robot_that_tells_nothing_any_more_is_not_driven_in_a_pause_either(robot, monkeypatch):
    """A person's pause reads nothing, so that the gate judges no age."""
    monkeypatch.setattr(adapters, "STANDING_S", 0.5)
    with closing(connect(hold_s=PATIENCE_S)) as adapter:
        adapter.reset()
        adapter.write(np.zeros(12, np.float32))
        robot.silent, end = True, time.monotonic() + PATIENCE_S
        try:
            with pytest.raises(SafetyStop, match=r"the robot reported nothing for 0\.5\d* s"):  # noqa: PT012
                while time.monotonic() < end:
                    adapter.write(np.zeros(12, np.float32))
                    time.sleep(0.02)
        finally:
            robot.silent = False
        robot.until(lambda: robot.kp == 0.0)


def test_a_robot_that_tells_nothing_any_more_while_it_stands_up_is_damped_at_once(robot):
    with closing(connect(command="forward=0.0", stand_s=PATIENCE_S, hold_s=0.2)) as adapter:
        threading.Timer(0.5, setattr, (robot, "silent", True)).start()
        start = time.monotonic()
        try:
            with pytest.raises(SafetyStop, match=r"the robot reported nothing for [\d.]+ s\. The motors are damped"):
                adapter.reset()
        finally:
            robot.silent = False
        assert time.monotonic() - start < PATIENCE_S, "before it stood"
        robot.until(lambda: robot.kp == 0.0)
