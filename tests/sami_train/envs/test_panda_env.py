"""The Panda in PyBullet: tasks read back from the simulator, physics against textbook formulas, reproducibility."""

import math

import gymnasium as gym
import numpy as np
import pytest

import sami_train.envs  # noqa: F401 (registers the environments)
from sami_runtime.errors import SamiError, UnknownName
from sami_train.envs.catalog import environment
from sami_train.envs.layout import flatten
from sami_train.envs.panda.tasks import PANDA_TASKS
from sami_train.envs.tasks import TaskError

pytest.importorskip("panda_gym")

FINE_PHYSICS = True

SPEC = environment("panda")
STARTS = 100
ALL_TASKS = [task for tasks in PANDA_TASKS.sets.values() for task in tasks]


def make(**kwargs):
    return gym.make("sami/PandaSkill-v0", **kwargs)


@pytest.fixture(scope="module")
def env():
    env = make()
    yield env
    env.close()


@pytest.fixture(scope="module")
def starts(env):
    """Observations and facts of resets in a row: building the scene anew takes 15 ms."""
    env.reset(seed=0)
    return [env.reset() for _ in range(STARTS)]


def body(env, name):
    return env.unwrapped.sim._bodies_idx[name]


def dynamics(env, name):
    return env.unwrapped.sim.physics_client.getDynamicsInfo(body(env, name), -1)


def episode(env, seed, task=None, towards_cube=True):
    """Observations of one episode under noisy actions that touch the cube."""
    observation, _ = env.reset(seed=seed, options={"task": task} if task else None)
    rng = np.random.default_rng(seed)
    observations = [flatten(observation)]
    over = False
    while not over:
        action = rng.uniform(-1, 1, 4).astype(np.float32)
        if towards_cube:
            action[:3] += np.clip((observations[-1][7:10] - observations[-1][:3]) / 0.05, -1, 1)
        observation, _, terminated, truncated, _ = env.step(np.clip(action, -1, 1))
        observations.append(flatten(observation))
        over = terminated or truncated
    return np.stack(observations)


def test_the_paper_has_six_training_six_moderate_and_eight_extreme_tasks():
    assert {name: len(tasks) for name, tasks in PANDA_TASKS.sets.items()} == {
        "training": 6,
        "moderate": 6,
        "extreme": 8,
    }
    assert len({tuple(task.values()) for task in ALL_TASKS}) == 20


@pytest.mark.parametrize("task", ALL_TASKS, ids=str)
def test_mass_and_friction_reach_the_simulator(env, task):
    env.reset(seed=0, options={"task": task})
    mass, _, inertia = dynamics(env, "object")[:3]
    assert mass == task["mass"]
    # A cube of side a has m a^2 / 6 about each axis (here with Bullet's collision margin inside the shape).
    assert inertia == pytest.approx([task["mass"] * 0.04**2 / 6] * 3, rel=1e-3)
    assert dynamics(env, "table")[1] == task["friction"]


def test_a_sliding_cube_slows_down_by_half_the_tables_friction_times_gravity(env):
    # Bullet multiplies both bodies' coefficients, and the cube's is 0.5.
    for friction in (0.1, 1.0):
        env.reset(seed=0, options={"task": {"mass": 5.0, "friction": friction}})
        unwrapped = env.unwrapped
        physics, cube = unwrapped.sim.physics_client, body(env, "object")
        physics.resetBaseVelocity(cube, [0.0, 0.3, 0.0], [0.0, 0.0, 0.0])
        speeds = []
        for _ in range(25):
            physics.stepSimulation()
            speeds.append(physics.getBaseVelocity(cube)[0][1])
        deceleration = (speeds[4] - speeds[24]) / (20 * unwrapped.sim.timestep)
        assert deceleration == pytest.approx(0.5 * friction * 9.81, rel=0.05)


def test_the_same_seed_gives_the_same_episode_bit_for_bit_whatever_came_before():
    first, second = make(), make()
    for seed in range(8):
        episode(first, 100 + seed, towards_cube=bool(seed % 2))  # leave contacts behind in one of them only
        assert np.array_equal(episode(first, seed), episode(second, seed))
    first.close()
    second.close()


def test_nothing_of_a_world_outlives_a_reset():
    """Of 240 such episodes one was another after others than in a world of its own, from 1e-8 on: this one."""

    def pushing(env, seed):
        observation, _ = env.reset(seed=seed)
        rng, observations = np.random.default_rng(seed), [flatten(observation)]
        rng.uniform(-1, 1, 4)
        over = False
        while not over:
            way = 8 * (observation["achieved_goal"] - observation["observation"][:3])
            move = np.clip(way + rng.normal(0, 0.3, 3), -1, 1)
            observation, _, over, _, _ = env.step(np.concatenate([move, [rng.uniform(-1, 1)]]))
            observations.append(flatten(observation))
            over = over or len(observations) > 50
        return np.stack(observations)

    world, fresh = make().unwrapped, make().unwrapped
    pushing(world, 32)
    assert np.array_equal(pushing(world, 33), pushing(fresh, 33))
    world.close()
    fresh.close()


def test_resets_without_a_seed_go_on_from_the_last_one(env):
    env.reset(seed=7)
    after = [env.reset()[0]["desired_goal"] for _ in range(3)]
    env.reset(seed=7)
    again = [env.reset()[0]["desired_goal"] for _ in range(3)]
    assert np.array_equal(after, again)
    assert not np.array_equal(after[0], after[1])


def test_different_seeds_give_different_starts(env):
    assert not np.array_equal(env.reset(seed=1)[0]["desired_goal"], env.reset(seed=2)[0]["desired_goal"])


