"""Sensor-bias calibration: it removes the bias of known values and nothing else, and rejects what is no bias."""

import numpy as np
import pytest

from sami_runtime.adapters import Gapped, Observation
from sami_runtime.clock import ManualClock
from sami_runtime.errors import AdapterError, SafetyStop, SamiError, UnknownName
from sami_runtime.gap.profile import GapProfile
from sami_runtime.recording.reader import read_recording
from sami_runtime.recording.replay import replay
from sami_runtime.run import Run
from sami_runtime.safety.bias_calibration import BiasCalibration
from sami_runtime.safety.limits import KnownValue, Limits
from sami_runtime.session.session import Session

RATE = 25.0
GOAL = {"goal.x": KnownValue(value=0.5)}
"""The fake's goal is 0.5 after every reset."""


def drive(robot, steps=8):
    """What is read in an episode."""
    robot.reset(seed=3)
    observations = []
    for step in range(steps):
        observations.append(robot.read())
        robot.write(np.full(2, 0.1 * (-1) ** step, np.float32))
    return observations


@pytest.mark.parametrize("bias", [0.03, -0.017])
def test_a_bias_of_what_is_known_is_taken_out_and_all_else_is_as_it_was_to_the_last_bit(arm, bias):
    profile = GapProfile(bias={"goal": bias, "position": 0.02})
    biased_steps = drive(Gapped(arm(), profile, RATE))
    calibrated = drive(BiasCalibration(Gapped(arm(), profile, RATE), GOAL))
    for biased, frame in zip(biased_steps, calibrated, strict=True):
        assert frame.values["goal"] == pytest.approx(0.5, abs=1e-6)
        for name in ("position", "velocity"):
            assert frame.values[name].tobytes() == biased.values[name].tobytes()


def test_a_bias_is_taken_out_of_integers_too_and_not_rounded_off(arm):
    class Counting(arm):
        def read(self):
            frame = super().read()
            return Observation({**frame.values, "goal": np.array([3 + self.reads % 2])}, frame.time)

    robot = BiasCalibration(Counting(), {"goal.x": KnownValue(value=0.0, most=5.0, still=1.0)})
    robot.reset(seed=3)
    assert robot.offsets["goal.x"] == pytest.approx(3.5)
    assert sorted(float(robot.read().values["goal"][0]) for _ in range(2)) == pytest.approx([-0.5, 0.5])


def test_without_a_bias_every_reading_is_the_same_to_the_last_bit(arm):
    for plain, frame in zip(drive(arm()), drive(BiasCalibration(arm(), GOAL)), strict=True):
        for name, value in plain.values.items():
            assert frame.values[name].tobytes() == value.tobytes()


def test_noise_is_averaged_over_the_readings_and_stays_in_the_episode(arm):
    profile, errors, deviations = GapProfile(bias={"goal": 0.03}, noise={"goal": 0.004}), [], []
    for seed in range(30):
        robot = BiasCalibration(Gapped(arm(), profile, RATE), GOAL, readings=16)
        robot.reset(seed)
        errors.append(robot.offsets["goal.x"] - 0.03)
        deviations.append(np.std([robot.read().values["goal"] for _ in range(40)], ddof=1))
    assert np.std(errors) == pytest.approx(0.001, rel=0.5)
    assert abs(np.mean(errors)) < 4 * 0.001 / np.sqrt(30)
    assert np.mean(deviations) == pytest.approx(0.004, rel=0.1)


def test_each_episode_measures_its_own_offset(arm):
    robot = BiasCalibration(Gapped(arm(), GapProfile(bias={"goal": (-0.04, 0.04)}), RATE), GOAL)
    offsets = []
    for seed in range(4):
        robot.reset(seed)
        offsets.append(robot.offsets["goal.x"])
        assert robot.read().values["goal"] == pytest.approx(0.5, abs=1e-6)
    assert len(set(offsets)) == 4


def moving(arm, name, speed):
    """An arm, one of whose signals goes on by so much from one reading to the next."""

    class Moving(arm):
        def read(self):
            frame = super().read()
            return Observation({**frame.values, name: frame.values[name] + np.float32(speed * self.reads)}, frame.time)

    return Moving()


@pytest.mark.parametrize("name", ["goal", "position"])
def test_a_robot_in_motion_is_refused_whatever_it_is_that_moves(arm, name):
    with pytest.raises(AdapterError, match=rf"not at rest: {name}\.x moved by 0.018 m in 10 readings"):
        BiasCalibration(moving(arm, name, 0.002), GOAL).reset()


def test_noise_alone_is_no_motion(arm):
    for seed in range(300):
        BiasCalibration(Gapped(arm(), GapProfile(noise={"goal": 0.005, "position": 0.03}), RATE), GOAL).reset(seed)


def test_a_motion_is_found_behind_noise(arm):
    result = 0
    for seed in range(20):
        robot = BiasCalibration(Gapped(moving(arm, "goal", 0.01), GapProfile(noise={"goal": 0.003}), RATE), GOAL)
        try:
            robot.reset(seed)
        except AdapterError as error:
            result += "not at rest: goal.x moved by" in str(error)
    assert result == 20


def test_an_implausible_offset_is_refused_and_says_what_to_check(arm):
    robot = BiasCalibration(Gapped(arm(), GapProfile(bias={"goal": 0.08}), RATE), GOAL)
    with pytest.raises(AdapterError, match=r"goal.x reads 0.58 at rest, 0.08 off its known value 0.5; at most 0.05"):
        robot.reset(0)
    true_values = {"goal.x": KnownValue(value=0.5, most=0.1)}
    BiasCalibration(Gapped(arm(), GapProfile(bias={"goal": 0.08}), RATE), true_values).reset(0)


