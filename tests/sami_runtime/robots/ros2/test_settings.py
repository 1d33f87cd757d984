"""Settings that cannot be meant are refused with all that is wrong, and settings that do not fit a policy as well."""

import pytest

from sami_runtime import AdapterError, shipped_models
from sami_runtime.model.artifact import read_artifact
from sami_runtime.robots.ros2.command import faults_of_command, standing
from sami_runtime.robots.ros2.sources import faults_of_signals
from tests.making.ros2 import document, settings


@pytest.fixture(scope="module")
def contract():
    return read_artifact(shipped_models()["panda-satesac"]).contract


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"topics__joints__topic": "joint states"}, "topics.joints.topic: string should match"),
        ({"topics__joints__reliability": "sometimes"}, "topics.joints.reliability: input should be 'reliable' or"),
        ({"topics__joints__depth": 0}, "topics.joints.depth: .*, and it is 0"),
        ({"topics__joints__deadline_s": -1.0}, "topics.joints.deadline_s: input should be greater than 0"),
        ({"topics__joints__type": "sensor_msgs/JointState"}, "topics.joints.type: .*sensor_msgs/msg/JointState"),
        ({"topics__joints__speed": 1.0}, "topics.joints.speed: unknown key 'speed'. .*Valid: clock, deadl"),
        ({"topics__joints__typ": "x"}, r"joints.typ: unknown key 'typ'. Did you mean 'type'\? Valid: clock, .*, type"),
        ({"topics__camera__translation": [0.0, float("nan"), 0.0]}, "topics.camera.translation"),
        ({"signals__cube_position__field": "place"}, "signals.cube_position.field"),
        ({"command__standing": None}, "command.standing.*: field required"),
        ({"command__gain": 2.0}, "command.gain: input should be less than or equal to 1"),
        ({"backend": "roscpp"}, "backend: input should be 'auto', 'cyclonedds' or 'rclpy'"),
        ({"domain": 300}, "domain: input should be less than or equal to 232"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_its_name(changes, fault):
    with pytest.raises(AdapterError, match=f"not valid: .*{fault}"):
        settings(**changes)


def test_all_faults_are_told_at_once():
    with pytest.raises(AdapterError, match=r"backend.*heard_s.*command\.gain"):
        settings(backend="x", heard_s=-1, command__gain=0)


def test_the_example_fits_the_shipped_policy(contract):
    example = settings()
    assert faults_of_signals(example, contract.observation) == []
    assert faults_of_command(example, contract) == []
    assert standing(example, contract).data.tolist() == [0.0] * 7


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"signals__cube_position": None}, r"signals.cube_position is missing, and the model reads it: 3 number\(s\)"),
        ({"signals__wrench": {"of": "joints"}}, "signals.wrench: the model reads no such signal"),
        ({"signals__cube_position__of": "lidar"}, "signals.cube_position.of is 'lidar'; the topics are joints, camera"),
        ({"signals__cube_position__field": "effort"}, "/camera/cube has no effort; it has position, rpy"),
        ({"signals__gripper_width__joints": ["a", "b"]}, "signals.gripper_width: joints has 2, and the model reads 1"),
        ({"signals__cube_rotation__factor": [1.0, 2.0]}, "factor has 2 numbers for 3 elements"),
        ({"success__achieved": "cube"}, "success: the model reads no signal cube"),
        ({"kinematics__of": "camera"}, "kinematics.of is 'camera', which is no topic of sensor_msgs/msg/JointState"),
        ({"kinematics": None}, "joint_states has no hand_position; it has position, velocity, effort"),
        ({"kinematics": None}, "command.action is 'hand', which needs kinematics"),
        ({"kinematics__joints": ["panda_joint1"]}, "the model's arm has 7 joints, kinematics.joints 1"),
        ({"command__joints": ["panda_joint1"]}, "command.joints are panda_joint1, and not those of the kinematics"),
        ({"command__factor": [1.0, 1.0]}, "command.factor has 2 numbers for 7"),
        ({"command__deadline_s": 0.04}, "the model acts every 0.04 s, and command.deadline_s promises 0.04"),
        ({"command__type": "trajectory_msgs/msg/JointTrajectory"}, "command.standing of a JointTrajectory is 'last'"),
        (
            {"command__action": "elements", "command__type": "trajectory_msgs/msg/JointTrajectory"},
            "command.joints has 0 names, and the model writes 4 numbers",
        ),
    ],
)
def test_what_does_not_fit_the_policy_is_told(contract, changes, fault):
    import re

    example = settings(**changes)
    reports = [*faults_of_signals(example, contract.observation), *faults_of_command(example, contract)]
    assert any(re.search(fault, item) for item in reports), reports


def test_a_model_file_in_a_package_that_is_not_there_is_told():
    with pytest.raises(AdapterError, match="no Python package no_such_arm"):
        _ = settings(kinematics__model="package://no_such_arm/arm.urdf").kinematics.file


def test_settings_given_twice_are_the_same():
    assert settings() == settings()
    assert document(heard_s=1.0)["heard_s"] == 1.0
