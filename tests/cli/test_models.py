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
    result = sami("models")
    assert (result.code, result.err) == (0, "")
    assert "success 0.99/0.96/0.58" in result.out
    for name, path in shipped_models().items():
        assert name in result.out
        assert hashlib.sha256(path.read_bytes()).hexdigest()[:12] in result.out
        assert f"in {path.parent}" in result.out
        assert read_artifact(path).contract.weights_sha256[:12] in result.out
    table = result.out[: result.out.index("in /")]
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
    result = sami("run", "--env", "panda", "--episodes", 1, "--set", "steps=3", "--json")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out)["steps"] == 3


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
    result = sami(*words, "panda-satesac")
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize("words", [("atlas",), ("atlas", "--set", "changes=60"), ("describe",), ("probe",)])
def test_a_shipped_model_is_not_changed_by_its_name_alone(sami, words, monkeypatch, tmp_path):
    file = tmp_path / "panda-satesac.onnx"
    file.write_bytes(shipped_models()["panda-satesac"].read_bytes())
    monkeypatch.setattr("sami_runtime.distribution.shipped_models", lambda: {"panda-satesac": file})
    result = sami(*words, "panda-satesac")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(
        f"sami: {file} is a shipped model, which --force changes. Copy it, and name the copy's"
    )


def test_a_file_of_that_name_is_meant_before_the_shipped_model(sami):
    Path("panda-satesac").write_bytes(shipped_models()["hopper-satesac"].read_bytes())
    assert "hopper-satesac: 125 Hz" in sami("inspect", "panda-satesac").out


def test_a_name_that_nothing_has_lists_those_that_are_shipped(sami):
    result = sami("inspect", "panda-satesc")
    assert (result.code, result.out) == (1, "")
    assert "unknown model 'panda-satesc'. Did you mean 'panda-satesac'? Valid: " in result.err
    assert "no_such.onnx" in sami("inspect", "no_such.onnx").err


def test_run_marks_the_tasks_that_the_models_own_evaluation_left_unsolved(sami):
    for task in HOPELESS:
        options = ("--fix", f"mass={task['mass']}", "--fix", f"friction={task['friction']}")
        result = sami("run", *options, "--episodes", 1, "--set", "steps=2", "--seed", 3)
        marked = "*: in this task the model's own evaluation is hardly better than doing nothing."
        assert result.out.index(marked) > result.out.index("0.00*"), "below the table"
        episode, total = result.out.splitlines()[3], next(x for x in result.out.splitlines() if "0.00*" in x)
        assert "no*" in episode.split()
        assert total.replace("│", " ").split()[:2] == [f"{task['mass']:g}", f"{task['friction']:g}"]
    hard = sami("run", "--fix", "mass=30", "--fix", "friction=1", "--episodes", 1, "--set", "steps=2", "--seed", 3).out
    assert "no" in hard.splitlines()[3].split()
    assert "*" not in hard, "nothing is explained that is not shown"


def test_a_model_that_was_not_evaluated_marks_nothing(sami, rewritten):
    model = rewritten(lambda contract: contract.pop("evaluation"))
    result = sami(
        "run", "--model", model, "--fix", "mass=30", "--fix", "friction=5", "--episodes", 1, "--set", "steps=2"
    )
    assert result.code == 0
    assert "*" not in result.out


def test_a_robot_without_goals_marks_no_task(sami):
    result = sami("run", "--model", "hopper-satesac", "--episodes", 1, "--set", "steps=2")
    assert result.code == 0
    assert "*" not in result.out
