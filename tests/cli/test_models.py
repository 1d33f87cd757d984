"""The models that are shipped: what is listed of them, how they are named, and what they are expected to fail at."""

import hashlib
import json
from pathlib import Path

import pytest

from sami_runtime.distribution import shipped_models
from sami_runtime.model.artifact import read_artifact

HOPELESS = ({"mass": 30.0, "friction": 5.0}, {"mass": 30.0, "friction": 10.0}, {"mass": 30.0, "friction": 30.0})
"""Where the shipped policy does hardly better than doing nothing; a script tips such cubes: docs/results/panda.md."""


def test_every_shipped_model_carries_its_file_name_and_has_a_card():
    assert "panda-satesac" in shipped_models()
    for name, path in shipped_models().items():
        assert read_artifact(path).contract.name == name == path.stem
        assert path.with_suffix(".md").read_text(encoding="utf-8").startswith(f"# {name}\n")


def test_models_lists_them_with_hashes_results_and_the_folder(sami, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = sami("models")
    assert (done.code, done.err) == (0, "")
    assert "success 0.99/0.96/0.58" in done.out
    for name, path in shipped_models().items():
        assert name in done.out
        assert hashlib.sha256(path.read_bytes()).hexdigest()[:12] in done.out
        assert f"in {path.parent}" in done.out
        assert read_artifact(path).contract.weights_sha256[:12] in done.out
    table = done.out[: done.out.index("in /")]
    assert max(map(len, table.splitlines())) <= 80
    assert "training/moderate/extreme " in table, "sets that only one model has are left to --json"


def test_as_json_each_tells_all_of_it(sami):
    rows = {row["name"]: row for row in json.loads(sami("models", "--json").out)}
    assert set(rows) == set(shipped_models())
    panda_row, path = rows["panda-satesac"], shipped_models()["panda-satesac"]
    assert (panda_row["env"], panda_row["method"], panda_row["training_tasks"]) == ("panda", "SaTESAC", 6)
    assert (panda_row["path"], panda_row["bytes"]) == (str(path), path.stat().st_size)
    assert panda_row["file_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert panda_row["weights_sha256"] == read_artifact(path).contract.weights_sha256
    assert panda_row["sets"]["training"]["success"] > 0.9


def test_an_environment_is_run_with_its_shipped_model_whatever_lies_in_the_folder(sami):
    Path("models").mkdir()
    Path("models/panda-satesac.onnx").write_text("another")
    done = sami("run", "--env", "panda", "--episodes", 1, "--set", "steps=3", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["steps"] == 3


@pytest.mark.parametrize(
    "words",
    [
        ("inspect",),
        ("verify",),
        ("run", "--episodes", 1, "--set", "steps=2", "--model"),
        ("eval", "--tasks", "training", "--episodes", 1, "--on", 1, "--json", "--model"),
    ],
)
def test_a_shipped_model_is_named_without_folder_and_suffix(sami, words):
    Path("panda-satesac").mkdir()  # as its run folder is called
    done = sami(*words, "panda-satesac")
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("words", [("atlas",), ("atlas", "--set", "changes=60"), ("describe",), ("probe",)])
def test_a_shipped_model_is_not_changed_by_its_name_alone(sami, words, monkeypatch, tmp_path):
    file = tmp_path / "panda-satesac.onnx"
    file.write_bytes(shipped_models()["panda-satesac"].read_bytes())
    monkeypatch.setattr("sami_runtime.distribution.shipped_models", lambda: {"panda-satesac": file})
    done = sami(*words, "panda-satesac")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"sami: {file} is a shipped model, which --force changes. Copy it, and name the copy's")


def test_a_file_of_that_name_is_meant_before_the_shipped_model(sami):
    Path("panda-satesac").write_bytes(shipped_models()["hopper-satesac"].read_bytes())
    assert "hopper-satesac: 125 Hz" in sami("inspect", "panda-satesac").out


def test_a_name_that_nothing_has_lists_those_that_are_shipped(sami):
    done = sami("inspect", "panda-satesc")
    assert (done.code, done.out) == (1, "")
    assert "unknown model 'panda-satesc'. Did you mean 'panda-satesac'? Valid: " in done.err
    assert "no_such.onnx" in sami("inspect", "no_such.onnx").err


def test_run_marks_the_tasks_that_the_models_own_evaluation_left_unsolved(sami):
    for task in HOPELESS:
        options = ("--fix", f"mass={task['mass']}", "--fix", f"friction={task['friction']}")
        done = sami("run", *options, "--episodes", 1, "--set", "steps=2", "--seed", 3)
        marked = "*: in this task the model's own evaluation is hardly better than doing nothing."
        assert done.out.index(marked) > done.out.index("0.00*"), "below the table"
        episode, total = done.out.splitlines()[3], next(x for x in done.out.splitlines() if "0.00*" in x)
        assert "no*" in episode.split()
        assert total.replace("│", " ").split()[:2] == [f"{task['mass']:g}", f"{task['friction']:g}"]
    hard = sami("run", "--fix", "mass=30", "--fix", "friction=1", "--episodes", 1, "--set", "steps=2", "--seed", 3).out
    assert "no" in hard.splitlines()[3].split()
    assert "*" not in hard, "nothing is explained that is not shown"


def test_a_model_that_was_not_evaluated_marks_nothing(sami, rewritten):
    model = rewritten(lambda contract: contract.pop("evaluation"))
    done = sami("run", "--model", model, "--fix", "mass=30", "--fix", "friction=5", "--episodes", 1, "--set", "steps=2")
    assert done.code == 0
    assert "*" not in done.out


def test_a_robot_without_goals_marks_no_task(sami):
    done = sami("run", "--model", "hopper-satesac", "--episodes", 1, "--set", "steps=2")
    assert done.code == 0
    assert "*" not in done.out
