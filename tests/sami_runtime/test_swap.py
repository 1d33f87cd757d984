"""Another model takes over while a run drives: when, in which state, what is refused, and what tells of it."""

import re
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sami_runtime import (
    AdapterError,
    ArtifactError,
    Limits,
    ManualClock,
    Run,
    SafetyStop,
    SamiError,
    Session,
    Shadow,
    Swapped,
    Telemetry,
    UnknownName,
    read_recording,
)
from sami_runtime.model.atlas import Atlas
from sami_runtime.recording.recorder import Recorder
from sami_runtime.recording.replay import follow, replay
from sami_runtime.recording.view import run_of

LONG = 300
"""Steps of an episode in which another thread has time to prepare a model."""


@pytest.fixture
def paths(make):
    """Files of two policies with other weights."""
    return [make.write(make.recurrent(seed=seed)) for seed in (0, 1)]


@pytest.fixture
def twins(make):
    """Two files of one policy: equal weights, and contracts that differ in their names."""
    return [make.write(make.recurrent(), name=name) for name in ("one", "another")]


def atlas_of(scale, window=4):
    """A reference of two known dynamics, whose spread is scaled."""
    spread = ((scale, 0.0), (0.0, scale))
    return Atlas(
        tasks=({"mass": 1.0}, {"mass": 10.0}),
        mean=((0.0, 0.0), (4.0, 0.0)),
        covariance=(spread, spread),
        step=10,
        threshold=2.0,
        slow=0.1,
        fast=0.5,
        false_alarm_rate=0.05,
        episodes=50,
        held_out=50,
        window=window,
    )


def swapping(run, model, at=20, **options):
    """An `on_step` that has another thread swap the model from a tick on, and gives it time; and what came of it."""
    outcome = SimpleNamespace(swapped=None, error=None, records=[])

    def request():
        try:
            outcome.swapped = run.swap(model, **{"when": "now", **options})
        except SamiError as error:
            outcome.error = error

    outcome.thread = threading.Thread(target=request)

    def watch(record):
        outcome.records.append(record)
        if record.step == at:
            outcome.thread.start()
        if at <= record.step and outcome.thread.is_alive():
            time.sleep(0.002)

    outcome.watch = watch
    return outcome


def by_hand(path, records, begin=0):
    """Digest and answer of a session that is fed what was done, from a step of the policy on."""
    session, steps = Session.load(path), 0
    for record in records:
        if steps >= begin:
            answer = follow(session, record)
            yield session.digest, answer
        else:
            yield None, None
        steps += record.stepped


@pytest.mark.parametrize("loop_hz", [25.0, 75.0])
def test_in_the_middle_it_goes_on_with_the_state_of_the_one_that_drove_to_the_last_bit(twins, arm, loop_hz):
    """Also over ticks that were held and refused, and with actions that were limited."""
    clock = ManualClock()
    goals = {at: np.nan for at in (0, 7, 30)}
    robot = arm(clock, stale_at_reads=[*range(11, 16), *range(40, 45)], goals=goals, limit=0.3)
    limits = Limits(rest=0.0, rate=2.0, max_age_s=0.05)
    with Run(Session.load(twins[0]), robot, clock, limits=limits, loop_hz=loop_hz) as run:
        outcome = swapping(run, twins[1], at=60)
        report = run.episode(0, LONG, outcome.watch)
    assert outcome.error is None
    at = next(index for index, record in enumerate(outcome.records) if record.swapped)
    assert at > 60
    assert outcome.swapped == outcome.records[at].swapped
    before = sum(record.stepped for record in outcome.records[:at])
    assert outcome.swapped.fed == before > 0
    assert outcome.swapped.path == str(twins[1])
    assert sum(record.outcome in ("held", "refused") for record in outcome.records) >= 9
    answers = list(by_hand(twins[1], outcome.records))
    assert [record.state for record in outcome.records] == [digest for digest, _ in answers]
    acted = [(record, answer) for record, (_, answer) in zip(outcome.records, answers, strict=True) if record.stepped]
    assert all(record.action.tobytes() == answer.action.tobytes() for record, answer in acted)
    assert report.contexts[before:].any()
    assert run.session.artifact.path == twins[1]
    assert run.total.swaps == 1
    assert ", 1 swaps of the model" in str(run.total)


