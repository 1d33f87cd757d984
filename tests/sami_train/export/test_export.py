"""Export: the file answers as torch does, whatever state the agent was in, and nothing wrong is ever written."""

import copy
import dataclasses

import gymnasium
import numpy as np
import onnx
import pytest
import torch
from gymnasium.envs.registration import load_env_creator

from sami_runtime.errors import AdapterError, CheckFailed, SamiError
from sami_runtime.gap.profile import GapProfile
from sami_runtime.model.artifact import read_artifact
from sami_runtime.session.session import Session
from sami_train.agent.context_sac import ContextSAC
from sami_train.config.resolve import resolve
from sami_train.envs.catalog import environment
from sami_train.envs.layout import Layout
from sami_train.envs.make import make
from sami_train.evaluation.evaluate import evaluate
from sami_train.evaluation.model_policy import SessionPolicy
from sami_train.export.export import compose_model
from sami_train.export.graph import GOLDEN_RESET, TorchSession, closed_loop_errors, record
from sami_train.export.model_file import write

SPEC = environment("panda")


def make_agent(method, env=None):
    config = resolve("fast-cpu", {"network.net_arch": [32, 32], "seed": 3, "method": method})
    agent = ContextSAC("ContextPolicy", env or make(SPEC), config, device="cpu")
    rng = np.random.default_rng(0)
    agent.policy.features.update(rng.normal(0.1, 0.3, (500, 25)).astype(np.float32))
    with torch.no_grad():  # an untrained actor hardly moves
        agent.policy.actor.mean.weight.mul_(20.0)
    return agent


@pytest.fixture(scope="module")
def agent():
    return make_agent("satesac")


