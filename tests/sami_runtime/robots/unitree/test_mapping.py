"""Which signal is which measurement, and what an action asks of the motors: all that does not match is refused."""

import numpy as np
import pytest

from sami_runtime import AdapterError
from sami_runtime.robots.unitree.mapping import Go2Mapping
from sami_runtime.robots.unitree.messages import MOTORS, Go2Reading
from sami_runtime.robots.unitree.settings import UnitreeSettings
from tests.making.unitree import JOINTS, NUMBERS, STATE, contract_of, signal

READING = Go2Reading(
    quaternion=np.array([1.0, 0.0, 0.0, 0.0]),
    angular_velocity=np.array([0.1, 0.2, 0.3]),
    angles=np.arange(12.0),
    velocities=-np.arange(12.0),
    tick=1,
    sticks=np.zeros(3),
    stop_pressed=False,
)
FIRST = ("FL_calf", "FL_hip")
LEFT_FIRST = tuple(f"{name}_joint" for name in (*FIRST, *(name for name in JOINTS if name not in FIRST)))


def mapping(*signals, action=None, **changes):
    return Go2Mapping(UnitreeSettings.of({**NUMBERS, **changes}), contract_of(*(signals or STATE), action=action))


def test_signals_come_from_what_the_robot_measures_in_the_models_order_of_joints():
    result = mapping(*STATE[:4], signal("dof_pos", "rad", LEFT_FIRST), signal("dof_vel", "rad/s", JOINTS))
    values = result.observed(READING)
    assert values["angular_velocity"].tolist() == [0.1, 0.2, 0.3]
    assert values["gravity"].tolist() == [0.0, 0.0, -1.0]
    assert values["dof_pos"].tolist()[:4] == [5.0, 3.0, 0.0, 1.0]
    assert values["dof_vel"].tolist() == [-float(at) for at in range(12)]
    assert result.commands == {"commanded_velocity": ["forward", "left"], "commanded_yaw_rate": ["turn"]}
    assert result.last_action is None


def test_an_action_is_an_angle_or_is_scaled_about_the_stance_and_goes_to_the_right_motor():
    scaled = mapping().setpoint(np.float32([1.0] + [0.0] * 11))
    assert scaled.positions[:3].tolist() == [0.25, 0.8, -1.5]
    assert (scaled.kp == 20.0).all()
    action = signal("joint_targets", "rad", LEFT_FIRST)
    direct = mapping(action=action, scale=None, offset=None, kp=[50.0] + [20.0] * 11)
    setpoint = direct.setpoint(np.arange(12, dtype=np.float32))
    assert setpoint.positions[MOTORS.index("FL_calf")] == 0.0
    assert setpoint.positions[MOTORS.index("FL_hip")] == 1.0
    assert setpoint.positions[MOTORS.index("FR_hip")] == 2.0
    assert setpoint.kp[MOTORS.index("FL_calf")] == 50.0


def test_what_the_settings_leave_out_is_read_from_the_model_file():
    go2 = pytest.importorskip("sami_train.envs.go2.entry").GO2
    contract = contract_of(*go2.layout.signals, action=go2.action).model_copy(update={"sheet": go2.sheet})
    result = Go2Mapping(UnitreeSettings.of({}), contract)
    assert result.stand.tolist() == [0.0, 0.8, -1.5] * 4
    setpoint = result.setpoint(np.float32([1.0] * 12))
    assert setpoint.positions[:3] == pytest.approx([0.6, 2.0, -0.83776]), "the calf ends there, in training, too"
    assert (setpoint.kp[0], setpoint.kd[0]) == (20.0, 0.5)
    assert result.last_action == "last_action"
    adopted = {"recipe": {"action": {"default": [0.1] * 12, "kp": 30.0, "kd": 1.0}, "signals": []}}
    contract = contract_of(*STATE, action=signal("targets", "rad", JOINTS))
    result = Go2Mapping(UnitreeSettings.of({}), contract.model_copy(update={"training": {"adopted": adopted}}))
    assert result.stand.tolist() == [0.1] * 12
    assert result.setpoint(np.zeros(12, np.float32)).kp[0] == 30.0


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"kp": -30.0}, "kp of the model file is -30.0, which no motor may get: set settings.kp"),
        ({"kd": [1.0] * 11 + [-1.0]}, "kd of the model file is "),
        ({"default": [0.1] * 11 + [float("nan")]}, "stand of the model file is "),
        ({"kp": "stiff"}, "settings.kp has 0 numbers for 12 joints"),
    ],
)
def test_gains_and_angles_of_a_model_file_are_checked_as_those_of_the_settings(changes, fault):
    """A negative gain drives a joint away from its target."""
    adopted = {"recipe": {"action": {"default": [0.1] * 12, "kp": 30.0, "kd": 1.0, **changes}, "signals": []}}
    contract = contract_of(*STATE).model_copy(update={"training": {"adopted": adopted}})
    with pytest.raises(AdapterError) as refused:
        Go2Mapping(UnitreeSettings.of({"scale": 0.25}), contract)
    assert fault in str(refused.value)


def test_all_that_does_not_match_is_listed():
    height = signal("base_height", "m", ["z"])
    with pytest.raises(AdapterError) as refused:
        mapping(*STATE[:2], height, kp=None, kd=[1.0, 2.0], hold_s=0.03, signals={"gyro": "gravity"}, scale=0.0)
    message = str(refused.value)
    assert "nothing was sent, because 6 thing(s) do not match" in message
    assert "a Go2 does not measure base_height (z). If it is one of angular_velocity, gravity, joint_angles" in message
    assert "settings.signals has gyro, and the model no such signal" in message
    assert "settings.kp is missing, and the model file does not say it" in message
    assert "settings.kd has 2 numbers for 12 joints" in message
    assert "settings.scale has a 0" in message
    assert "settings.hold_s is 0.03 s, and the policy acts every 0.02 s" in message


def test_joints_that_a_go2_does_not_have_are_refused_unless_they_are_declared():
    names = ("front_right_hip", *JOINTS[1:])
    with pytest.raises(AdapterError, match="no joint for front_right_hip") as refused:
        mapping(action=signal("targets", "1", names))
    assert "Declare the names that differ in settings.joints: front_right_hip" in str(refused.value)
    result = mapping(action=signal("targets", "1", names), joints={"front_right_hip": "FR_hip"})
    assert result.setpoint(np.float32([1.0] + [0.0] * 11)).positions[0] == 0.25


def test_a_policy_that_would_leave_motors_limp_is_refused():
    with pytest.raises(AdapterError, match="the policy moves no FR_hip, FL_hip, which would be limp"):
        mapping(action=signal("targets", "1", [name for name in JOINTS if name not in ("FR_hip", "FL_hip")]))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"speed": 1.0}, "speed: unknown key 'speed'. "),
        ({"hz": 1000.0}, "hz: input should be less than or equal to 500"),
        ({"network": "eth0;reboot"}, "network"),
        ({"kp": -1.0}, "kp"),
        ({"damp_kd": 0.0}, "damp_kd: input should be greater than 0"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_valid(changes, fault):
    with pytest.raises(AdapterError, match=r"docs/how-to/unitree\.md") as refused:
        UnitreeSettings.of(changes)
    assert fault in str(refused.value)
