"""`sami contrast`: what a contrastive loss could reach on what a run had collected."""

import json
import math

import pytest


def test_each_stage_and_method_has_its_largest_bound_which_never_exceeds_log_k(sami, panda):
    few = ("--set", "contrast.trajectories=8", "--set", "losses=200")
    outcome = sami("contrast", panda.run, "--method", "ccm,satesac", *few, "--json")
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    result = document["ceilings"]
    assert [(item["stage"], item["method"]) for item in result] == [
        (stage, method) for stage in ("early", "middle", "late") for method in ("ccm", "satesac")
    ]
    assert [item["episodes"] for item in result] == sorted(item["episodes"] for item in result)
    for item in result:
        if item["method"] == "ccm":
            assert item["bound"] <= item["log_k"] <= math.log(5) + 1e-6
            assert item["losses"] == 200
        assert item["realised"] is None  # the run's own contrast has 64 trajectories


def test_the_table_tells_what_training_reached_beside_what_it_could(sami, panda):
    result = sami("contrast", panda.run, "--method", "satesac", "--set", "losses=200")
    assert result.code == 0, result.err
    for word in (
        "largest bound alone",
        "early",
        "middle",
        "late",
        "held out",
        "realised",
        "A constant encoder has 0.",
        "-: nothing to compare",
    ):
        assert word in result.prose


def test_what_training_reached_is_that_of_the_steps_when_a_stage_was_collected(sami, run_copy):
    (checkpoint,) = (run_copy / "checkpoints").iterdir()
    first, last = 10_000, 10_000 + int(checkpoint.name)  # as if the buffer had lost the first 10,000 steps
    checkpoint.rename(checkpoint.with_name(str(last)))
    lines = [{"step": step, "contrast/bound": step, "contrast/k": 2.0} for step in range(10, last + 1, 10)]
    (run_copy / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = sami("contrast", run_copy, "--method", "satesac", "--set", "losses=200", "--json")
    assert result.code == 0, result.err
    early, middle, late = (bound["realised"] for bound in json.loads(result.out)["ceilings"])
    assert first < early <= middle < late <= last


def test_a_run_that_has_no_encoder_lends_its_episodes_to_one_that_learns(sami, small):
    options = (*small(network__hidden_size=16), "--out", "bare", "-q")
    assert sami("train", "--method", "sac", "--steps", 700, *options).code == 0
    few = ("--set", "contrast.trajectories=8", "--set", "losses=200", "--json")
    result = sami("contrast", "bare", "--method", "ccm", *few)
    assert result.code == 0, result.err
    assert {bound["losses"] for bound in json.loads(result.out)["ceilings"]} == {200}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--method tesac", "TESAC has no contrastive loss; name some of ccm, satesac, saccm."),
        ("--method maml", "unknown method 'maml'"),
        ("--ranking luck", "unknown ranking 'luck'"),
        ("--set learning.discount=0.9", "--set learning.discount: only the contrast can be changed"),
        ("--set losses=40", "losses is 40; it must be a whole number of at least 200."),
        ("--set contrast.trajectories=2", "contrast.trajectories is 2; it must be at least 4."),
    ],
)
def test_what_cannot_be_contrasted_is_refused(sami, panda, options, message):
    result = sami("contrast", panda.run, *options.split())
    assert result.code == 1
    assert message in result.err


def test_a_run_without_its_buffer_says_what_is_missing(sami, run_copy):
    for buffer in (run_copy / "checkpoints").glob("*/buffer.npz"):
        buffer.unlink()
    result = sami("contrast", run_copy)
    assert result.code == 1
    assert "has no checkpoint with a buffer" in result.err


def test_too_few_episodes_are_refused_with_the_command_that_collects_more(sami, run_copy, monkeypatch):
    monkeypatch.setattr("sami_train.studies.contexts.largest_bound.HELD_OUT_EVERY", 10_000)
    result = sami("contrast", run_copy, "--method", "satesac")
    assert (result.code, result.out) == (1, "")
    assert f"and 10000 are the fewest. Collect more: sami train --resume {run_copy} --steps N" in result.err
