"""A loop that looks ahead: which age it tells, what it holds, and that recordings, shadows and swaps follow it."""

import threading

import numpy as np
import pytest

from sami_runtime import (
    FakeAdapter,
    Gapped,
    GapProfile,
    Limits,
    ManualClock,
    Outcome,
    Run,
    SafetyGate,
    SamiError,
    Session,
    Shadow,
    read_recording,
    run_episode,
)
from sami_runtime.recording.replay import follow, replay
from tests.making import looking

PERIOD = looking.PERIOD


@pytest.fixture
def path(tmp_path):
    return looking.write(tmp_path / "looking.onnx")


@pytest.fixture
def plain(tmp_path):
    return looking.write(tmp_path / "plain.onnx", steps=0)


def ticks(file, gap=None, **options):
    """Records of an episode of the fake with a sim-to-real profile, and what it was written."""
    records, clock = [], ManualClock()
    fake = FakeAdapter(clock=clock)
    robot = fake if gap is None else Gapped(fake, GapProfile.of(gap), 1 / PERIOD)
    gate = SafetyGate(robot, Session.load(file).contract, Limits(max_age_s=10.0))
    run_episode(Session.load(file), robot, 0, clock=clock, on_step=records.append, gate=gate, **options)
    return records, np.array(fake.written)


@pytest.mark.parametrize(
    "gap",
    [
        {"latency_s": PERIOD},
        {"latency_s": 3 * PERIOD},
        {"jitter_s": 2 * PERIOD},
        {"latency_s": PERIOD, "jitter_s": PERIOD},
    ],
)
def test_with_a_forward_model_that_is_right_it_acts_late_as_it_would_undelayed(path, plain, gap):
    _, undelayed = ticks(plain)
    records, late = ticks(path, gap)
    assert {record.outcome for record in records} == {Outcome.ACTED}
    np.testing.assert_allclose(late, undelayed, atol=1e-5)
    _, blind = ticks(plain, gap)
    assert np.abs(blind - undelayed).max() > 1e-2


def test_the_commands_own_delay_counts_too(path, plain):
    gap = {"latency_s": PERIOD, "action_latency_s": 2 * PERIOD}
    _, report = ticks(path, gap, command_delay_s=2 * PERIOD)
    _, undeclared = ticks(path, gap)
    # From rest the fake goes where it went undelayed, two periods later.
    _, undelayed = ticks(plain)
    assert np.abs(report[2:] - undelayed[:-2]).max() < np.abs(undeclared[2:] - undelayed[:-2]).max()
    assert report[0] == 0.0  # what is written reaches it two periods later


def test_in_a_simulator_without_a_gap_nothing_is_late(path, plain):
    records, actions = ticks(path)
    assert {record.age for record in records} == {0.0}
    assert actions.tobytes() == ticks(plain)[1].tobytes()


@pytest.mark.parametrize(("late_s", "message"), [(0.0, 0.0), (0.06, 1.5), ({"position": 0.06, "velocity": 0.0}, None)])
def test_a_robots_stamps_tell_how_late_it_is(path, late_s, message):
    clock, records = ManualClock(10.0), []
    robot = looking.Stamped(clock, late_s, command_delay_s=0.02)
    run_episode(Session.load(path), robot, 0, 5, clock=clock, on_step=records.append)
    expected = {"position": 2.0, "velocity": 0.5} if message is None else message + 0.5
    assert [record.age for record in records] == [expected] * 5


@pytest.mark.parametrize("slower", [1, 4])
def test_ages_are_in_steps_of_the_policy_which_last_longer_on_a_slower_robot(path, slower):
    clock, records = ManualClock(10.0), []
    robot = looking.Stamped(clock, PERIOD, command_delay_s=PERIOD)
    run_episode(Session.load(path), robot, 0, 5, clock=clock, on_step=records.append, slower=slower)
    assert {record.age for record in records if record.outcome is Outcome.ACTED} == {2.0 / slower}


def test_a_profiles_delay_is_a_smaller_share_of_the_longer_steps_of_a_slower_policy(path):
    records, _ = ticks(path, {"latency_s": 2 * PERIOD}, slower=4, max_steps=5)
    assert {record.age for record in records[1:] if record.outcome is Outcome.ACTED} == {0.5}


def test_what_is_told_wins_over_what_the_adapter_says(path):
    clock, records = ManualClock(), []
    robot = looking.Stamped(clock, 0.0, command_delay_s=0.02)
    run_episode(Session.load(path), robot, 0, 3, clock=clock, on_step=records.append, command_delay_s=0.04)
    assert {record.age for record in records} == {1.0}
    with pytest.raises(SamiError, match=r"command_delay_s is -1; it must be a finite time"):
        run_episode(Session.load(path), robot, 0, 3, clock=clock, command_delay_s=-1)


