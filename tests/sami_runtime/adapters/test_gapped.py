"""The hook that applies a sim-to-real profile: it is an adapter, and loop and gate see delays as on a robot."""

import re
from dataclasses import replace

import numpy as np
import pytest

from sami_runtime import (
    FakeAdapter,
    Gapped,
    GapProfile,
    Limits,
    ManualClock,
    Observation,
    SafetyGate,
    Session,
    run_episode,
)
from sami_runtime.errors import AdapterError, SafetyStop, UnknownName

RATE = 25.0


@pytest.fixture
def session(make):
    return Session.load(make.write(make.recurrent()))


def drive(session, arm, profile, limits=None, steps=10, **options):
    """Every tick of an episode through the gap, and the adapter behind."""
    clock, records = ManualClock(), []
    inner_robot = arm(clock=clock)
    robot = Gapped(inner_robot, GapProfile.of(profile), RATE, options.get("loop_hz"))
    gate = SafetyGate(robot, session.contract, Limits(**(limits or {})))
    try:
        run_episode(session, robot, 0, steps, clock=clock, on_step=records.append, gate=gate, **options)
    except SafetyStop as stop:
        return records, inner_robot, str(stop)
    return records, inner_robot, ""


def test_with_an_empty_profile_a_loop_is_what_it_was_to_the_last_bit(session, arm):
    with_gap, inner_robot, _ = drive(session, arm, {})
    clock, without = ManualClock(), []
    bare = arm(clock=clock)
    run_episode(session, bare, 0, 10, clock=clock, on_step=without.append)
    for step, other in zip(with_gap, without, strict=True):
        assert step.executed.tobytes() == other.executed.tobytes()
        assert step.context.tobytes() == other.context.tobytes()
        assert step.observation.time == other.observation.time
        for name, value in other.observation.values.items():
            assert step.observation.values[name].tobytes() == value.tobytes()
    assert np.array(inner_robot.written).tobytes() == np.array(bare.written).tobytes()


def test_before_an_episode_observations_are_those_of_the_adapter(arm):
    robot = Gapped(arm(clock=ManualClock()), GapProfile.of({"latency_s": 0.04, "noise": {"position": 9.0}}), RATE)
    robot.inner.reset(0)
    assert robot.read().values["position"].tobytes() == robot.inner.read().values["position"].tobytes()


def test_the_gate_sees_how_old_an_observation_is_that_dropout_left_standing(session, arm):
    records, _, stop = drive(session, arm, {"dropout": 1.0}, {"max_age_s": 0.1, "stop_after": 4})
    assert [record.outcome.value for record in records] == ["acted"] * 3 + ["held"] * 4
    assert records[3].reason.startswith("age: the observation was measured 0.12 s before now")
    assert stop.startswith("no new action at 4 ticks in a row (stop_after), lastly: age")


def test_a_latency_of_the_limit_is_not_beyond_it(session, arm):
    # The fake stamps when it is written to, one period before the next read.
    records, _, stop = drive(session, arm, {"latency_s": 2 / RATE}, {"max_age_s": 3 / RATE}, steps=200)
    assert not stop
    assert {record.outcome.value for record in records} == {"acted"}


def test_the_gate_catches_a_stuck_sensor(session, arm):
    records, _, stop = drive(session, arm, {"stuck_at_s": {"position": 0.08}}, {"frozen": {"position": 3}}, steps=20)
    assert [record.outcome.value for record in records[:5]] == ["acted"] * 4 + ["held"]
    assert records[4].reason == "frozen: position had the same value 3 times, allowed are 2 (frozen.position)"
    assert "stop_after" in stop


def test_times_by_signal_arrive_with_their_message_by_the_clock_of_the_gap(arm):
    class Cameras(arm):
        def read(self):
            observation = super().read()
            return replace(observation, times={"goal": observation.time - 0.5})

    clock = ManualClock()
    robot = Gapped(Cameras(clock), GapProfile(latency_s=1 / RATE, clock_offset_s=3.0, clock_skew=0.01), RATE)
    robot.reset(0)
    observations = []
    for _ in range(3):
        observations.append(robot.read())
        clock.advance(1 / RATE)
        robot.write(np.zeros(2, np.float32))
    assert [item.time for item in observations] == pytest.approx([3.0, 3.0, 3.0 + 1.01 / RATE])
    assert [item.measured("goal") for item in observations] == pytest.approx([2.5, 2.5, 2.5 + 1.01 / RATE])
    assert [item.measured("position") for item in observations] == [item.time for item in observations]


