"""Baselines as model files: SAC without state, SAC with its history as a state; an oracle is none."""

import numpy as np
import onnx
import pytest
import torch

from sami_runtime.checks.verify import verify
from sami_runtime.errors import SamiError
from sami_runtime.model.artifact import read_artifact
from sami_runtime.session.session import Session
from sami_train.agent.context_sac import ContextSAC
from sami_train.config.resolve import resolve
from sami_train.envs.catalog import environment
from sami_train.envs.make import make
from sami_train.export.atlas import measure
from sami_train.export.export import compose_model
from sami_train.export.export_run import with_measured
from sami_train.export.graph import TorchSession
from sami_train.export.model_file import write

SPEC = environment("panda")
STEPS = 4


def make_agent(method):
    changes = {"network.net_arch": [32, 32], "seed": 3, "method": method, "network.history_steps": STEPS}
    agent = ContextSAC("ContextPolicy", make(SPEC), resolve("fast-cpu", changes), device="cpu")
    rng = np.random.default_rng(0)
    agent.policy.features.update(rng.normal(0.1, 0.3, (500, 25)).astype(np.float32))
    with torch.no_grad():  # an untrained actor hardly moves
        agent.policy.actor.mean.weight.mul_(20.0)
    return agent


@pytest.fixture(scope="module", params=["sac", "sac-history"])
def exported(request, tmp_path_factory):
    """An agent and its model file, which `export` compared with torch, step by step and in closed loop."""
    agent, path = make_agent(request.param), tmp_path_factory.mktemp("baselines") / f"{request.param}.onnx"
    write(compose_model(agent, path, {"method": agent.method.title, "env": "panda"}, None))
    return agent, path


def test_the_file_carries_no_context_no_atlas_and_only_the_state_that_there_is(exported):
    agent, path = exported
    contract = read_artifact(path).contract
    history = [("history", (STEPS - 1, 25 - 6 + 4))]  # what is no goal, and the action
    expected = [] if agent.method.memoryless else history
    assert [(tensor.name, tensor.shape) for tensor in contract.state] == expected
    assert (contract.context, contract.context_size) == (None, 0)
    assert with_measured(read_artifact(path), environment("panda"), atlas_episodes=20).contract.atlas is None
    assert [value.name for value in onnx.load(path).graph.input] == list(contract.inputs)
    assert verify(path).passed


def test_the_file_steps_as_torch_does_with_its_state_fed_back_and_a_reset(exported):
    agent, path = exported
    session, reference = Session.load(path), TorchSession(agent.policy, read_artifact(path).contract)
    rng = np.random.default_rng(1)
    for step in range(24):
        if step == 11:
            session.reset()
            reference.reset()
        flat = rng.normal(0.1, 0.3, 25).astype(np.float32)
        answer = session.step(SPEC.layout.by_name(flat))
        assert answer.action == pytest.approx(reference.step(flat)["action"], abs=1e-5)
        assert answer.context.shape == (0,)
        executed = np.clip(answer.action, -0.5, 0.5)  # what a limit would do
        session.executed(executed)
        reference.previous_action = executed


def test_the_graph_shifts_the_history_and_a_memoryless_file_forgets(exported):
    agent, path = exported
    session, rng = Session.load(path), np.random.default_rng(2)
    observations = [rng.normal(0.1, 0.3, 25).astype(np.float32) for _ in range(12)]

    def last(first):
        """The last action after the observations from `first` on, having done nothing."""
        session.reset()
        for flat in observations[first:]:
            answer = session.step(SPEC.layout.by_name(flat))
            session.executed(np.zeros(4, np.float32))
        return answer.action

    remembered = STEPS if agent.method.encoder == "history" else 1
    assert np.array_equal(last(0), last(len(observations) - remembered))
    if remembered > 1:
        assert not np.allclose(last(0), last(len(observations) - remembered + 1), atol=1e-4)
        rows = [session.state.tensors["history"][0]]
        session.step(SPEC.layout.by_name(observations[0]))
        assert np.array_equal(session.state.tensors["history"][0][:-1], rows[0][1:])


def test_an_atlas_of_what_infers_no_context_is_refused(exported):
    with pytest.raises(
        SamiError, match=r"infers no context, so there is nothing to make an atlas of\. Policies of the"
    ):
        measure(exported[1], SPEC, 1)


def test_an_oracle_is_not_exported_and_the_sentence_says_why_and_what_to_do(tmp_path):
    agent = make_agent("oracle")
    with pytest.raises(SamiError, match=r"reads the task \(mass, friction\), which a robot does not know.*sami eval"):
        write(compose_model(agent, tmp_path / "oracle.onnx", {"method": "Oracle"}, None))
    assert not list(tmp_path.iterdir())
