"""A run as whoever embeds a policy uses it: what it puts around a robot, and what it leaves behind on each way out."""

import gc
import os
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from sami_runtime import (
    AdapterError,
    FakeAdapter,
    GapProfile,
    Limits,
    ManualClock,
    MonotonicClock,
    Recorder,
    RecordingError,
    Run,
    SafetyGate,
    SafetyStop,
    SamiError,
    Session,
    Shadow,
    Telemetry,
    UnknownName,
    read_recording,
    run_episode,
)
from sami_runtime.adapters.around import Around
from sami_runtime.loop.pauses import short_pauses
from sami_runtime.recording.replay import replay

pytest.importorskip("mcap")

LATE = {"stale_at_reads": range(1, 9)}
"""Observations that grow too old."""


@pytest.fixture
def session(path):
    return Session.load(path)


@pytest.fixture
def recorded(tmp_path):
    return tmp_path / "run.mcap"


def executed(records):
    return np.array([record.executed for record in records])


def test_a_run_drives_limits_records_and_shadows(session, make, arm, recorded):
    clock, steps = ManualClock(), []
    robot = arm(clock)
    limits = Limits(rest=0.0, rate=2.0)
    shadow = Shadow(Session.load(make.write(make.recurrent(seed=1))), session.contract)
    with Run(session, robot, clock, limits=limits, record=recorded, facts={"env": "arm"}, shadow=shadow) as run:
        reports = [run.episode(seed, on_step=steps.append) for seed in (0, 1)]
        assert run.telemetry.now.step == 9
    assert [report.steps for report in reports] == [10, 10]
    assert (run.total.ticks, run.total.outcomes) == (20, {"acted": 20})
    assert run.total.limited["rate fx"] == sum(report.loop.limited["rate fx"] for report in reports) > 0
    assert np.abs(np.diff(executed(steps[:10]), axis=0)).max() <= 2.0 * 0.04 + 1e-6
    recording = read_recording(recorded)
    assert recording.closed
    assert [step.record.state for step in recording.steps] == [record.state for record in steps]
    assert (recording.about["env"], recording.about["limits"]["rate"]) == ("arm", 2.0)
    assert (recording.about["dry_run"], recording.about["gap"]) == (False, None)
    assert replay(recording, Session.load(session.artifact.path)).same
    assert (run.shadow, shadow.comparison.steps, shadow.comparison.differing) == (shadow, 20, 20)


def test_it_is_what_one_puts_together_by_hand(session, make, arm, tmp_path):
    limits = Limits(rest=0.0, rate=2.0)
    clock = ManualClock()
    with Run(session, arm(clock), clock, limits=limits, record=tmp_path / "run.mcap", loop_hz=50.0) as run:
        episode = run.episode(seed=3, max_steps=7)
    clock, other = ManualClock(), Session.load(session.artifact.path)
    robot, telemetry = arm(clock), Telemetry(session.contract)
    gate = SafetyGate(robot, session.contract, limits)
    with Recorder(
        tmp_path / "hand.mcap", other, limits, {"dry_run": False, "simulator": False, "gap": None}
    ) as recorder:
        by_hand = run_episode(
            other, robot, 3, 7, clock=clock, gate=gate, loop_hz=50.0, on_step=recorder, telemetry=telemetry
        )
    assert episode.contexts.tobytes() == by_hand.contexts.tobytes()
    assert run.telemetry.summary() == telemetry.summary()
    recordings = [read_recording(tmp_path / name) for name in ("run.mcap", "hand.mcap")]
    assert recordings[0].about == recordings[1].about
    states = [[(step.record.state, step.record.limited_by) for step in recording.steps] for recording in recordings]
    assert states[0] == states[1]


