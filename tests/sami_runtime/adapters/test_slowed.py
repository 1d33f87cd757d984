"""Laws of a policy that is asked more slowly than it learned to act."""

from dataclasses import replace

import numpy as np
import pytest

from sami_runtime import (
    Limits,
    ManualClock,
    Outcome,
    Run,
    SafetyGate,
    SafetyStop,
    SamiError,
    Session,
    read_recording,
    replay,
    run_episode,
)
from sami_runtime.adapters.around import Slowed
from sami_runtime.adapters.fake import FakeAdapter


@pytest.fixture
def session(path):
    return Session.load(path)


def test_speeds_are_told_as_at_the_policys_own_pace_and_nothing_else_is_changed():
    clock = ManualClock()
    plain, slowed = FakeAdapter(axes=2, clock=clock), Slowed(FakeAdapter(axes=2, clock=clock), 3)
    for adapter in (plain, slowed):
        adapter.reset(0)
        adapter.write(np.float32([0.5, -0.5]))
    truth, slow = plain.read(), slowed.read()
    units = {signal.name: signal.unit for signal in plain.observation}
    assert {"m", "m/s"} <= set(units.values())
    for name, unit in units.items():
        share = 3.0 if unit.endswith("/s") else 1.0
        np.testing.assert_allclose(slow.values[name], share * truth.values[name], rtol=1e-6)
    assert slow.time == truth.time
    assert any(truth.values[name].any() for name, unit in units.items() if unit == "m/s")


@pytest.mark.parametrize("slower", [1, 3])
def test_the_policy_is_asked_at_every_nth_of_its_periods_and_its_action_written_at_each(session, arm, slower):
    clock, requests = ManualClock(), []
    robot = arm(clock)
    writes, write = [], robot.write

    def count_write(action):
        writes.append((clock.now(), action.copy()))
        return write(action)

    robot.write = count_write
    with Run(session, robot, clock, slower=slower) as run:
        run.episode(seed=0, max_steps=4, on_step=lambda record: requests.append(record.outcome.value))
    assert requests.count("acted") == 4
    period = 1.0 / session.contract.rate_hz
    times = [at for at, _ in writes]
    np.testing.assert_allclose(np.diff(times), period, rtol=1e-6)
    for first in range(0, len(writes) - slower + 1, slower):
        for at in range(first, first + slower):
            np.testing.assert_array_equal(writes[at][1], writes[first][1])


def test_without_it_a_run_is_the_same_to_the_last_bit(session, arm):
    contexts = []
    for options in ({}, {"slower": 1}):
        clock = ManualClock()
        with Run(session, arm(clock), clock, **options) as run:
            contexts.append(run.episode(seed=0).contexts)
    assert contexts[0].tobytes() == contexts[1].tobytes()


def test_a_recording_of_it_replays_to_the_last_bit(session, arm, tmp_path):
    pytest.importorskip("mcap")
    clock = ManualClock()
    with Run(session, arm(clock), clock, slower=3, record=tmp_path / "run.mcap") as run:
        run.episode(seed=0)
    again = replay(read_recording(tmp_path / "run.mcap"), Session.load(session.artifact.path))
    assert again.same
    assert again.steps == 10


def test_less_than_one_period_is_refused(session, arm):
    with pytest.raises(SamiError, match="slower is 0; it must be at least 1"):
        run_episode(session, arm(), slower=0)


PERIOD = 0.04
"""Of the tiny policies [s]."""


def stopped_at(session, arm, slower, limits, loop_hz=None, fault=None, **script):
    """When the gate stops the robot [s], and the records of the ticks until then."""
    clock, records = ManualClock(), []
    robot = arm(clock, **script)
    if fault:
        fault(robot, clock)
    gate = SafetyGate(robot, session.contract, limits)
    with pytest.raises(SafetyStop):
        run_episode(
            session, robot, 0, 100, clock=clock, on_step=records.append, gate=gate, loop_hz=loop_hz, slower=slower
        )
    return clock.now(), records


def frozen_sensors(at):
    """Have the sensors repeat what they said at a time [s], with its stamp."""

    def fault(robot, clock):
        read, last = robot.read, []

        def frozen():
            if clock.now() <= at or not last:
                last[:] = [read()]
            return last[0]

        robot.read = frozen

    return fault


@pytest.mark.parametrize("loop_hz", [None, 75.0])
@pytest.mark.parametrize("at", [2.0, 2.05, 2.34])
def test_a_robot_whose_sensors_die_is_stopped_after_the_same_seconds_however_slow(session, arm, loop_hz, at):
    limits = Limits(hold_ticks=2, stop_after=5, rest=0.0)
    stops = [stopped_at(session, arm, slower, limits, loop_hz, frozen_sensors(at))[0] for slower in (1, 2, 5, 10)]
    assert stops == pytest.approx([stops[0]] * 4, abs=1e-9)
    # Three periods of age, and five periods without an action, of which the first is the one that is too old.
    assert stops[0] - at <= (3 + 5) * PERIOD + 1e-9


@pytest.mark.parametrize("slower", [1, 2, 5, 10])
def test_a_policy_that_cannot_answer_is_asked_again_in_the_next_period_and_stopped_in_real_seconds(
    session, arm, slower
):
    goals = dict.fromkeys(range(10, 1000), np.nan)
    now, records = stopped_at(session, arm, slower, Limits(stop_after=4), goals=goals)
    refused = [record.time for record in records if record.outcome is Outcome.REFUSED]
    np.testing.assert_allclose(np.diff(refused), PERIOD, rtol=1e-6)
    assert now - refused[0] == pytest.approx(3 * PERIOD)


def test_one_bad_reading_within_a_step_costs_no_more_than_a_period_and_replays_to_the_last_bit(session, arm, tmp_path):
    pytest.importorskip("mcap")
    clock, records = ManualClock(), []
    robot = arm(clock, goals={30: np.nan})
    read, bad = robot.read, (0.92, 1.64)

    def read_old():
        observation = read()
        old = any(abs(clock.now() - at) < 1e-6 for at in bad)
        return replace(observation, time=observation.time - 5.0) if old else observation

    robot.read = read_old
    with Run(session, robot, clock, slower=10, record=tmp_path / "run.mcap") as run:
        report = run.episode(seed=0, max_steps=8, on_step=records.append)
    table = {round(record.time, 6): record for record in records}
    for at in bad:
        assert table[at].outcome is Outcome.HELD
        assert table[round(at + PERIOD, 6)].outcome is Outcome.ACTED
    assert table[1.2].outcome is Outcome.REFUSED
    assert table[1.24].outcome is Outcome.ACTED
    assert report.steps == len(report.contexts) == sum(record.stepped for record in records)
    again = replay(read_recording(tmp_path / "run.mcap"), Session.load(session.artifact.path))
    assert again.same


def test_a_pause_of_the_loop_is_judged_in_real_seconds(session, arm):
    for slower in (1, 10):
        clock = ManualClock()
        robot = arm(clock, writing=iter([0.0] * 5 + [0.25]))
        gate = SafetyGate(robot, session.contract, Limits(stop_after=5, max_age_s=10.0))
        with pytest.raises(SafetyStop, match="pause"):
            run_episode(session, robot, 0, 100, clock=clock, gate=gate, slower=slower)
