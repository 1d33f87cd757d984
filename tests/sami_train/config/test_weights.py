"""Weights of a policy: what a model file holds comes back whole, and what does not fit is refused by name."""

import json
import shutil
import struct
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import safetensors.numpy
import torch

from sami_runtime.distribution import shipped_models
from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.model.artifact import read_artifact
from sami_runtime.session.session import Session
from sami_train.agent.context_sac import ContextSAC
from sami_train.config.resolve import resolve
from sami_train.config.schema import ConfigError
from sami_train.config.weights import WEIGHTS_FILE, read_weights, weights_file, write_weights
from sami_train.envs.catalog import environment
from sami_train.envs.make import make
from sami_train.episodes.numpy_policy import NumpyPolicy
from sami_train.export.export import compose_model
from sami_train.export.model_file import write
from sami_train.runs.folder import RunError
from sami_train.runs.train import start_from
from tests.making.graph_weights import graph_weights
from tests.making.learned import learned

SPEC = environment("panda")


def agent_of(**overrides):
    config = resolve("fast-cpu", {"collection.workers": 0, **overrides})
    agent = ContextSAC("ContextPolicy", make(environment(config.env)), config, device="cpu")
    if config.init.source:
        start_from(agent, config)
    return agent


def test_what_starts_from_a_model_file_acts_as_the_file_does():
    path = shipped_models()["panda-satesac"]
    session, rng = Session.load(path), np.random.default_rng(0)
    policy = NumpyPolicy(agent_of(**{"init.source": str(path)}).policy.numpy_weights(), 1)
    for _ in range(40):
        flat = rng.normal(0.1, 0.3, (1, 25)).astype(np.float32)
        answer, (action, context) = session.step(SPEC.layout.by_name(flat[0])), policy.step(flat)
        assert np.abs(answer.action - action[0]).max() < 1e-5
        assert np.abs(answer.context - context[0]).max() < 1e-5
        executed = np.clip(answer.action, -0.5, 0.5)
        session.executed(executed)
        policy.previous_action = executed[None]


def test_each_shipped_model_has_its_weights_beside_it():
    for name, path in shipped_models().items():
        weights, now = read_weights(weights_file(name)), graph_weights(path)
        assert weights_file(name) == weights_file(str(path)) == path.with_suffix(".safetensors")
        assert path.with_suffix(".safetensors").stat().st_size < 10e6
        assert weights.header.model == read_artifact(path).graph_sha256
        if name == "go2-student" or "critic.q1.0.weight" in weights.arrays:  # of the training; a graph has no critics
            of_graph = [key for key in now if not key.startswith("features.")]
            assert all(np.allclose(weights.arrays[key], now[key], rtol=1e-4, atol=1e-5) for key in of_graph)
            continue
        assert weights.arrays.keys() == now.keys()
        assert all(np.allclose(weights.arrays[key], now[key], rtol=1e-6) for key in now)  # numpy rounds


def test_a_model_file_without_its_own_weights_beside_it_starts_nothing(tmp_path):
    model = Path(shutil.copy(shipped_models()["panda-satesac"], tmp_path))
    with pytest.raises(SamiError, match=r"no panda-satesac\.safetensors beside it"):
        weights_file(str(model))
    shutil.copy(weights_file("panda-sac"), model.with_suffix(".safetensors"))
    with pytest.raises(SamiError, match="the weights of another model than panda-satesac"):
        weights_file(str(model))


def test_every_tensor_of_an_encoder_and_an_actor_comes_back_from_the_graph(tmp_path):
    small = {"network.net_arch": [16, 24], "network.encoder_units": [8, 12]}
    agent = agent_of(method="pearl", **small)
    agent.policy.features.update(np.random.default_rng(0).normal(0.1, 0.3, (500, 25)).astype(np.float32))
    write(compose_model(agent, tmp_path / "pearl.onnx", {"config": agent.config.to_dict(), "steps": 500}, None))
    result, policy = graph_weights(tmp_path / "pearl.onnx"), agent.policy.state_dict()
    dropped = {"critic", "critic_target", "momentum_encoder", "log_temperature"}
    expected = {name for name in policy if name.split(".")[0] not in dropped and "log_std" not in name}
    assert result.keys() == expected
    normalized = agent.policy.layout.normalized  # the graph holds no statistics of the other columns
    for name, array in result.items():
        of = normalized if "running" in name else ...
        assert array[of] == pytest.approx(policy[name].numpy()[of], rel=1e-5), name


