"""A forward model in front of an exported policy: what the file answers, what covers it, and what is refused."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from sami_runtime import CheckFailed, GapProfile, SamiError, Session, read_artifact, verify
from sami_runtime.model.artifact import graph_sha256
from sami_runtime.model.lookahead import FRONT, SignalErrors
from sami_train.envs.catalog import environment
from sami_train.envs.layout import flatten
from sami_train.envs.make import make
from sami_train.evaluation.evaluate import evaluate
from sami_train.evaluation.model_policy import SessionPolicy, connect_ages
from sami_train.export.export import compose_model
from sami_train.export.model_file import compose, write
from sami_train.studies.contexts.changed_episodes import PolicyHead
from sami_train.studies.lookahead.fit import Fit, fit
from sami_train.studies.lookahead.forward_model import ForwardModel, Reference, without
from sami_train.studies.lookahead.stretches import roll_out
from tests.making.attached import attach_lookahead
from tests.making.graph_weights import graph_weights
from tests.sami_train.export.test_export import SHORT_ENV, make_agent

SPEC = environment("panda")
STEPS = 3


def make_fit(seed=0, steps=STEPS, context=6):
    """A forward model of no world: weights at random."""
    rng, inputs = np.random.default_rng(seed), 25 + 4 + 4 + context
    shapes = (inputs, 16), (16, 16), (16, 25)
    weights = tuple(rng.normal(0, 0.3, shape).astype(np.float32) for shape in shapes)
    biases = tuple(rng.normal(0, 0.1, shape[1]).astype(np.float32) for shape in shapes)
    error = SignalErrors(predicted=(0.1,) * steps, standing=(1.0,) * steps)
    return Fit(ForwardModel(weights, biases), 100, 10, {s.name: error for s in SPEC.signals})


@pytest.fixture(scope="module")
def ahead(plain, tmp_path_factory):
    path = tmp_path_factory.mktemp("ahead") / "tiny.onnx"
    attach_lookahead(plain, path, STEPS, make_fit(), "nothing")
    return path


def observations(steps, seed=0):
    rows = np.random.default_rng(seed).normal(0.1, 0.3, (steps, 25)).astype(np.float32)
    return [SPEC.layout.by_name(row) for row in rows]


def test_at_age_0_it_is_the_file_without_it_to_the_bit(plain, ahead):
    session, reference = Session.load(ahead), Session.load(plain)
    for step, observation in enumerate(observations(60)):
        if step == 30:
            session.reset()
            reference.reset()
        step_ahead, other = session.step(observation), reference.step(observation)
        assert step_ahead.action.tobytes() == other.action.tobytes()
        assert step_ahead.context.tobytes() == other.context.tobytes()
        for item in (session, reference):
            item.executed(np.clip(step_ahead.action, -0.5, 0.5))
            item.elapse(step % 3 == 0)


def test_at_any_age_it_is_the_forward_model_before_the_policy(plain, ahead):
    session, rng = Session.load(ahead), np.random.default_rng(1)
    reference = Reference(Session.load(plain), session.contract, make_fit().model)
    for observation in observations(60, seed=2):
        ages = rng.uniform(0, STEPS, len(SPEC.signals))
        holds = int(rng.integers(3))
        session.elapse(holds)
        reference.elapse(holds)
        answer = session.step(observation, dict(zip((s.name for s in SPEC.signals), ages, strict=True)))
        for name, expected in reference.step(observation, ages).items():
            assert answer.answers[name] == pytest.approx(expected, abs=1e-5)
        executed = rng.uniform(-1, 1, 4).astype(np.float32)
        session.executed(executed)
        reference.executed(executed)


def test_its_golden_steps_cover_ages_and_held_periods(ahead):
    steps = read_artifact(ahead).contract.golden_steps()
    late = steps.age.max(axis=1)
    assert (late == 0).mean() > 0.2
    assert (late > 1).mean() > 0.4
    assert steps.age.max() <= STEPS
    assert steps.holds.sum() > 10
    assert verify(ahead).passed


def tampered(path, out, weight, factor):
    """The file with one array of its forward model scaled, signed as if that were right."""
    artifact = read_artifact(path)
    model = onnx.load_from_string(artifact.model_bytes)
    for tensor in model.graph.initializer:
        if tensor.name == FRONT + weight:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(factor), tensor.name))
    digest = graph_sha256(model.SerializeToString())
    write(compose(out, model, artifact.contract.model_copy(update={"weights_sha256": digest})))
    return out


@pytest.mark.parametrize("weight", ["weight_0", "weight_2", "bias_1"])
def test_a_forward_model_that_was_tampered_with_fails_the_golden_steps(ahead, tmp_path, weight):
    report = verify(tampered(ahead, tmp_path / "bad.onnx", weight, 1.01))
    assert next(check.name for check in report.checks if not check.passed) == "golden replay"
    assert verify(tampered(ahead, tmp_path / "same.onnx", weight, 1.0)).passed


def test_it_can_be_fitted_anew_and_look_further(plain, ahead, tmp_path):
    contract = attach_lookahead(ahead, tmp_path / "new.onnx", 5, make_fit(seed=7, steps=5), "something else")
    direct = attach_lookahead(plain, tmp_path / "direct.onnx", 5, make_fit(seed=7, steps=5), "something else")
    assert contract == direct
    assert (tmp_path / "new.onnx").read_bytes() == (tmp_path / "direct.onnx").read_bytes()


def test_without_it_the_graph_is_as_it_was(plain, ahead):
    before, after = (onnx.load_from_string(read_artifact(path).model_bytes) for path in (plain, ahead))
    bare = without(after, read_artifact(ahead).contract)
    assert [node for node in bare.graph.node] == [node for node in before.graph.node]
    assert {t.name for t in bare.graph.initializer} == {t.name for t in before.graph.initializer}


def test_a_file_that_is_not_what_it_says_is_not_given_one(plain, tmp_path):
    model = onnx.load_from_string(read_artifact(plain).model_bytes)
    (weight,) = [t for t in model.graph.initializer if t.name == "policy.actor.mean.bias"]
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) + np.float32(0.1), weight.name))
    contract = read_artifact(plain).contract
    digest = graph_sha256(model.SerializeToString())
    write(compose(tmp_path / "bad.onnx", model, contract.model_copy(update={"weights_sha256": digest})))
    with pytest.raises(CheckFailed, match="FAILED  golden replay"):
        attach_lookahead(tmp_path / "bad.onnx", tmp_path / "out.onnx", STEPS, make_fit(), "nothing")
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("steps", [0, 17])
def test_it_looks_1_to_16_periods_ahead(plain, tmp_path, steps):
    with pytest.raises(SamiError, match=f"--lookahead is {steps}; a file looks 1 to 16 periods ahead"):
        attach_lookahead(plain, tmp_path / "out.onnx", steps, make_fit(), "nothing")


def test_the_policy_behind_it_keeps_its_weights(plain, ahead):
    after, before = graph_weights(ahead), graph_weights(plain)
    assert after.keys() == before.keys()
    assert all(np.array_equal(after[name], before[name]) for name in after)


def test_its_policy_can_be_cut_from_its_encoder(plain, ahead):
    signals = SPEC.layout.by_name(np.random.default_rng(0).normal(0, 0.3, (5, 25)).astype(np.float32))
    context = np.random.default_rng(1).normal(size=(5, 6)).astype(np.float32)
    action, other = (PolicyHead(read_artifact(path))(signals, context) for path in (ahead, plain))
    assert action.tobytes() == other.tobytes()


def test_a_policy_without_a_context_looks_ahead_too(tmp_path):
    agent = make_agent("sac")
    write(compose_model(agent, tmp_path / "sac.onnx", {"method": "SAC"}, None))
    contract = attach_lookahead(tmp_path / "sac.onnx", tmp_path / "ahead.onnx", STEPS, make_fit(context=0), "nothing")
    assert [tensor.name for tensor in contract.state] == ["past_actions"]


def test_episodes_to_learn_from_are_told_as_they_were(plain):
    stretches = roll_out(plain, SPEC, episodes=8)
    assert len(stretches) == 8
    for stretch in stretches:
        assert stretch.observations.shape == (len(stretch) + 1, 25)
        assert not stretch.actions[0].any()
        # Moves of the hand follow the action of the period that leads to them.
    columns = np.cumsum([0, *(s.size for s in SPEC.signals)])
    at = columns[[s.name for s in SPEC.signals].index("ee_position")]
    moves = np.concatenate([np.diff(stretch.observations[:, at : at + 3], axis=0).ravel() for stretch in stretches])
    actions = np.concatenate([stretch.actions[1:, :3].ravel() for stretch in stretches])
    assert np.corrcoef(moves, actions)[0, 1] > 0.6
    result = fit(stretches, SPEC.signals, 2, updates=150)
    assert result.errors["ee_position"].predicted[0] < result.errors["ee_position"].standing[0]


def test_an_evaluation_tells_what_a_gap_made_late_and_holds_what_is_older(ahead):
    profile = GapProfile(latency_s=0.2, action_latency_s=0.04)
    envs = [make(SPEC, profile) for _ in range(2)]
    policy = SessionPolicy(ahead, SPEC, 2)
    connect_ages(policy, envs, profile)
    observations = [env.reset(seed=k)[0] for k, env in enumerate(envs)]
    policy.reset()
    actions, reports = [], []
    for _ in range(6):
        flat = np.stack([flatten(observation) for observation in observations])
        reports.append(policy.ages().tolist())
        action, _ = policy.step(flat)
        policy.previous_action = action
        actions.append(action)
        observations = [env.step(observation)[0] for env, observation in zip(envs, action, strict=True)]
    assert [np.unique(ages).tolist() for ages in reports] == [[age] for age in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)]
    assert (actions[3] == actions[2]).all()
    assert (actions[1] != actions[2]).any()
    for env in envs:
        env.close()
    connect_ages(policy, envs, None)
    assert policy.ages is None


def test_a_gap_without_latency_changes_no_result(plain, ahead):
    gap = GapProfile(noise={"cube_position": 0.01})
    evaluation, reference = (evaluate(path, SHORT_ENV, ["training"], episodes=1, gap=gap) for path in (ahead, plain))
    assert evaluation.results == reference.results