def test_noise_that_hides_the_offset_is_refused(arm):
    robot = BiasCalibration(Gapped(arm(), GapProfile(noise={"goal": 0.03}), RATE), GOAL)
    with pytest.raises(AdapterError, match=r"goal.x varies too much at rest: the mean of 10 readings is known within"):
        robot.reset(0)


def test_on_a_robot_readings_are_a_period_apart_and_old_ones_do_not_count(arm):
    clock = ManualClock()

    class Stamping(arm):
        def read(self):
            return Observation(super().read().values, clock.now())

    robot = BiasCalibration(Stamping(clock), GOAL, 5, clock, 0.04)
    robot.reset()
    assert clock.now() == pytest.approx(4 * 0.04)
    with pytest.raises(AdapterError, match="goal gave 1 new readings in 5 periods at rest"):
        BiasCalibration(arm(clock), GOAL, 5, clock, 0.04).reset()


def test_a_sensor_that_says_nothing_finite_is_refused(arm):
    with pytest.raises(AdapterError, match=r"position was .*nan.* while its offset was measured"):
        BiasCalibration(arm(nan_at_reads=(4,)), GOAL).reset()


@pytest.mark.parametrize("value", [[0.5, [1.0]], "0.5", {"x": 0.5}, None], ids=repr)
def test_a_sensor_that_says_no_numbers_is_refused_at_rest_and_passed_on_later(arm, value):
    class Broken(arm):
        def read(self):
            return Observation({**(now := super().read()).values, "goal": self.goal or now.values["goal"]}, now.time)

    robot = BiasCalibration(inner := Broken(), {"goal.x": KnownValue(value=0.48)})
    inner.goal = value or "nothing"
    with pytest.raises(AdapterError, match=r"goal was .* while its offset was measured at rest; expected 1 finite"):
        robot.reset()
    inner.goal = None
    robot.reset()
    inner.goal = value
    assert value is None or robot.read().values["goal"] is value


def test_a_known_element_that_is_not_there_is_refused(arm, make, path):
    with pytest.raises(UnknownName, match=r"unknown element of an observation 'goal.z'"):
        BiasCalibration(arm(), {"goal.z": KnownValue(value=0.0)})
    inner = arm()
    with pytest.raises(UnknownName, match=r"'gaol.x'\. Did you mean 'goal.x'\?.* The limit known names it"):
        Run(Session.load(path), inner, simulator=True, limits=Limits(known={"gaol.x": 0.5}))
    assert inner.resets == 0


def test_a_value_is_written_alone_or_as_a_table(tmp_path):
    file = tmp_path / "limits.toml"
    file.write_text("[known]\ncube.z = 0.02\nhand.x = { value = 0.1, most = 0.02 }\n")
    values = Limits.load(file).known
    assert values == {"cube.z": KnownValue(value=0.02), "hand.x": KnownValue(value=0.1, most=0.02)}
    file.write_text("[known]\ncube.z = nan\n")
    with pytest.raises(SamiError, match=r"known.cube.z: must be a number, and it is nan"):
        Limits.load(file)


def test_a_run_records_the_offsets_and_replays_the_same(arm, path, tmp_path):
    pytest.importorskip("mcap")
    gap, record = GapProfile(bias={"goal": 0.03}, noise={"goal": 0.002}), tmp_path / "run.mcap"
    limits = Limits(known={"goal.x": 0.5}, out_of_bounds="act")
    with Run(Session.load(path), arm(), simulator=True, limits=limits, gap=gap, record=record) as run:
        run.episode(seed=1)
    recording = read_recording(record)
    (offset,) = {step.record.info["zeroed"]["goal.x"] for step in recording.steps}
    assert offset == pytest.approx(0.03, abs=0.003)
    assert recording.about["limits"]["known"]["goal.x"]["value"] == 0.5
    goals = [step.record.observation.values["goal"][0] for step in recording.steps]
    assert np.mean(goals) == pytest.approx(0.5, abs=0.003)
    comparison = replay(recording, Session.load(path))
    assert (comparison.steps, comparison.same) == (10, True)


def test_a_run_that_finds_no_rest_stops_the_robot_and_writes_nothing(arm, path):
    robot = moving(arm, "goal", 0.01)
    limits = Limits(known={"goal.x": 0.5})
    with (
        Run(Session.load(path), robot, simulator=True, limits=limits) as run,
        pytest.raises(AdapterError, match="rest"),
    ):
        run.episode(seed=1)
    assert (robot.writes, robot.stops) == (0, 1)


def test_the_gate_judges_what_was_calibrated(arm, path):
    gap, inside = GapProfile(bias={"goal": 0.04}), {"goal.x": {"range": (0.49, 0.51), "then": "stop"}}
    run = Run(Session.load(path), arm(), simulator=True, limits=Limits(inside=inside), gap=gap)
    with run, pytest.raises(SafetyStop):
        run.episode(seed=1)
    with Run(
        Session.load(path), arm(), simulator=True, limits=Limits(inside=inside, known={"goal.x": 0.5}), gap=gap
    ) as run:
        assert run.episode(seed=1).steps == 10


def test_in_a_dry_run_nothing_is_written_and_the_offsets_are_told(arm, path):
    robot, reports = arm(), []
    limits = Limits(known={"goal.x": 0.48})
    with Run(Session.load(path), robot, simulator=True, limits=limits, dry_run=True) as run:
        run.episode(seed=1, on_step=reports.append)
    assert robot.writes == 0
    assert reports[-1].info["zeroed"]["goal.x"] == pytest.approx(0.02)