def test_fine_tuning_that_would_end_while_only_new_critics_learn_is_refused():
    hopper = {"env": "hopper", "init.source": "hopper-satesac"}
    with pytest.raises(ConfigError, match=r"learn nothing, since the policy's .* 2,000 updates of the critics alone"):
        resolve("fast-cpu", {**hopper, "steps": 60_000})
    least = resolve("fast-cpu", {**hopper, "steps": 200_000, "exploration.warmup_steps": 5_000})
    assert least.updates_after(least.steps) > least.init.critic_updates
    with pytest.raises(ConfigError, match=r"learning\.aux_dynamics is 1\.0, but the encoder is kept as it is"):
        resolve("fast-cpu", {**hopper, "learning.aux_dynamics": 1.0})


def test_an_actor_without_a_deviation_begins_with_the_target_entropy():
    source = {"env": "hopper", "init.source": "hopper-satesac", "learning.target_entropy": -3.0}
    actor = agent_of(**source).policy.actor
    inputs = torch.zeros(1, next(actor.parameters()).shape[1])
    normal = torch.distributions.Normal(0.0, actor(inputs)[1].exp())
    assert normal.entropy().sum().item() == pytest.approx(-3.0, abs=1e-5)


@pytest.fixture
def file(tmp_path):
    agent = agent_of(**{"network.net_arch": [16], "network.hidden_size": 8})
    assert not {name for name in agent.weights().arrays if name.startswith("critic")}, "random ones would mislead"
    write_weights(tmp_path / "small.safetensors", learned(agent).weights())
    return tmp_path / "small.safetensors"


def test_a_run_takes_the_networks_of_its_weights_and_changes_what_suits_a_fresh_run_only(file):
    fresh = resolve("fast-cpu")
    config = resolve("fast-cpu", {"init.source": str(file), "steps": 20_000})
    assert (config.network.net_arch, config.network.hidden_size) == ((16,), 8)
    assert config.learning.actor_rate == pytest.approx(0.1 * fresh.learning.actor_rate)
    assert config.learning.critic_rate == pytest.approx(0.1 * fresh.learning.critic_rate)
    assert (config.exploration.warmup_by_policy, config.exploration.warmup_steps) == (True, 2_000)
    assert config.init.critic_updates == 0, "critics came along"
    hopper, anew = (resolve("fast-cpu", {"env": "hopper", **init}) for init in ({}, {"init.source": "hopper-satesac"}))
    assert anew.learning.critic_rate == hopper.learning.critic_rate, "critics begin anew, and all else waits for them"
    assert (anew.init.critic_updates > 0, anew.init.keep_encoder, anew.init.anchor > 0) == (True, True, True)
    assert (config.init.keep_encoder, config.init.anchor) == (False, 0.0)
    assert config.learning.initial_temperature == pytest.approx(fresh.learning.initial_temperature), "of the file"
    assert resolve("fast-cpu", {"init.source": str(file), "learning.actor_rate": 0.5}).learning.actor_rate == 0.5


def test_another_environment_is_refused_by_the_signals_that_differ(file):
    with pytest.raises(
        ConfigError, match=r"other signals than 'hopper': .*cube_position 3 instead of none.* 4 actions"
    ):
        resolve("fast-cpu", {"env": "hopper", "init.source": str(file)})


def test_another_environment_with_the_same_signals_takes_the_weights():
    config = resolve("fast-cpu", {"env": "crippled-half-cheetah", "init.source": "half-cheetah-satesac"})
    assert config.init.sha256


def test_other_networks_and_another_kind_of_encoder_are_refused(file):
    with pytest.raises(ConfigError, match=r"hidden_size is 16, but the weights .* have 8: leave"):
        resolve("fast-cpu", {"init.source": str(file), "network.hidden_size": 16})
    with pytest.raises(ConfigError, match=r"pearl has another kind of encoder; choose one of: .*tesac"):
        resolve("fast-cpu", {"init.source": str(file), "method": "pearl"})
    assert resolve("fast-cpu", {"init.source": str(file), "method": "ccm"}).method == "ccm"


