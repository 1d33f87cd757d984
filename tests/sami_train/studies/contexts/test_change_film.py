"""Films of a change, from episodes that are really played."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sami_runtime.errors import SamiError
from sami_train.envs.catalog import environment
from sami_train.envs.make import make
from sami_train.studies.contexts.change_film import CHART, HEIGHT, TITLE, WIDTH, film_change, film_tasks, write_film
from sami_train.studies.contexts.changed_episodes import ChangedEpisodes, DynamicsChange, Variant
from sami_train.studies.contexts.film_camera import FilmCamera

pytest.importorskip("mujoco")
MODEL = Path(__file__).parents[4] / "models" / "panda-satesac.onnx"
SPEC = environment("panda-mujoco")
CHANGE = DynamicsChange.parse("mass=10,friction=0.1:10@4", SPEC.tasks, SPEC.episode_steps)
SEEDS = (11, 12)


@pytest.fixture(scope="module")
def runner():
    runner = ChangedEpisodes(MODEL, SPEC, len(SEEDS))
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def scenes(runner):
    return film_change(runner, SPEC, CHANGE, SEEDS, range(0, 12, 2), shadows=False)


def test_until_the_change_the_context_is_that_of_the_old_dynamics(scenes):
    for scene in scenes:
        assert scene.course.to_old[: CHANGE.step].tolist() == [0.0] * CHANGE.step
        assert scene.course.to_old[CHANGE.step :].max() > 0.0


def test_both_sides_look_alike_until_the_change_and_differ_after_it(runner, scenes):
    for scene in scenes:
        live, frozen = (panel.pictures for panel in scene.panels)
        assert all(np.array_equal(live[t], frozen[t]) for t in (0, 2, 4))
        last = max(live.keys() & frozen.keys())
        assert not np.array_equal(live[last], frozen[last])
        assert not np.array_equal(live[0], live[last]), "the robot moves"


def test_filming_changes_nothing_in_the_episode(runner, scenes):
    for episode, scene in zip(runner.round(SEEDS, CHANGE, Variant.LIVE), scenes, strict=True):
        assert np.array_equal(episode.actions, scene.panels[0].episode.actions)


@pytest.mark.parametrize("name", ["film.gif", "film.webp"])
def test_a_film_shows_every_filmed_step(scenes, name, tmp_path):
    write_film(scenes[:1], tmp_path / name, slower=2.0)
    with Image.open(tmp_path / name) as film:
        assert film.n_frames == len(scenes[0].panels[0].pictures) == 6
        assert film.size == (WIDTH, TITLE + HEIGHT + CHART)


def test_tasks_are_filmed_side_by_side_from_one_start(runner):
    tasks = ({"mass": 1.0, "friction": 1.0}, {"mass": 10.0, "friction": 0.1})
    scene = film_tasks(runner, tasks, 0, range(0, 6, 5), shadows=False)
    assert [panel.title for panel in scene.panels] == ["mass 1, friction 1", "mass 10, friction 0.1"]
    first, second = (panel.pictures[0] for panel in scene.panels)
    assert np.array_equal(first, second)


def test_a_robot_that_runs_looks_alike_in_every_film_of_it():
    env = make(environment("half-cheetah")).unwrapped
    env.reset(seed=0)
    pictures = []
    for _ in range(3):
        camera = FilmCamera(env.model, env.data, (320, 240), shadows=False)
        pictures.append(camera.take().astype(int))
        camera.close()
    env.close()
    assert max(np.abs(pictures[0] - other).max() for other in pictures[1:]) <= 2


def test_a_film_of_another_kind_is_refused_before_anything_is_written(scenes, tmp_path):
    with pytest.raises(SamiError, match=r"name it NAME.gif or NAME.webp"):
        write_film(scenes, tmp_path / "film.mp4")
    assert list(tmp_path.iterdir()) == []


def test_a_simulator_that_is_not_mujoco_is_refused():
    pytest.importorskip("pybullet")
    runner = ChangedEpisodes(MODEL, environment("panda"), 2)
    try:
        with pytest.raises(SamiError, match="panda-mujoco"):
            film_change(runner, environment("panda"), CHANGE, SEEDS, range(0, 4), shadows=False)
    finally:
        runner.close()
