"""A robot of LeRobot is driven by its own names and units; it is never calibrated, and rests in the end."""

import os
from pathlib import Path

import numpy as np
import pytest

from sami_runtime import AdapterError, Run, Session
from sami_runtime.files import read_document
from sami_runtime.signals import Signal
from tests.making.lerobot import DEGREE, GOAL, KEYS, SERVO, TARGETS, Servo, so101

PAGE = Path(__file__).parents[4] / "docs/how-to/lerobot.md"
BASE = {
    "observation": (
        Signal(name="place", size=1, unit="m", elements=("x",), low=(None,), high=(None,)),
        Signal(name="tilt", size=1, unit="rad", elements=("t",), low=(None,), high=(None,)),
    ),
    "action": Signal(name="move", size=2, unit="1", elements=("v", "t"), low=(-1.0,) * 2, high=(1.0,) * 2),
}
"""Of a contract: a base that drives and tilts."""


def base(**changes):
    """Settings of the plugin's base."""
    action = {"keys": ["x.vel", "tilt.pos"], "unit": ["m/s", "rad"], "factor": [0.5, 0.1]}
    return {
        "type": "bare_base",
        "observation": {
            "place": {"keys": ["x.pos"], "unit": "m"},
            "tilt": {"keys": ["tilt.pos"], "unit": "rad"},
        },
        "action": action | {"standing": [0.0, 0.3], "others": {"lamp": 1.0}} | changes,
    }


def test_numbers_come_in_the_models_units_and_go_in_the_robots(adapter):
    arm = adapter(so101())
    arm.reset()
    values = arm.read().values
    assert values["angles"] == pytest.approx([10.0 * DEGREE] * 5 + [10.0 * 0.02 - 0.2])
    assert values["goal"] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    executed = arm.write(np.float32([0.5, -0.5, 0.0, 0.1, 0.2, 1.0]))
    goals = dict(zip(KEYS, [28.64789, -28.64789, 0.0, 5.729578, 11.459156, 60.0], strict=True))
    assert arm.robot.calls[-1] == pytest.approx(goals)
    assert executed.action.tolist() == np.float32([0.5, -0.5, 0.0, 0.1, 0.2, 1.0]).tolist(), "to the bit"


def test_what_the_robot_made_of_an_action_is_what_was_executed(adapter):
    arm = adapter(so101(config__max_relative_target=5.0))
    arm.reset()
    arm.read()
    executed = arm.write(np.float32([1.0, 0.2, 10.1 * DEGREE, 0.0, 0.0, 0.0])).action
    limited = [15.0 * DEGREE, 0.2, 10.1 * DEGREE, 5.0 * DEGREE, 5.0 * DEGREE, 0.0]
    assert executed == pytest.approx(limited, abs=1e-6)


def test_a_relative_action_goes_from_what_was_read_last(adapter):
    arm = adapter(so101(action__mode="relative", action__offset=0.0))
    arm.reset()
    arm.read()
    arm.write(np.float32([0.1, -0.1, 0.0, 0.0, 0.0, 0.0]))
    assert arm.robot.positions["shoulder_pan"] == pytest.approx(10.0 + 5.729578)
    arm.write(np.float32([0.1, -0.1, 0.0, 0.0, 0.0, 0.0]))
    assert arm.robot.positions["shoulder_pan"] == pytest.approx(15.729578), "nothing was read in between"
    arm.read()
    arm.write(np.float32([0.1, 0.0, 0.0, 0.0, 0.0, 0.0]))
    assert arm.robot.positions["shoulder_pan"] == pytest.approx(21.459156)


def test_velocities_that_the_robot_does_not_have_are_the_slope_of_its_positions(adapter, clock):
    arm = adapter(so101())
    arm.reset()
    assert arm.read().values["velocities"].tolist() == [0.0] * 6
    arm.robot.positions["elbow_flex"] += 3.0
    clock.advance(0.1)
    observation = arm.read()
    assert observation.values["velocities"] == pytest.approx([0.0, 0.0, 30.0 * DEGREE, 0.0, 0.0, 0.0], abs=1e-6)
    assert observation.time == clock.now()
    arm.reset()
    assert arm.read().values["velocities"].tolist() == [0.0] * 6, "an episode begins at rest"


