"""Laws of the loop: its deadlines, its ticks, what it refuses before anything moves."""

import re

import numpy as np
import pytest

from sami_runtime.adapters import DryRun, Executed, FakeAdapter, Observation
from sami_runtime.clock import ManualClock
from sami_runtime.errors import AdapterError, SafetyStop, SamiError, SignalError
from sami_runtime.loop.episode import run_episode
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session


@pytest.fixture
def session(make):
    return Session.load(make.write(make.recurrent()))


def test_an_episode_lasts_as_long_as_the_contract_says(session, arm):
    adapter, records = arm(), []
    report = run_episode(session, adapter, seed=0, on_step=records.append)
    assert report.steps == len(records) == adapter.reads == adapter.writes == 10
    assert not report.done
    assert report.contexts.shape == (10, 2)
    assert {times.count for times in report.loop.times.values()} == {10}
    assert report.loop.outcomes == {"acted": 10}
    assert [record.step for record in records] == list(range(10))
    np.testing.assert_array_equal(report.contexts, [record.context for record in records])
    np.testing.assert_array_equal(adapter.written, [record.action for record in records])
    assert (adapter.resets, adapter.stops) == (1, 1)


def test_the_world_may_end_the_episode_earlier(session, arm):
    report = run_episode(session, arm(episode_steps=4), seed=0)
    assert report.done
    assert report.steps == 4


def test_fewer_steps_may_be_asked_for(session, arm):
    assert run_episode(session, arm(), max_steps=3).steps == 3
    with pytest.raises(SamiError, match="max_steps 0"):
        run_episode(session, arm(), max_steps=0)


def test_info_is_that_of_the_last_step(session, arm):
    class Counting(arm):
        def write(self, action):
            return Executed(super().write(action).action, info={"write": self.writes})

    assert run_episode(session, Counting()).info == {"write": 10}


def test_a_memoryless_policy_runs_too(make, arm):
    report = run_episode(Session.load(make.write(make.memoryless())), arm())
    assert report.contexts.shape == (10, 0)


@pytest.mark.parametrize("script", [{"raise_at_reads": [2]}, {"raise_at_writes": [2]}])
def test_a_fault_of_the_adapter_stops_it(session, arm, script):
    adapter, records = arm(**script), []
    with pytest.raises(AdapterError):
        run_episode(session, adapter, on_step=records.append)
    assert adapter.stops == 1
    assert len(records) == len(adapter.written) == 2


def test_an_incompatible_adapter_is_refused_before_anything_moves(session):
    adapter = FakeAdapter(axes=1)
    with pytest.raises(AdapterError, match="model 'tiny' does not fit FakeAdapter"):
        run_episode(session, adapter)
    assert (adapter.resets, adapter.writes) == (0, 0)


def test_a_gate_of_another_adapter_is_refused_before_anything_moves(session, arm):
    adapter, other = arm(), arm()
    with pytest.raises(SamiError, match="the gate writes to another adapter"):
        run_episode(session, adapter, gate=SafetyGate(other, session.contract))
    assert (adapter.resets, adapter.writes, other.writes) == (0, 0, 0)


@pytest.mark.parametrize("where", ["read", "write", "on_step"])
def test_a_gate_that_is_tripped_from_outside_stops_the_robot_within_the_tick(session, arm, where):
    class Watched(arm):
        def read(self):
            if where == "read" and self.reads == 3:
                gate.trip("somebody came too near")
            return super().read()

        def write(self, action):
            if where == "write" and self.writes == 3:
                gate.trip("somebody came too near")
            return super().write(action)

    def watch(record):
        if where == "on_step" and record.step == 3:
            gate.trip("somebody came too near")

    adapter = Watched()
    gate = SafetyGate(adapter, session.contract)
    for _ in range(2):  # and it stays latched over episodes
        with pytest.raises(SafetyStop, match="somebody came too near"):
            run_episode(session, adapter, gate=gate, on_step=watch)
    assert (adapter.resets, adapter.writes, adapter.stops) == (1, 3 + (where != "read"), 2)
    gate.rearm()
    run_episode(session, adapter, gate=gate, max_steps=2)
    assert adapter.resets == 2