def examples_of_the_page():
    """The blocks of Python on the page `run-in-python`: an adapter, a program with a `Run`, and a loop with a gate."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "run-in-python.md"
    if not page.is_file():
        pytest.skip("the documentation lies in a checkout, not beside the wheel")
    return [block.split("```")[0] for block in page.read_text(encoding="utf-8").split("```python\n")[1:]]


def test_the_loop_with_a_gate_of_the_documentation_stops_a_robot_that_stops_answering(path, tmp_path, monkeypatch):
    adapter, _, loop = examples_of_the_page()
    (tmp_path / "model.onnx").write_bytes(path.read_bytes())
    (tmp_path / "limits.toml").write_text("rest = 0.0\nstop_after = 3\nmax_age_s = 0.05\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "my_arm", my_arm := ModuleType("my_arm"))
    exec(compile(adapter, "my_arm.py", "exec"), my_arm.__dict__)
    reads, stops, resets, read = [], [], [], my_arm.MyArm.read
    monkeypatch.setattr(my_arm.MyArm, "stop", lambda robot: stops.append(len(reads)))
    monkeypatch.setattr(my_arm.MyArm, "reset", lambda robot, seed=None: resets.append("reset"))
    monkeypatch.setattr(my_arm.MyArm, "read", lambda robot: reads.append(read(robot)) or reads[min(4, len(reads) - 1)])
    dog = nullcontext(SimpleNamespace(begin=lambda: resets.append("watched"), beat=lambda: None, end=lambda: None))
    monkeypatch.setattr("sami_runtime.Watchdog", lambda emergency_stop, within_s: dog)
    with pytest.raises(SafetyStop, match="age: "):
        exec(compile(loop, "docs/how-to/run-in-python.md", "exec"), {})
    assert len(stops) == 1
    assert 8 <= stops[0] <= 12
    assert resets == ["watched", "reset"], "it moves to its start, so the watchdog watches before"


def test_the_example_of_the_documentation_runs(path, arm, tmp_path, monkeypatch, capsys):
    example = examples_of_the_page()[1]
    (tmp_path / "model.onnx").write_bytes(path.read_bytes())
    (tmp_path / "limits.toml").write_text("rest = 0.0\nrate = 5.0\n")
    robots = []

    def make(clock):
        robots.append(arm(clock))
        return robots[0]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "my_arm", SimpleNamespace(make=make))
    exec(compile(example, "docs/how-to/run-in-python.md", "exec"), {})
    assert (robots[0].resets, robots[0].stops, robots[0].closes) == (3, 3, 1)
    assert "30 ticks: " in capsys.readouterr().out
    assert len(read_recording("run.mcap").steps) == 30


def test_a_dry_run_reads_and_infers_and_writes_nothing(session, arm, recorded):
    clock = ManualClock()
    robot = arm(clock)
    with Run(session, robot, clock, dry_run=True, record=recorded) as run:
        assert run.episode(seed=0).loop.outcomes["acted"] > 0
    assert (robot.writes, robot.stops) == (0, 1)
    assert read_recording(recorded).about["dry_run"] is True


@pytest.mark.parametrize("dry_run", [False, True])
def test_an_adapter_that_watches_is_told_of_each_tick_also_through_another_one_and_in_a_dry_run(session, arm, dry_run):
    class Watched(arm):
        def __init__(self, clock):
            super().__init__(clock)
            self.records = []

        def watch(self, record):
            self.records.append(record)

    clock, records = ManualClock(), []
    robot = Watched(clock)
    with Run(session, Thin(robot), clock, dry_run=dry_run) as run:
        run.episode(seed=0, max_steps=5, on_step=records.append)
    assert len(robot.records) == 5
    assert all(record is other for record, other in zip(robot.records, records, strict=True))
    assert robot.records[-1].telemetry is not None


class Thin(Around):
    """An adapter around another one, which changes nothing."""

    def read(self):
        return self.inner.read()

    def write(self, action):
        return self.inner.write(action)


def test_a_gap_stands_between_the_robot_and_the_loop(session, arm, recorded):
    clock, gap, records = ManualClock(), GapProfile(noise=0.1), []
    with Run(session, arm(clock), clock, gap=gap, record=recorded) as run:
        for seed in (5, 5, 6):
            run.episode(seed, on_step=records.append)
    first, again, other = (executed(records[at : at + 10]) for at in (0, 10, 20))
    assert first.tobytes() == again.tobytes() != other.tobytes()
    assert read_recording(recorded).about["gap"] == gap.to_dict()
    with Run(session, arm(), simulator=True) as plain:
        plain.episode(5, on_step=(without := []).append)
    assert executed(without).tobytes() != first.tobytes()


def test_a_gap_on_actions_is_for_simulators(session, arm):
    gap, clock = GapProfile(action_latency_s=0.08), ManualClock()
    with pytest.raises(SamiError, match=r"write actions that the gate did not allow\. Remove these keys from the gap"):
        Run(session, arm(clock), clock, gap=gap)
    with Run(session, arm(clock), clock, gap=gap, simulator=True) as run:
        assert "actuated" in run.episode(seed=0).info


def test_observations_age_on_a_robot_and_with_a_profile_and_not_in_a_simulator_that_stands_still(session, arm):
    def reasons(simulator, **options):
        clock = ManualClock()
        with Run(session, arm(clock, **LATE), clock, simulator=simulator, **options) as run:
            return run.episode(seed=0).loop.reasons

    assert reasons(simulator=True) == {}
    assert reasons(simulator=False)["age"] > 0
    assert reasons(simulator=True, gap=GapProfile(noise=0.01))["age"] > 0
    assert reasons(simulator=True, limits=Limits(max_age_s=0.1))["age"] > 0
    assert reasons(simulator=False, enforce_timing=False) == {}


def test_a_robot_is_not_run_without_a_clock_unless_that_is_said(session, arm):
    with pytest.raises(
        SamiError, match=r"the run of a robot has no clock.*or simulator=True if the adapter is a simulator"
    ):
        Run(session, arm())
    for options in ({"enforce_timing": False}, {"simulator": True}):
        with Run(session, arm(), **options) as run:
            assert run.episode().steps == 10


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"limits": Limits(rest=0.0, rate={"fz": 1.0})}, UnknownName, "unknown element of the action 'fz'"),
        ({"gap": GapProfile(noise={"posture": 0.1})}, UnknownName, "'posture'"),
        ({"loop_hz": 33.0}, SamiError, r"loop_hz is 33\.0, but this policy was trained at"),
        ({"prewarm_s": 9.0}, SamiError, r"prewarm_s is 9\.0"),
        ({"command_delay_s": -1.0}, SamiError, r"command_delay_s is -1\.0"),
        ({}, AdapterError, "model 'tiny' does not fit FakeAdapter"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_moves_or_a_file_is_begun(
    session, arm, recorded, options, error, message
):
    adapter = arm() if options else FakeAdapter(axes=1)
    with pytest.raises(error, match=message), Run(session, adapter, simulator=True, record=recorded, **options):
        pytest.fail("it was opened")
    assert adapter.resets == 0
    assert not recorded.exists()


def test_only_an_open_run_drives(session, arm):
    robot = arm()
    run = Run(session, robot, simulator=True)
    with run:
        run.episode()
    for run_ in (run, Run(session, robot, simulator=True)):
        with pytest.raises(SamiError, match="the run is not open; nothing was driven"):
            run_.episode()
    assert robot.resets == 1


@pytest.mark.parametrize("shared", ["run", "robot", "session"])
def test_no_second_episode_drives_beside_one_that_is_under_way(session, path, arm, shared):
    """Two runs of one robot wrote steps of 0.8 where 0.04 were allowed; of one session, each read the other's state."""

    def drive_another(record=None):
        with pytest.raises(SamiError, match="an episode of this run, session or robot is running"):
            other.episode()
        if record is not None:
            thread = threading.Thread(target=drive_another)
            thread.start()
            thread.join()

    robot = arm()
    other_session = session if shared == "session" else Session.load(path)
    second_run = Run(other_session, robot if shared == "robot" else arm(), simulator=True)
    with Run(session, robot, simulator=True) as run, run if shared == "run" else second_run as other:
        assert run.episode(on_step=drive_another).steps == 10
        assert (robot.resets, robot.stops) == (1, 1)
        assert run.episode().steps == 10
        assert other.episode().steps == 10