def test_an_observation_is_stamped_when_it_was_asked_for(adapter, clock, monkeypatch):
    arm = adapter(so101())
    near = arm.robot.get_observation

    def slow():
        clock.advance(0.02)
        return near()

    monkeypatch.setattr(arm.robot, "get_observation", slow)
    start = clock.now()
    assert arm.read().time == start


def test_nothing_is_calibrated_and_an_uncalibrated_robot_is_refused_with_the_command(adapter):
    assert adapter(so101()).robot.calls[0] == "connect(calibrate=False)"
    with pytest.raises(AdapterError, match="not calibrated") as refused:
        adapter(so101(config__calibrated=False))
    command = "lerobot-calibrate --robot.type=so101_follower --robot.port=/dev/ttyACM0 --robot.id=white"
    assert command in str(refused.value)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_a_second_program_on_the_port_is_refused_before_it_connects(adapter, monkeypatch):
    from lerobot.robots import so_follower

    ends = os.openpty()
    path = os.ttyname(ends[1])
    settings = so101(config__port=path)
    first = adapter(settings)
    with monkeypatch.context() as patch:
        patch.setattr(so_follower.SOFollower, "connect", None)  # to connect releases the motors
        with pytest.raises(AdapterError, match=f"another program drives so101_follower: it has locked {path}"):
            adapter(settings)
    first.close()
    adapter(settings).close()
    for end in ends:
        os.close(end)


def test_an_uncalibrated_robot_is_disconnected(adapter, monkeypatch):
    from lerobot.robots import so_follower

    robots, begin = [], so_follower.SOFollower.connect
    monkeypatch.setattr(so_follower.SOFollower, "connect", lambda arm, **_: (robots.append(arm), begin(arm, False)))
    with pytest.raises(AdapterError):
        adapter(so101(config__calibrated=False))
    assert robots[0].calls[-1] == "disconnect"


@pytest.mark.parametrize("calibrated", [True, False])
def test_a_plugin_that_would_calibrate_itself_does_not(adapter, monkeypatch, calibrated):
    import lerobot_robot_bare

    robots, begin = [], lerobot_robot_bare.BareBase.connect
    monkeypatch.setattr(lerobot_robot_bare.BareBase, "connect", lambda robot: (robots.append(robot), begin(robot)))
    if calibrated:
        adapter(base(), **BASE)
    else:
        with pytest.raises(AdapterError, match="bare_base is not calibrated"):
            adapter(base() | {"config": {"calibrated": False}}, **BASE)
    assert not robots[0].was_calibrated


def test_a_plugin_gets_all_its_keys_and_may_return_nothing(adapter):
    robot = adapter(base(), **BASE)
    robot.reset()
    robot.read()
    assert robot.write(np.float32([0.5, -1.0])).action.tolist() == [0.5, -1.0]
    assert robot.robot.actions == [{"x.vel": 0.25, "tilt.pos": pytest.approx(-0.1), "lamp": 1.0}]


def test_a_key_that_is_held_stays_where_it_was_when_the_episode_began(adapter):
    narrow = {
        "action": BASE["action"].model_copy(update={"size": 1, "elements": ("v",), "low": (-1.0,), "high": (1.0,)})
    }
    action = {"keys": ["x.vel"], "unit": "m/s", "factor": 0.5, "standing": 0.0}
    robot = adapter(base(**action, others={"tilt.pos": "hold", "lamp": 0.0}), **(BASE | narrow))
    robot.reset()
    robot.read()
    robot.robot.observation["tilt.pos"] = 0.2
    robot.read()
    robot.write(np.float32([1.0]))
    assert robot.robot.actions[-1]["tilt.pos"] == 0.3, "it does not creep after what it sags"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"mode": "relative"}, "action.mode is 'relative', and the robot does not observe lamp"),
        ({"standing": "hold"}, "action.standing is 'hold', and the robot does not observe lamp"),
    ],
)
def test_what_is_not_observed_can_neither_be_held_nor_moved_from(adapter, changes, fault):
    action = {"keys": ["x.vel", "lamp"], "unit": ["m/s", "1"], "others": {"tilt.pos": "hold"}}
    with pytest.raises(AdapterError, match=fault):
        adapter(base(**(action | changes)), **BASE)