def test_a_signal_that_the_adapter_forgot_is_named(session, arm, monkeypatch):
    adapter = arm()
    read = adapter.read
    monkeypatch.setattr(adapter, "read", lambda: forget(read(), "goal"))
    with pytest.raises(SignalError, match="tick 0: observation 'goal' is missing"):
        run_episode(session, adapter)
    assert adapter.stops == 1


def forget(observation, name):
    return Observation({k: v for k, v in observation.values.items() if k != name}, observation.time)


def test_a_batch_cannot_drive_one_adapter(make, arm):
    with pytest.raises(SamiError, match="session of batch 2"):
        run_episode(Session.load(make.write(make.recurrent()), batch=2), arm())


# --- deadlines


def test_steps_keep_absolute_deadlines(session, arm):
    clock = ManualClock(start=100.0)
    adapter = arm(clock, writing=[0.01, 0.03, 0.002] * 4)
    loop = run_episode(session, adapter, clock=clock).loop
    np.testing.assert_allclose(adapter.written_at, 100.0 + 0.04 * np.arange(10))
    assert (loop.overruns, loop.missed) == (0, 0)
    assert loop.mean_period == pytest.approx(0.04)


def test_a_late_step_skips_ticks_and_never_bursts(session, arm):
    clock, records = ManualClock(), []
    adapter = arm(clock, writing=[0.01, 0.09, 0.01, 0.05, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01])
    loop = run_episode(session, adapter, clock=clock, on_step=records.append).loop
    ticks = [0, 1, 4, 5, 7, 8, 9, 10, 11, 12]
    np.testing.assert_allclose(adapter.written_at, 0.04 * np.array(ticks))
    assert (loop.overruns, loop.missed) == (2, 3)
    assert [record.missed for record in records] == [0, 0, 2, 0, 1, 0, 0, 0, 0, 0]
    np.testing.assert_allclose([record.time for record in records], adapter.written_at)
    assert loop.mean_period == pytest.approx(0.04)


def test_a_step_that_takes_exactly_one_period_is_not_late(session, arm):
    clock = ManualClock()
    loop = run_episode(session, arm(clock, writing=[1 / 25] * 10), clock=clock).loop
    assert (loop.overruns, loop.missed) == (0, 0)


@pytest.mark.parametrize("rate_hz", [400.0, 30.0, 1e3 / 3])
def test_a_period_is_not_rounded_and_no_error_adds_up(make, arm, rate_hz):
    clock = ManualClock(start=1e5)
    session = Session.load(make.write(make.recurrent(), rate_hz=rate_hz, episode_steps=300))
    adapter = arm(clock, writing=np.random.default_rng(0).uniform(0, 0.9 / rate_hz, 300))
    loop = run_episode(session, adapter, clock=clock, gate=unlimited(session, adapter)).loop
    assert loop.mean_period == pytest.approx(1 / rate_hz, rel=1e-9)
    assert adapter.written_at[-1] - 1e5 == pytest.approx(299 / rate_hz, rel=1e-9)


def unlimited(session, adapter):
    return SafetyGate(adapter, session.contract, Limits(max_age_s=float("inf")))


# --- warming up before a tick


def test_the_policy_is_warmed_just_before_its_ticks_and_acts_as_if_it_was_not(session, arm, monkeypatch):
    plain, warmed, warmed_at = arm(ManualClock()), arm(ManualClock()), []
    run_episode(session, plain, seed=0, clock=plain.clock, loop_hz=50.0)
    prewarm = session.prewarm
    monkeypatch.setattr(session, "prewarm", lambda: (warmed_at.append(warmed.clock.now()), prewarm()))
    run_episode(session, warmed, seed=0, clock=warmed.clock, prewarm_s=0.0005, loop_hz=50.0)
    np.testing.assert_allclose(warmed_at, 0.04 * np.arange(1, 10) - 0.0005)
    np.testing.assert_array_equal(warmed.written, plain.written)


def test_a_turn_that_ends_just_before_the_next_tick_leaves_no_time_to_warm_up(session, arm, monkeypatch):
    clock, warmed = ManualClock(), []
    monkeypatch.setattr(session, "prewarm", lambda: warmed.append(clock.now()))
    adapter = arm(clock, writing=[0.0, 0.0398, 0.06])
    run_episode(session, adapter, clock=clock, prewarm_s=0.0005, max_steps=4)
    np.testing.assert_allclose(warmed, [0.0395, 0.1595])
    np.testing.assert_allclose(adapter.written_at, [0.0, 0.04, 0.08, 0.16])


