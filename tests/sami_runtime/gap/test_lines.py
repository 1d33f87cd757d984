"""Lines by sensor: a camera's signals are late together, and joints are not."""

import numpy as np
import pytest

from sami_runtime.adapters.around import Gapped
from sami_runtime.adapters.fake import FakeAdapter
from sami_runtime.adapters.panda import PANDA_OBSERVATION
from sami_runtime.clock import ManualClock
from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.gap.gap import Gap
from sami_runtime.gap.profile import GapProfile

PERIOD = 0.04
SIZE = sum(signal.size for signal in PANDA_OBSERVATION)
ENDS = np.cumsum([signal.size for signal in PANDA_OBSERVATION])
WHERE = {s.name: np.arange(end - s.size, end) for s, end in zip(PANDA_OBSERVATION, ENDS, strict=True)}
CAMERA = {
    "sensors": {"camera": ["cube_position", "cube_rotation", "cube_velocity", "cube_angular_velocity"]},
    "same_as": {"achieved_goal": "cube_position"},
}


def ages(seed=0, ticks=60, **profile):
    """How many ticks old each signal is, by its name, (ticks,); the values and the stamps must agree on it."""
    gap = Gap(GapProfile.of(profile), PANDA_OBSERVATION, 4, PERIOD)
    gap.begin(seed)
    observed = [gap.observe(np.full(SIZE, tick, np.float32), float(tick)) for tick in range(ticks)]
    values, stamps = zip(*observed, strict=True)
    now = np.arange(ticks)
    old = {name: now - np.array(values)[:, where[0]] for name, where in WHERE.items()}
    for number, (name, where) in enumerate(WHERE.items()):
        assert (np.array(values)[:, where] == np.array(values)[:, where[:1]]).all()
        if isinstance(stamps[0], np.ndarray):
            np.testing.assert_array_equal(now - np.array(stamps)[:, 1 + number], old[name])
    if isinstance(stamps[0], np.ndarray):
        np.testing.assert_array_equal(now - np.array(stamps)[:, 0], np.max(list(old.values()), 0))
    return old


def test_a_camera_is_late_and_joints_are_not():
    old = ages(**CAMERA, latency_s={"camera": 0.12})
    for name, age in old.items():
        camera = name.startswith("cube") or name == "achieved_goal"
        assert set(age[3:]) == {3 if camera else 0}, name


def test_signals_of_one_sensor_are_drawn_lost_and_late_together_and_apart_from_others():
    mix = {"latency_s": {"camera": [0.0, 0.12], "ee_position": [0.0, 0.04]}, "jitter_s": 0.08, "dropout": 0.3}
    pairs = []
    for seed in range(20):
        old = ages(seed, **CAMERA, **mix)
        for name in ("cube_rotation", "cube_velocity", "achieved_goal"):
            np.testing.assert_array_equal(old[name], old["cube_position"])
        np.testing.assert_array_equal(old["ee_velocity"], old["gripper_width"])
        assert not np.array_equal(old["ee_position"], old["cube_position"])
        assert not np.array_equal(old["ee_velocity"], old["cube_position"])
        pairs.append((old["cube_position"][10:].min(), old["ee_position"][10:].min()))
    assert {late for late, _ in pairs} == {0, 1, 2, 3}
    assert {late for _, late in pairs} == {0, 1}


def test_the_same_seed_gives_the_same_ages():
    mix = {"latency_s": {"camera": [0.0, 0.12]}, "jitter_s": {"camera": 0.08}, "dropout": 0.3}
    first, again, other = (ages(seed, **CAMERA, **mix) for seed in (3, 3, 4))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not all(np.array_equal(first[name], other[name]) for name in first)


def test_a_table_by_sensor_tells_its_errors_too():
    gap = Gap(GapProfile.of({**CAMERA, "bias": {"camera": 0.5, "cube_rotation": 0.1}}), PANDA_OBSERVATION, 4, PERIOD)
    gap.begin(0)
    values, _ = gap.observe(np.zeros(SIZE, np.float32))
    expected = {
        "cube_position": 0.5,
        "cube_velocity": 0.5,
        "cube_rotation": 0.1,
        "achieved_goal": 0.5,
        "ee_position": 0.0,
    }
    for name, bias in expected.items():
        assert values[WHERE[name]] == pytest.approx(bias), name


def test_one_value_for_all_without_sensors_is_one_line_as_it_always_was():
    old = ages(latency_s=[0.0, 0.2], jitter_s=0.08, dropout=0.3)
    first, *rest = old.values()
    assert all(np.array_equal(first, age) for age in rest)