def test_a_file_that_changed_after_the_configuration_was_made_is_refused(file):
    config = resolve("fast-cpu", {"init.source": str(file), "collection.workers": 0})
    other = agent_of(**{"network.net_arch": [16], "network.hidden_size": 8, "seed": 1})
    write_weights(file, other.weights())
    agent = ContextSAC("ContextPolicy", gym.make(SPEC.id), config, device="cpu")
    with pytest.raises(RunError, match="the file has changed since"):
        start_from(agent, config)


def test_what_is_no_file_of_weights_is_refused(tmp_path):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(b"not weights")
    with pytest.raises(SamiError, match="cannot be read as weights"):
        read_weights(path)
    safetensors.numpy.save_file({"a": np.zeros(3)}, path)
    with pytest.raises(SamiError, match="has no header of sami"):
        read_weights(path)


def test_a_run_a_checkpoint_a_file_and_a_model_can_be_named(tmp_path):
    run = tmp_path / "run"
    for steps in ("900", "1000"):
        (run / "checkpoints" / steps).mkdir(parents=True)
        (run / "checkpoints" / steps / WEIGHTS_FILE).touch()
    assert weights_file(str(run)) == run / "checkpoints" / "1000" / WEIGHTS_FILE
    assert weights_file(str(run / "checkpoints" / "900")).parent.name == "900"
    (run / WEIGHTS_FILE).touch()
    assert weights_file(str(run)) == run / WEIGHTS_FILE
    assert weights_file("hopper-satesac").name == "hopper-satesac.safetensors"
    with pytest.raises(UnknownName, match="Did you mean 'hopper-satesac'"):
        weights_file("hopper-satsac")
    with pytest.raises(SamiError, match=r"holds no weights\.safetensors"):
        weights_file(str(tmp_path))


def headed(path, name, dtype, shape, size):
    """Write a safetensors file of one tensor as its header says, with so many bytes of 0."""
    header = json.dumps({name: {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(size))
    return path


@pytest.mark.parametrize("dtype", ["BF16", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F4", "C64"])
def test_a_type_that_numpy_lacks_is_refused_by_its_name(dtype, tmp_path):
    size = {"BF16": 2, "F4": 0.5, "C64": 8}.get(dtype, 1)
    path = headed(tmp_path / "a.safetensors", "actor.mean", dtype, [2, 4], int(8 * size))
    with pytest.raises(SamiError, match=rf"'actor.mean' of type {dtype}; valid are F16, F32"):
        read_weights(path)


@pytest.mark.parametrize("shape", [[1] * 65, [1] * 9, [0, 2**40]])
def test_a_shape_that_no_policy_has_is_refused_with_its_size(shape, tmp_path):
    path = headed(tmp_path / "a.safetensors", "actor.mean", "F32", shape, 0 if 0 in shape else 4)
    with pytest.raises(SamiError, match=rf"with {len(shape)} axes, the longest of {max(shape)}; at most 8 axes of"):
        read_weights(path)


def test_mutated_headers_of_weights_are_read_or_refused_in_one_line(tmp_path, file):
    whole, path, draw = file.read_bytes(), tmp_path / "a.safetensors", np.random.default_rng(0)
    (length,) = struct.unpack("<Q", whole[:8])
    refused = []
    for _ in range(2_000):
        data = bytearray(whole)
        for at in draw.integers(8 + length, size=draw.integers(1, 4)):
            kind = draw.integers(3)
            if kind == 0:
                data[at] = draw.integers(256)
            elif kind == 1:
                del data[at : at + draw.integers(1, 9)]
            else:
                data[at:at] = bytes(draw.choice(list(b'0123456789[]{},:"-.eE'), 3).tolist())
        path.write_bytes(data)
        try:
            read_weights(path)
        except SamiError as error:
            refused.append(str(error))
    assert len(refused) > 1_000
    assert not [message for message in refused if "\n" in message]