def test_each_reset_draws_a_task_of_the_set_uniformly(starts):
    tasks = [tuple(facts["task"].values()) for _, facts in starts]
    counts = [tasks.count(tuple(task.values())) for task in PANDA_TASKS.sets["training"]]
    assert sum(counts) == STARTS
    assert min(counts) > 5  # 17 expected, standard deviation 3.7


def test_goals_lie_on_the_table_and_starts_within_fifteen_centimetres(starts):
    for observation, _ in starts:
        assert observation["desired_goal"][2] == pytest.approx(0.02)
        assert np.abs(observation["desired_goal"][:2]).max() <= 0.15
        assert np.abs(observation["achieved_goal"][:2]).max() <= 0.15


def test_episodes_start_solved_as_often_as_geometry_says(starts):
    solved = np.mean([facts["is_success"] for _, facts in starts])
    # P(|x - y| < 5 cm) for two points uniform in a square of 30 cm, r = 1/6 of its side:
    r = 1 / 6
    expected = math.pi * r**2 - 8 * r**3 / 3 + r**4 / 2
    assert solved == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / STARTS))


def test_signals_name_what_the_simulator_measures(env):
    episode(env, 3)
    sim = env.unwrapped.sim
    flat = flatten(env.unwrapped._get_obs())
    truth = {
        "cube_position": sim.get_base_position("object"),
        "cube_rotation": sim.get_base_rotation("object"),
        "cube_velocity": sim.get_base_velocity("object"),
        "cube_angular_velocity": sim.get_base_angular_velocity("object"),
        "ee_position": env.unwrapped.robot.get_ee_position(),
        "ee_velocity": env.unwrapped.robot.get_ee_velocity(),
        "gripper_width": [env.unwrapped.robot.get_fingers_width()],
        "desired_goal": env.unwrapped.task.get_goal(),
        "achieved_goal": sim.get_base_position("object"),
    }
    assert set(truth) == {signal.name for signal in SPEC.signals}
    for name, value in SPEC.layout.by_name(flat).items():
        assert value == pytest.approx(np.asarray(truth[name]), abs=1e-6)


def test_an_action_of_one_asks_for_five_centimetres(env):
    observation, _ = env.reset(seed=0)
    before = observation["observation"][:3]
    for _ in range(3):
        observation, *_ = env.step(np.array([0, 0, -1, 0], np.float32))
    change = observation["observation"][:3] - before
    # The position controller lags behind its target, so a little less than 15 cm.
    assert -0.15 <= change[2] < -0.08
    assert np.abs(change[:2]).max() < 0.02


def test_fifty_steps_truncate_and_reaching_the_goal_terminates(env):
    env.reset(seed=5)
    for step in range(50):
        _, reward, terminated, truncated, _ = env.step(np.zeros(4, np.float32))
        assert (reward, terminated, truncated) == (-1.0, False, step == 49)
    env.reset(seed=5)
    env.unwrapped.sim.set_base_pose("object", env.unwrapped.task.get_goal(), np.array([0.0, 0.0, 0.0, 1.0]))
    _, reward, terminated, _, info = env.step(np.zeros(4, np.float32))
    assert (reward, terminated, info["is_success"]) == (0.0, True, True)


def test_the_dense_reward_is_minus_the_distance():
    env = make(reward="dense")
    env.reset(seed=5)
    observation, reward, *_ = env.step(np.zeros(4, np.float32))
    distance = np.linalg.norm(observation["achieved_goal"] - observation["desired_goal"])
    assert reward == pytest.approx(-distance, abs=1e-6)
    env.close()


def test_a_fallen_cube_ends_the_episode_only_where_asked():
    for end_on_fall in (False, True):
        env = make(end_on_fall=end_on_fall)
        env.reset(seed=5)
        env.unwrapped.sim.set_base_pose("object", np.array([0.0, 0.6, 0.02]), np.array([0.0, 0.0, 0.0, 1.0]))
        over, info = False, {}
        for _ in range(20):
            _, _, over, _, info = env.step(np.zeros(4, np.float32))
            if over:
                break
        assert info["fallen"]
        assert over is end_on_fall
        env.close()


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ({"mass": -1.0, "friction": 1.0}, "mass is -1.0; it must be a number greater than 0 kg"),
        ({"mass": float("nan"), "friction": 1.0}, "mass is nan"),
        ({"mass": 1.0, "friction": -0.1}, "friction is -0.1; it must be a number at least 0"),
        ({"mass": 1.0}, "lacks friction"),
        ([], "no task was given"),
    ],
)
def test_impossible_tasks_are_refused(tasks, message):
    with pytest.raises(TaskError, match=message):
        make(tasks=tasks)


def test_unknown_names_list_the_valid_ones():
    with pytest.raises(UnknownName, match=r"'trainig'. Did you mean 'training'"):
        make(tasks="trainig")
    with pytest.raises(UnknownName, match="frictoin"):
        make(tasks={"mass": 1.0, "frictoin": 1.0})
    with pytest.raises(UnknownName, match="dense, sparse"):
        make(reward="shaped")


def test_a_window_without_a_display_is_refused(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(SamiError, match="DISPLAY is not set"):
        make(render_mode="human")


def test_images_show_the_scene_without_a_display():
    env = make(render_mode="rgb_array", render_size=(64, 48))
    env.reset(seed=0)
    image = env.render()
    assert image.shape == (48, 64, 3)
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 10
    env.close()


def test_gymnasium_finds_nothing_wrong():
    from gymnasium.utils.env_checker import check_env

    env = make()
    check_env(env.unwrapped, skip_render_check=True)
    env.close()
