"""Comparing runs that are judged by their return: scores by episode, whole numbers, no floor, the paper's returns."""

import csv
import json

import numpy as np
import pytest

from sami_train.envs.measure import RETURN, SUCCESS
from sami_train.episodes.episode import RETURN_WINDOW, Episode, TaskRecord
from sami_train.runs.progress import Progress
from sami_train.studies.compare import estimates
from sami_train.studies.compare.comparison import MethodComparison
from sami_train.studies.compare.groups import ComparisonError, read_runs
from sami_train.studies.compare.plots import maps_by_task
from sami_train.studies.compare.tables import as_data, contests_table, standings_table, write_report
from tests.making.made_runs import made_return_run, made_run

GAIN = {"training": 50.0, "moderate": 100.0, "extreme": -3000.0}


@pytest.fixture
def comparison(tmp_path, monkeypatch):
    """TESAC and SaTESAC on hopper; the extreme returns are negative."""
    monkeypatch.setattr(estimates, "REPLICATES", 50)
    for seed in range(3):
        for method, gain in (("tesac", 0.0), ("satesac", 5.0 * seed + 20.0)):

            def ret(name, episode, seed=seed, gain=gain):
                return 1200.0 + GAIN[name] + 10.0 * seed + gain + episode

            made_return_run(tmp_path / f"{method}-{seed}", method=method, seed=seed, ret=ret)
    return MethodComparison(read_runs([tmp_path]))


def test_scores_are_returns_by_episode_and_their_mean_is_the_sets(comparison):
    for run in comparison.runs:
        for name in GAIN:
            assert run.scores(name).shape == (12,)
            assert run.scores(name).mean() == pytest.approx(run.evaluation.ret(name))
            assert run.scores(name).mean() == pytest.approx(run.evaluation.score(name))


def test_a_table_tells_returns_in_whole_numbers_beside_the_papers_and_no_trivial_starts(comparison):
    table = standings_table(comparison, "extreme")
    assert table.title == "extreme: return, 12 episodes in 12 tasks"
    assert standings_table(comparison, "training").title == "training: return, 12 episodes in 9 tasks"
    assert "excluding trivial starts" not in table.columns
    tesac, satesac = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    assert tesac["mean ± std"] == "-1,784 ± 10"
    assert tesac["paper"] == "1,459 ± 72"
    assert satesac["paper"] == "1,447 ± 14"
    low, high = (float(part.replace(",", "")) for part in tesac["mean [95 % t]"][1:-1].split(", -"))
    assert low < -1784 < -high  # not cut off at 0 or 1


def test_the_difference_is_told_in_whole_numbers_with_its_sign(comparison):
    row = dict(zip(contests_table(comparison).columns, contests_table(comparison).rows[0], strict=True))
    assert row["difference [95 % t]"].startswith("+25 [")
    assert row["P(X > Y) [95 % bootstrap]"].startswith("0.94")  # one of nine pairs of seeds ties
    assert row["paper's p"] == "0.747"


def test_the_data_names_its_measure(comparison):
    data = json.loads(json.dumps(as_data(comparison), allow_nan=False))
    assert (data["measure"], data["episodes_per_set"]) == ("return", [12])
    assert {row["above_floor"] for row in data["results"]} == {None}
    assert data["results"][0]["mean"]["value"] == pytest.approx(1200 + 50 + 10 + 5.5)