def test_a_warm_up_that_takes_too_long_makes_its_tick_late_and_misses_none(session, arm, monkeypatch):
    clock, records = ManualClock(), []
    monkeypatch.setattr(session, "prewarm", lambda: clock.advance(0.002))
    run_episode(session, arm(clock), clock=clock, prewarm_s=0.0005, max_steps=3, on_step=records.append)
    np.testing.assert_allclose([record.time for record in records], [0.0, 0.0415, 0.0815])
    assert [record.missed for record in records] == [0, 0, 0]


@pytest.mark.parametrize("early", [-0.001, 0.04, float("nan")])
def test_a_warm_up_that_is_longer_than_a_period_is_refused(session, arm, early):
    adapter = arm()
    with pytest.raises(SamiError, match=r"prewarm_s is .*less than the loop's period, 0\.04 s"):
        run_episode(session, adapter, prewarm_s=early)
    assert adapter.resets == 0


# --- a loop that is faster than the policy


@pytest.mark.parametrize("loop_hz", [24.0, 26.0, 12.5, 60.0, 0.0, -25.0, float("nan"), float("inf")])
def test_a_rate_that_is_no_multiple_of_the_policys_is_refused(session, arm, loop_hz):
    adapter = arm()
    with pytest.raises(SamiError, match=r"this policy was trained at 25 Hz.*Set a multiple of it, such as [1-9]"):
        run_episode(session, adapter, loop_hz=loop_hz)
    assert adapter.resets == 0


def test_a_faster_loop_asks_the_policy_at_its_own_rate_and_its_action_stands_in_between(session, arm):
    clock, records = ManualClock(), []
    adapter = arm(clock)
    report = run_episode(session, adapter, clock=clock, loop_hz=100.0, on_step=records.append)
    assert report.steps == adapter.reads == 10
    assert report.loop.outcomes == {"acted": 10, "standing": 30}
    assert [record.outcome for record in records[:5]] == ["acted", *["standing"] * 3, "acted"]
    np.testing.assert_allclose(adapter.written_at, 0.01 * np.arange(40))
    for four in np.array(adapter.written).reshape(10, 4, 2):
        assert (four == four[0]).all()
    assert all(record.observation is None for record in records if record.outcome == "standing")


def test_a_policys_tick_that_was_missed_is_made_up_for_once(session, arm):
    clock, records = ManualClock(), []
    # The sixth write, at 0.05 s, lasts past two of the policy's ticks, at 0.08 s and 0.12 s.
    adapter = arm(clock, writing=[0.0] * 5 + [0.085])
    run_episode(session, adapter, clock=clock, loop_hz=100.0, max_steps=5, on_step=records.append)
    acted = [round(record.time, 2) for record in records if record.outcome == "acted"]
    assert acted == [0.0, 0.04, 0.14, 0.16, 0.2]
    assert [record.missed for record in records if record.missed] == [8]


def test_the_last_action_stands_for_its_whole_period(session, arm):
    clock = ManualClock()
    adapter = arm(clock)
    run_episode(session, adapter, clock=clock, loop_hz=50.0, max_steps=2)
    np.testing.assert_allclose(adapter.written_at, [0.0, 0.02, 0.04, 0.06])


def test_a_late_last_period_does_not_let_another_step_in(session, arm):
    clock = ManualClock()
    adapter = arm(clock, writing=[0.0] * 2 + [0.1])  # the write of the second step lasts past the third's tick
    report = run_episode(session, adapter, clock=clock, loop_hz=50.0, max_steps=2)
    assert (report.steps, adapter.reads, adapter.writes) == (2, 2, 3)


def test_a_trip_from_outside_is_recorded_as_the_last_tick_and_not_written(session, arm):
    records = []

    class Watched(arm):
        def read(self):
            if self.reads == 3:
                gate.trip("somebody pressed the button")
            return super().read()

    adapter = Watched()
    gate = SafetyGate(adapter, session.contract)
    with pytest.raises(SafetyStop, match="somebody pressed the button"):
        run_episode(session, adapter, gate=gate, on_step=records.append)
    assert (adapter.writes, adapter.stops) == (3, 1)
    assert [record.limited_by for record in records] == [(), (), (), ("stop",)]
    assert records[-1].executed is None