def test_an_adapter_tells_the_time_of_each_signal():
    clock = ManualClock()
    robot = Gapped(FakeAdapter(axes=1, period=0.1, clock=clock), GapProfile(latency_s={"position": 0.2}), rate_hz=10.0)
    robot.reset(seed=0)
    for _ in range(5):
        robot.write(np.zeros(1, np.float32))
        clock.advance(0.1)
        observation = robot.read()
    assert observation.measured("velocity") - observation.measured("position") == pytest.approx(0.2)
    assert observation.time == observation.measured("position")


@pytest.mark.parametrize(
    ("profile", "error", "message"),
    [
        ({"latency_s": {"camra": 0.1}}, UnknownName, "unknown observation signal 'camra'.*'camera'"),
        (
            {"latency_s": {"cube_rotation": 0.1}},
            SamiError,
            "latency_s.cube_rotation: cube_rotation arrives together with camera",
        ),
        (
            {"dropout": {"achieved_goal": 0.1}},
            SamiError,
            "dropout.achieved_goal: achieved_goal arrives together with camera",
        ),
        ({"sensors": {"arm": ["elbow"]}}, UnknownName, "unknown observation signal 'elbow'"),
        ({"sensors": {"ee_position": ["ee_velocity"]}}, SamiError, "sensor 'ee_position' has the name of a signal"),
    ],
)
def test_a_line_that_there_is_not_is_refused(profile, error, message):
    with pytest.raises(error, match=message):
        GapProfile.of(CAMERA | profile).require_fit(PANDA_OBSERVATION)


def test_a_gap_of_size_nothing_is_the_identity_and_of_size_one_the_profile():
    profile = GapProfile.of(
        {"latency_s": [0.1, 0.2], "dropout": 0.9, "bias": 1.0, "noise": 0.1, "stuck_at_s": 0.0, "action_latency_s": 0.2}
    )
    truth = np.random.default_rng(0).normal(size=(30, SIZE)).astype(np.float32)

    def observed(*size):
        gap = Gap(profile, PANDA_OBSERVATION, 4, PERIOD)
        gap.begin(5, *size)
        return np.array([gap.observe(row)[0] for row in truth]), gap.actuate(np.ones(4, np.float32))

    np.testing.assert_array_equal(observed(0.0)[0], truth)
    np.testing.assert_array_equal(observed(0.0)[1], 1.0)
    np.testing.assert_array_equal(observed(1.0)[0], observed()[0])
    assert np.abs(observed(0.5)[0] - truth).mean() < np.abs(observed()[0] - truth).mean()


def test_a_latency_that_changes_within_an_episode_delivers_what_is_under_way_when_it_would_have():
    gap = Gap(GapProfile(bias=10.0), PANDA_OBSERVATION, 4, PERIOD)
    gap.begin(0)
    ticks = []
    for tick in range(30):
        if tick == 10:
            gap.change(GapProfile(latency_s=0.12, bias=99.0))
        if tick == 20:
            gap.change(GapProfile())
        ticks.append(gap.observe(np.full(SIZE, tick, np.float32))[0][0] - 10.0)
    assert ticks[:10] == list(range(10))
    assert ticks[10:20] == [9, 9, 9, *range(10, 17)], "and its sensors err as they did"
    assert ticks[20:] == list(range(20, 30))
    gap.begin(0)
    assert gap.observe(np.zeros(SIZE, np.float32))[0][0] == 10.0
    assert gap.observe(np.ones(SIZE, np.float32))[0][0] == 11.0, "the next episode begins as the profile says"


def test_actions_that_become_late_within_an_episode_leave_the_last_one_standing():
    gap = Gap(GapProfile(), PANDA_OBSERVATION, 1, PERIOD)
    gap.begin(0)
    reached = [float(gap.actuate(np.array([command], np.float32))[0]) for command in (1, 2, 3)]
    gap.change(GapProfile(action_latency_s=0.08))
    reached += [float(gap.actuate(np.array([command], np.float32))[0]) for command in (4, 5, 6, 7)]
    assert reached == [1, 2, 3, 3, 3, 4, 5]


def test_a_change_that_would_part_signals_is_refused():
    gap = Gap(GapProfile.of(CAMERA), PANDA_OBSERVATION, 4, PERIOD)
    gap.begin(0)
    with pytest.raises(SamiError, match="would change which signals arrive together"):
        gap.change(GapProfile(latency_s=0.08))
    gap.change(GapProfile.of(CAMERA | {"latency_s": {"camera": 0.08}}))