def test_a_report_has_its_plots_and_results_without_success(comparison, tmp_path):
    paths = write_report(comparison, tmp_path / "report", ["sami", "compare"])
    names = {path.name for path in paths}
    assert {"report.md", "results.csv", "intervals.png", "learning_curves.png", "heat_maps.png"} <= names
    with (tmp_path / "report" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert not {"success", "above_floor", "lifted", "returns"} & rows[0].keys()
    assert len(rows) == 6 * (9 + 12 + 12)
    text = (tmp_path / "report" / "report.md").read_text()
    assert "Return by group and set of tasks." in text
    assert "uccess" not in text
    assert "Return while exploring, mean of the last 100 episodes." in text
    assert "Return by task, mean over seeds." in text
    assert "Hatched" not in text


def test_a_learning_curve_is_of_returns(comparison):
    steps, returns = comparison.runs[0].curve()
    assert returns.tolist() == [500.0 * i for i in range(1, 11)]
    assert len(steps) == 10


def test_a_map_averages_tasks_that_differ_only_in_crippled_parts(tmp_path):
    made_return_run(tmp_path / "a", env="crippled-ant", episodes=100, ret=lambda name, episode: 100.0 * episode)
    comparison = MethodComparison(read_runs([tmp_path]))
    values = {(row["mass"], row["damping"]): row["value"] for row in maps_by_task(comparison).rows}
    results = comparison.runs[0].evaluation.results
    where = {(result.task["mass"], result.task["damping"]) for result in results}
    assert values.keys() == where
    assert len(where) < len(results)
    mass, damping = 0.75, 1.25
    returns = [
        value
        for result in results
        if (result.task["mass"], result.task["damping"]) == (mass, damping)
        for value in result.returns
    ]
    assert values[mass, damping] == pytest.approx(np.mean(returns))


def test_runs_of_different_measures_are_refused(tmp_path):
    made_run(tmp_path / "a")
    made_return_run(tmp_path / "b")
    with pytest.raises(ComparisonError, match="compare runs of one environment at a time"):
        read_runs([tmp_path])


# --- while training


def episode(ret, success=False, mass=1.0, skills=()):
    zeros = np.zeros((1, 1), np.float32)
    rewards = np.array([ret], np.float32)
    task = {"mass": mass}
    return Episode(0, task, 0, np.zeros((2, 1), np.float32), zeros, rewards, False, success, frozenset(skills))


def test_a_record_tells_what_counts_over_its_own_window():
    record = TaskRecord()
    assert (record.mean(RETURN), record.mean(SUCCESS)) == (None, None)
    for ret in range(10):
        record.add(episode(ret, success=ret < 5))
    record.add(episode(100.0, mass=2.0))
    last = np.mean(range(10 - RETURN_WINDOW, 10))
    assert record.by_task(RETURN) == {"mass=1": last, "mass=2": 100.0}
    assert record.mean(RETURN) == (last + 100.0) / 2
    assert record.mean(SUCCESS) == record.scalars(SUCCESS, {})["rollout/success"] == 0.25


def test_a_record_tells_the_outcomes_that_an_environment_declares():
    record = TaskRecord()
    for skills in (["push"], ["push", "lift"], [], ["lift"]):
        record.add(episode(0.0, skills=skills))
    assert record.scalars(SUCCESS, {"lifted": "lift"}).items() >= {"lifted/mass=1": 0.5}.items()
    assert record.scalars(RETURN, {"lifted": "lift"}) == {"return/mass=1": 0.0}


@pytest.mark.parametrize(
    ("env", "message"), [("hopper", "return while exploring 4,058"), ("panda", "success while exploring 0.50")]
)
def test_the_progress_line_tells_what_counts(env, message, monkeypatch, capsys):
    from sami_train.config.resolve import resolve
    from sami_train.runs import progress as module

    monkeypatch.setattr(module, "RATE_WINDOW", 0.0)
    record = TaskRecord()
    record.add(episode(4158.0, success=True))
    record.add(episode(3958.0))
    with Progress(resolve("fast-cpu", {"env": env}), 0) as progress:
        progress.update(100, 1, record)
    assert message in capsys.readouterr().out


def test_a_measure_shows_what_it_cannot_as_a_dash():
    assert [SUCCESS.show(0.1234), SUCCESS.show(0.1234, coarse=True), SUCCESS.show(0.02, sign=True)] == [
        "0.123",
        "0.12",
        "+0.020",
    ]
    assert [RETURN.show(12345.6), RETURN.show(-3.2, coarse=True), RETURN.show(None), RETURN.show(np.nan)] == [
        "12,346",
        "-3",
        "-",
        "-",
    ]
    small = {0.46: "0.46", -7.2: "-7.2", 9.96: "10", 0.0: "0", -11.3: "-11"}
    assert {value: RETURN.show(value) for value in small} == small, "two digits of a return below 10"
