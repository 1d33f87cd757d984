"""One more output or input of the graph is declared in the contract and computed; everything else follows from that."""

import dataclasses
import json

import numpy as np
import pytest
from pydantic import ValidationError
from sami_cli.commands.inspect import signal_table

from sami_runtime.adapters import Observation
from sami_runtime.checks import bench
from sami_runtime.checks.verify import verify
from sami_runtime.errors import ArtifactError, ContractError, SamiError, SignalError
from sami_runtime.loop.episode import run_episode
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.contract import Contract
from sami_runtime.session.session import Session
from sami_runtime.signals import Signal

ESTIMATE = Signal(name="estimate", size=2, unit="m", elements=("x", "y"), low=(None, None), high=(None, None))
AGE = Signal(name="age", size=1, unit="1", elements=("periods",), low=(0,), high=(None,))


@pytest.fixture
def policy(make, onnx_tools):
    """A recurrent policy whose graph also answers `estimate`, half of its context."""

    class Estimating(make.recurrent):
        def nodes(self):
            return [*super().nodes(), onnx_tools[1].make_node("Mul", ["context", "half"], ["estimate"])]

        def initializers(self):
            return {**super().initializers(), "half": np.float32([0.5])}

    return Estimating()


@pytest.fixture
def golden(make, policy):
    """Its golden steps, by numpy."""
    observations = make.observations(16)
    actions, contexts = policy.reference(observations, resets=(0, 7))
    answers = {"action": actions, "context": contexts, "estimate": contexts / 2}
    return make.pack(policy, observations, actions, answers, (0, 7), extra_outputs=(ESTIMATE,))


@pytest.fixture
def path(make, policy, golden):
    return make.write(policy, extra_outputs=(ESTIMATE,), golden=golden)


def recorded(path, tmp_path, arm):
    from sami_runtime.recording.reader import read_recording
    from sami_runtime.recording.recorder import Recorder

    session, records = Session.load(path), []
    with Recorder(tmp_path / "run.mcap", session) as recorder:
        run_episode(session, arm(), seed=0, on_step=lambda record: (records.append(record), recorder(record)))
    return read_recording(tmp_path / "run.mcap"), records


def test_a_contract_with_an_extra_output_survives_its_json_and_one_without_does_not_mention_any(make, policy, path):
    contract = read_artifact(path).contract
    assert Contract.parse(contract.dumps(), "m") == contract
    assert list(contract.outputs) == ["action", "context", "estimate", "state.memory.out"]
    assert signal_table(contract).endswith("\noutput estimate       0..1   2     m     x, y")
    assert "extra_outputs" not in json.loads(make.contract_of(policy).dumps())
    assert "extra_outputs" not in make.contract_of(policy).model_dump(mode="json", exclude={"golden"})


@pytest.mark.parametrize("name", ["action", "context", "executed", "previous_action"])
def test_an_extra_output_takes_no_other_tensors_name(make, policy, name):
    with pytest.raises(ValidationError, match=f"output name used twice: {name}"):
        make.contract_of(policy, extra_outputs=(ESTIMATE.model_copy(update={"name": name}),))


def test_a_graph_without_the_declared_output_or_with_one_more_is_refused(make, policy):
    with pytest.raises(ArtifactError, match="output 'estimate' is missing"):
        read_artifact(make.write(policy, extra_outputs=(ESTIMATE,), edit=lambda model: model.graph.output.pop(2)))
    model = make.model_of(policy, make.contract_of(policy, extra_outputs=(ESTIMATE,)))
    with pytest.raises(ArtifactError, match="output 'estimate' is not in the contract"):
        read_artifact(make.raw(make.sign(model, make.contract_of(policy))))


def test_golden_steps_hold_it_and_those_without_it_are_refused(make, policy, path, golden):
    contract = read_artifact(path).contract
    steps = contract.golden_steps()
    np.testing.assert_array_equal(steps.answers["estimate"], steps.answers["context"] / 2)
    assert contract.pack_golden(steps) == golden
    del steps.answers["estimate"]
    with pytest.raises(ContractError, match=r"hold .*; its signals are .*'estimate': 2"):
        contract.model_copy(update={"golden": contract.pack_golden(steps)}).golden_steps()


def test_verify_compares_it_at_every_step(make, policy, path):
    report = verify(path)
    assert report.passed, str(report)
    assert "in estimate[" in str(report)
    contract = read_artifact(path).contract
    steps = contract.golden_steps()
    steps.answers["estimate"][9, 1] += 0.5
    report = verify(make.write(policy, extra_outputs=(ESTIMATE,), golden=contract.pack_golden(steps)))
    assert "largest error 5.0e-01 in estimate[1] at step 9 (" in str(report)
    assert not report.passed


