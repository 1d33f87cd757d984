"""The limits of joints: one table of cases, and what is refused before anything moves.

tests/real/test_cpp_joints.py holds the C++ to the same table.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.robots.body import BodyLimits, BodySettings
from sami_runtime.robots.body.joints import extremes

ROOT = Path(__file__).parents[4]
TABLE = ROOT / "tests" / "cases" / "joint_limits.json"
CASES = json.loads(TABLE.read_text(encoding="utf-8"))
ARM = {"command": "joint_positions", "joints": ["a", "b"], "positions": "q"}
SOFT = {**ARM, "velocities": "v", "kp": 20.0, "kd": 0.5, "inertia": 0.1, "torque": {"most": 10.0}}
HAND = {**ARM, "command": "hand", "velocities": "v", "model": "arm.xml", "hand": "tip"}


def body_of(joint, command):
    """The body of one joint of the table."""
    table = {"command": command, "joints": ["j"], "positions": "q", "velocities": "v"}
    table["position"] = {key: joint[key] for key in ("low", "high") if key in joint}
    table |= {key: {"most": joint[key]} for key in ("velocity", "torque") if key in joint}
    return BodyLimits(
        BodySettings.of(table | {key: joint[key] for key in ("kp", "kd", "inertia", "acceleration") if key in joint})
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_python_allows_what_the_table_says(case):
    body, now = body_of(case["joint"], case["command"]), case["now"]
    body.begin(reference=[now["reference"]])
    ruling = body.limit([case["asked"]], [now["position"]], [now["velocity"]], now["period"])
    assert ruling.command.tolist() == [case["allowed"]]
    assert ruling.limited_by == tuple(f"body {rule} j" for rule in case["limited_by"])


def test_a_robot_that_reports_degrees_is_refused_and_nothing_allowed():
    """A joint beyond its range may return, but none is a turn beyond it: shapes and points would be elsewhere."""
    body = BodyLimits(BodySettings.of({**ARM, "position": {"low": -3.0, "high": -0.1}}))
    body.limit([-1.0, -1.0], [-1.0, 0.3], None, 0.01)
    body.begin()
    with pytest.raises(
        SamiError, match=r"b begins at -114\.6, far from its range, -3 to -0\.1\. Give q in rad, not deg"
    ):
        body.limit([-1.0, -1.0], [-1.0, -2.0 * 57.29578], None, 0.01)


@pytest.mark.parametrize("acceleration", [2.0, 20.0])
@pytest.mark.parametrize("period", [0.01, 0.1])
def test_a_joint_that_changes_its_speed_with_the_least_acceleration_comes_to_rest_in_its_range(acceleration, period):
    """It is faster than its command until it has slowed down: random commands led 0.05 rad beyond an end."""
    body = body_of({"low": -1.0, "high": 1.0, "acceleration": acceleration}, "joint_velocities")
    random, place, speed, farthest, steps = np.random.default_rng(0), 0.0, 0.0, 0.0, 50
    for command in np.repeat(random.choice([-3.0, 3.0], 100), random.choice([1, 2, 5, 20], 100)):
        allowed = body.limit([command], [place], [speed], period).command[0]
        for _ in range(steps):
            most = acceleration * period / steps
            change = np.clip(allowed - speed, -most, most)
            place, speed = place + (speed + change / 2) * period / steps, speed + change
            farthest = max(farthest, abs(place))
    assert 0.99 < farthest <= 1.0 + 1e-4


@pytest.mark.parametrize(("kp", "kd", "inertia", "torque"), [(20.0, 0.5, 0.05, 23.7), (60.0, 1.0, 0.3, 60.0)])
def test_badly_damped_soft_motors_without_acceleration_come_to_rest_near_the_ends(kp, kd, inertia, torque):
    """As if they stopped at once, random targets led 0.5 to 1.5 rad beyond an end."""
    gains = {"kp": kp, "kd": kd, "inertia": inertia, "torque": torque}
    body, period, steps = body_of({"low": -1.0, "high": 1.0, **gains}, "joint_positions"), 0.02, 20
    random, place, speed, farthest = np.random.default_rng(0), 0.0, 0.0, 0.0
    for target in np.repeat(random.choice([-1.5, 1.5], 100), random.choice([1, 2, 5, 20], 100)):
        allowed = body.limit([target], [place], [speed], period).command[0]
        for _ in range(steps):
            speed += (kp * (allowed - place) - kd * speed) / inertia * period / steps
            place += speed * period / steps
            farthest = max(farthest, abs(place))
    assert 0.9 < farthest < 1.03


def test_the_table_has_cases_of_every_rule_and_command():
    assert {rule for case in CASES for rule in case["limited_by"]} == {"position", "velocity", "torque"}
    assert {(case["command"], "kp" in case["joint"]) for case in CASES} == {
        *[("joint_velocities", False), ("joint_positions", False), ("joint_positions", True)]
    }


def test_a_command_within_all_limits_is_not_touched():
    body = BodyLimits(BodySettings.of({**ARM, "position": {"low": -1.0, "high": 1.0}, "velocity": {"most": 2.0}}))
    command = np.array([0.01, -0.01])
    assert body.limit(command, [0.0, 0.0], None, 0.02).command is command


@pytest.mark.parametrize("table", [ARM, SOFT], ids=["stiff", "soft"])
def test_targets_of_late_joints_are_one_for_each_joint(table):
    body = BodyLimits(BodySettings.of({**table, "position": {"low": -1.0, "high": 1.0}}))
    ruling = body.limit([5.0, 5.0], [[0.85, 0.85], [0.9, 0.9]], np.zeros((2, 2)), 0.02)
    assert ruling.command.shape == (2,)
    assert 0.85 < ruling.command.max() <= 1.0


def test_then_says_what_happens_beyond_a_limit():
    allowed = {}
    for then in ("scale", "hold", "stop"):
        body = BodyLimits(BodySettings.of({**ARM, "velocity": {"most": 1.0, "then": then}}))
        allowed[then] = body.limit([0.3, 0.0], [0.0, 0.0], None, 0.1)
    assert allowed["scale"].command.tolist() == [0.1, 0.0]
    assert allowed["hold"].command.tolist() == [0.0, 0.0]
    assert allowed["stop"].stop == "body velocity a: 0.3 rad was asked for, allowed are -0.1 to 0.1"
    assert str(allowed["scale"].reasons[0]) == "0.3 rad was asked for, allowed are -0.1 to 0.1"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({**ARM, "speed": 1.0}, "speed: unknown key 'speed'"),
        ({**ARM, "velocity": {"most": {"c": 1.0}}}, "unknown joint 'c'"),
        ({**ARM, "position": {"low": 1.0, "high": -1.0}}, "Exchange low and high"),
        ({**ARM, "command": "torques"}, "'joint_positions', 'joint_velocities' or 'hand'"),
        (
            {**ARM, "velocity": {"most": -1.0}},
            ": velocity.most: input should be greater than 0, and it is -1.0. Correct",
        ),
        (
            {**ARM, "velocity": {"most": {"a": -1.0}}},
            ": velocity.most.a: input should be greater than 0, and it is -1.0. C",
        ),
        ({**ARM, "velocity": 3}, ": velocity: input should be a table, and it is 3"),
        ({**ARM, "kp": 20.0}, "kp and kd belong together"),
        ({**ARM, "kp": 20.0, "kd": 0.5}, "velocities is not"),
        ({**SOFT, "torque": {}}, "nothing says how much torque a has"),
        ({**SOFT, "inertia": {"a": 0.1}}, "the inertia of b is not known"),
        ({**ARM, "torque": {"most": 10.0}}, "torque is limited without kp and kd"),
        ({**ARM, "torque": {"then": "stop"}}, "torque is limited without kp and kd"),
        ({**ARM, "velocity": {"then": "stop"}}, "velocity.then is set, and velocity.most is not"),
        ({**ARM, "command": "joint_velocities"}, "velocities is not"),
        ({**ARM, "command": "hand", "velocities": "v"}, "needs model and hand"),
        (HAND, "needs a finite acceleration of each joint, such as 10.0, not None"),
        ({**HAND, "acceleration": {"a": 10.0}}, "such as 10.0, not {'a': 10.0}"),
        ({**ARM, "points": {"hand": {"most": 1.0}}}, "model is not"),
        ({**ARM, "boxes": {"t": {"low": [0, 0, 1], "high": [1, 1, 0]}}}, "must be below high"),
        ({**ARM, "joints": ["a", "a"]}, "Name each once. The page docs/reference/body.md lists the keys."),
        ({**ARM, "home": [2.0, 0.0], "position": {"low": -1.0, "high": 1.0}}, "a is 2 at home"),
        (ARM, "the body limits nothing"),
    ],
)
def test_a_bad_table_is_refused_in_one_line(table, message):
    with pytest.raises((SamiError, UnknownName)) as refused:
        BodyLimits(BodySettings.of(table, "robot.toml, table body"))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("bad", [([np.nan, 0.0], [0.0, 0.0]), ([0.0], [0.0, 0.0]), ([0.0, 0.0], [np.inf, 0.0])])
def test_numbers_that_are_none_are_refused_and_nothing_is_remembered(bad):
    body = BodyLimits(BodySettings.of({**ARM, "velocity": {"most": 1.0}}))
    with pytest.raises(SamiError, match="finite numbers"):
        body.limit(*bad, None, 0.1)
    assert body.limit([0.3, 0.0], [0.0, 0.0], None, 0.1).command.tolist() == [0.1, 0.0]


def test_a_command_that_is_written_over_does_not_move_the_limits_along():
    body, command = BodyLimits(BodySettings.of({**ARM, "velocity": {"most": 1.0}})), np.array([0.05, 0.0])
    body.limit(command, [0.0, 0.0], None, 0.1)
    command[:] = 3.0
    assert body.limit(command, [0.0, 0.0], None, 0.1).command == pytest.approx([0.15, 0.1])
    body.begin(reference=(reference := np.zeros(2)))
    reference[:] = 3.0
    assert body.limit(command, [0.0, 0.0], None, 0.1).command == pytest.approx([0.1, 0.1])


@pytest.mark.parametrize("reference", [[np.nan, 0.0], [0.0], [0.0, 0.0, 0.0], 0.0])
def test_an_episode_begins_with_no_command_that_the_body_cannot_execute(reference):
    body = BodyLimits(BodySettings.of({**ARM, "velocity": {"most": 1.0}}))
    with pytest.raises(SamiError, match=r"begins with the command .* expected 2 finite numbers"):
        body.begin(reference)
    assert body.limit([3.0, 3.0], [0.0, 0.0], None, 0.1).command.tolist() == [0.1, 0.1]


@pytest.mark.parametrize("least", [0.5, 5.0, 40.0])
def test_extremes_of_late_joints_are_those_of_a_simulation_in_small_steps(least):
    rng, step = np.random.default_rng(0), 1e-4
    for _ in range(40):
        count = int(rng.integers(1, 6))
        starts = np.sort(rng.integers(0, 3000, count)) * step
        now = 0.3
        since = rng.uniform(starts[0], starts[1] if count > 1 else now) // step * step  # those before are dropped
        speeds = np.sort(rng.uniform(-3.0, 3.0, (count, 2, 2)), axis=1)  # by command, side and joint
        place, speed = np.sort(rng.uniform(-1.0, 1.0, (2, 2)), axis=0), np.sort(rng.uniform(-3.0, 3.0, (2, 2)), axis=0)
        commands = list(zip(starts.tolist(), speeds, strict=True))
        actual = extremes(place, speed, commands, since, now, np.full(2, least))
        for time in np.arange(round(since / step), round(now / step)) * step:
            command = speeds[np.flatnonzero(starts <= time + step / 2)[-1]]
            before = [np.minimum(speed[0], command[0]), np.maximum(speed[1], command[1])]
            braked = [
                np.minimum(before[0] + least * step, command[0]),
                np.maximum(before[1] - least * step, command[1]),
            ]
            place, speed = place + step * np.add(before, braked) / 2, np.array(braked)
        assert actual[0] == pytest.approx(place, abs=1e-3)
        assert actual[1] == pytest.approx(speed, abs=0.01)