def test_the_robot_rests_in_the_end_by_what_it_is_told_to(adapter):
    robot = adapter(base(), **BASE)
    robot.reset()
    robot.read()
    robot.write(np.float32([1.0, 1.0]))
    robot.stop()
    assert robot.robot.actions[-1] == {"x.vel": 0.0, "tilt.pos": 0.3, "lamp": 1.0}
    count = len(robot.robot.actions)
    robot.stop()
    robot.close()
    robot.close()
    assert len(robot.robot.actions) == count, "what rests is not told again"
    assert not robot.robot.is_connected


def test_positions_stay_where_they_are_in_the_end(adapter):
    arm = adapter(so101(config__max_relative_target=1.0))
    arm.reset()
    arm.read()
    arm.write(np.float32([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
    arm.close()
    *_, last, end = arm.robot.calls
    assert (last, end) == (pytest.approx(dict(zip(KEYS, [11.0, *[9.0] * 4, 9.0 + 1.0], strict=True))), "disconnect")


def test_the_arm_is_stopped_even_where_it_cannot_be_read_any_more(adapter, monkeypatch):
    arm = adapter(so101())
    arm.reset()
    arm.read()
    arm.write(np.float32([0.0] * 6))

    def fails():
        raise ConnectionError("no status packet")

    monkeypatch.setattr(arm.robot, "get_observation", fails)
    arm.stop()
    assert arm.robot.calls[-1] == dict.fromkeys(KEYS, 10.0), "where it was when it was read last"


def test_the_arm_is_stopped_where_its_driver_leaves_a_joint_out(adapter, monkeypatch):
    arm = adapter(so101())
    arm.reset()
    arm.read()
    arm.write(np.float32([0.5] * 6))
    goals, near = arm.robot.calls[-1], arm.robot.get_observation
    monkeypatch.setattr(arm.robot, "get_observation", lambda: {"elbow_flex.pos": near()["elbow_flex.pos"]})
    with pytest.raises(AdapterError, match="returned no"):
        arm.read()
    arm.stop()
    assert arm.robot.calls[-1] == goals, "where it was sent last"


def test_no_motor_is_told_to_go_to_nan(adapter):
    arm = adapter(so101())
    arm.reset()
    arm.read()
    arm.write(np.float32([0.5] * 6))
    arm.robot.positions["wrist_roll"] = np.nan
    arm.stop()
    assert arm.robot.calls[-1]["wrist_roll.pos"] == pytest.approx(28.64789), "its last goal"


@pytest.mark.parametrize("holds", [False, True])
def test_no_key_is_sent_to_nan_that_the_model_does_not_read(adapter, holds):
    size = 1 if holds else 2
    action = BASE["action"].model_copy(
        update={"size": size, "elements": ("v", "t")[:size], "low": (-1.0,) * size, "high": (1.0,) * size}
    )
    if holds:
        table = {"keys": ["x.vel"], "unit": "m/s", "factor": 0.5, "standing": 0.0}
        settings = base(**table, others={"tilt.pos": "hold", "lamp": 0.0})
    else:
        settings = base(mode="relative")
    del settings["observation"]["tilt"]
    robot = adapter(settings, observation=BASE["observation"][:1], action=action)
    robot.reset()
    robot.robot.observation["tilt.pos"] = np.nan
    assert np.isfinite(robot.read().values["place"]).all()
    with pytest.raises(AdapterError, match="nothing was sent, because it was not finite"):
        robot.write(np.float32([1.0] * size))
    robot.stop()
    assert robot.robot.actions == []


def test_an_arm_whose_encoder_fails_in_a_relative_action_is_stopped_at_its_last_goal(adapter):
    arm = adapter(so101(action__mode="relative", action__offset=0.0))
    arm.reset()
    arm.read()
    arm.write(np.float32([0.1] * 6))
    goals = arm.robot.calls[-1]
    arm.robot.positions["wrist_roll"] = np.nan
    arm.read()
    with pytest.raises(AdapterError, match="nothing was sent"):
        arm.write(np.float32([0.1] * 6))
    arm.stop()
    assert arm.robot.calls[-1] == goals


def test_nothing_is_sent_to_a_robot_that_was_only_read(adapter):
    arm = adapter(so101())
    arm.reset()
    arm.read()
    arm.stop()
    arm.close()
    assert arm.robot.calls == ["connect(calibrate=False)", "get_observation", "disconnect"]


def test_a_driver_that_breaks_its_promise_is_named(adapter, monkeypatch):
    arm = adapter(so101())
    arm.reset()
    for returned, fault in (
        (
            {"shoulder_pan.pos": 1.0},
            r"get_observation .* returned no 'shoulder_lift.pos'.*it returned shoulder_pan.pos",
        ),
        (dict.fromkeys(KEYS, "far"), "returned 'far' for 'shoulder_pan.pos', which is no number"),
    ):
        monkeypatch.setattr(arm.robot, "get_observation", lambda returned=returned: returned)
        with pytest.raises(AdapterError, match=fault):
            arm.read()
    monkeypatch.undo()
    arm.read()
    for returned, fault in ((7, "returned int"), (dict.fromkeys(KEYS, np.nan), r"returned \[nan, nan")):
        monkeypatch.setattr(arm.robot, "send_action", lambda _, returned=returned: returned)
        with pytest.raises(AdapterError, match=fault):
            arm.write(np.zeros(6, np.float32))


def test_a_reading_that_is_not_finite_reaches_the_gate_and_not_the_slope(adapter, clock):
    arm = adapter(so101())
    arm.reset()
    arm.read()
    arm.robot.positions["wrist_roll"] = np.nan
    clock.advance(0.1)
    broken = arm.read().values
    assert np.isnan(broken["angles"][4])
    assert np.isnan(broken["velocities"]).all()
    arm.robot.positions["wrist_roll"] = 13.0
    clock.advance(0.2)
    assert arm.read().values["velocities"][4] == pytest.approx(10.0 * DEGREE)


def test_a_robot_that_is_not_connected_any_more_is_an_error_and_not_a_held_tick(adapter):
    arm = adapter(so101())
    arm.reset()
    arm.robot.is_connected = False
    for call in (arm.reset, arm.read, lambda: arm.write(np.zeros(6, np.float32))):
        with pytest.raises(AdapterError, match="is not connected"):
            call()


def test_a_moving_robot_that_is_not_connected_any_more_is_not_taken_for_stopped(adapter, make, clock, monkeypatch):
    arm = adapter(so101())

    def no_packet(action):
        raise ConnectionError("SOFollower is not connected.")

    def unplug(record):
        arm.robot.is_connected = False
        monkeypatch.setattr(arm.robot, "send_action", no_packet)

    fails = pytest.raises(AdapterError, match=r"stop\(\) failed twice.*press its emergency stop")
    with Run(Session.load(make.write(Servo(), **SERVO)), arm, clock) as run, fails:
        run.episode(0, 20, unplug)
    arm.close()


@pytest.mark.skipif(not PAGE.exists(), reason="docs are not here, where a wheel is tested")
def test_the_settings_of_the_page_fit_an_so101(adapter, tmp_path):
    (tmp_path / "robot.toml").write_text(PAGE.read_text().partition("```toml\n")[2].partition("```")[0])
    settings = read_document(tmp_path / "robot.toml", "settings")["settings"]
    settings["observation"]["goal"] = {"constant": [0.0] * 6}
    arm = adapter(settings)
    arm.reset()
    assert arm.read().values["angles"] == pytest.approx([10.0 * DEGREE] * 5 + [0.0], abs=1e-5)
    assert arm.write(np.float32([0.2] * 6)).action == pytest.approx([0.2] * 6), "within 10 degrees, and to the bit"


def test_a_policy_drives_an_so101_to_its_goal_at_30_hz(adapter, make, clock):
    session = Session.load(make.write(Servo(), **SERVO))
    arm = adapter(so101())
    with Run(session, arm, clock) as run:
        report = run.episode(0, 20)
    assert report.steps == 20
    angles = arm.read().values["angles"]
    assert angles == pytest.approx(so101()["observation"]["goal"]["constant"], abs=1e-3)
    assert clock.now() == pytest.approx(20 / 30.0, abs=1 / 30.0)
    assert (GOAL.size, TARGETS.size) == (6, 6)