@pytest.mark.parametrize("batch", [1, 3])
def test_a_step_answers_it_by_name_and_the_answer_is_the_callers(make, path, batch):
    session, rows = Session.load(path, batch=batch), make.observations(10)
    rest = []
    for t in range(5):
        step = session.step({name: value[t] if batch == 1 else value[t : t + batch] for name, value in rows.items()})
        np.testing.assert_array_equal(step.extra["estimate"], step.context / 2)
        rest.append((step, step.extra["estimate"].copy()))
    assert step[:3] == (step.action, step.context, step.inference_s)
    assert list(step.answers) == ["action", "context", "estimate"]
    for step, copy in rest:
        np.testing.assert_array_equal(step.extra["estimate"], copy)
    np.testing.assert_array_equal(session.hold().extra["estimate"], copy)
    session.reset()
    assert not session.state.extra["estimate"].any()


def test_a_state_brings_it_back(make, path):
    session, other, observations = Session.load(path), Session.load(path), make.observations(1)
    step = session.step({name: value[0] for name, value in observations.items()})
    other.restore(session.state)
    np.testing.assert_array_equal(other.hold().extra["estimate"], step.extra["estimate"])
    with pytest.raises(SamiError, match="the state has shapes"):
        other.restore(dataclasses.replace(session.state, extra={}))


def test_one_that_is_not_finite_is_refused_by_the_names_of_its_elements(make, policy):
    class Infinite(type(policy)):
        def initializers(self):
            return {**super().initializers(), "half": np.float32([np.inf])}

    session = Session.load(make.write(Infinite(), extra_outputs=(ESTIMATE,)))
    with pytest.raises(SignalError, match="output 'estimate' contains infinity at x, y"):
        session.step({name: value[0] for name, value in make.observations(1).items()})
    assert session.tick == 0


def test_a_loop_records_it_and_a_replay_compares_it_to_the_last_bit(path, tmp_path, arm):
    pytest.importorskip("mcap")
    from sami_runtime.recording.replay import replay

    recording, records = recorded(path, tmp_path, arm)
    for step, record in zip(recording.steps, records, strict=True):
        np.testing.assert_array_equal(record.extra["estimate"], record.context / 2)
        assert step.record.extra["estimate"].tobytes() == record.extra["estimate"].tobytes()
    assert replay(recording, Session.load(path)).same
    steps = list(recording.steps)
    forgery = dataclasses.replace(steps[3].record, extra={"estimate": steps[3].record.extra["estimate"] + 1.0})
    steps[3] = steps[3]._replace(record=forgery)
    comparison = replay(dataclasses.replace(recording, steps=tuple(steps)), Session.load(path))
    assert (comparison.differing, list(comparison.largest)) == (1, ["estimate x", "estimate y"])


def test_what_a_model_lacks_is_not_compared_and_the_replay_says_so(make, path, tmp_path, arm):
    pytest.importorskip("mcap")
    from sami_runtime.recording.replay import conditions, replay

    recording, _ = recorded(path, tmp_path, arm)
    without = Session.load(make.write(make.recurrent()))
    assert replay(recording, without).largest == {}
    assert any("the recording or the model lacks it: estimate" in note for note in conditions(recording, without))


def test_all_ways_to_step_the_file_that_are_timed_answer_the_same(path):
    assert bench.largest_difference(bench.candidates(read_artifact(path))) == 0.0


# --- inputs


@pytest.fixture
def contracts_with_age(monkeypatch):
    """Contracts with one more line in `signal_inputs`: a step is also given `age`."""
    inputs = Contract.signal_inputs.fget
    monkeypatch.setattr(Contract, "signal_inputs", property(lambda contract: {**inputs(contract), "age": AGE}))


def test_one_more_input_is_one_line_in_the_contract_and_the_code_that_gives_it(
    contracts_with_age, make, onnx_tools, arm, tmp_path
):
    class AgeReader(make.memoryless):
        """Its action is that of the tiny policy, times the age."""

        def nodes(self):
            *nodes, last = super().nodes()
            last.output[0] = "young"
            return [*nodes, last, onnx_tools[1].make_node("Mul", ["young", "age"], ["action"])]

    class Stamped(arm):
        """Gives the age that a loop would compute."""

        def read(self):
            observation = super().read()
            return Observation({**observation.values, "age": np.float32([self.reads])}, observation.time)

    policy, observations = AgeReader(), make.observations(8)
    observations["age"] = np.arange(8, dtype=np.float32)[:, None]
    actions = policy.reference(observations)[0] * observations["age"]
    path = make.write(policy, golden=make.pack(policy, observations, actions, {"action": actions}, (0, 3)))
    assert list(read_artifact(path).contract.inputs)[2:] == ["age", "previous_action"]
    assert verify(path).passed, str(verify(path))
    with pytest.raises(SignalError, match="observation 'age' is missing"):
        Session.load(path).step({name: observations[name][0] for name in ("position", "goal")})
    assert bench.largest_difference(bench.candidates(read_artifact(path))) == 0.0

    pytest.importorskip("mcap")
    from sami_runtime.recording.replay import replay

    recording, records = recorded(path, tmp_path, Stamped)
    assert [record.observation.values["age"] for record in records] == list(range(1, 11))
    assert replay(recording, Session.load(path)).same
