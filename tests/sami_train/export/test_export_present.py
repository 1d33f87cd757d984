"""An estimate of the present in the file: answered beside what arrived, by the trained network's own numbers."""

import numpy as np
import pytest
import torch

from sami_runtime.model.artifact import read_artifact
from sami_runtime.session.session import Session
from sami_train.agent.context_sac import ContextSAC
from sami_train.config.resolve import resolve
from sami_train.config.weights import write_weights
from sami_train.envs.catalog import environment
from sami_train.envs.make import make
from sami_train.export.export import compose_model
from sami_train.export.graph import TorchSession
from sami_train.export.model_file import write
from sami_train.runs.train import start_from
from sami_train.studies.contexts.changed_episodes import PolicyHead
from tests.making.graph_weights import graph_weights

SPEC = environment("panda")
KEYS = {"network.net_arch": [32, 32], "seed": 3, "with_profile.estimate": 1.0}


def make_agent(learned=True):
    agent = ContextSAC("ContextPolicy", make(SPEC), resolve("fast-cpu", KEYS), device="cpu")
    agent.policy.features.update(np.random.default_rng(0).normal(0.1, 0.3, (500, 25)).astype(np.float32))
    with torch.no_grad():
        agent.policy.actor.mean.weight.mul_(20.0)
        if learned:
            agent.policy.encoder.correction.weight.normal_(0.0, 0.5)
    return agent


@pytest.fixture(scope="module")
def agent():
    return make_agent()


@pytest.fixture(scope="module")
def model(agent, tmp_path_factory):
    path = tmp_path_factory.mktemp("present") / "late.onnx"
    write(compose_model(agent, path, {"method": "SaTESAC", "config": agent.config.to_dict()}, None))
    return path


def walk(count):
    return np.random.default_rng(1).normal(0.1, 0.3, (count, 25)).astype(np.float32)


def test_the_file_estimates_what_torch_does_over_sixty_steps_with_a_reset_in_the_middle(agent, model):
    contract = read_artifact(model).contract
    session, reference = Session.load(model), TorchSession(agent.policy, contract)
    worst, least = 0.0, np.inf
    for step, flat in enumerate(walk(60)):
        if step == 30:
            session.reset()
            reference.reset()
        answer, expected = session.step(SPEC.layout.by_name(flat)), reference.step(flat)
        assert set(answer.extra) == {f"present_{signal.name}" for signal in SPEC.estimated}
        worst = max(worst, *(float(np.abs(answer.answers[name] - expected[name]).max()) for name in expected))
        least = min(least, float(np.abs(answer.extra["present_cube_position"] - flat[7:10]).max()))
    assert worst <= 1e-5
    assert least > 1e-4, "it is no copy of what arrived"


def test_it_is_told_in_the_unit_of_what_arrived_and_the_goal_is_not_estimated(model):
    outputs = {signal.name: signal for signal in read_artifact(model).contract.extra_outputs}
    assert "present_desired_goal" not in outputs
    for signal in SPEC.estimated:
        report = outputs[f"present_{signal.name}"]
        assert (report.unit, report.elements, report.size) == (signal.unit, signal.elements, signal.size)


def test_a_head_that_has_learned_nothing_answers_what_arrived(tmp_path):
    write(compose_model(make_agent(learned=False), tmp_path / "new.onnx", {"method": "SaTESAC"}, None))
    session = Session.load(tmp_path / "new.onnx")
    for flat in walk(5):
        answer, arrived = session.step(SPEC.layout.by_name(flat)), SPEC.layout.by_name(flat)
        for signal in SPEC.estimated:
            np.testing.assert_array_equal(answer.extra[f"present_{signal.name}"], arrived[signal.name])


def test_the_action_follows_from_context_and_estimate(model):
    head, session = PolicyHead(read_artifact(model)), Session.load(model, batch=2)
    for flat in walk(10):
        signals = SPEC.layout.by_name(np.stack([flat, -flat]))
        step = session.step(signals)
        np.testing.assert_allclose(head(signals, step.context, step.extra), step.action, atol=1e-5)
        shifted = {name: value + 0.3 for name, value in step.extra.items()}
        assert not np.allclose(head(signals, step.context, shifted), step.action, atol=1e-2)


def test_the_weights_of_the_file_are_the_agents(agent, model):
    result, torch_weights = graph_weights(model), agent.policy.state_dict()
    assert set(result) <= set(torch_weights)
    for name in ("weight", "bias"):
        np.testing.assert_array_equal(
            result[f"encoder.correction.{name}"], torch_weights[f"encoder.correction.{name}"].numpy()
        )


def test_a_policy_that_estimated_nothing_can_learn_to(tmp_path):
    plain = ContextSAC(
        "ContextPolicy", make(SPEC), resolve("fast-cpu", KEYS | {"with_profile.estimate": 0.0}), device="cpu"
    )
    write_weights(tmp_path / "plain.safetensors", plain.weights())
    keys = {**KEYS, "init.source": str(tmp_path / "plain.safetensors"), "init.keep_encoder": False}
    tuned = ContextSAC("ContextPolicy", make(SPEC), resolve("fast-cpu", keys), device="cpu")
    start_from(tuned, tuned.config)
    assert torch.equal(tuned.policy.encoder.lstm.weight_ih_l0, plain.policy.encoder.lstm.weight_ih_l0)
    assert not tuned.policy.encoder.correction.weight.any()
