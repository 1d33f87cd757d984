"""Before a Franka is connected to, let alone moved, everything that does not match is told at once."""

import sys

import pytest

from sami_runtime import AdapterError, ManualClock, Session, shipped_models
from sami_runtime.adapters.panda import PANDA_SHEET
from sami_runtime.robots import franka
from sami_runtime.robots.franka.link import HandState
from sami_runtime.robots.franka.requirements import faults_of_contract, faults_of_robot
from sami_runtime.robots.franka.settings import FrankaSettings

CAMERA = {"here": ["127.0.0.1", 47390], "there": ["127.0.0.1", 47391]}
SETTINGS = FrankaSettings.of({"robot": "127.0.0.9", "camera": CAMERA})
HOME = PANDA_SHEET.numbers["home_joints"].values
ARM = {"mode": "Idle", "errors": "[]", "positions": HOME}
HAND = {"width": 0.0, "max_width": 0.08}


@pytest.fixture(scope="module")
def contract():
    return Session.load(shipped_models()["panda-satesac"]).contract


def test_a_shipped_policy_fits(contract):
    assert faults_of_contract(contract, SETTINGS) == []
    assert faults_of_robot(SETTINGS, ARM, HAND, HOME) == []


def test_every_thing_that_does_not_match_is_told_at_once(contract):
    other = contract.observation[0].model_copy(update={"name": "cube_colour"})
    wrong = contract.model_copy(
        update={"observation": (other, *contract.observation[1:]), "rate_hz": 5.0, "sheet": None}
    )
    faults = faults_of_contract(wrong, SETTINGS)
    assert len(faults) == 3
    assert "the model reads cube_colour" in faults[0]
    assert "acts every 0.2 s, and stale_s is 0.12 s" in faults[1]
    assert "data sheet lacks arm_base, home_joints" in faults[2]


def test_a_robot_in_a_fault_far_from_home_or_with_a_hand_that_was_not_homed_is_refused():
    stays = FrankaSettings.of({"robot": "127.0.0.9", "camera": CAMERA, "move_home": False})
    arm = {"mode": "Reflex", "errors": "[joint_reflex]", "positions": [3.0, *HOME[1:]]}
    faults = faults_of_robot(stays, arm, {"width": 0.0, "max_width": 0.0}, HOME)
    assert len(faults) == 4
    assert "the mode Reflex" in faults[0]
    assert "recover" in faults[0]
    assert "joint1 is beyond its end" in faults[1]
    assert "joint1 is 3 rad from home" in faults[2]
    assert "have it home in Desk" in faults[3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"robt": "x"}, r"robt: unknown key 'robt'. Did you mean 'robot'\? Valid: camera, "),
        ({"motion": {"jerk": 6000.0}}, "motion.jerk: input should be less than or equal to 5000, and it is 6000"),
        ({"motion": {"acceleration": 11.0}}, "motion.acceleration"),
        ({"realtime": "maybe"}, "realtime"),
        ({"workspace": {"low": [0.5, 0.0, 0.0]}}, "exchange them"),
    ],
)
def test_settings_that_are_not_valid_are_told_with_their_value(changes, message):
    with pytest.raises(AdapterError, match=message):
        FrankaSettings.of({"robot": "127.0.0.9", "camera": CAMERA, **changes})


def test_a_missing_library_is_named_with_the_extra(contract, monkeypatch):
    monkeypatch.setitem(sys.modules, "pylibfranka", None)
    monkeypatch.setattr(franka.importlib.util, "find_spec", lambda name: None if name == "pylibfranka" else object())
    with pytest.raises(AdapterError, match=r"needs the package pylibfranka.*\[franka\]"):
        franka.make(ManualClock(), contract, {"robot": "127.0.0.9", "camera": CAMERA})


def test_the_width_of_a_hand_that_moves_is_reckoned_until_it_is_told():
    pytest.importorskip("mink")
    from sami_runtime.robots.franka.adapter import reckoned

    closing = HandState(measured=10.0, width=0.08, speed=-0.1, target=0.0, grasped=False, commands=1)
    assert reckoned(closing, 10.3) == (pytest.approx(0.05), 10.3)
    assert reckoned(closing, 11.5) == (pytest.approx(0.0), 11.5)
    assert reckoned(closing._replace(speed=0.0), 12.0) == (0.08, 10.0)