@pytest.fixture(scope="module")
def model(agent, tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "tiny.onnx"
    write(compose_model(agent, path, {"method": "SaTESAC"}, None))
    return path


def test_the_file_equals_torch_over_sixty_steps_fed_back_with_a_reset_in_the_middle(agent, model):
    session, reference = Session.load(model), TorchSession(agent.policy, read_artifact(model).contract)
    rng = np.random.default_rng(1)
    worst = 0.0
    for step in range(60):
        if step == 30:
            session.reset()
            reference.reset()
        flat = rng.normal(0.1, 0.3, 25).astype(np.float32)
        answer = session.step(SPEC.layout.by_name(flat))
        expected = reference.step(flat)
        assert list(expected) == ["action", "context"]
        worst = max(worst, *(np.abs(answer.answers[name] - expected[name]).max() for name in expected))
        executed = np.clip(answer.action, -0.5, 0.5)  # what a limit would do
        session.executed(executed)
        reference.previous_action = executed
    assert worst < 1e-5


def test_pearls_encoder_exports_with_the_sums_that_it_carries(tmp_path):
    # `export` itself compares the file with torch, step by step and in closed loop.
    contract = write(compose_model(make_agent("pearl"), tmp_path / "pearl.onnx", {"method": "PEARL"}, None))
    assert [state.name for state in contract.state] == ["precision", "weighted_mean", "previous_features", "begun"]
    assert Session.load(tmp_path / "pearl.onnx").contract.context.size == 6


@pytest.fixture
def own_agent(monkeypatch):
    """An agent of an environment that is not in the catalogue, and of Panda's sizes."""
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    gymnasium.register("own/Arm-v0", entry_point=SPEC.entry_point, max_episode_steps=50)
    agent = make_agent("satesac", gymnasium.make("own/Arm-v0"))
    assert agent.environment is None
    return agent


def test_an_agent_of_an_environment_of_ones_own_is_not_exported_with_another_ones_signals(own_agent, tmp_path):
    with pytest.raises(SamiError, match=r"not in the catalogue, so .* are not known\. Give .*: spec=\.\.\."):
        write(compose_model(own_agent, tmp_path / "own.onnx", {"method": "SaTESAC"}, None))
    assert not list(tmp_path.iterdir())


def test_its_spec_says_what_the_signals_of_an_environment_of_ones_own_are(own_agent, tmp_path):
    action = SPEC.action.model_copy(update={"name": "own_action"})
    spec = dataclasses.replace(SPEC, name="own", id="own/Arm-v0", action=action, rate_hz=20.0)
    contract = write(compose_model(own_agent, tmp_path / "own.onnx", {"method": "SaTESAC"}, None, spec=spec))
    assert (contract.action.name, contract.rate_hz) == ("own_action", 20.0)
    assert contract == read_artifact(tmp_path / "own.onnx").contract


def test_a_spec_of_other_sizes_is_refused_with_both(agent, tmp_path):
    with pytest.raises(SamiError, match=r"observes 25 numbers and acts with 4; environment 'hopper' has \d+ and 3"):
        write(compose_model(agent, tmp_path / "tiny.onnx", {"method": "SaTESAC"}, None, spec=environment("hopper")))
    assert not list(tmp_path.iterdir())


def test_one_file_with_weights_inside_and_a_dynamic_batch(model):
    assert [path.name for path in model.parent.iterdir()] == ["tiny.onnx"]
    graph = onnx.load(model).graph
    assert {value.type.tensor_type.shape.dim[0].dim_param for value in graph.input} == {"batch"}
    assert "LSTM" in {node.op_type for node in graph.node}
    many = Session.load(model, batch=7)
    observation = {signal.name: np.zeros((7, signal.size), np.float32) for signal in SPEC.signals}
    assert many.step(observation).action.shape == (7, 4)


def test_the_contract_names_signals_units_and_rate(model):
    contract = read_artifact(model).contract
    assert {signal.name: signal.size for signal in contract.observation} == {
        "cube_position": 3,
        "cube_rotation": 3,
        "cube_velocity": 3,
        "cube_angular_velocity": 3,
        "ee_position": 3,
        "ee_velocity": 3,
        "gripper_width": 1,
        "desired_goal": 3,
        "achieved_goal": 3,
    }
    assert (contract.rate_hz, contract.episode_steps, contract.action.size) == (25.0, 50, 4)
    assert contract.golden.steps >= 60
    assert contract.golden.resets == (0, GOLDEN_RESET)


def test_golden_steps_hold_executed_actions_that_were_not_proposed(agent, model):
    steps = record(agent.policy, SPEC, read_artifact(model).contract)
    different = np.abs(steps.executed - steps.answers["action"]).max(1) > 1e-3
    assert 0.2 < different.mean() < 0.8


def test_each_signal_reaches_the_policy_in_its_own_place(agent, model):
    # A permuted observation would pass every test that only looks at shapes.
    session = Session.load(model)
    flat = np.random.default_rng(2).normal(0.1, 0.3, 25).astype(np.float32)
    base = session.step(SPEC.layout.by_name(flat)).action
    for signal in SPEC.signals:
        session.reset()
        vector = flat.copy()
        vector[SPEC.layout.columns(signal.name)] += 0.3
        answer = session.step(SPEC.layout.by_name(vector)).action
        expected = TorchSession(agent.policy, session.contract).step(vector)
        assert answer == pytest.approx(expected["action"], abs=1e-5)
        assert np.abs(answer - base).max() > 1e-6


def test_exporting_in_training_mode_changes_nothing(agent, model, tmp_path):
    agent.policy.train()
    write(compose_model(agent, tmp_path / "tiny.onnx", {"method": "SaTESAC"}, None))
    assert read_artifact(tmp_path / "tiny.onnx").graph_sha256 == read_artifact(model).graph_sha256


def test_a_file_that_differs_from_torch_is_not_written(agent, tmp_path, monkeypatch):
    import sami_train.export.export as module

    honest = module.record

    def wrong(*arguments):
        steps = honest(*arguments)
        steps.answers["action"][50, 2] += 1e-4  # one number at one step
        return steps

    monkeypatch.setattr(module, "record", wrong)
    with pytest.raises(CheckFailed, match=r"FAILED.*golden replay.*action\[2\] at step 50"):
        write(compose_model(agent, tmp_path / "bad.onnx", {"method": "SaTESAC"}, None))
    assert not list(tmp_path.iterdir())


def test_a_file_that_differs_in_closed_loop_is_not_written(agent, tmp_path, monkeypatch):
    import sami_train.export.export as module

    for error, report in ((float("nan"), "nan; at most 1e-05"), (2e-5, "2.00e-05; at most 1.5e-05")):
        monkeypatch.setattr(
            module, "closed_loop_errors", lambda *_, result=error: (result, 5e-6 if result > 0 else 0.0)
        )
        with pytest.raises(CheckFailed, match=f"in closed loop the exported file differs from torch by {report} is"):
            write(compose_model(agent, tmp_path / "bad.onnx", {"method": "SaTESAC"}, None))
        assert not list(tmp_path.iterdir())


def test_a_file_may_differ_by_what_torch_rounds_off_itself(agent, tmp_path, monkeypatch):
    import sami_train.export.export as module

    monkeypatch.setattr(module, "closed_loop_errors", lambda *_: (2e-5, 1e-5))
    write(compose_model(agent, tmp_path / "good.onnx", {"method": "SaTESAC"}, None))
    assert (tmp_path / "good.onnx").is_file()


def test_an_answer_that_is_no_number_is_no_rounding(agent, model):
    broken = copy.deepcopy(agent.policy)
    torch.nn.init.constant_(broken.actor.mean.bias, float("nan"))
    error, rounding = closed_loop_errors(Session.load(model), broken, SPEC)
    assert error == float("inf")
    assert rounding == 0.0


SHORT = dataclasses.replace(
    SPEC,
    id="sami/ShortPanda-v0",  # the other one stays registered as it is
    episode_steps=12,
    tasks=dataclasses.replace(SPEC.tasks, sets={"training": SPEC.tasks.sets["training"][:2]}),
)
SHORT_ENV = "tests.sami_train.export.test_export:SHORT"


@pytest.fixture(scope="module")
def evaluated(model):
    """The results of the file in two episodes a task."""
    return evaluate(model, SHORT_ENV, ["training"], episodes=2).results


def test_a_run_and_its_file_evaluate_alike(agent, evaluated):
    from_run = evaluate(agent.policy.numpy_weights(), SHORT_ENV, ["training"], episodes=2).results
    assert [(r.success, r.ret) for r in from_run] == [(r.success, r.ret) for r in evaluated]
    assert [r.task for r in from_run] == [dict(task) for task in SHORT.tasks.sets["training"]]


def test_an_evaluation_gives_its_simulators_back(model, monkeypatch):
    panda = load_env_creator(SPEC.entry_point)
    alive = set()
    begin, end = panda.__init__, panda.close
    monkeypatch.setattr(panda, "__init__", lambda env, *a, **k: (alive.add(env), begin(env, *a, **k))[1])
    monkeypatch.setattr(panda, "close", lambda env: (alive.discard(env), end(env))[1])

    def interrupted(_):
        assert len(alive) == 2
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(model, "panda", ["training"], episodes=1, on_task=interrupted)
    assert not alive


def test_one_episode_is_the_first_of_several(agent, model, evaluated):
    single, double = evaluate(model, SHORT_ENV, ["training"], episodes=1).results[0], evaluated[0]
    assert single == evaluate(agent.policy.numpy_weights(), SHORT_ENV, ["training"], episodes=1).results[0]
    assert (single.episodes, double.episodes) == (1, 2)


def test_a_model_for_other_signals_is_refused_by_name(model):
    other = dataclasses.replace(SPEC, layout=Layout(SPEC.layout.sources[1:]))
    with pytest.raises(AdapterError, match="observation 'cube_position' is not provided"):
        SessionPolicy(model, other, 2)


@pytest.mark.parametrize("gap", [None, GapProfile.of({"bias": {"achieved_goal": [0.5, 0.5]}})])
def test_trivial_starts_are_those_that_start_solved_whatever_was_seen_of_it(agent, gap):
    result = evaluate(agent.policy.numpy_weights(), SHORT_ENV, ["training"], episodes=17, gap=gap).results
    assert [r.solved_at_start for r in result] == [1 / 17] * 2, "the same starts in every task, one of them solved"
    for r in result:
        assert r.success >= r.solved_at_start
        assert r.nontrivial_success == pytest.approx((r.success - r.solved_at_start) / (1 - r.solved_at_start))
