"""Episodes that are played for a report, as they are scheduled, named and kept."""

import sys
from collections import Counter
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from sami_runtime.errors import SamiError
from sami_train.envs.catalog import environment
from sami_train.envs.spec import EnvironmentSpec
from sami_train.studies.report.episodes import (
    ReportEpisode,
    film,
    play_episodes,
    require_renderer,
    schedule,
    typical,
    usual_tasks,
)
from sami_train.studies.report.subject import Subject
from sami_train.studies.sweep.study import find_runs

PANDA = environment("panda")
REPOSITORY = Path(__file__).parents[4]


class _WithoutPictures(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (2,))
    action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self):
        pass  # takes no render_mode

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}


def test_a_missing_package_of_films_is_named_with_the_way_around_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    message = r"Pendulum-v1 cannot be filmed: DependencyNotInstalled: pygame is not installed, .* --set without=films$"
    with pytest.raises(SamiError, match=message):
        require_renderer(EnvironmentSpec.from_gymnasium("Pendulum-v1"))
    spec = EnvironmentSpec.from_gymnasium(_WithoutPictures, rate_hz=20.0, episode_steps=5)
    with pytest.raises(SamiError, match=r"cannot be filmed: .*render_mode"):
        require_renderer(spec)
    require_renderer(PANDA)  # its evaluation needs the packages of its films


def test_where_success_counts_each_task_is_played_so_often():
    scheduled = schedule(PANDA, 3, 0)
    assert len(scheduled) == 3 * 20
    assert set(Counter((name, str(task)) for name, task in scheduled).values()) == {3}


def test_where_returns_count_each_set_is_played_so_often():
    scheduled = schedule(environment("half-cheetah"), 30, 0)
    assert Counter(name for name, _ in scheduled) == {"training": 30, "moderate": 30, "extreme": 30}


@pytest.mark.parametrize("size", [0, 6])
def test_an_episode_comes_back_as_it_was_kept(size):
    contexts = np.random.default_rng(0).normal(size=(7, size)).astype(np.float32)
    episode = ReportEpisode("training", {"mass": 1.0, "crippled": [3]}, "push", True, -7.25, contexts)
    again = ReportEpisode.from_dict(episode.to_dict())
    assert again.contexts.tobytes() == contexts.tobytes()
    assert again.contexts.shape == contexts.shape
    assert again.to_dict() == episode.to_dict()


def test_a_policy_plays_what_its_task_is_and_its_contexts_are_kept():
    pytest.importorskip("gymnasium")
    (run,) = find_runs([REPOSITORY / "results/models:panda-satesac"])
    assert Subject.of_run(run).source() is None, "a line of numbers plays nothing"
    model = REPOSITORY / "models" / "panda-satesac.onnx"
    scheduled = [("extreme", {"mass": 30.0, "friction": 30.0}), ("training", {"mass": 1.0, "friction": 0.1})]
    hard, easy = play_episodes(model, PANDA, scheduled)
    assert (hard.task, easy.task) == (scheduled[0][1], scheduled[1][1])
    assert not hard.success
    assert easy.success
    assert hard.contexts.shape == (50, 6)
    assert len(easy.contexts) < 50
    assert easy.contexts.std() > 0
    assert hard.skill in ("tip", "push", "other")


def test_a_film_of_a_model_file_shows_the_episode_that_was_played(tmp_path):
    model, task = REPOSITORY / "models" / "panda-satesac.onnx", {"mass": 1.0, "friction": 0.1}
    (episode,) = play_episodes(model, PANDA, [("training", task)])
    filmed = film(model, PANDA, task, tmp_path / "film.webp")
    assert (filmed["steps"], filmed["ret"]) == (len(episode.contexts), episode.ret)


def played_episode(steps, success, mass=1.0):
    return ReportEpisode("training", {"mass": mass}, "push", success, 0.0, np.zeros((steps, 2), np.float32))


def test_a_film_shows_an_episode_of_median_length_that_ended_as_most_did():
    episodes = [
        played_episode(1, True),
        played_episode(50, False),
        played_episode(9, True),
        played_episode(7, True),
        played_episode(8, True, mass=5.0),
    ]
    episodes += [played_episode(8, True)]
    assert typical(episodes, {"mass": 1.0}) == 5
    assert typical(episodes, {"mass": 3.0}) == 0


def test_films_show_what_a_policy_can_and_where_it_ends():
    (run,) = find_runs([REPOSITORY / "results/models:panda-satesac"])
    tasks = usual_tasks(PANDA, Subject.of_run(run).evaluation)
    assert {"mass": 30.0, "friction": 10.0} in tasks, "the worst of the extreme ones"
    assert len(tasks) == 4
