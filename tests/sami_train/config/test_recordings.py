"""Recordings as episodes: executed actions, rewards as training pays them, and nothing learned from held ticks."""

from dataclasses import replace

import numpy as np
import pytest

from sami_runtime.adapters.base import Observation
from sami_runtime.distribution import shipped_models
from sami_runtime.errors import SamiError
from sami_runtime.loop.pilot import Ending
from sami_runtime.loop.tick import Outcome, SectionTimes, StepRecord
from sami_runtime.recording.format import RecordedEpisode
from sami_runtime.recording.recorder import Recorder
from sami_runtime.session.session import Session
from sami_train.config.recordings import recorded_episodes
from sami_train.envs.catalog import environment

SPEC = environment("panda")
TASKS = SPEC.tasks.sets["training"]
RULES = {"episode_steps": 50, "end_on_fall": True}
FAR, NEAR = (0.2, 0.1, 0.02), (0.01, 0.0, 0.02)
"""Where the cube is; the goal is at (0, 0, 0.02)."""


def tick(step, place=FAR, outcome=Outcome.ACTED, missed=0, **info):
    """One tick whose number can be read back from its action and from the gripper's width."""
    values = {signal.name: np.zeros(signal.size, np.float32) for signal in SPEC.signals}
    values |= {"achieved_goal": np.float32(place), "desired_goal": np.float32([0, 0, 0.02])}
    values["gripper_width"] = np.float32([step])
    frame = None if outcome in (Outcome.STANDING, Outcome.PAUSED) else Observation(values, float(step))
    proposed, executed = np.zeros(4, np.float32), np.full(4, step / 100, np.float32)
    context = np.zeros(6, np.float32)
    return StepRecord(step, outcome, frame, proposed, executed, context, info, SectionTimes(0, 0, 0, 0), missed=missed)


@pytest.fixture
def recorded(tmp_path):
    session = Session.load(shipped_models()["panda-satesac"])

    def write(*episodes, conclusion=None, name="r.mcap"):
        with Recorder(tmp_path / name, session) as recorder:
            for ticks in episodes:
                for item in ticks:
                    recorder(item)
                if conclusion is not None:
                    recorder.conclude(conclusion)
        return tmp_path / name

    return write


def episodes(*paths, **rules):
    return recorded_episodes(paths, SPEC, TASKS, **{**RULES, **rules})


def widths(episode):
    return episode.observations[:, SPEC.layout.columns("gripper_width")].ravel().tolist()


def test_an_episode_holds_what_was_executed_and_ends_before_the_action_whose_outcome_nobody_saw(recorded):
    (episode,) = episodes(recorded([tick(step) for step in range(4)]))
    assert widths(episode) == [0, 1, 2, 3]
    assert episode.actions[:, 0] == pytest.approx([0.0, 0.01, 0.02])
    assert episode.rewards.tolist() == [-1, -1, -1]
    assert (episode.terminated, episode.success) == (False, False)


def test_a_success_ends_an_episode_with_all_its_actions(recorded):
    report = recorded([tick(0), tick(1), tick(2, terminated=True, is_success=True)])
    (episode,) = episodes(report)
    assert (len(episode), episode.terminated, episode.success) == (3, True, True)
    assert episode.rewards.tolist() == [-1, -1, 0]


def test_what_a_person_said_of_an_episode_counts(recorded):
    conclusion = RecordedEpisode(Ending.SUCCESS, True)
    (episode,) = episodes(recorded([tick(step) for step in range(3)], conclusion=conclusion))
    assert (episode.success, episode.rewards.tolist()) == (True, [-1, -1, 0])


def test_reaching_the_goal_ends_an_episode_as_in_training_whatever_the_robot_did_next(recorded):
    (episode,) = episodes(recorded([tick(0), tick(1), tick(2, NEAR), tick(3, NEAR), tick(4)]))
    assert (len(episode), episode.terminated, episode.success) == (2, True, True)
    assert episode.rewards.tolist() == [-1, 0]
    assert widths(episode) == [0, 1, 2]


