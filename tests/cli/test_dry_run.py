"""`sami train --dry-run` tells what a run would be told and starts nothing; a run that learns nothing goes nowhere."""

import json
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "words", ["", "--env hopper --preset paper --set collection.workers=0 --set learning.discount=0.5"]
)
def test_a_dry_run_shows_every_key_and_why_and_starts_nothing(sami, contents, tmp_path, words):
    before = contents(tmp_path)
    result = sami("train", "--dry-run", *words.split())
    assert (result.code, result.err) == (0, "")
    document = json.loads(sami("train", "--dry-run", "--json", *words.split()).out)
    assert contents(tmp_path) == before
    for section in ("network", "learning", "contrast", "collection", "exploration", "with_profile"):
        assert [key for key in document["config"][section] if f" {section}.{key} " not in result.out] == []
    for follow in document["follows"]:
        section, _, key = follow["key"].rpartition(".")
        assert (document["config"][section] if section else document["config"])[key] == follow["value"]
        assert follow["why"]
    assert f"{document['updates']:,} updates" in result.out
    assert "Nothing was started." in result.out


def test_a_dry_run_tells_what_the_true_state_takes_of_the_buffers_memory(sami):
    keys = ["--set", "with_profile.privileged_critic=true", "--set", "learning.buffer_episodes=10000"]
    assert "The true state takes up to 51 MB of the buffer's memory." in sami("train", "--dry-run", *keys).prose
    assert "true state takes" not in sami("train", "--dry-run", "--set", "with_profile.critic_actions=3").out


def test_a_dry_run_loads_no_torch(sami, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert sami("train", "--dry-run").code == 0


def test_a_dry_run_refuses_what_the_run_refuses_in_the_same_words(sami, small, contents, tmp_path, panda):
    estimating = (*small(), "--set", "with_profile.estimate=1", "--steps", 360, "--out", "source", "-q")
    assert sami("train", "--method", "satesac", *estimating).code == 0
    before = contents(tmp_path)
    for words in ("--init source", "--set device=nonsense", "--set collection.recordings=nothing.mcap"):
        dry, real = (sami("train", *words.split(), *more) for more in (("--dry-run",), ("--out", "run", "-q")))
        assert (dry.code, dry.out, dry.err) == (1, "", real.err)
        assert contents(tmp_path) == before
    assert "set with_profile.estimate above 0" in " ".join(sami("train", "--init", "source").err.split())
    fitting = ("--set", "with_profile.estimate=1", "--dry-run")
    assert "Nothing was started." in sami("train", "--init", "source", *fitting).out
    assert sami("train", "--init", panda.run, *fitting).code == 0
    assert contents(tmp_path) == before


@pytest.mark.parametrize("words", ["--json", "--dry-run --resume run", "--resume run --json"])
def test_what_a_dry_run_does_not_go_with_is_wrong_usage(sami, words):
    result = sami("train", *words.split())
    assert (result.code, result.out) == (2, "")


def test_a_run_that_teaches_nothing_is_refused_before_anything_is_made(sami, contents, tmp_path):
    before = contents(tmp_path)
    for command in ("train", "train --dry-run", "sweep --out sweep"):
        result = sami(*command.split(), "--steps", 3000)
        assert (result.code, result.out) == (1, "")
        assert "steps is 3,000 and exploration.warmup_steps 6,000: the run would learn nothing" in result.err
    assert contents(tmp_path) == before


def test_a_policy_that_has_not_learned_is_exported_only_with_force_and_says_so(sami, run_copy, monkeypatch):
    from sami_train.agent.context_sac import ContextSAC

    load = ContextSAC.load

    def untaught(*arguments, **options):
        agent = load(*arguments, **options)
        agent._n_updates = 0
        return agent

    monkeypatch.setattr(ContextSAC, "load", untaught)
    export = (
        "export",
        "--run",
        run_copy,
        "--out",
        "idle.onnx",
        "--set",
        "atlas_episodes=0",
        "--set",
        "seen_episodes=0",
    )
    result = sami(*export)
    assert result.code == 1
    assert "is untrained: 7" in result.err
    assert "0 updates; it acts at random. Train it for longer, or export it anyway with --force." in result.err
    assert not list(Path().iterdir())
    assert sami(*export, "--force").code == 0
    assert "**It has not learned: 0 updates.**" in Path("idle.md").read_text(encoding="utf-8")
    assert "training updates: 0" in sami("inspect", "idle.onnx").out
