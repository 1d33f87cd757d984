"""From actions to commands: the controller's order and units, and a last command at which all rests."""

import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from sami_runtime import AdapterError, Limits, ManualClock, SafetyStop, Watchdog, shipped_models
from sami_runtime.model.artifact import read_artifact
from sami_runtime.robots.kit import Frame
from sami_runtime.robots.ros2 import adapter as adapters
from sami_runtime.robots.ros2 import command as commands
from sami_runtime.robots.ros2.command import KIND, Elements, Hand, LastStand, standing
from sami_runtime.robots.ros2.messages import JointMessage, Numbers, PoseMessage, Trajectory
from sami_runtime.robots.ros2.node import Peer
from sami_runtime.robots.ros2.settings import Qos
from sami_runtime.robots.ros2.sources import Joints
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.watchdog import instruct_watchdogs
from tests.making.ros2 import settings
from tests.making.stops import Stops

pytest.importorskip("mink")
pytest.importorskip("pybullet_data")
ARM, GRIPPER = "/arm_velocity_controller/commands", "/gripper_controller/commands"


@pytest.fixture(scope="module")
def contract():
    return read_artifact(shipped_models()["panda-satesac"]).contract


@pytest.fixture(scope="module")
def ik(contract):
    from sami_runtime.robots.kit import DifferentialIK

    arm = settings().kinematics
    return DifferentialIK(arm.file, arm.hand, arm.joints, contract.sheet.numbers["home_joints"].values)


@pytest.fixture(scope="module")
def base(contract):
    return Frame.of(contract.sheet.numbers["arm_base"].values)


def at_home(ik):
    return Joints(0.0, ik.home, np.zeros(7))


def command_of(ik, base, contract, action, width=0.0, **changes):
    return Hand(settings(**changes), contract, ik, base).of(np.float32(action), at_home(ik), width)


def test_the_joints_move_the_hand_as_far_as_in_simulation(ik, base, contract):
    command = command_of(ik, base, contract, [0.5, -0.5, 0.5, 0.0])
    velocities = command.messages[ARM].data
    change = base.vectors(ik.velocity(ik.home, velocities)) / contract.rate_hz
    reach = np.array(contract.sheet.numbers["reached_displacement"].values)
    assert change == pytest.approx(reach * [0.5, -0.5, 0.5], abs=1e-3)
    assert command.executed.tolist() == [0.5, -0.5, 0.5, 0.0]


def test_nothing_moves_at_rest(ik, base, contract):
    command = command_of(ik, base, contract, [0.0] * 4, width=0.04)
    assert abs(command.messages[ARM].data).max() < 1e-3
    assert command.messages[GRIPPER].data == pytest.approx([0.02]), "each finger goes half"


def test_an_arm_whose_joints_end_before_the_models_home_pose_is_not_moved_there(contract, monkeypatch):
    def node_of(*_):
        raise AssertionError("the node was opened")

    monkeypatch.setattr(adapters, "open_node", node_of)
    home = contract.sheet.numbers["home_joints"]
    beyond = home.model_copy(update={"values": (*home.values[:3], 0.5, *home.values[4:])})
    sheet = contract.sheet.model_copy(update={"numbers": contract.sheet.numbers | {"home_joints": beyond}})
    with pytest.raises(AdapterError, match="home pose is beyond the end of panda_joint4 in ") as refused:
        adapters.Ros2Adapter(ManualClock(), contract.model_copy(update={"sheet": sheet}), settings())
    assert "1 thing(s)" in str(refused.value)


def test_the_order_and_the_units_are_the_controllers(ik, base, contract):
    plain = command_of(ik, base, contract, [1.0, 1.0, 0.0, 0.0]).messages[ARM].data
    names, factors = list(ik.joints[::-1]), [10.0] * 6 + [-1.0]
    other = command_of(ik, base, contract, [1.0, 1.0, 0.0, 0.0], command__joints=names, command__factor=factors)
    assert other.messages[ARM].data == pytest.approx(plain[::-1] * factors)