# --- ways out


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
@pytest.mark.parametrize("where", ["read", "write", "on_step", "between"])
def test_however_it_ends_the_robot_is_stopped_the_recording_complete_and_nothing_closed_that_is_not_its_own(
    session, arm, recorded, monkeypatch, where, error
):
    def leave(*_):
        raise error

    clock, shadowed = ManualClock(), Shadow(Session.load(session.artifact.path), session.contract)
    robot = arm(clock)

    def drive():
        with Run(session, robot, clock, record=recorded, shadow=shadowed) as run:
            run.episode(seed=0)
            if where in ("read", "write"):
                monkeypatch.setattr(robot, where, leave)
            if where == "between":
                leave()
            run.episode(seed=1, on_step=leave)

    with pytest.raises(error):
        drive()
    recording = read_recording(recorded)
    assert recording.closed
    assert len(recording.steps) == shadowed.comparison.steps == 10 + (where == "on_step")
    assert (robot.stops, robot.closes) == (1 if where == "between" else 2, 0)
    session.step({"position": [0.0, 0.0], "goal": [0.5]})


def test_a_safety_stop_is_recorded_counted_and_latched_until_somebody_rearms(session, arm, recorded):
    clock = ManualClock()
    robot = arm(clock)

    def press(record):
        if record.step == 4:
            run.gate.trip("somebody pressed the button")

    with Run(session, robot, clock, record=recorded) as run:
        with pytest.raises(SafetyStop, match="somebody pressed the button"):
            run.episode(on_step=press)
        assert (run.total.ticks, robot.stops) == (5, 1)
        with pytest.raises(SafetyStop):
            run.episode()
        run.gate.rearm()
        assert run.episode().steps == 10
    assert run.total.ticks == len(read_recording(recorded).steps) == 15