def test_a_robot_that_says_at_a_write_that_it_was_stopped_ends_the_episode_with_that_reason(session, arm):
    records = []

    class Falls(arm):
        def write(self, action):
            if self.writes == 3:
                self.writes += 1  # the next one would be taken
                raise SafetyStop("the robot has fallen. The motors are damped.")
            return super().write(action)

    adapter = Falls()
    gate = SafetyGate(adapter, session.contract)
    with pytest.raises(SafetyStop, match="the robot has fallen"):
        run_episode(session, adapter, gate=gate, on_step=records.append)
    assert (adapter.writes, adapter.stops) == (4, 1)
    assert records[-1].executed is None
    assert records[-1].limited_by == ("stop",)
    with pytest.raises(
        SafetyStop, match=r"the robot has fallen\. The motors are damped\. Nothing more is written until"
    ):
        run_episode(session, adapter, gate=gate)
    assert adapter.writes == 4, "the next episode begins only once a person has rearmed the gate"
    gate.rearm()
    assert run_episode(session, adapter, gate=gate, max_steps=5).steps == 5


def test_periods_that_a_stale_read_took_count_towards_the_stop(session, arm):
    """Ten ticks without a new action are 0.4 s, however few turns there were in them."""
    clock, records = ManualClock(), []
    adapter = arm(clock, reading=[0.0, *[2.0] * 9], stale_at_reads=range(1, 99))
    gate = SafetyGate(adapter, session.contract, Limits(max_pause_s=3.0))
    with pytest.raises(SafetyStop, match="no new action at 51 ticks in a row"):
        run_episode(session, adapter, clock=clock, on_step=records.append, gate=gate)
    assert [record.outcome.value for record in records] == ["acted", "held", "held"]


@pytest.mark.parametrize(
    ("hangs", "limits", "reason"),
    [
        (0.5, {}, "pause: 0.52 s passed between two ticks, allowed are 0.4 s (max_pause_s)"),
        (0.5, {"max_pause_s": 9.0, "max_age_s": 9.0}, "missed: 12 ticks of the policy passed without a turn"),
        (0.1, {"max_pause_s": 0.06}, "pause: 0.12 s passed between two ticks, allowed are 0.06 s (max_pause_s)"),
    ],
)
def test_after_a_write_that_hung_nothing_is_written(session, arm, hangs, limits, reason):
    clock, records = ManualClock(), []
    adapter = arm(clock, writing=[0.0, 0.0, hangs])
    gate = SafetyGate(adapter, session.contract, Limits(**limits))
    with pytest.raises(SafetyStop, match=re.escape(reason)):
        run_episode(session, adapter, clock=clock, on_step=records.append, gate=gate)
    assert (adapter.writes, adapter.stops) == (3, 1)
    assert (records[-1].reason, records[-1].limited_by, records[-1].executed) == (reason, ("stop",), None)


def test_without_a_clock_a_simulator_may_take_its_time(session, arm):
    adapter = arm(ManualClock(), writing=[99.0] * 10)
    assert run_episode(session, adapter).loop.outcomes == {"acted": 10}


@pytest.mark.parametrize(("part", "message"), [("read", "return Observation"), ("write", "return Executed")])
def test_an_adapter_that_answers_something_else_is_told_what_to_answer(session, arm, monkeypatch, part, message):
    adapter = arm()
    monkeypatch.setattr(adapter, part, lambda *_: None)
    with pytest.raises(AdapterError, match=rf"Arm\.{part}\(\) returned NoneType; {message}\("):
        run_episode(session, adapter)


# --- a dry run


def test_a_dry_run_reads_and_infers_and_writes_nothing(session, arm):
    watched, records = arm(), []
    report = run_episode(session, DryRun(watched), seed=0, on_step=records.append)
    assert report.steps == watched.reads == 10
    assert (watched.writes, watched.written) == (0, [])
    assert (watched.resets, watched.stops) == (1, 1)
    np.testing.assert_array_equal([record.executed for record in records], [record.action for record in records])


def test_a_dry_run_closes_what_it_watches(arm):
    watched = arm()
    DryRun(watched).close()
    assert watched.closes == 1
