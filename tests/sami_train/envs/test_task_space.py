"""Sets of tasks as users write them: lists, grids, ranges, functions."""

import numpy as np
import pytest

from sami_runtime.model.atlas import label
from sami_train.config.resolve import resolve
from sami_train.config.schema import ConfigError
from sami_train.envs import Range, environment, task_space
from sami_train.envs.tasks import DRAWS, TaskError, parse_value
from sami_train.runs.train import make_env

PENDULUM = "tests.making.user_environments:PENDULUM"


def test_lists_are_a_grid_and_their_ends_the_bounds():
    space = task_space({"training": {"mass": [1, 2], "length": [0.5]}, "extreme": [{"length": 1, "mass": 4}]})
    assert [dict(task) for task in space.sets["training"]] == [{"mass": m, "length": 0.5} for m in (1.0, 2.0)]
    assert {f.name: (f.low, f.high) for f in space.features} == {"mass": (1.0, 4.0), "length": (0.5, 1.0)}
    assert not space.drawn


def test_a_set_without_end_stands_as_the_same_few_tasks_wherever_tasks_are_counted():
    ranged, split = {"mass": Range(1.0, 2.0), "pole": [0, 1]}, {"mass": [Range(0.1, 0.5), 9.0], "pole": [1]}
    sets = {"training": ranged, "extreme": split}
    space, again = task_space(sets), task_space(sets)
    assert space.sets == again.sets
    assert {name: len(tasks) for name, tasks in space.sets.items()} == {"training": DRAWS, "extreme": DRAWS}
    assert all(1.0 <= task["mass"] <= 2.0 and task["pole"] in (0.0, 1.0) for task in space.sets["training"])
    masses = {task["mass"] for task in space.sets["extreme"]}
    assert 9.0 in masses
    assert all(mass == 9.0 or 0.1 <= mass <= 0.5 for mass in masses)
    assert {f.name: (f.low, f.high) for f in space.features} == {"mass": (0.1, 9.0), "pole": (0.0, 1.0)}
    for task in space.sets["training"]:
        assert float(label(task).split()[1].rstrip(",")) == task["mass"], "what is shown is the task, to its last digit"


def test_a_function_draws_tasks_and_may_draw_anything():
    space = task_space({"training": lambda rng: {"wind": rng.normal()}})
    assert space.check({"wind": -1e3}) == {"wind": -1000.0}
    assert len({task["wind"] for task in space.sets["training"]}) == DRAWS


def test_a_run_learns_from_tasks_drawn_once_by_its_seed():
    tasks = environment(PENDULUM).tasks
    first = tasks.training_tasks(5, seed=0)
    assert first == tasks.training_tasks(5, seed=0) != tasks.training_tasks(5, seed=1)
    assert len(first) == 5
    config = resolve("fast-cpu", {"env": PENDULUM, "collection.draws": 5})
    assert tuple(config.training_tasks()) == first == make_env(config).unwrapped.tasks


def test_a_new_task_in_each_episode_is_for_methods_that_compare_none():
    overrides = {"env": PENDULUM, "collection.draws": 0}
    with pytest.raises(ConfigError, match=r"collection\.draws is 0, but SaTESAC compares episodes of the same task"):
        resolve("fast-cpu", {**overrides, "method": "satesac"})
    env = make_env(resolve("fast-cpu", {**overrides, "method": "tesac"}))
    masses = {env.reset(seed=seed)[1]["task"]["mass"] for seed in range(30)}
    assert len(masses) == 30


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ({"moderate": [{"mass": 1.0}]}, "one of them must be named training"),
        ({"training": []}, "holds no task"),
        ({"training": {"mass": []}}, "give a list of numbers, or a Range"),
        ({"training": {"mass": "heavy"}}, "give a list of numbers, or a Range"),
        ({"training": [{"mass": "heavy"}]}, "value 'heavy'; each feature of a task must be a finite number"),
        ({"training": [{"mass": [1.0, 2.0]}]}, "each feature of a task must be a finite number"),
        ({"training": [{"mass": float("nan")}]}, "must be a finite number"),
        ({"training": [{"mass": 1.0}], "extreme": [{"length": 1.0}]}, "all tasks must have the same"),
        ({"training": lambda rng: 3}, "returned 3; it must return numbers by feature"),
    ],
)
def test_sets_that_are_none_are_explained(sets, message):
    with pytest.raises(TaskError, match=message):
        task_space(sets)


def test_draws_follow_nothing_but_the_generator():
    draw = task_space({"training": {"mass": Range(0.0, 1.0)}}).drawn["training"]
    assert draw(np.random.default_rng(7)) == draw(np.random.default_rng(7)) != draw(np.random.default_rng(8))


def test_the_value_of_a_feature_is_read_from_text():
    assert parse_value("mass", " 2.5 ") == 2.5
    assert parse_value("crippled", "0+4") == parse_value("crippled", "0,4") == [0, 4]
    assert parse_value("crippled", "none") == []
    assert parse_value("mass", "heavy") == "heavy", "the feature's own check explains it"
