"""Ways in which control loops of others fail without a word. Each test is named after one, and shows it absent here."""

import threading
from itertools import count

import numpy as np
import pytest
from onnx import helper

from sami_runtime.adapters import Observation
from sami_runtime.clock import ManualClock
from sami_runtime.errors import AdapterError, ArtifactError, RecordingError, SafetyStop, SamiError, SignalError
from sami_runtime.loop.episode import run_episode
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.contract import StateTensor
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session


@pytest.fixture
def session(make):
    return Session.load(make.write(make.recurrent()))


@pytest.fixture
def poisoned(make):
    """A policy one of whose outputs is infinite or NaN where the goal is 0: `poisoned("context")`."""

    class Poisoned(make.recurrent):
        name = "poisoned"
        state = (StateTensor(name="memory", shape=(2,)),)

        def __init__(self, output):
            self.divided = output

        def nodes(self):
            ends = {"action": "action", "context": "context", "state": "state.memory.out"}
            plain = [helper.make_node("Add", ["observation.position", "state.memory.in"], ["sum"])]
            for output, name in ends.items():
                operator, other = ("Div", "observation.goal") if output == self.divided else ("Mul", "half")
                plain.append(helper.make_node(operator, ["sum", other], [name]))
            return plain

        def initializers(self):
            return {"half": np.float32([0.5])}

    return lambda output: Session.load(make.write(Poisoned(output)))


@pytest.mark.parametrize("output", ["action", "context", "state"])
def test_nan_passes_min_and_max_and_np_clip(poisoned, arm, output):
    session, states, records = poisoned(output), [], []
    adapter = arm(goals={3: 0.0, 4: 0.0})
    gate = SafetyGate(adapter, session.contract, Limits(low=-0.5, high=0.5))

    def watch(record):
        records.append(record)
        states.append(session.state)

    run_episode(session, adapter, seed=0, gate=gate, on_step=watch)
    assert np.isfinite(adapter.written).all()
    assert [record.outcome for record in records] == ["acted"] * 3 + ["refused"] * 2 + ["acted"] * 5
    name = {"action": "'action'", "context": "'context'", "state": r"'state.memory.out'"}[output]
    assert f"output {name} contains infinity" in records[3].reason
    np.testing.assert_array_equal(states[4].tensors["memory"], states[2].tensors["memory"])
    np.testing.assert_array_equal(adapter.written[3:5], adapter.written[2:3] * 2)


def test_nan_in_an_observation_becomes_a_plausible_action(session, arm):
    adapter, records = arm(nan_at_reads=[3]), []
    run_episode(session, adapter, seed=0, on_step=records.append)
    assert records[3].outcome == "refused"
    assert "observation 'position' contains NaN at x" in records[3].reason
    np.testing.assert_array_equal(adapter.written[3], adapter.written[2])


def test_an_unknown_input_becomes_zeros_and_a_warning(session, arm):
    class Renamed(arm):
        def read(self):
            frame = super().read()
            return Observation({"position": frame.values["position"], "gaol": frame.values["goal"]}, frame.time)

    adapter = Renamed()
    with pytest.raises(SignalError, match="observation 'goal' is missing"):
        run_episode(session, adapter)
    assert (adapter.writes, adapter.stops) == (0, 1)


def test_a_read_that_succeeds_gives_the_same_frozen_sample_for_ever(session, arm):
    class Stuck(arm):
        """Its driver repeats the last sample after the third, and stamps it with the time of asking."""

        def read(self):
            observation = super().read()
            self.stored = observation if self.reads <= 3 else self.stored
            return Observation(self.stored.values, self.clock.now())

    clock = ManualClock()
    adapter = Stuck(clock)
    gate = SafetyGate(adapter, session.contract, Limits(frozen={"position": 3}, stop_after=2))
    with pytest.raises(SafetyStop, match="frozen: position had the same value 4 times"):
        run_episode(session, adapter, seed=0, clock=clock, gate=gate)
    assert (adapter.reads, adapter.writes, adapter.stops) == (6, 5, 1)


def test_stale_data_is_used_for_ever(session, arm):
    clock = ManualClock()
    adapter = arm(clock, stale_at_reads=range(2, 99))
    gate = SafetyGate(adapter, session.contract, Limits(stop_after=3))
    with pytest.raises(SafetyStop, match=r"lastly: age: the observation was measured 0\.24 s before now"):
        run_episode(session, adapter, seed=0, clock=clock, gate=gate)
    # By default an observation may be three periods old: that of read 1 is, at read 3.
    assert (adapter.reads, adapter.stops) == (7, 1)