def test_the_gripper_opens_no_wider_than_it_does(ik, base, contract):
    assert command_of(ik, base, contract, [0.0, 0.0, 0.0, 1.0], 0.05).messages[GRIPPER].data == pytest.approx([0.04])
    assert command_of(ik, base, contract, [0.0, 0.0, 0.0, -1.0], 0.05).messages[GRIPPER].data == pytest.approx([0.0])


def test_a_trajectory_goes_by_positions_to_where_the_velocities_lead_within_a_period(ik, base, contract):
    velocities = command_of(ik, base, contract, [1.0, 0.0, 0.0, 0.0]).messages[ARM].data
    kind = {"command__type": Trajectory.ros, "command__standing": "last"}
    trajectory = command_of(ik, base, contract, [1.0, 0.0, 0.0, 0.0], **kind).messages[ARM]
    assert trajectory.names == ik.joints
    assert trajectory.position == pytest.approx(ik.home + velocities / contract.rate_hz)
    assert trajectory.within_s == pytest.approx(1.0 / contract.rate_hz)
    assert standing(settings(**kind), contract) is None, "it holds its last positions"


def test_the_hand_is_not_sent_below_the_table(ik, base, contract):
    low = ik.home + [0.0, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0]
    height = base.points(ik.pose(low).translation)[2]
    assert 0.0 < height < 0.03, "less than it would sink in a period"
    commander = Hand(settings(), contract, ik, base)
    command = commander.of(np.float32([0.0, 0.0, -1.0, 0.0]), Joints(0.0, low, np.zeros(7)), 0.0)
    lowered = base.vectors(ik.velocity(low, command.messages[ARM].data))[2] / contract.rate_hz
    assert height + lowered > -2e-3


