"""Heavy Panda: its exploration tips cubes that the arm neither lifts nor slides, and the test sets stay unseen."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("panda_gym")
from sami_train.envs import environment
from sami_train.envs.layout import flatten
from sami_train.envs.make import make
from sami_train.envs.panda.entry import ENTRY_POINTS
from sami_train.envs.panda.tip import tip_action

FINE_PHYSICS = True

SPEC = environment("panda-heavy")


def test_cubes_of_20_kg_on_a_rough_table_are_tipped_to_their_goals():
    env, rng = make(SPEC, tasks=[{"mass": 20.0, "friction": 10.0}]), np.random.default_rng(0)
    turned, reached, tipped = [], [], []
    for seed in range(12):
        observation, _ = env.reset(seed=seed)
        begun_at_goal = env.unwrapped.task.is_success(observation["achieved_goal"], observation["desired_goal"])
        angles, labels, over = [observation["observation"][10:13]], set(), bool(begun_at_goal)
        while not over:
            observation, _, terminated, truncated, info = env.step(tip_action(flatten(observation), rng))
            angles.append(observation["observation"][10:13])
            labels.add(info["skill"])
            over = terminated or truncated
        if not begun_at_goal:
            turned.append(np.degrees(np.ptp(angles, axis=0).max()))
            reached.append(info["is_success"])
            tipped.append("tip" in labels and "pick_and_place" not in labels)
    env.close()
    assert np.mean(reached) >= 0.3
    assert np.median(turned) >= 80, "degrees: cubes roll, they do not slide"
    assert np.mean(tipped) >= 0.7


@pytest.mark.parametrize("engine", ENTRY_POINTS)
def test_gymnasium_draws_from_its_own_sets(engine):
    with make(dataclasses.replace(SPEC, entry_point=ENTRY_POINTS[engine]), tasks="training") as env:
        assert env.unwrapped.tasks == SPEC.tasks.sets["training"]


def test_masses_and_frictions_of_the_test_sets_stay_unseen():
    sets = SPEC.tasks.sets
    assert max(task["mass"] for task in sets["training"]) < 30.0
    assert max(task["friction"] for task in sets["training"]) < 30.0
    chosen_by = [*sets["training"], *sets["development"]]
    assert not [task for task in (*sets["moderate"], *sets["extreme"]) if task in chosen_by]
    assert {name: sets[name] for name in ("moderate", "extreme")} == {
        name: environment("panda").tasks.sets[name] for name in ("moderate", "extreme")
    }