def test_a_learned_initial_state_is_ignored(make, session, arm):
    """The tiny policy's memory begins with 0.5; its answers by numpy say so from the first tick of each episode on."""
    policy, records = make.recurrent(), []
    for seed in (0, 1):
        report = run_episode(session, arm(limit=0.1), seed=seed, on_step=records.append)
        episode = records[-10:]
        observations = {name: np.array([r.observation.values[name] for r in episode]) for name in ("position", "goal")}
        actions, contexts = policy.reference(observations, np.array([r.executed for r in episode]))
        np.testing.assert_allclose(report.contexts, contexts, atol=1e-6)
        np.testing.assert_allclose([r.action for r in episode], actions, atol=1e-6)


def test_a_clipped_action_is_told_as_unclipped(make, session, arm):
    policy, records = make.recurrent(), []
    run_episode(session, arm(limit=0.1), seed=0, on_step=records.append)
    observations = {name: np.array([r.observation.values[name] for r in records]) for name in ("position", "goal")}
    unclipped, _ = policy.reference(observations)  # as if every action had been executed as it was proposed
    assert np.abs(unclipped - [r.action for r in records]).max() > 1e-3


def test_a_failed_step_advances_the_state(session, arm, monkeypatch):
    states, step, calls = [], session.step, count()

    def fail(observation, age):
        if next(calls) == 3:
            raise SamiError("inference failed")
        return step(observation, age)

    monkeypatch.setattr(session, "step", fail)
    run_episode(session, arm(), seed=0, on_step=lambda _: states.append(session.state.tensors["memory"]))
    np.testing.assert_array_equal(states[3], states[2])
    assert (states[4] != states[3]).any()


def test_a_recurrent_policy_is_stepped_at_the_hosts_rate(session, arm):
    clocks, contexts = [ManualClock(), ManualClock()], []
    for clock, hz in zip(clocks, (None, 1000.0), strict=True):
        still = arm(clock, limit=1e-30)  # nothing moves, so that both loops see the same
        contexts.append(run_episode(session, still, seed=0, clock=clock, loop_hz=hz).contexts)
    np.testing.assert_array_equal(contexts[0], contexts[1])
    with pytest.raises(SamiError, match="Set a multiple of it, such as 50"):
        run_episode(session, arm(), loop_hz=40.0)


def test_relative_sleep_drifts_and_a_late_tick_is_followed_by_a_burst(session, arm):
    clock = ManualClock()
    adapter = arm(clock, writing=[0.03] * 4 + [0.13])
    run_episode(session, adapter, clock=clock)
    np.testing.assert_allclose(adapter.written_at, 0.04 * np.array([0, 1, 2, 3, 4, 8, 9, 10, 11, 12]))


def test_dt_is_assumed_constant(session, arm):
    """Two writes are 120 ms apart instead of 40: the rate limit allows as much as in two periods, its most."""
    clock = ManualClock()
    adapter = arm(clock, writing=[0.0, 0.1])
    gate = SafetyGate(adapter, session.contract, Limits(rest=0.0, rate=0.01))
    run_episode(session, adapter, seed=0, clock=clock, gate=gate, max_steps=3)
    moves = np.abs(np.diff(np.vstack([np.zeros(2), adapter.written]), axis=0))
    np.testing.assert_allclose(moves, [[0.0004] * 2, [0.0004] * 2, [0.0008] * 2], rtol=1e-4)


def test_a_detached_loop_dies_silently(session, arm):
    """There is no thread to die: what goes wrong in a tick is raised out of that tick."""
    threads, counts = threading.active_count(), []
    adapter = arm(raise_at_reads=[3])
    with pytest.raises(AdapterError, match="read 3 fails"):
        run_episode(session, adapter, on_step=lambda record: counts.append(threading.active_count()))
    assert counts == [threads] * 3
    assert adapter.stops == 1


def test_a_hash_is_written_and_never_checked(session, arm, tmp_path):
    pytest.importorskip("mcap")
    from sami_runtime.recording.reader import read_recording
    from sami_runtime.recording.recorder import Recorder

    path = tmp_path / "run.mcap"
    with Recorder(path, session) as recorder:
        run_episode(session, arm(), on_step=recorder)
    data = path.read_bytes()
    at = data.index(b"\x28\xb5\x2f\xfd") + 40  # within the first chunk: where its compressed messages begin
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(RecordingError, match=r"run\.mcap is damaged"):
        read_recording(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"rate_hz":25.0', b'"rate_hz":85.0'), (b'"initial":0.5', b'"initial":0.9'), (b'"high":[1.0', b'"high":[9.0')],
)
def test_a_contract_that_was_changed_is_refused(make, old, new):
    data = make.write(make.recurrent()).read_bytes()
    assert data.count(old) >= 1
    with pytest.raises(ArtifactError, match=r"its contract does not match sami\.contract\.sha256"):
        read_artifact(make.raw(data.replace(old, new, 1)))
    read_artifact(make.raw(data.replace(b"sami.contract.sha256", b"sami.contract.sha25X")))  # older files have no hash