def test_telemetry_goes_on_by_the_reference_of_the_new_file_as_if_it_had_always_had_it(make, arm):
    wide, second = (atlas_of(scale) for scale in (1.0, 0.1))
    files = [make.write(make.recurrent(), name=name, atlas=atlas) for name, atlas in (("one", wide), ("other", second))]
    clock = ManualClock()
    with Run(Session.load(files[0]), arm(clock), clock) as run:
        looked = run.telemetry
        outcome = swapping(run, files[1])
        run.episode(0, LONG, outcome.watch)
        now = run.telemetry.now
        run.episode(1)
    assert outcome.error is None
    assert looked is run.telemetry
    assert run.gate._contract.atlas == second, "from the next episode on"
    by_the_new = Telemetry(Session.load(files[1]).contract)
    for _, answer in by_hand(files[1], outcome.records):
        by_the_new.update(answer.context)
    assert now == by_the_new.now
    assert now.distance is not None


@pytest.mark.parametrize("before", [0, 3, 40])
@pytest.mark.parametrize("windows", [(8, 8), (8, 4), (4, 8), (None, 8), (8, None)])
def test_telemetry_keeps_the_contexts_that_the_new_reference_averages_over_or_begins_anew(make, windows, before):
    contracts = [
        make.contract_of(make.recurrent(), atlas=None if window is None else atlas_of(1.0, window))
        for window in windows
    ]
    rest, needed = (window or 0 for window in windows)
    telemetry, always = Telemetry(contracts[0]), Telemetry(contracts[1])
    for step, context in enumerate(np.random.default_rng(0).normal(size=(60, 2))):
        if step == before:
            telemetry.change_contract(contracts[1])
            if min(step, needed) > rest:
                always = Telemetry(contracts[1])
        telemetry.update(context)
        always.update(context)
    readings = [
        (reading.step, reading.drift, reading.distance, reading.score) for reading in (telemetry.now, always.now)
    ]
    assert readings[0] == pytest.approx(readings[1])


def test_at_an_episodes_beginning_it_is_a_fresh_session(paths, arm):
    clock, records = ManualClock(), []
    with Run(Session.load(paths[0]), arm(clock), clock) as run:
        run.episode(0)
        report = run.swap(paths[1])
        assert (report.fed, run.session.artifact.path) == (0, paths[0])
        run.episode(1, on_step=records.append)
        assert run.session.artifact.path == paths[1]
    assert [record.swapped is not None for record in records] == [True, *[False] * 9]
    assert [record.state for record in records] == [digest for digest, _ in by_hand(paths[1], records)]
    assert run.total.swaps == 1


def test_a_model_that_was_asked_for_later_wins(paths, make, arm):
    third = make.write(make.recurrent(seed=2))
    clock = ManualClock()
    with Run(Session.load(paths[0]), arm(clock), clock) as run:
        run.swap(paths[1])
        run.swap(Session.load(third))
        run.episode(0)
        assert (run.session.artifact.path, run.total.swaps) == (third, 1)


@pytest.mark.parametrize("when", ["now", "episode"])
def test_a_swap_between_episodes_is_one_for_the_next_episode(paths, arm, when):
    clock, records = ManualClock(), []
    with Run(Session.load(paths[0]), arm(clock), clock) as run:
        assert run.swap(paths[1], when).fed == 0
        run.episode(0, on_step=records.append)
    assert records[0].swapped.path == str(paths[1])


def test_a_swap_asks_nothing_of_a_sequence_that_depends_on_no_model(paths, arm):
    clock = ManualClock()
    with Run(Session.load(paths[0]), arm(clock), clock, sequence=lambda loop: pytest.fail("no episode runs")) as run:
        assert run.swap(paths[1]).fed == 0