def test_what_is_older_than_what_was_fitted_is_held_not_guessed(path):
    records, _ = ticks(path, {"latency_s": 5 * PERIOD}, max_steps=6)
    assert [record.outcome.value for record in records] == ["acted"] * 4 + ["held"] * 2
    assert records[4].reason == "age: the observation is 4 periods old, and the policy looks 3 ahead"
    assert (records[4].executed == records[3].executed).all()


def test_a_plain_file_is_held_by_no_age(plain):
    records, _ = ticks(plain, {"latency_s": 5 * PERIOD})
    assert {record.outcome for record in records} == {Outcome.ACTED}


GAP = {"latency_s": PERIOD, "jitter_s": 4 * PERIOD, "dropout": 0.3}


def recorded(file, path, loop_hz=None, **script):
    clock = ManualClock()
    robot = FakeAdapter(clock=clock, **script)
    limits = Limits(max_age_s=10.0, stop_after=30, rate={"fx": 5.0}, rest={"fx": 0.0})
    with Run(
        Session.load(file), robot, clock, gap=GapProfile.of(GAP), simulator=True, limits=limits, record=path,
        loop_hz=loop_hz,
    ) as run:  # fmt: skip
        for seed in range(3):
            run.episode(seed)
    return read_recording(path)


@pytest.mark.parametrize("loop_hz", [None, 3 / PERIOD])
def test_a_replay_is_equal_to_the_last_bit_with_held_standing_and_refused_ticks(path, tmp_path, loop_hz):
    recording = recorded(path, tmp_path / "run.mcap", loop_hz, nan_at_reads=[7, 8, 60])
    outcomes = {record.outcome.value for _, record in recording.steps}
    assert outcomes == {"acted", "held", "refused", *(["standing"] if loop_hz else [])}
    comparison = replay(recording, Session.load(path))
    assert comparison.same, str(comparison)
    assert {record.passed for _, record in recording.steps} == ({0, 1} if loop_hz else {1})


def test_a_replay_finds_an_age_that_was_another(path, tmp_path):
    recording = recorded(path, tmp_path / "run.mcap")
    for _, record in recording.steps:
        object.__setattr__(record, "age", 0.0)
    assert not replay(recording, Session.load(path)).same


def test_ticks_that_were_missed_shift_the_actions(path, tmp_path):
    clock, records = ManualClock(), []

    class Slow(looking.Stamped):
        def write(self, action):
            result = super().write(action)
            clock.advance(2.5 * PERIOD if len(records) == 3 else 0.0)
            return result

    session = Session.load(path)
    gate_limits = Limits(max_pause_s=10.0, max_age_s=10.0)
    robot = Slow(clock, 0.0)
    gate = SafetyGate(robot, session.contract, gate_limits)
    run_episode(session, robot, 0, 6, clock=clock, on_step=records.append, gate=gate)
    assert [record.passed for record in records] == [1, 1, 1, 1, 3, 1]
    by_hand = Session.load(path)
    for record in records:
        follow(by_hand, record)
        assert by_hand.digest == record.state


def test_a_shadow_that_looks_ahead_follows_a_plain_file(path, plain):
    _, shadowed = ticks(path, {"latency_s": 2 * PERIOD})
    shadow = Shadow(Session.load(path), Session.load(plain).contract)
    records = []

    def watch(record):
        shadow(record)
        records.append(record)

    clock = ManualClock()
    robot = Gapped(FakeAdapter(clock=clock), GapProfile(latency_s=2 * PERIOD), 1 / PERIOD)
    run_episode(Session.load(plain), robot, 0, clock=clock, on_step=watch)
    assert shadow.comparison.failed == 0
    assert shadow.comparison.differing > 0
    assert [record.age for record in records][:4] == [0.0, 1.0, 2.0, 2.0]
    assert len(shadowed) == len(records)


def swap_in(run, file, records, at):
    """Another thread gives the run another model at a tick."""
    thread = threading.Thread(target=lambda: run.swap(file, when="now", timeout_s=30))

    def watch(record):
        records.append(record)
        if record.step == at:
            thread.start()
        while at <= record.step and thread.is_alive() and record.step < at + 20:
            thread.join(0.01)
            break

    return watch, thread


def test_one_that_takes_over_goes_on_with_the_actions_of_held_ticks(path, tmp_path):
    other = looking.write(tmp_path / "other.onnx")
    clock, records = ManualClock(), []
    robot = FakeAdapter(clock=clock, nan_at_reads=[2, 3, 9])
    gap, limits = GapProfile.of({"latency_s": PERIOD}), Limits(max_age_s=10.0, stop_after=30)
    with Run(Session.load(path), robot, clock, gap=gap, simulator=True, limits=limits) as run:
        watch, thread = swap_in(run, other, records, at=12)
        run.episode(0, 40, watch)
        thread.join()
    assert any(record.swapped for record in records)
    by_hand = Session.load(other)
    for record in records:
        follow(by_hand, record)
    assert by_hand.digest == records[-1].state
