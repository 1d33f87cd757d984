"""`--gap` and `sami robustness`, as a user calls them, with a model that hardly learnt."""

import json

import pytest

from sami_runtime.gap.profile import GapProfile

HARSH = "latency_s = [0.0, 0.08]\nnoise = { cube_position = 0.05 }\nactuator_lag_s = 0.1\n"


@pytest.fixture
def gap(tmp_path):
    path = tmp_path / "gap.toml"
    path.write_text(HARSH)
    return path


def lines(done):
    assert (done.code, done.err) == (0, "")
    # How long a step took is not what the gap decides.
    return [{k: v for k, v in json.loads(line).items() if k != "infer_us"} for line in done.out.splitlines()]


def test_run_behind_a_gap_is_repeated_by_its_seed(sami, trained, gap):
    options = ("run", "--model", trained.model, "--episodes", 2, "--steps", 8, "--json")
    first, again, other = (sami(*options, "--gap", gap, "--seed", seed) for seed in (3, 3, 4))
    assert lines(first) == lines(again) != lines(other)
    assert lines(first) != lines(sami(*options, "--seed", 3))
    assert lines(sami(*options, "--seed", 3, "--gap", "modest")) != lines(first)


def test_a_recording_tells_the_gap_and_replays(sami, trained, gap):
    done = sami("run", "--model", trained.model, "--episodes", 1, "--steps", 8, "--gap", gap, "--record", "run.mcap")
    assert done.code == 0
    replayed = sami("replay", "run.mcap", "--json")
    assert replayed.code == 0
    assert json.loads(replayed.out)["about"]["gap"] == GapProfile.load(gap).to_dict()


def test_behind_a_gap_observations_age_as_on_a_robot(sami, trained, tmp_path):
    (tmp_path / "late.toml").write_text("latency_s = 0.4")
    done = sami("run", "--model", trained.model, "--episodes", 1, "--gap", tmp_path / "late.toml")
    assert done.code == 3
    assert "age: the observation was measured" in done.err


@pytest.mark.parametrize(
    "command",
    [
        ("run", "--model", "MODEL"),
        ("eval", "--model", "MODEL"),
        ("train", "--out", "run"),
    ],
)
def test_a_bad_gap_is_refused_before_anything_begins(sami, trained, tmp_path, command):
    (tmp_path / "bad.toml").write_text("dropout = 1.5")
    words = [trained.model if word == "MODEL" else word for word in command]
    done = sami(*words, "--gap", tmp_path / "bad.toml")
    assert (done.code, done.out) == (1, "")
    assert "bad.toml: dropout is 1.5; it must be a number from 0 to 1, or a range [low, high]" in done.err
    (tmp_path / "bad.toml").write_text("noise = { cube = 0.1 }")
    done = sami(*words, "--gap", tmp_path / "bad.toml")
    assert (done.code, done.out) == (1, "")
    assert "unknown observation signal 'cube'." in done.err


def test_evaluation_behind_a_gap_says_so_and_leaves_the_runs_own_alone(sami, run_copy, gap):
    before = (run_copy / "evaluation.json").read_text()
    done = sami("eval", "--run", run_copy, "--gap", gap, "--episodes", 1, "--workers", 1, "--json")
    assert done.code == 0
    assert GapProfile.loads(json.loads(done.out)["gap"]) == GapProfile.load(gap)
    assert (run_copy / "evaluation.json").read_text() == before


def test_robustness_measures_each_severity_from_the_same_starts(sami, trained, tmp_path):
    options = (trained.model, "--kinds", "actuator lag", "--episodes", 1, "--workers", 1, "--out", "told")
    done = sami("robustness", *options)
    assert done.code == 0, done.err
    assert "wrote told/robustness.png" in done.out
    document = json.loads((tmp_path / "here" / "told" / "robustness.json").read_text())
    points = document["points"]
    assert [(point["kind"], point["severity"]) for point in points] == [
        ("", 0.0),
        *(("actuator lag", s) for s in (0.02, 0.04, 0.08, 0.16)),
    ]
    assert points[1]["gap"] == {"actuator_lag_s": 0.02, "same_as": {"achieved_goal": "cube_position"}}
    assert {point["sets"]["training"]["episodes"] for point in points} == {6}
    assert len({json.dumps([task["solved_at_start"] for task in point["tasks"]]) for point in points}) == 1
    assert "robustness.json exists" in sami("robustness", *options).err
    refused = sami("robustness", *options[:-1], "told/robustness.json")
    assert (refused.code, refused.out) == (1, "")
    assert "told/robustness.json is a file; --out names a folder." in refused.err


def test_an_unknown_kind_of_gap_is_refused(sami, trained):
    done = sami("robustness", trained.model, "--kinds", "latensy")
    assert (done.code, done.out) == (1, "")
    assert "unknown kind of gap 'latensy'. Did you mean 'latency'?" in done.err