def test_a_clock_that_is_ahead_makes_observations_untrustworthy(session, arm):
    records, _, _ = drive(session, arm, {"clock_offset_s": 1.0})
    assert records[0].reason.startswith("age: ")


def test_the_policy_is_told_the_command_that_was_sent_and_the_world_gets_what_the_actuator_reached(session, arm):
    records, inner_robot, _ = drive(session, arm, {"action_latency_s": 1 / RATE, "actuator_lag_s": 0.1})
    applied = np.array([record.executed for record in records])
    np.testing.assert_array_equal(applied, [record.action for record in records])
    decay = np.exp(-1 / RATE / 0.1)
    reached, expected = np.zeros(2), []
    for command in [np.zeros(2), *applied[:-1]]:
        reached = command + decay * (reached - command)
        expected.append(reached)
    np.testing.assert_allclose(inner_robot.written, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose([record.info["actuated"] for record in records], inner_robot.written)


def test_a_command_beyond_the_bounds_is_sent_as_far_as_they_go():
    robot = Gapped(FakeAdapter(axes=1, limit=0.5), GapProfile(action_latency_s=0.04), RATE)
    robot.reset(0)
    assert robot.write(np.float32([7.0])).action == np.float32([0.5])
    assert robot.inner.written[-1] == np.float32([0.0])


def test_in_a_faster_loop_actions_lag_by_its_period_and_observations_by_the_policys(session, arm):
    profile = {"action_latency_s": 0.02, "latency_s": 0.04}
    records, inner_robot, _ = drive(session, arm, profile, {"max_age_s": 1.0}, loop_hz=100.0)
    applied = np.array([record.executed for record in records])
    np.testing.assert_array_equal(np.array(inner_robot.written)[2:], applied[:-2])
    observations = [record.observation for record in records if record.observation is not None]
    assert len(observations) == 10
    assert observations[0].time == observations[1].time < observations[2].time


def test_stopping_is_immediate_and_does_not_wait_for_what_is_under_way():
    robot = Gapped(FakeAdapter(axes=1), GapProfile(action_latency_s=1.0, actuator_lag_s=1.0), RATE)
    robot.stop()
    robot.reset(0)
    robot.write(np.float32([1.0]))
    writes = robot.inner.writes
    robot.stop()
    assert (robot.inner.stops, robot.inner.writes) == (2, writes)


def test_a_profile_that_names_another_signal_is_refused_before_anything_moves():
    inner_robot = FakeAdapter(axes=1)
    with pytest.raises(UnknownName, match=r"unknown observation signal 'velocty'\. Did you mean 'velocity'"):
        Gapped(inner_robot, GapProfile(noise={"velocty": 1.0}), RATE)
    assert (inner_robot.resets, inner_robot.reads, inner_robot.writes) == (0, 0, 0)


def test_an_adapter_that_does_not_give_what_it_declares_is_named():
    class Silent(FakeAdapter):
        def read(self):
            observation = super().read()
            del observation.values["velocity"]
            return observation

    robot = Gapped(Silent(axes=1), GapProfile(), RATE)
    robot.reset(0)
    with pytest.raises(AdapterError, match="Silent declares 'velocity' with 1 numbers, and read"):
        robot.read()


@pytest.mark.parametrize("value", [[0.0, [1.0]], ["0"], "0", None], ids=repr)
def test_a_signal_that_is_no_array_of_numbers_is_refused_by_name_and_value(value):
    class Broken(FakeAdapter):
        def read(self):
            observation = super().read()
            return Observation({**observation.values, "position": value}, observation.time)

    robot = Gapped(Broken(axes=1), GapProfile(noise=0.01), RATE)
    robot.reset(seed=0)
    with pytest.raises(
        AdapterError, match=f"declares 'position' with 1 numbers, and read.. gave {re.escape(str(value))}"
    ):
        robot.read()