def test_a_hand_that_measures_below_the_table_rises_only_if_the_action_says_so(ik, base, contract):
    """A wrong calibration or a contact must not make an arm at rest move."""
    below = ik.home + [0.0, 0.36, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert base.points(ik.pose(below).translation)[2] < 0.0
    commander, rises = Hand(settings(), contract, ik, base), []
    for up in (-1.0, 0.0, 0.5):
        command = commander.of(np.float32([0.0, 0.0, up, 0.0]), Joints(0.0, below, np.zeros(7)), 0.0)
        rises.append(base.vectors(ik.velocity(below, command.messages[ARM].data))[2] / contract.rate_hz)
    assert rises[:2] == pytest.approx([0.0, 0.0], abs=1e-4)
    assert rises[2] > 2e-3


def test_elements_are_sent_as_they_are_in_the_controllers_units(contract):
    config = settings(command__action="elements", command__factor=[1.0, 2.0, 3.0, -4.0], command__standing=[0, 0, 0, 1])
    command = Elements(config, 0.04).of(np.float32([1.0, 1.0, -1.0, 0.5]), None, 0.0)
    assert isinstance(command.messages[ARM], Numbers)
    assert command.messages[ARM].data.tolist() == [1.0, 2.0, -3.0, -2.0]
    assert command.executed.tolist() == [1.0, 1.0, -1.0, 0.5]
    assert standing(config, contract).data.tolist() == [0.0, 0.0, 0.0, 1.0]


class Loopback:
    """A node that hears what the test says: the arm's joints, and on each other topic all that is read of it."""

    separates, faults = True, ()

    def __init__(self, clock, arm):
        self.clock, self.arm, self.hear, self.on_send, self.closes = clock, arm, {}, None, 0

    def publisher(self, topic, kind, qos):
        return SimpleNamespace(send=lambda message: self.on_send(topic, message), flush=lambda longest_s: None)

    def reset(self):
        pass

    def close(self):
        self.closes += 1

    def subscribe(self, topic, kind, qos, hear, publishers):
        self.hear[topic] = hear
        self.say(topic, self.arm)

    def publishers(self, topic):
        return []

    def say(self, topic, arm):
        now, zeros = self.clock.now(), np.zeros(3)
        names = {"/joint_states": arm, "/fingers": ("panda_finger_joint1",)}.get(topic)
        if names is None:
            frame = "camera" if "camera" in topic else "table"
            message = PoseMessage(now, frame, zeros, np.array([0.0, 0.0, 0.0, 1.0]))
        else:
            message = JointMessage(now, names, np.zeros(len(names)), np.zeros(len(names)))
        self.hear[topic](message, now)


@pytest.fixture
def looped(contract, ik, monkeypatch):
    """A robot that is heard by topics of which each may fall silent alone, its node and its clock."""
    changes = {
        "topics__tracker": {"topic": "/tracker", "type": PoseMessage.ros, "clock": "theirs"},
        "topics__fingers": {"topic": "/fingers", "type": JointMessage.ros, "clock": "theirs"},
        "signals__ee_position": {"of": "tracker", "field": "position"},
        "signals__ee_velocity": {"of": "tracker", "field": "velocity"},
        "signals__gripper_width__of": "fingers",
    }
    clock = ManualClock(1.0)
    node = Loopback(clock, ik.joints)
    monkeypatch.setattr(adapters, "open_node", lambda *_: node)
    monkeypatch.setattr(adapters, "missing_subscribers", lambda *_: [])
    return adapters.Ros2Adapter(clock, contract, settings(**changes)), node, clock


def test_another_commander_is_refused_at_the_start_unless_it_is_the_watchdog_of_an_earlier_adapter(
    contract, looped, monkeypatch
):
    robot, node, clock = looped
    peers = [Peer(Numbers.ros, Qos(), name) for name in ("/sami", "/other")]
    node.publishers = lambda topic: peers if topic == ARM else []
    with pytest.raises(AdapterError, match=f"{ARM} has 2 publishers, /sami and /other, and the robot can have one"):
        adapters.Ros2Adapter(clock, contract, robot.settings.model_copy(update={"heard_s": 0.0}))
    monkeypatch.setattr(adapters, "arm_watchdog", lambda adapter, settings, last: last is None and peers.pop())
    adapters.Ros2Adapter(clock, contract, robot.settings).close()
    assert len(peers) == 1


def test_an_arm_on_its_way_home_is_not_sent_on_after_an_emergency_stop(looped):
    robot, node, _ = looped
    commands = []

    def hear(topic, message):
        node.say("/joint_states", node.arm)
        commands.append((topic, abs(message.data).max()))
        if len(commands) == 9:
            robot.emergency_stop()

    node.on_send = hear
    with pytest.raises(SafetyStop, match=r"emergency_stop\(\) was called"):
        robot.reset()
    assert [speed for topic, speed in commands[9:] if topic == ARM] == [0.0]
    robot.emergency_stop()
    robot._home = np.zeros(7)
    robot.reset()  # the next episode may go home


@pytest.mark.skipif(sys.platform != "linux", reason="watchdogs need Linux")
@pytest.mark.parametrize(("within_s", "fires"), [(0.2, True), (0.03, False)])
def test_a_way_home_on_which_the_loop_hangs_is_ended_by_the_watchdog(looped, tmp_path, monkeypatch, within_s, fires):
    """One that needs beats more often than the way home has them only watches that the process lives."""
    robot, node, _ = looped
    monkeypatch.syspath_prepend(tmp_path)
    stops, messages = Stops(tmp_path), []

    def hear(topic, message):
        node.say("/joint_states", node.arm)
        messages.append((time.monotonic(), abs(message.data).max()))
        if len(messages) == 9:
            time.sleep(0.5)
        robot._home = np.zeros(7) if len(messages) > 12 else robot._home  # it has arrived

    node.on_send = hear
    with Watchdog("my_arm:emergency_stop", within_s) as dog:
        dog.begin()
        robot.clock.sleep_until = lambda deadline: time.sleep(0.02)
        if fires:
            with pytest.raises(SafetyStop, match=r"got no heartbeat within 0\.2 s and stopped the robot"):
                robot.home()
            assert within_s - 0.05 < stops.wait() - messages[8][0] < 0.45
        else:
            robot.home()
            time.sleep(0.1)
            assert stops.times == []
        dog.end()


def test_no_command_and_no_plain_stop_undoes_an_emergency_stop_before_the_next_reset(contract, looped):
    robot, node, _ = looped
    robot._home, action, speeds = np.zeros(7), np.full(contract.action.size, 0.5, np.float32), []

    def hear(topic, message):
        for name in node.hear:
            node.say(name, node.arm)
        speeds.append(float(abs(message.data).max()) if topic == ARM else 0.0)

    node.on_send = hear
    robot.read()
    robot.write(action)
    assert max(speeds) > 0.0
    speeds.clear()
    robot.emergency_stop()
    for command in (lambda: robot.write(action), robot.home, lambda: robot.write(action)):
        with pytest.raises(SafetyStop, match=r"emergency_stop\(\) was called; nothing is sent until the next reset"):
            command()
        robot.stop()
    assert max(speeds) == 0.0
    robot.reset()  # the next episode may move it


def test_a_robot_that_cannot_be_stopped_any_more_is_left_nevertheless(looped):
    def fail(topic, message):
        raise AdapterError("it cannot be sent")

    robot, node, _ = looped
    node.on_send, robot._in_episode = fail, True
    with pytest.raises(AdapterError, match="it cannot be sent"):
        robot.close()
    robot.close()
    assert node.closes == 1


@pytest.mark.parametrize("arm", [None, ("panda_joint1", "panda_joint2")], ids=["nothing", "two joints"])
def test_a_hand_whose_joints_fell_silent_is_held_while_all_else_still_comes(contract, looped, arm):
    (robot, node, clock), period = looped, 1.0 / contract.rate_hz
    gate = SafetyGate(robot, contract, Limits(out_of_bounds="act"))
    gate.begin(period)
    faults = [gate.fault(robot.read(), clock.now())]
    for _ in range(4):
        clock.sleep_until(clock.now() + period)
        for topic in node.hear:
            if topic != "/joint_states" or arm:
                node.say(topic, arm)
        faults.append(gate.fault(robot.read(), clock.now()))
    assert faults[:4] == [None] * 4
    assert faults[4].startswith("age: joint_positions was measured 0.16 s before now")


def test_a_hand_that_a_person_pauses_is_not_turned_on_once_its_joints_fall_silent(contract, looped):
    (robot, node, clock), period = looped, 1.0 / contract.rate_hz
    robot._home, pause, speeds = np.zeros(7), np.zeros(contract.action.size, np.float32), []
    node.on_send = lambda topic, message: speeds.append(float(abs(message.data).max()))
    node.say("/joint_states", node.arm)
    robot.read()
    start = clock.now()

    def write_without_reading():
        while clock.now() < start + 2.0:
            robot.write(pause)
            clock.sleep_until(clock.now() + period)

    with pytest.raises(AdapterError, match="the joints are no longer reported"):
        write_without_reading()
    assert clock.now() - start < 0.65
    assert max(speeds) > 0.1, "which was computed from where the joints were"
    assert speeds[-1] == 0.0


def test_the_watchdogs_process_leaves_the_domain_when_it_ends(monkeypatch):
    ends, closes = [], []
    monkeypatch.setattr(commands.atexit, "register", ends.append)
    node = SimpleNamespace(publisher=lambda *_: None, close=lambda: closes.append(True))
    monkeypatch.setattr(commands, "open_node", lambda *_: node)
    monkeypatch.setattr(commands, "missing_subscribers", lambda *_: [])
    LastStand()._take({"backend": "", "domain": 0, "topic": ARM, "qos": {}, "data": [0.0]}, [])
    for end in ends:
        end()
    assert closes == [True]


def test_an_emergency_stop_that_sends_nothing_does_not_count_as_one_that_worked(monkeypatch):
    stop = LastStand()
    with pytest.raises(AdapterError, match=r"nothing was sent: no adapter has declared"):
        stop()
    stop._take({"data": None}, [])
    with pytest.raises(AdapterError, match=r"nothing was sent: command\.standing is 'last'"):
        stop()


@pytest.mark.skipif(sys.platform != "linux", reason="watchdogs need Linux")
def test_a_watchdog_that_the_adapter_did_not_reach_has_not_stopped_the_robot():
    with Watchdog("sami_runtime.robots.ros2:emergency_stop", 60.0) as dog:
        assert not dog.fire(wait_s=0.1)
        dog.rearm()
        instruct_watchdogs(dog, KIND, {"data": None})
        dog.beat()
        assert not dog.fire(wait_s=0.1)