def test_who_stops_the_robot_in_a_tick_is_why_that_tick_wrote_nothing(session, arm):
    def fall(action):
        raise SafetyStop("it has fallen")

    def press():
        run.gate.trip("somebody pressed the button")
        return robot.read()

    clock = ManualClock()
    robot = arm(clock)
    for change, reason in (({"write": fall}, "it has fallen"), ({"read": press}, "somebody pressed the button")):
        broken = Around(robot)
        vars(broken).update({"read": robot.read, "write": robot.write} | change)
        records = []
        with Run(session, broken, clock) as run, pytest.raises(SafetyStop, match=reason):
            run.episode(on_step=records.append)
        assert [(record.reason, record.limited_by) for record in records] == [(f"trip: {reason}", ("stop",))]


def test_a_run_of_nothing_leaves_no_file_and_one_that_cannot_record_drives_nothing(session, arm, recorded):
    clock = ManualClock()
    robot = arm(clock)
    with Run(session, robot, clock, record=recorded):
        assert recorded.exists()
    assert not recorded.exists()
    recorded.write_bytes(b"precious")
    before = signal.getsignal(signal.SIGTERM)
    with (
        pytest.raises(RecordingError, match="a recording never replaces one"),
        Run(session, robot, clock, record=recorded) as run,
    ):
        run.episode()
    assert (recorded.read_bytes(), robot.resets) == (b"precious", 0)
    assert signal.getsignal(signal.SIGTERM) is before


RUN_UNTIL_STOPPED = """
import os, signal, sys
sys.path.insert(0, {root!r})
signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as in a terminal, wherever the tests run
from sami_runtime import ManualClock, Run, Session
from tests.sami_runtime.conftest import Arm
session, clock = Session.load(sys.argv[1]), ManualClock()
with Run(session, Arm(clock), clock, record=sys.argv[2]) as run:
    run.episode(seed=0)
    os.kill(os.getpid(), signal.SIGTERM)
    print("still here")
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_a_process_that_is_told_to_end_between_two_episodes_closes_its_recording(path, recorded, request):
    script = RUN_UNTIL_STOPPED.format(root=str(request.config.rootpath))
    command = [sys.executable, "-W", "ignore::UserWarning", "-c", script, str(path), str(recorded)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stdout, process.stderr) == (128 + signal.SIGTERM, "", "")
    assert read_recording(recorded).closed


@pytest.mark.parametrize(("clock", "frozen"), [(MonotonicClock(), True), (ManualClock(), False)])
def test_on_the_machines_clock_a_run_sets_older_objects_aside_from_the_search_for_garbage(session, arm, clock, frozen):
    def searched():
        return any(item is older for item in gc.get_objects())

    gc.unfreeze()  # what the tests themselves have set aside
    try:
        older = [[]]
        assert searched()
        turn = sys.getswitchinterval()
        with Run(session, arm(clock), clock, limits=Limits(rest=0.0)):
            assert searched() is not frozen
            assert (sys.getswitchinterval() < 0.001) is frozen, "and other threads let the loop run soon"
        assert searched()
        assert sys.getswitchinterval() == turn
    finally:
        gc.freeze()


def test_pauses_are_short_until_the_last_of_several_runs_ends():
    gc.unfreeze()
    try:
        turn, (first, second) = sys.getswitchinterval(), (short_pauses(), short_pauses())
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert sys.getswitchinterval() < turn
        assert gc.get_freeze_count() > 0
        second.__exit__(None, None, None)
        assert (sys.getswitchinterval(), gc.get_freeze_count()) == (turn, 0)
    finally:
        gc.freeze()
