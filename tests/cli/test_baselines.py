"""A policy without context through the commands: run, record, replay, verify, inspect; what has no sense is refused."""

import json

import pytest

from sami_train.agent.context_sac import ContextSAC
from sami_train.config.resolve import resolve
from sami_train.envs.catalog import environment
from sami_train.envs.make import make
from sami_train.export.export import compose_model
from sami_train.export.model_file import write


@pytest.fixture(scope="module")
def memoryless(tmp_path_factory):
    pytest.importorskip("gymnasium")
    path = tmp_path_factory.mktemp("memoryless") / "sac.onnx"
    config = resolve("fast-cpu", {"network.net_arch": [16, 16], "method": "sac"})
    agent = ContextSAC("ContextPolicy", make(environment("panda")), config, device="cpu")
    write(compose_model(agent, path, {"method": "SAC", "env": "panda"}, None))
    return path


def test_a_memoryless_file_is_run_recorded_replayed_and_verified(sami, memoryless):
    result = sami(
        "run", "--model", memoryless, "--episodes", 2, "--set", "steps=5", "--record", "run.mcap", "--tasks", "training"
    )
    assert result.code == 0, result.err
    assert "context" not in result.out
    replayed = sami("replay", "run.mcap", "--model", memoryless)
    assert replayed.code == 0, replayed.err
    assert "10 steps compared, none differs" in replayed.out
    assert sami("verify", memoryless).code == 0
    outcome = sami("inspect", memoryless)
    assert "atlas: none, because the policy infers no context" in outcome.out


def test_its_episodes_have_no_phase_and_nothing_to_adapt(sami, memoryless):
    result = sami("run", "--model", memoryless, "--episodes", 1, "--set", "steps=5", "--json")
    row = json.loads(result.out.splitlines()[0])
    assert row["context"] == []
    assert {row["telemetry"][name] for name in ("phase", "adapted_at", "nearest", "score", "alarm_at")} == {None}


def test_an_atlas_and_changed_episodes_are_refused_with_the_reason(sami, memoryless):
    atlas = sami("atlas", memoryless)
    assert (atlas.code, "infers no context, so there is nothing to make an atlas of" in atlas.err) == (1, True)
    adapt = sami("adapt", "--model", memoryless, "--change", "mass=1:10,friction=1@5", "--episodes", 2)
    assert (adapt.code, "infers no context: there is nothing to freeze or exchange" in adapt.err) == (1, True)
