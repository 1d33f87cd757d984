"""Exploration of `panda-heavy` tips cubes that the arm neither lifts nor slides, and its test tasks stay unseen."""

import numpy as np
import pytest

pytest.importorskip("panda_gym")
from sami_train.envs.layout import flatten
from sami_train.envs.make import make
from sami_train.envs.panda.heavy import PANDA_HEAVY, tip_action

FINE_PHYSICS = True
LAYOUT = PANDA_HEAVY.layout


def test_cubes_of_20_kg_on_a_rough_table_are_tipped_to_their_goals():
    env, rng = make(PANDA_HEAVY, tasks=[{"mass": 20.0, "friction": 10.0}]), np.random.default_rng(0)
    turned, reached, tipped = [], [], []
    for seed in range(12):
        observation, _ = env.reset(seed=seed)
        starts_at_goal = env.unwrapped.task.is_success(observation["achieved_goal"], observation["desired_goal"])
        angles, labels, over = [observation["observation"][10:13]], set(), bool(starts_at_goal)
        while not over:
            action = tip_action(flatten(observation), rng)
            observation, _, terminated, truncated, info = env.step(action)
            angles.append(observation["observation"][10:13])
            labels.add(info["skill"])
            over = terminated or truncated
        if not starts_at_goal:
            turned.append(np.degrees(np.ptp(angles, axis=0).max()))
            reached.append(info["is_success"])
            tipped.append("tip" in labels and "pick_and_place" not in labels)
    env.close()
    assert np.mean(reached) >= 0.3
    assert np.median(turned) >= 80, "degrees: cubes roll, they do not slide"
    assert np.mean(tipped) >= 0.7


def test_exploration_tips_what_is_too_heavy_and_leaves_a_light_cube_to_the_policy_once_the_hand_is_there():
    reach, rng = PANDA_HEAVY.reach, np.random.default_rng(0)
    observation = np.zeros(LAYOUT.size, np.float32)
    observation[LAYOUT.columns("ee_position")] = 0.0, 0.0, 0.2
    light, heavy = {"mass": 10.0, "friction": 0.1}, {"mass": 20.0, "friction": 1.0}
    assert reach(observation, rng, light)[2] < 0, "towards the cube"
    assert reach(observation, rng, heavy)[3] == -1.0, "with a shut hand"
    observation[LAYOUT.columns("ee_position")] = observation[LAYOUT.columns("cube_position")]
    assert reach(observation, rng, light) is None
    assert reach(observation, rng, heavy) is not None


def test_masses_and_frictions_of_the_test_sets_stay_unseen():
    sets = PANDA_HEAVY.tasks.sets
    known_values = [task["mass"] for task in sets["training"]], [task["friction"] for task in sets["training"]]
    assert max(known_values[0]) < 30.0
    assert max(known_values[1]) < 30.0
    chosen_by = [*sets["training"], *sets["development"]]
    assert not [task for task in (*sets["moderate"], *sets["extreme"]) if task in chosen_by]
