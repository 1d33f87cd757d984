"""What training saw is measured on the file itself, the same each time, and attaching it changes nothing else."""

import dataclasses
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sami_runtime.checks.verify import verify
from sami_runtime.model.artifact import read_artifact
from sami_train.envs.catalog import environment
from sami_train.export.training_ranges import describe, exploring, measure_ranges, measure_responses

pytest.importorskip("gymnasium")
FINE_PHYSICS = True
MODEL = Path(__file__).parents[4] / "models" / "panda-satesac.onnx"
SPEC = environment("panda")
SHORT = dataclasses.replace(SPEC, episode_steps=20)


@pytest.fixture(scope="module")
def ranges():
    return measure_ranges(MODEL, SHORT, episodes=6, starts=2)


def test_it_is_the_same_each_time_and_counts_what_it_comes_from(ranges):
    rounds = []
    assert measure_ranges(MODEL, SHORT, episodes=6, starts=2, on_round=rounds.append) == ranges
    assert sum(rounds) == ranges.episodes == 6
    assert 6 <= ranges.steps <= 6 * SHORT.episode_steps
    assert ranges.measured.startswith("the file drove 6 episodes in the 6 training tasks in turn")


def test_its_numbers_are_those_of_the_simulator(ranges):
    goal, begin = ranges.signals["desired_goal"], ranges.begin["ee_position"]
    assert (goal.lowest[2], goal.highest[2], goal.deviation[2]) == pytest.approx((0.02, 0.02, 0.0), abs=1e-6)
    assert max(map(abs, (*goal.lowest, *goal.highest))) <= 0.15
    assert begin.lowest == begin.highest == pytest.approx((0.0384, 0.0, 0.1974), abs=1e-4)
    assert max(ranges.signals["ee_displacement_and_gripper"].highest) <= 1.0


def test_every_second_row_acts_at_random_half_of_the_time():
    policy, plain = exploring(MODEL, SPEC, 4), exploring(MODEL, SPEC, 4)
    policy.reset()
    observation = np.zeros((4, 25), np.float32)
    actions = np.stack([policy.step(observation)[0] for _ in range(200)])
    assert np.array_equal(actions[:, 0], actions[:, 2]), "rows of the policy alone see the same"
    different = (actions[:, 1] != actions[:, 0]).all(axis=1).mean()
    assert 0.35 < different < 0.65
    assert plain.rounds == []
    np.testing.assert_array_equal(policy.rounds[0][3][1], actions[3])


@pytest.mark.parametrize("count", [1, 2, 5, 6])
def test_each_task_is_met_with_random_actions_and_without(monkeypatch, count):
    """Every second episode acts at random: tasks in turn would give an even number of them one half each."""
    driven_tasks, tasks = [], [{"mass": 1.0 + number, "friction": 1.0} for number in range(count)]
    monkeypatch.setattr("sami_train.export.training_ranges.known_tasks", lambda training, spec: tasks)
    monkeypatch.setattr(
        "sami_train.export.training_ranges._drive",
        lambda spec, policy, set_tasks, *rest: driven_tasks.extend(set_tasks),
    )
    with pytest.raises(TypeError):  # nothing was driven
        measure_ranges(MODEL, SPEC, episodes=4 * count)
    counts = Counter((task["mass"], number % 2) for number, task in enumerate(driven_tasks))
    assert counts == {(task["mass"], parity): 2 for task in tasks for parity in (0, 1)}


def test_what_answers_is_the_element_that_moves_and_by_how_much():
    responses = measure_responses(SPEC, SPEC.tasks.resolve("training"), starts=2)
    position = np.array(responses.signals["ee_position"].mean)
    assert (np.diag(position[:3]) > 0.1).all()
    assert np.abs(position[:3] - np.diag(np.diag(position[:3]))).max() < 0.01
    # A closed gripper cannot close first, so it answers in three of its four moves.
    assert responses.signals["gripper_width"].mean[3][0] > 0.4
    assert np.abs(responses.signals["desired_goal"].mean).max() == 0.0


def test_describing_a_file_changes_neither_graph_nor_weights_nor_golden_steps(tmp_path, ranges):
    path = Path(shutil.copy(MODEL, tmp_path / "copy.onnx"))
    before = read_artifact(path)
    report = describe(path, SPEC, ranges)
    after = read_artifact(path)
    assert report == after.contract
    assert (after.contract.training_ranges, after.contract.sheet) == (ranges, SPEC.sheet)
    assert after.graph_sha256 == before.graph_sha256 == before.contract.weights_sha256
    rest = {"training_ranges": None, "sheet": None}
    assert after.contract.model_copy(update=rest) == before.contract.model_copy(update=rest)
    assert verify(path).passed
