"""Figures show every row that lies beside them, and mark what cannot be done."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from sami_train.envs.catalog import environment
from sami_train.studies.charts.chart import CATEGORIES, SHADES, Chart, Panel, colours_of, page_variables, rows_where
from sami_train.studies.charts.scores import by_task, learning, skills
from sami_train.studies.report.episodes import ReportEpisode
from sami_train.studies.report.subject import Subject
from sami_train.studies.sweep.study import find_runs

PANDA = environment("panda")
REPOSITORY = Path(__file__).parents[4]


def subject(name="panda-satesac"):
    (run,) = find_runs([REPOSITORY / f"results/models:{name}"])
    return Subject.of_run(run)


def test_a_figure_is_a_picture_and_the_rows_that_it_is_drawn_from(tmp_path):
    rows = ({"x": "a", "y": 1}, {"x": "b", "y": 2, "z": 3})
    panels = (Panel("a", lambda axes: axes.plot([1])), Panel("all", lambda axes: axes.plot([1, 2], label="line")))
    chart = Chart("bars", "Bars.", panels, rows)
    picture, table = chart.write(tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert list(csv.DictReader(table.read_text().splitlines())) == [
        {"x": "a", "y": "1", "z": ""},
        {"x": "b", "y": "2", "z": "3"},
    ]
    assert rows_where(rows, x="b") == [rows[1]]
    first, second = chart.pictures()
    assert 'aria-label="a. Bars' in first
    assert ">line</text>" in second
    assert chart.pictures() == [first, second]


def test_heat_maps_have_every_task_and_mark_those_that_are_like_doing_nothing():
    figure = by_task(PANDA, {"panda-satesac": subject().evaluation})
    first = [row for row in figure.rows if row["panel"] == "success"]
    assert len(first) == 20
    marked = {(row["mass"], row["friction"]) for row in first if row["mark"] == "as doing nothing"}
    assert marked == {(30.0, 5.0), (30.0, 10.0), (30.0, 30.0)}
    assert "cannot be lifted or slid. It can be tipped" in figure.caption
    assert [panel.title for panel in figure.panels] == ["success", "excluding trivial starts"]


def test_every_task_without_success_is_marked():
    evaluation = subject().evaluation
    unsolved = replace(
        evaluation, results=tuple(replace(result, success=result.solved_at_start) for result in evaluation.results)
    )
    figure = by_task(PANDA, {"a": evaluation, "b": unsolved})
    marks = {(row["panel"], row["mark"]) for row in figure.rows}
    assert marks == {("a", ""), ("a", "as doing nothing"), ("b", "as doing nothing")}


def test_tasks_with_a_third_feature_are_averaged_over_it():
    figure = by_task(environment("crippled-ant"), {"ant": subject("crippled-ant-satesac").evaluation})
    assert max(row["tasks"] for row in figure.rows) > 1
    assert sum(row["episodes"] for row in figure.rows) == sum(
        result.episodes for result in subject("crippled-ant-satesac").evaluation.results
    )


def test_skills_of_a_task_are_shares_that_add_up_to_one():
    episodes = [
        ReportEpisode(name, dict(task), skill, True, 0.0, np.zeros((3, 2), np.float32))
        for name, tasks in PANDA.tasks.sets.items()
        for task in tasks
        for skill in ("push", "push", "other", "tip", "pick_and_place")
    ]
    figure = skills(PANDA, episodes)
    assert [panel.title for panel in figure.panels] == ["push", "tip", "pick & place", "other"]
    by_cell = {}
    for row in figure.rows:
        by_cell.setdefault((row["mass"], row["friction"]), []).append(row["value"])
    assert list(by_cell.values()) == [[0.4, 0.2, 0.2, 0.2]] * 20


def test_curves_have_the_bound_and_the_log_k_that_it_cannot_pass():
    figure = learning([subject().run], PANDA.measure)
    bounds = [row for row in figure.rows if row["panel"] == "contrast"]
    assert bounds
    assert all(row["value"] <= row["log_k"] + 0.05 for row in bounds)


def test_every_colour_of_a_value_has_another_on_dark_ground():
    replaced = page_variables()
    values = [str(value) for value in range(20)]
    for ordered in (False, True):
        assert set(colours_of(values, ordered).values()) <= replaced.keys()
    for light in CATEGORIES:
        assert replaced[light][1:] != (light, light)
    assert len(set(colours_of(values[:SHADES], ordered=True).values())) == SHADES
