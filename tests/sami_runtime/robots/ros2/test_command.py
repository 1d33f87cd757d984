"""From actions to commands: the controller's order and units, and a last command at which all rests."""

import sys

import numpy as np
import pytest

from sami_runtime import AdapterError, Watchdog, shipped_models
from sami_runtime.model.artifact import read_artifact
from sami_runtime.robots.kit import Frame
from sami_runtime.robots.ros2.command import KIND, Elements, Hand, LastStand, standing
from sami_runtime.robots.ros2.messages import Numbers, Trajectory
from sami_runtime.robots.ros2.sources import Joints
from sami_runtime.safety.watchdog import instruct_watchdogs
from tests.making.ros2 import settings

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


def sent(ik, base, contract, action, width=0.0, **changed):
    return Hand(settings(**changed), contract, ik, base).of(np.float32(action), at_home(ik), width)


def test_the_joints_move_the_hand_as_far_as_in_simulation(ik, base, contract):
    command = sent(ik, base, contract, [0.5, -0.5, 0.5, 0.0])
    velocities = command.messages[ARM].data
    moved = base.vectors(ik.velocity(ik.home, velocities)) / contract.rate_hz
    reach = np.array(contract.sheet.numbers["reached_displacement"].values)
    assert moved == pytest.approx(reach * [0.5, -0.5, 0.5], abs=1e-3)
    assert command.executed.tolist() == [0.5, -0.5, 0.5, 0.0]


def test_nothing_moves_at_rest(ik, base, contract):
    command = sent(ik, base, contract, [0.0] * 4, width=0.04)
    assert abs(command.messages[ARM].data).max() < 1e-3
    assert command.messages[GRIPPER].data == pytest.approx([0.02]), "each finger goes half"


def test_the_order_and_the_units_are_the_controllers(ik, base, contract):
    plain = sent(ik, base, contract, [1.0, 1.0, 0.0, 0.0]).messages[ARM].data
    names, factors = list(ik.joints[::-1]), [10.0] * 6 + [-1.0]
    other = sent(ik, base, contract, [1.0, 1.0, 0.0, 0.0], command__joints=names, command__factor=factors)
    assert other.messages[ARM].data == pytest.approx(plain[::-1] * factors)


def test_the_gripper_opens_no_wider_than_it_does(ik, base, contract):
    assert sent(ik, base, contract, [0.0, 0.0, 0.0, 1.0], 0.05).messages[GRIPPER].data == pytest.approx([0.04])
    assert sent(ik, base, contract, [0.0, 0.0, 0.0, -1.0], 0.05).messages[GRIPPER].data == pytest.approx([0.0])


def test_a_trajectory_goes_by_positions_to_where_the_velocities_lead_within_a_period(ik, base, contract):
    velocities = sent(ik, base, contract, [1.0, 0.0, 0.0, 0.0]).messages[ARM].data
    kind = {"command__type": Trajectory.ros, "command__standing": "last"}
    trajectory = sent(ik, base, contract, [1.0, 0.0, 0.0, 0.0], **kind).messages[ARM]
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


def test_elements_are_sent_as_they_are_in_the_controllers_units(contract):
    known = settings(command__action="elements", command__factor=[1.0, 2.0, 3.0, -4.0], command__standing=[0, 0, 0, 1])
    command = Elements(known, 0.04).of(np.float32([1.0, 1.0, -1.0, 0.5]), None, 0.0)
    assert isinstance(command.messages[ARM], Numbers)
    assert command.messages[ARM].data.tolist() == [1.0, 2.0, -3.0, -2.0]
    assert command.executed.tolist() == [1.0, 1.0, -1.0, 0.5]
    assert standing(known, contract).data.tolist() == [0.0, 0.0, 0.0, 1.0]


def test_an_emergency_stop_that_sends_nothing_does_not_count_as_one_that_worked(monkeypatch):
    stop = LastStand()
    with pytest.raises(AdapterError, match=r"nothing was sent: no adapter has said"):
        stop()
    stop._take({"data": None}, [])
    with pytest.raises(AdapterError, match=r"nothing was sent: command\.standing is 'last'"):
        stop()


@pytest.mark.skipif(sys.platform != "linux", reason="watchdogs need Linux")
def test_a_watchdog_that_the_adapter_did_not_reach_has_not_stopped_the_robot():
    with Watchdog("sami_runtime.robots.ros2:emergency_stop", 60.0) as dog:
        assert not dog.fire(wait_s=0.1)
        dog.rearm()
        instruct_watchdogs(KIND, {"data": None})
        dog.beat()
        assert not dog.fire(wait_s=0.1)