def test_an_episode_that_ends_first_leaves_the_model_to_the_next_one(twins, arm):
    """Here it ends by a trip, while a step that takes for ever keeps the loop from taking the model over."""
    clock = ManualClock()
    robot = arm(clock)
    with Run(Session.load(twins[0]), robot, clock) as run:
        outcome = swapping(run, twins[1])

        def press(record):
            outcome.watch(record)
            if record.step == 20:
                while run._handover._successor is None and outcome.thread.is_alive():
                    time.sleep(0.001)
                run.gate.trip("somebody pressed the button")

        with pytest.raises(SafetyStop):
            run.episode(0, LONG, press)
        outcome.thread.join()
        assert (outcome.error, outcome.swapped.fed) == (None, 0)
        run.gate.rearm()
        records = []
        run.episode(1, on_step=records.append)
    assert records[0].swapped == outcome.swapped
    assert [record.state for record in records] == [digest for digest, _ in by_hand(twins[1], records)]


# --- what is refused, and what it leaves


def other_signals(make):
    """Contracts of the same policy that do not fit in the middle, and the one that fits nowhere."""
    force, position = make.action_signal, make.observation_signals[0]
    return {
        "bounds": {"action": force.model_copy(update={"high": (0.5, 0.5)})},
        "range": {"observation": (position.model_copy(update={"high": (2, 2)}), make.observation_signals[1])},
        "rate": {"rate_hz": 50.0},
        "unit": {"action": force.model_copy(update={"unit": "kN"})},
    }


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("bounds", r"'force' has high \(0.5, 0.5\), the other's has \(1.0, 1.0\).*when=\"episode\""),
        ("range", r"'position' has high \(2.0, 2.0\), the other's has \(1.0, 1.0\)"),
        ("rate", r"acts at 50 Hz, and this run at 25 Hz"),
        ("unit", r"action 'force' has unit kN, the adapter's has N"),
        (
            "weights",
            r"'tiny' has weights \w{12}, but 'tiny', which drives, has \w{12}.*equal weights.*Swap at the next ep",
        ),
        ("memoryless", r"Swap at the next episode: when=\"episode\""),
        ("damaged", "is not a complete ONNX file"),
        ("missing", r"missing.onnx"),
    ],
)
def test_in_the_middle_a_model_that_does_not_fit_is_refused_and_nothing_changes(paths, make, arm, kind, message):
    if kind in other_signals(make):
        path = make.write(make.recurrent(), **other_signals(make)[kind])
    elif kind == "weights":
        path = paths[1]
    elif kind == "damaged":
        path = make.raw(paths[1].read_bytes()[:-100])
    elif kind == "memoryless":
        path = make.write(make.memoryless())
    else:
        path = paths[1].with_name("missing.onnx")
    clock = ManualClock()
    with Run(Session.load(paths[0]), arm(clock, goals=dict.fromkeys(range(LONG), 0.0)), clock) as run:
        outcome = swapping(run, path)
        run.episode(0, LONG, outcome.watch)
        run.episode(1)
    assert re.search(message, str(outcome.error))
    assert run.session.artifact.path == paths[0]
    assert (run.total.swaps, run.total.ticks, run.total.outcomes["acted"]) == (0, LONG + 10, LONG + 10)


def test_at_an_episodes_beginning_other_bounds_and_another_architecture_may_drive(make, paths, arm):
    """The gate keeps the bounds of the one that drives."""
    half = make.write(make.recurrent(seed=1), **other_signals(make)["bounds"])
    reflex = make.write(make.memoryless())
    clock, records = ManualClock(), []
    robot = arm(clock)
    with Run(Session.load(paths[0]), robot, clock) as run:
        for path in (half, reflex, paths[1]):
            run.swap(path)
            run.episode(3, 60, records.append)
    at_most = [max(record.executed.max() for record in records[at : at + 60]) for at in (0, 60, 120)]
    assert at_most[0] == 0.5
    assert at_most[2] > 0.5
    assert {record.limited_by for record in records[60:]} == {()}


