"""What is refused before LeRobot is asked for anything: settings that are not valid, and names that nobody has."""

import sys

import pytest

from sami_runtime import AdapterError
from sami_runtime.errors import UnknownName
from tests.making.lerobot import KEYS, so101


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"speed": 1.0}, "speed: unknown key 'speed'. "),
        ({"action__standing": None}, "action.standing: field required"),
        ({"action__mode": "delta"}, "action.mode: input should be 'absolute' or 'relative', and it is 'delta'"),
        ({"action__factor": float("nan")}, "action.factor"),
        ({"observation__angles__constant": [0.0] * 6}, "needs exactly one of keys, velocity_of and constant"),
        ({"observation__goal": {}}, "needs exactly one of keys, velocity_of and constant, and has none of them"),
        ({"observation__angles__unit": None}, "needs the unit of the robot's numbers beside keys"),
        ({"observation__velocities__unit": "deg"}, "has unit beside velocity_of"),
    ],
)
def test_a_wrong_key_is_named_with_what_is_valid(adapter, changes, fault):
    with pytest.raises(AdapterError, match=r"docs/how-to/lerobot\.md") as refused:
        adapter(so101(**changes))
    assert fault in str(refused.value)


def test_an_unknown_type_is_refused_with_those_there_are_and_what_could_not_be_imported(adapter):
    with pytest.raises(UnknownName) as refused:
        adapter(so101(type="so101_folower"))
    message = str(refused.value)
    assert "unknown robot of LeRobot 'so101_folower'. Did you mean 'so101_follower'?" in message
    assert "Valid: bare_base, so101_follower." in message
    assert "lerobot_robot_broken (ModuleNotFoundError: No module named 'a_driver_that_nobody_has')" in message


def test_no_plugin_is_imported_for_a_robot_of_lerobots_own(adapter):
    adapter(so101())
    assert "lerobot_robot_bare" not in sys.modules


def test_a_robot_of_a_module_that_nobody_finds_is_named_by_it(adapter):
    with pytest.raises(AdapterError, match=r"settings\.module cannot be imported: robots_of_nobody"):
        adapter(so101(type="mine", module="robots_of_nobody"))


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        (
            {"port": "/dev/ttyACM0", "speed": 3},
            r"`speed` are not valid.* It has the fields .*max_relative_target.*port",
        ),
        ({}, "Missing required field.* `port`"),
        ({"port": "/dev/busy"}, "LeRobot cannot make so101_follower: ImportError: 'feetech-servo-sdk' is required"),
        ({"port": "/dev/none"}, "does not connect: ConnectionError: .*Is it on"),
    ],
)
def test_what_lerobot_refuses_is_said_with_the_place_in_the_settings(adapter, config, fault):
    with pytest.raises(AdapterError, match=fault):
        adapter(so101(config=config))


def test_where_lerobot_is_not_installed_the_message_says_how_to_install_it(adapter, monkeypatch):
    monkeypatch.setitem(sys.modules, "lerobot", None)
    monkeypatch.setitem(sys.modules, "lerobot.robots", None)
    with pytest.raises(AdapterError, match=r"LeRobot cannot be imported.*pip install lerobot"):
        adapter(so101())


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"observation__angles__keys": ["shoulder_pam.pos", *KEYS[1:]]}, "has 'shoulder_pam.pos'; the robot observes"),
        ({"observation__angles__keys": KEYS[:5]}, "observation.angles.keys has 5 entries for 6 elements"),
        ({"observation__angles__keys": [KEYS[1], *KEYS[1:]]}, "has 'shoulder_lift.pos' twice"),
        ({"observation__goal": None}, "settings.observation lacks 'goal', which the model reads"),
        ({"observation__speed": {"constant": [0.0]}}, "has 'speed', which the model does not read"),
        ({"observation__goal__constant": [0.0]}, "observation.goal.constant has 1 entries for 6"),
        ({"observation__velocities__velocity_of": "goal"}, "velocity_of is 'goal', which is no signal with keys"),
        ({"observation__goal": {"velocity_of": "angles"}}, "is in rad, and a velocity of angles in rad/s"),
        (
            {"observation__angles__factor": None},
            "angles.factor is missing, from deg to rad, which is 0.0174533, for shoulder_pan.pos, sho",
        ),
        (
            {"observation__angles__factor": [0.02] * 6},
            "factor is 0.02, and not that from deg to rad, which is 0.0174533, for shoulder_pan",
        ),
        ({"observation__angles__factor": [0.0175] * 5}, "observation.angles.factor has 5 entries for 6 keys"),
        ({"observation__angles__unit": "rad"}, "unit says rad, and the robot has deg, for shoulder_pan.pos"),
        ({"config__use_degrees": False}, "unit says deg, and the robot has %, for shoulder_pan.pos"),
        ({"action__keys": [*KEYS[:5], "grip.pos"]}, "action.keys has 'grip.pos'; the robot takes shoulder_pan.pos"),
        ({"action__keys": [*KEYS[:5], "grip.pos"]}, "the robot also takes gripper.pos: put each into action.others"),
        ({"action__factor": None}, "action.factor is missing, from rad to %, for gripper.pos"),
        (
            {"action__factor": [0.0174533] * 6},
            "action.factor is 0.0174533, and not that from rad to deg, which is 57.2958",
        ),
        ({"action__factor": [57.3] * 5 + [0.0]}, "action.factor is 0, for gripper.pos"),
        ({"action__standing": [0.0]}, "action.standing has 1 entries for 6"),
        ({"action__others": {"lamp": 1.0}}, "action.others has 'lamp', which the robot does not take"),
        ({"action__others": {"gripper.pos": 1.0}}, "'gripper.pos' is both in action.keys and in action.others"),
    ],
)
def test_what_does_not_match_the_robot_is_refused_before_it_is_connected(adapter, monkeypatch, changes, fault):
    from lerobot.robots import so_follower

    monkeypatch.setattr(so_follower.SOFollower, "connect", lambda *_, **__: pytest.fail("it was connected"))
    with pytest.raises(AdapterError, match="nothing was moved, because") as refused:
        adapter(so101(**changes))
    assert fault in str(refused.value)


def test_all_that_does_not_match_is_said_at_once(adapter):
    with pytest.raises(AdapterError, match="because 4 thing") as refused:
        adapter(so101(observation__angles__factor=None, action__factor=None))
    for fault in ("from deg to rad", "from % to rad", "from rad to deg", "from rad to %"):
        assert f"factor is missing, {fault}" in str(refused.value)


def test_a_picture_is_no_number(adapter):
    settings = so101(config__cameras={"front": {}}, observation__angles__keys=[*KEYS[:5], "front"])
    with pytest.raises(AdapterError, match=r"has 'front', which is no number but an array \(480, 640, 3\)"):
        adapter(settings)


def test_an_axis_may_be_flipped(adapter):
    flipped = adapter(so101(observation__angles__factor=[-0.01745] * 5 + [0.02]))
    assert flipped.read().values["angles"][0] == pytest.approx(-0.1745)
