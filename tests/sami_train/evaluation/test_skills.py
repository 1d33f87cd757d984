"""Shares of skills by task."""

import json

import pytest

from sami_train.config.methods import METHODS
from sami_train.envs.catalog import environment
from sami_train.evaluation.evaluate import evaluate
from sami_train.evaluation.results import Evaluation, TaskResult
from sami_train.studies.contexts.skills import PAPER, skills_by_task

TASKS = environment("panda").tasks.sets["training"]


def measured(*shares, lifted=0.3):
    names = ("pick_and_place", "tip", "push", "other")
    skills = dict(zip(names, shares, strict=True)) if shares else {}
    results = (TaskResult("training", dict(task), 10, 5.0, 0.5, 0.0, {"lifted": lifted}, skills) for task in TASKS)
    return Evaluation("panda", tuple(results))


def test_shares_are_means_over_the_evaluations_of_a_task():
    result = skills_by_task([measured(0.2, 0.3, 0.5, 0.0), measured(0.4, 0.1, 0.3, 0.2)])
    assert sorted(str(dict(item.task)) for item in result) == sorted(str(dict(task)) for task in TASKS)
    assert result[0].shares == pytest.approx({"pick_and_place": 0.3, "tip": 0.2, "push": 0.4, "other": 0.1})
    assert (result[0].runs, result[0].success) == (2, 0.5)


def test_evaluations_of_before_skills_were_kept_tell_of_lifted_cubes_alone():
    shares = skills_by_task([measured()])[0].shares
    assert shares == {"pick_and_place": 0.3, "tip": None, "push": None, "other": None}


def test_skills_come_back_from_a_file_and_older_files_have_none():
    for evaluation in (measured(0.2, 0.3, 0.5, 0.0), measured()):
        plain = evaluation.to_dict()
        assert Evaluation.from_dict(json.loads(json.dumps(plain))) == evaluation
        assert ("skills" in plain["tasks"][0]) == bool(evaluation.results[0].skills)


def test_the_paper_tells_of_methods_that_are_here():
    assert set(PAPER) <= {method.title for method in METHODS.values()}


@pytest.mark.slow
def test_an_evaluation_names_each_episode_after_one_skill():
    pytest.importorskip("gymnasium")
    from sami_runtime.distribution import shipped_models

    source = shipped_models()["panda-satesac"]
    result = evaluate(source, "panda", ["training"], 2).results[0]
    assert sum(result.skills.values()) == pytest.approx(1.0)
    assert result.skills["pick_and_place"] == result.shares["lifted"]