def test_a_lost_cube_ends_an_episode_where_training_ends_it(recorded):
    path = recorded([tick(0), tick(1), tick(2, (0.9, 0.0, -0.3)), tick(3, (0.9, 0.0, -0.4))])
    (episode,) = episodes(path)
    assert (len(episode), episode.terminated, episode.success) == (2, True, False)
    (on,) = episodes(path, end_on_fall=False)
    assert (len(on), on.terminated) == (3, False)


def test_rewards_are_those_that_the_adapter_told(recorded):
    (episode,) = episodes(recorded([tick(step, reward=-0.5) for step in range(3)]))
    assert episode.rewards.tolist() == [-0.5, -0.5]


@pytest.mark.parametrize("outcome", [Outcome.HELD, Outcome.REFUSED, Outcome.FALLBACK, Outcome.PAUSED])
def test_an_episode_is_cut_where_the_policy_did_not_see_what_happened(recorded, outcome):
    ticks = [tick(step, outcome=outcome if step == 4 else Outcome.ACTED) for step in range(9)]
    before, after = episodes(recorded(ticks))
    assert (widths(before), widths(after)) == ([0, 1, 2, 3], [5, 6, 7, 8])
    assert not before.terminated


def test_an_episode_is_cut_where_ticks_were_missed_and_at_numbers_that_are_none(recorded):
    missed = [tick(step, missed=2 if step == 3 else 0) for step in range(6)]
    faulty = [tick(step) for step in range(6)]
    faulty[2].observation.values["ee_velocity"][1] = np.nan
    result = episodes(recorded(missed, faulty))
    assert [widths(item) for item in result] == [[0, 1, 2], [3, 4, 5], [3, 4, 5]]


def test_a_late_answer_and_a_persons_command_are_steps_like_any_other(recorded):
    outcomes = [Outcome.ACTED, Outcome.LATE, Outcome.PILOTED, Outcome.ACTED]
    (episode,) = episodes(recorded([tick(step, outcome=outcome) for step, outcome in enumerate(outcomes)]))
    assert widths(episode) == [0, 1, 2, 3]


def test_ticks_between_two_of_the_policy_are_none_of_its_steps(recorded):
    outcomes = [Outcome.ACTED, Outcome.STANDING] * 3
    (episode,) = episodes(recorded([tick(step, outcome=outcome) for step, outcome in enumerate(outcomes)]))
    assert widths(episode) == [0, 2, 4]


def test_longer_episodes_than_trainings_are_cut_into_as_long_ones(recorded):
    result = episodes(recorded([tick(step) for step in range(12)]), episode_steps=5)
    assert [len(item) for item in result] == [4, 4]


def test_tasks_are_told_apart_by_what_the_adapter_told_else_by_file(recorded):
    tasked = recorded([tick(step, task=dict(TASKS[4])) for step in range(3)], name="known.mcap")
    new, other = (
        recorded([tick(step, task={"mass": 30.0, "friction": 1.0}) for step in range(3)], name=f"{name}.mcap")
        for name in ("new", "other")
    )
    first, second = (recorded([tick(step) for step in range(3)], name=f"{name}.mcap") for name in "ab")
    assert [episode.task_index for episode in episodes(tasked, new, first, second, other)] == [4, 6, 7, 8, 6]


def test_a_recording_counts_once(recorded):
    path = recorded([tick(step) for step in range(3)])
    assert len(episodes(path)) == 1
    with pytest.raises(SamiError, match=r"r\.mcap is named twice\. A recording counts once"):
        episodes(path, path.parent / "folder" / ".." / path.name)


def test_what_cannot_be_learned_from_is_refused(recorded):
    path = recorded([tick(step) for step in range(3)])
    with pytest.raises(SamiError, match=r"r\.mcap does not fit environment 'hopper': it lacks .*; it also has cube_p"):
        recorded_episodes([path], environment("hopper"), TASKS, RULES)
    x, y = SPEC.action.elements[:2]
    turned = SPEC.action.model_copy(update={"elements": (y, x, *SPEC.action.elements[2:])})
    with pytest.raises(SamiError, match=rf": {turned.name} has {x} instead of {y}, {y} instead of {x}\. Leave it"):
        recorded_episodes([path], replace(SPEC, action=turned), TASKS, RULES["episode_steps"])
    with pytest.raises(SamiError, match="has no 2 consecutive steps to learn from"):
        episodes(recorded([tick(0)], name="short.mcap"))