def test_limits_adapter_shadow_and_batch_are_judged_before_it_waits(make, paths, arm):
    clock = ManualClock()
    low = make.action_signal.model_copy(update={"low": (0.5, 0.5)})
    refused = {
        "rest is": make.write(make.recurrent(), action=low),
        "cannot follow": make.write(make.recurrent(), observation=make.observation_signals[:1]),
    }
    shadow = Shadow(Session.load(make.write(make.memoryless())), make.contract_of(make.recurrent()))
    with Run(Session.load(paths[0]), arm(clock), clock, limits=Limits(rest=0.0), shadow=shadow) as run:
        with pytest.raises(SamiError, match="rest is"):
            run.swap(refused["rest is"])
        with pytest.raises(SamiError, match="batch of 2"):
            run.swap(Session.load(paths[1], batch=2))
        with pytest.raises(SamiError, match="is the one that drives"):
            run.swap(run.session)
        with pytest.raises(UnknownName, match="time of a swap 'later'"):
            run.swap(paths[1], "later")
        with pytest.raises((SamiError, AdapterError, ArtifactError)):
            run.swap(paths[1].with_name("none.onnx"))
        run.episode(0)
        assert (run.total.swaps, run.session.artifact.path) == (0, paths[0])


def test_a_session_that_drives_another_run_is_refused(twins, arm):
    sessions, clocks = [Session.load(path) for path in twins], (ManualClock(), ManualClock())
    runs = [Run(session, arm(clock), clock) for session, clock in zip(sessions, clocks, strict=True)]

    def borrow(_):
        for when in ("episode", "now"):
            with pytest.raises(SamiError, match=r"drives another run. Load a new session"):
                runs[0].swap(sessions[1], when)

    with runs[0], runs[1]:
        runs[1].episode(0, max_steps=1, on_step=borrow)
        outcome = runs[0].episode(0)
    assert (outcome.loop.swaps, runs[0].session) == (0, sessions[0])


def test_the_loops_own_thread_cannot_wait_for_itself(paths, arm):
    clock = ManualClock()
    with Run(Session.load(paths[0]), arm(clock), clock) as run:
        with pytest.raises(SamiError, match=r"the loop's own thread called swap.*Call swap"):
            run.episode(0, on_step=lambda _: run.swap(paths[1], "now"))
        run.episode(0, on_step=lambda _: run.total.swaps or run.swap(paths[1]))
        run.episode(0)
    assert run.session.artifact.path == paths[1]


@pytest.mark.parametrize("ends", [False, True], ids=["goes_on", "ends"])
def test_a_swap_by_the_loops_own_thread_waits_for_no_other_swap_and_wins_as_the_later_one(make, arm, ends):
    """The loop hung for `timeout_s`, 30 s by default, and the swap of the other thread failed."""
    files = [make.write(make.recurrent(), name=name) for name in ("one", "now", "later")]
    clock = ManualClock()
    with Run(Session.load(files[0]), arm(clock), clock) as run:
        outcome = swapping(run, files[1], timeout_s=5.0)

        def watch(record):
            if record.step == 3:
                outcome.thread.start()
                while run._handover._successor is None and outcome.thread.is_alive():
                    time.sleep(0.001)
                run.swap(files[2])
                if ends:
                    run.gate.trip("somebody pressed the button")

        if ends:
            with pytest.raises(SafetyStop):
                run.episode(0, 10, watch)
            run.gate.rearm()
        else:
            run.episode(0, 10, watch)
        outcome.thread.join()
        assert (outcome.error, outcome.swapped.fed) == (None, 0 if ends else 4)
        run.episode(1)
    assert run.session.artifact.path == files[2]


def test_a_loop_that_hangs_does_not_keep_the_model_for_ever(twins, arm):
    clock, hanging = ManualClock(), threading.Event()
    with Run(Session.load(twins[0]), arm(clock), clock) as run:
        outcome = swapping(run, twins[1], timeout_s=0.1)

        def hang(record):
            outcome.watch(record)
            if record.step == 20:
                hanging.wait(10)

        threading.Timer(1.0, hanging.set).start()
        run.episode(0, LONG, hang)
    outcome.thread.join()
    assert "did not take over 'another' within 0.1 s" in str(outcome.error)
    assert run.total.swaps == 0


