"""Laws of following: a replay and a shadow answer as the session that they follow, or name where they do not."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mcap")

from sami_runtime.clock import ManualClock
from sami_runtime.distribution import shipped_models
from sami_runtime.errors import SamiError
from sami_runtime.loop.episode import run_episode
from sami_runtime.loop.pilot import Ending
from sami_runtime.recording.reader import read_recording
from sami_runtime.recording.recorder import Recorder
from sami_runtime.recording.replay import Shadow, conditions, replay
from sami_runtime.session.session import Session


@pytest.fixture
def path(make):
    return make.write(make.recurrent())


@pytest.fixture
def recorded(path, arm, tmp_path):
    """Two episodes with a late answer, a refused one and held ticks, in a loop twice as fast as the policy."""
    clock, session = ManualClock(), Session.load(path)
    adapter = arm(clock, limit=0.3, reading=[0, 0, 0.05], nan_at_reads=[4], stale_at_reads=[6, 7, 8])
    with Recorder(tmp_path / "run.mcap", session) as recorder:
        for seed in (0, 1):
            run_episode(session, adapter, seed=seed, clock=clock, loop_hz=50.0, on_step=recorder)
    return read_recording(tmp_path / "run.mcap")


def altered(recording, at, **changes):
    """The recording with another record at one place."""
    steps = list(recording.steps)
    steps[at] = steps[at]._replace(record=dataclasses.replace(steps[at].record, **changes))
    return dataclasses.replace(recording, steps=tuple(steps))


def nudged(array, by=1):
    """The array with its first number moved by some units in the last place."""
    return np.concatenate([array[:1].view(np.int32) + np.int32(by), array[1:].view(np.int32)]).view(np.float32)


def test_the_same_model_does_it_again_to_the_last_bit(recorded, path):
    comparison = replay(recorded, Session.load(path))
    assert comparison.same
    assert comparison.steps == sum(step.record.outcome == "acted" for step in recorded.steps) == 17
    assert str(comparison) == "17 steps compared, none differs"
    assert conditions(recorded, Session.load(path)) == []


def acted(recording, episode):
    return [at for at, step in enumerate(recording.steps) if step.episode == episode and step.record.outcome == "acted"]


@pytest.mark.parametrize("episode", [0, 1])
@pytest.mark.parametrize(("name", "element"), [("action", "action fx"), ("context", "context 0")])
def test_one_bit_at_one_step_of_any_episode_is_found_and_named(recorded, path, episode, name, element):
    at = acted(recorded, episode)[3]
    record = recorded.steps[at].record
    comparison = replay(altered(recorded, at, **{name: nudged(getattr(record, name))}), Session.load(path))
    assert (comparison.same, comparison.differing) == (False, 1)
    assert comparison.first[:3] == (episode, record.step, element)
    assert f"first at episode {episode}, step {record.step}: {element} is " in str(comparison)


def test_an_executed_action_that_was_changed_shows_in_the_state_at_once_and_in_the_next_answer(recorded, path):
    at = acted(recorded, 0)[4] - 1  # the last tick before the policy is asked again
    executed = recorded.steps[at].record.executed
    comparison = replay(altered(recorded, at, executed=nudged(executed, by=1 << 16)), Session.load(path))
    assert comparison.first.name == "state"
    assert comparison.first.step == recorded.steps[at].record.step
    assert "context 0" in comparison.largest
    assert comparison.differing > 2


def test_a_state_that_differs_is_found_where_no_answer_shows_it(recorded, path):
    comparison = replay(altered(recorded, 5, state="0" * 16), Session.load(path))
    assert (comparison.differing, comparison.first.name, comparison.first.expected) == (1, "state", "0" * 16)


def test_other_weights_are_compared_by_their_answers_and_said_to_be_others(recorded, make):
    other = Session.load(make.write(make.recurrent(seed=1)))
    comparison = replay(recorded, other)
    assert comparison.differing == comparison.steps == 17
    assert comparison.first.episode == comparison.first.step == 0
    assert "state" not in comparison.largest
    assert set(comparison.largest) == {"action fx", "action fy", "context 0", "context 1"}
    assert "the recording was made with weights" in conditions(recorded, other)[0]


def test_other_versions_are_told(recorded, path):
    about = {**recorded.about, "versions": {**recorded.about["versions"], "onnxruntime": "0.1"}}
    [note] = conditions(dataclasses.replace(recorded, about=about), Session.load(path))
    assert note.startswith("versions then: {'sami': ")


def test_a_model_without_a_context_differs_without_a_crash(recorded, make):
    comparison = replay(recorded, Session.load(make.write(make.memoryless())))
    assert comparison.largest["context"].actual == "of shape (0,)"


def test_a_model_that_fails_on_the_recording_is_counted_and_not_hidden(recorded, make):
    blind = altered(recorded, 0, observation=recorded.steps[acted(recorded, 0)[1]].record.observation)
    blind.steps[0].record.observation.values["goal"][:] = 0.0
    comparison = replay(blind, Session.load(make.write(make.inverse())))
    assert comparison.failed >= 1
    assert not comparison.same
    assert "no answer: tick 0: output 'action' contains" in str(comparison)


# --- shadows


def test_a_shadow_of_the_same_weights_acts_alike_also_where_limits_act_on_what_it_proposed(path, arm):
    driving = Session.load(path)
    shadow = Shadow(Session.load(path), driving.contract)
    adapter = arm(limit=0.2, nan_at_reads=[4])
    for seed in range(3):
        run_episode(driving, adapter, seed=seed, on_step=shadow)
    assert shadow.comparison.same
    assert shadow.comparison.steps == 29


def test_a_shadow_reads_what_was_executed_and_not_what_it_would_have_done(path, make, arm):
    policy, records = make.recurrent(seed=1), []
    driving = Session.load(path)
    shadow = Shadow(Session.load(make.write(policy)), driving.contract)
    run_episode(driving, arm(limit=0.2), seed=0, on_step=lambda record: (records.append(record), shadow(record)))
    values = {name: np.array([record.observation.values[name] for record in records]) for name in ("position", "goal")}
    actions, _ = policy.reference(values, np.array([record.executed for record in records]))
    sizes = np.abs(actions - np.array([record.action for record in records]))
    largest = shadow.comparison.largest
    assert largest["action fx"].size == pytest.approx(sizes[:, 0].max(), abs=1e-6)
    assert largest["action fy"].step == sizes[:, 1].argmax()
    assert shadow.comparison.first.step == 0


def test_a_shadow_counts_only_what_exceeds_its_tolerance(path, make, arm):
    driving, other = Session.load(path), make.write(make.recurrent(seed=1))

    def differing(tolerance):
        shadow = Shadow(Session.load(other), driving.contract, tolerance)
        run_episode(driving, arm(), seed=0, on_step=shadow)
        assert all(item.size > tolerance for item in shadow.comparison.largest.values())
        return shadow.comparison

    sizes = [item.size for item in differing(0.0).largest.values()]
    assert differing(0.0).differing == 10
    assert 0 < differing(0.9 * max(sizes)).differing < 10
    assert differing(max(sizes)).same


def test_a_shadow_that_fails_disturbs_nobody(path, make, arm):
    driving = Session.load(path)
    shadow = Shadow(Session.load(make.write(make.inverse())), driving.contract)
    report = run_episode(driving, arm(goals={2: 0.0, 5: 0.0}), seed=0, on_step=shadow)
    assert report.loop.outcomes == {"acted": 10}
    assert (shadow.comparison.failed, shadow.comparison.steps) == (2, 8)


def test_a_shadow_for_another_robot_is_refused(path, make):
    contract = Session.load(path).contract
    other = make.observation_signals[0].model_copy(update={"name": "attitude", "unit": "rad"})
    changes = {"observation": (*make.observation_signals[1:], other), "rate_hz": 50.0}
    policy = make.memoryless()
    policy.nodes = lambda: renamed(make.memoryless().nodes())
    with pytest.raises(SamiError) as caught:
        Shadow(Session.load(make.write(policy, **changes)), contract)
    message = "model 'reflex' cannot follow 'tiny': it reads 'attitude', which the other does not; it acts at 50 Hz"
    assert message in str(caught.value)


def renamed(nodes):
    for node in nodes:
        node.input[:] = [name.replace("observation.position", "observation.attitude") for name in node.input]
    return nodes


def test_a_recording_of_version_1_replays_to_the_last_bit():
    """Made by `sami run --record` before recordings had chunks: `--env panda --episodes 2 --steps 6 --seed 3`."""
    recording = read_recording(Path(__file__).with_name("version-1.mcap"))
    assert (recording.about["version"], recording.closed, len(recording.steps)) == (1, True, 12)
    assert recording.episodes == {0: (Ending.STEPS, False), 1: (Ending.STEPS, False)}
    comparison = replay(recording, Session.load(shipped_models()["panda-satesac"]))
    assert (comparison.steps, str(comparison)) == (12, "12 steps compared, none differs")


def test_a_readout_that_only_one_of_them_has_is_not_compared_and_said(recorded, make):
    """A probe that was added later changes no action: older recordings replay as they were."""
    session = Session.load(make.write(make.recurrent()))
    readout = session.contract.action.model_copy(update={"name": "probe_mass"})
    contract = session.contract.model_copy(update={"extra_outputs": (readout,)})
    later = dataclasses.replace(recorded, contract=contract)
    assert replay(later, session).same
    assert "not compared, because the recording or the model lacks it: probe_mass" in conditions(later, session)
