"""What is told of an evaluation where the floor leaves nothing to tell."""

import csv
import dataclasses
import json
import math

import pytest
from rich.console import Console
from sami_cli.commands.eval import evaluation_table

from sami_runtime.errors import SamiError
from sami_train.envs.panda.tasks import PANDA_TASKS
from sami_train.evaluation.results import Evaluation, TaskResult
from sami_train.studies.compare.comparison import MethodComparison
from sami_train.studies.compare.groups import read_runs
from sami_train.studies.compare.tables import as_data, standings_table, write_report
from tests.making.made_runs import made_run


def evaluated(*floors):
    tasks = PANDA_TASKS.sets["training"]
    pairs = zip(floors, tasks, strict=False)
    results = (TaskResult("training", dict(t), 1, 5.0, 1.0, floor, {"lifted": 0.0}) for floor, t in pairs)
    return Evaluation("panda", tuple(results))


def test_success_excluding_trivial_starts_is_undefined_where_every_episode_starts_at_its_goal():
    first = evaluated(1.0, 0.5)
    assert math.isnan(first.results[0].nontrivial_success)
    assert first.nontrivial_success("training") == 1.0
    assert math.isnan(evaluated(1.0, 1.0).nontrivial_success("training"))


def test_what_is_undefined_is_null_in_a_file_and_comes_back():
    for result in (evaluated(1.0, 0.5), evaluated(1.0, 1.0)):
        document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert document["tasks"][0]["above_floor"] is None
        assert Evaluation.from_dict(document) == result
    assert document["sets"]["training"]["above_floor"] is None


def test_outcomes_are_columns_of_a_file_and_come_back():
    first = evaluated(0.5)
    lifted = dataclasses.replace(first, results=(dataclasses.replace(first.results[0], shares={"lifted": 0.25}),))
    plain = lifted.to_dict()
    assert list(plain["tasks"][0]) == [
        *("task_set", "task", "episodes", "success", "solved_at_start", "lifted", "steps", "ret", "above_floor")
    ]
    assert Evaluation.from_dict(json.loads(json.dumps(plain))).results[0].shares == {"lifted": 0.25}
    del plain["tasks"][0]["lifted"]
    with pytest.raises(SamiError, match="the evaluation lacks 'lifted'; measure again"):
        Evaluation.from_dict(plain)


def test_what_is_undefined_is_a_dash_in_a_table():
    console = Console(record=True, width=100)
    console.print(evaluation_table(evaluated(1.0, 1.0), "training"))
    lines = [line.split() for line in console.export_text().replace("│", " ").splitlines()]
    assert [line[3] for line in lines if line[2:3] == ["1.00"]] == ["-", "-"]
    assert next(line for line in lines if line[:1] == ["mean"]) == ["mean", "1.000", "-"]


@pytest.mark.filterwarnings("error")
def test_a_comparison_of_such_runs_has_nulls_dashes_and_empty_cells(tmp_path):
    made_run(tmp_path / "a", success=1.0, episodes=1, floor=1.0)
    comparison = MethodComparison(read_runs([tmp_path]))
    data = json.loads(json.dumps(as_data(comparison), allow_nan=False))
    assert {row["above_floor"] for row in data["results"]} == {None}
    table = standings_table(comparison, "training")
    assert table.rows[0][table.columns.index("excluding trivial starts")] == "-"
    write_report(comparison, tmp_path / "report", ["sami", "compare"])
    with (tmp_path / "report" / "results.csv").open() as file:
        assert {row["above_floor"] for row in csv.DictReader(file)} == {""}
