"""Measurements that were cut off go on from what they had, and never from what another one had."""

import json
import os
from pathlib import Path

import pytest

from sami_runtime.errors import SamiError
from sami_runtime.gap.profile import GapProfile
from sami_train.envs.catalog import environment
from sami_train.evaluation import result_store
from sami_train.evaluation.evaluate import evaluate, evaluate_gaps
from sami_train.evaluation.result_store import ENDING, KeptResults, Piece, discard_all, keeping
from sami_train.files import read_json_lines

MODELS = Path(__file__).parents[3] / "models"
PANDA, HOPPER = MODELS / "panda-satesac.onnx", MODELS / "hopper-satesac.onnx"


class CutOffError(Exception):
    pass


def cut_after(count):
    results = []

    def arrived(result):
        results.append(result)
        if len(results) == count:
            raise CutOffError

    return arrived


def left_by(keep):
    return list(keep.parent.glob(f"*{ENDING}"))


@pytest.mark.parametrize(
    ("model", "env", "sets", "gaps", "pieces"),
    [
        (PANDA, "panda", ["training"], [None, GapProfile(dropout=0.3)], 4),
        (HOPPER, "hopper", ["training", "extreme"], [None], 2),
    ],
    ids=["task", "set"],
)
@pytest.mark.usefixtures("short_panda")
def test_a_measurement_that_was_cut_off_goes_on_and_finds_the_same(tmp_path, model, env, sets, gaps, pieces):
    keep, episodes = tmp_path / "evaluation.json", 2
    whole = evaluate_gaps(model, env, sets, gaps, episodes)
    with pytest.raises(CutOffError):
        evaluate_gaps(model, env, sets, gaps, episodes, on_task=cut_after(1), keep=keep)
    (file,) = left_by(keep)
    before = file.read_text().count("\n")
    assert 0 < before < pieces
    results = []
    assert evaluate_gaps(model, env, sets, gaps, episodes, on_task=results.append, keep=keep) == whole
    assert len(results) == sum(len(result.results) for result in whole)
    assert file.read_text().count("\n") > before
    assert evaluate_gaps(model, env, sets, gaps, episodes, keep=keep) == whole  # of the file alone
    discard_all(keep)
    assert left_by(keep) == []


def test_two_that_measure_for_one_result_are_told_of_each_other(tmp_path):
    result = tmp_path / "evaluation.json"
    with keeping(result):
        with pytest.raises(SamiError, match=rf"evaluation\.json is being measured by process {os.getpid()} on "):
            keeping(result).__enter__()
        result.with_name(f"evaluation.123{ENDING}").touch()
    assert list(tmp_path.iterdir()) == []  # and the lock goes with what was kept
    with pytest.raises(CutOffError), keeping(result):  # noqa: PT012
        result.with_name(f"evaluation.123{ENDING}").touch()
        raise CutOffError
    assert left_by(result)


@pytest.mark.usefixtures("short_panda")
def test_what_another_measurement_left_is_not_taken(tmp_path):
    keep = tmp_path / "evaluation.json"
    evaluate(PANDA, "panda", ["training"], 2, keep=keep)
    (file,) = left_by(keep)
    row = json.loads(file.read_text().splitlines()[0])
    row["results"][0]["success"] = -1.0
    file.write_text(json.dumps(row) + "\n")
    reports = [result.success for result in evaluate(PANDA, "panda", ["training"], 2, keep=keep).results]
    assert reports[0] == -1.0  # the same measurement goes on from it
    evaluations = [
        evaluate(PANDA, "panda", ["training"], 3, keep=keep),
        evaluate(MODELS / "panda-satesac-ahead.onnx", "panda", ["training"], 2, keep=keep),
        evaluate(PANDA, "panda", ["training"], 2, gap=GapProfile(dropout=0.3), keep=keep),
    ]
    assert all(result.success >= 0.0 for other in evaluations for result in other.results)


@pytest.mark.usefixtures("short_panda")
def test_a_line_that_was_cut_off_is_measured_again(tmp_path):
    keep = tmp_path / "evaluation.json"
    whole = evaluate(PANDA, "panda", ["training"], 2, keep=keep)
    (file,) = left_by(keep)
    file.write_text(file.read_text()[:-40])
    assert evaluate(PANDA, "panda", ["training"], 2, keep=keep) == whole
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(rows) == len(whole.results) == len({row["of"] for row in rows})


def test_results_beside_another_result_are_read_again_only_once_they_change(tmp_path, monkeypatch):
    part, reads = tmp_path / "part.json", []
    store, writer = (KeptResults(path, HOPPER, environment("hopper"), 1) for path in (tmp_path / "all.json", part))
    monkeypatch.setattr(result_store, "read_json_lines", lambda path: reads.append(path) or read_json_lines(path))
    assert store.gather(part) == store.gather(part) == []
    for count, task_set in enumerate(("training", "extreme"), 1):
        writer.add(Piece(None, task_set).key, [])
        assert store.gather(part) == store.gather(part) == []
        assert store.results_of(Piece(None, task_set)) == []
        assert len(reads) == 1 + count


def test_a_measurement_does_not_go_on_from_one_before_the_environments_file_was_edited(tmp_path):
    folder = Path(__file__).parents[3] / "examples" / "own_environment"
    for name in ("my_robot.toml", "my_robot.xml"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    file, keep = tmp_path / "my_robot.toml", tmp_path / "evaluation.json"

    def path():
        return KeptResults(keep, HOPPER, environment(str(file)), 2).path

    before = path()
    assert path() == before
    file.write_text(file.read_text().replace("weight = -1.0", "weight = -2.0"))
    assert path() != before