# --- recordings


def test_a_recording_knows_who_drove_and_replays_with_all_of_them(paths, make, arm, tmp_path):
    pytest.importorskip("mcap")
    third = make.write(make.recurrent(seed=2))
    paths = [paths[0], make.write(make.recurrent(), name="another")]
    clock = ManualClock()
    with Run(Session.load(paths[0]), arm(clock), clock, record=tmp_path / "run.mcap") as run:
        run.episode(0)
        outcome = swapping(run, paths[1])
        run.episode(1, LONG, outcome.watch)
        run.swap(third)
        run.episode(2)
    recording = read_recording(tmp_path / "run.mcap")
    assert recording.models == tuple(map(str, (*paths, third)))
    swaps = [(step.episode, step.record.swapped) for step in recording.steps if step.record.swapped]
    assert [(episode, swapped.fed) for episode, swapped in swaps] == [(1, outcome.swapped.fed), (2, 0)]
    assert swaps[0][1].contract.weights_sha256 == Session.load(paths[1]).artifact.graph_sha256
    compared = replay(recording, *map(Session.load, recording.models))
    assert (compared.same, compared.steps) == (True, 20 + LONG)
    assert not replay(recording, Session.load(paths[0])).same
    assert not replay(recording, *map(Session.load, (paths[0], third, paths[1]))).same
    with pytest.raises(SamiError, match=r"2 models were given to replay .* in which 3 drove"):
        replay(recording, *map(Session.load, paths))


def test_later_episodes_of_a_recording_are_shown_by_the_reference_of_the_model_that_drove_them(make, arm, tmp_path):
    pytest.importorskip("mcap")
    wide, second = (atlas_of(scale, window) for scale, window in ((1.0, 4), (0.1, 2)))
    files = [make.write(make.recurrent(seed=seed), atlas=atlas) for seed, atlas in enumerate((wide, second, None))]
    with Run(Session.load(files[0]), arm(), simulator=True, record=tmp_path / "run.mcap") as run:
        for path in files:
            if path is not files[0]:
                run.swap(path)
            run.episode(0, 12)
    recording = read_recording(tmp_path / "run.mcap")
    swaps = [step.record.swapped for step in recording.steps if step.record.swapped]
    assert [swap.contract.atlas for swap in swaps] == [second, None]
    document = run_of(recording)
    assert document["atlas"]["window"] == 4
    assert [(at, atlas and atlas["window"]) for at, atlas in document["atlases"]] == [(12, 2), (24, None)]


def test_a_recording_of_an_earlier_version_whose_swap_rebuilt_the_state_replays(paths, arm, tmp_path):
    """They let other weights take over in the middle of an episode, and said from which step on these had been fed."""
    pytest.importorskip("mcap")
    clock, records, fed_from, at = ManualClock(), [], 5, 20
    sessions = [Session.load(path) for path in paths]
    with Run(sessions[0], arm(clock), clock) as run:
        run.episode(0, 40, records.append)
    artifact = sessions[1].artifact
    swapped = Swapped(str(paths[1]), artifact.graph_sha256, artifact.contract, fed_from, at)
    with Recorder(tmp_path / "old.mcap", sessions[0]) as recorder:
        for record, (digest, answer) in zip(records, by_hand(paths[1], records, fed_from), strict=True):
            if record.step >= at:
                new = {"action": answer.action, "context": answer.context, "state": digest}
                record = replace(record, swapped=swapped if record.step == at else None, **new)
            recorder(record)
    recording = read_recording(tmp_path / "old.mcap")
    assert [step.record.swapped.fed_from for step in recording.steps if step.record.swapped] == [fed_from]
    assert replay(recording, *map(Session.load, paths)).same
    assert not replay(recording, Session.load(paths[0])).same
