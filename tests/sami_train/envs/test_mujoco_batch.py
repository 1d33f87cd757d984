"""Many MuJoCo environments stepped together: the same episodes as one at a time, and the two kinds of vector env."""

import doctest

import gymnasium as gym
import numpy as np
import pytest

from sami_runtime.errors import SamiError, UnknownName
from sami_train.envs import ENVIRONMENTS
from sami_train.envs.make import make
from sami_train.envs.mujoco.table import ROWS
from sami_train.envs.tasks import TaskError

pytest.importorskip("mujoco")

from sami_train.envs.mujoco import batch as batch_module
from sami_train.envs.mujoco.batch import MujocoBatch
from sami_train.envs.mujoco.env import UNSTABLE

NAMES = [row.name for row in ROWS]
OPTIONS = {
    "ant": {"contact_cost": True, "legacy_ant_scaling": True},
    "crippled-ant": {"shrink_geoms": True, "scale_inertia": True},
    "humanoid-standup": {"contact_cost": True},
}


def actions_for(batch, steps, seed=0):
    shape = (steps, batch.rows, *batch.action_space.shape)
    return np.random.default_rng(seed).uniform(-1.2, 1.2, shape).astype(np.float32)


def unroll(batch, actions):
    """Observations (T, n, D) and rewards (T, n)."""
    steps = [batch.step(action) for action in actions]
    return np.stack([observation for observation, _ in steps]), np.stack([reward for _, reward in steps])


@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in NAMES), *OPTIONS.items()],
    ids=lambda x: x if type(x) is str else None,
)
def test_each_row_is_the_plain_environment_to_the_bit(name, options):
    batch = MujocoBatch(name, 3, "extreme", threads=2, **options)
    env = make(ENVIRONMENTS[name], tasks="extreme", **options)
    start = batch.reset(seeds=[5, 6, 7])
    tasks = list(batch.current_tasks)
    actions = actions_for(batch, 40)
    observations, rewards = unroll(batch, actions)
    for row in range(3):
        observation, info = env.reset(seed=5 + row)
        assert info["task"] == tasks[row]
        np.testing.assert_array_equal(observation, start[row])
        for t, action in enumerate(actions[:, row]):
            observation, reward, *_ = env.step(action)
            np.testing.assert_array_equal(observation, observations[t, row])
            assert reward == rewards[t, row]
        np.testing.assert_array_equal(env.unwrapped.data.qpos, batch.data(row).qpos)
        np.testing.assert_array_equal(env.unwrapped.model.body_mass, batch.model(row).body_mass)
        np.testing.assert_array_equal(env.unwrapped.model.dof_invweight0, batch.model(row).dof_invweight0)
    assert observations.dtype == np.float32
    assert len({str(task) for task in tasks}) == 3


def test_threads_and_neighbours_change_nothing():
    task = {"mass": 0.4, "damping": 1.5}
    one_row, many = MujocoBatch("walker", 1, threads=1), MujocoBatch("walker", 7, threads=3)
    actions = actions_for(many, 50)
    one_row.reset(seeds=[2], tasks=[task])
    many.reset(seeds=range(7), tasks=[None, None, task, *[None] * 4])
    np.testing.assert_array_equal(unroll(many, actions)[0][:, 2:3], unroll(one_row, actions[:, 2:3])[0])


def test_some_rows_begin_anew_while_the_others_go_on():
    batch, undisturbed = MujocoBatch("hopper", 3, "extreme"), MujocoBatch("hopper", 3, "extreme")
    actions = actions_for(batch, 30)
    for item in (batch, undisturbed):
        item.reset(seeds=[0, 1, 2])
        unroll(item, actions[:10])
    task = {"mass": 4.0, "damping": 0.2}
    again = batch.reset(seeds=[0], tasks=[task], rows=[1])
    assert again.shape == (1, 11)
    np.testing.assert_array_equal(batch.observations()[1], again[0])
    assert batch.steps.tolist() == [10, 0, 10]
    assert batch.current_tasks[1] == task
    parts, expected = unroll(batch, actions[10:]), unroll(undisturbed, actions[10:])
    for part, other in zip(parts, expected, strict=True):
        np.testing.assert_array_equal(part[:, [0, 2]], other[:, [0, 2]])
        assert not np.array_equal(part[:, 1], other[:, 1])
    fresh = MujocoBatch("hopper", 1)
    fresh.reset(seeds=[0], tasks=[task])
    np.testing.assert_array_equal(unroll(fresh, actions[10:, 1:2])[0][:, 0], parts[0][:, 1])


def test_no_rows_and_seeds_in_an_array_are_as_good_as_any():
    batch, same = MujocoBatch("hopper", 2), MujocoBatch("hopper", 2)
    np.testing.assert_array_equal(batch.reset(np.array([3, 4])), same.reset([3, 4]))
    assert batch.reset(rows=[]).shape == (0, 11)
    actions = actions_for(batch, 5)
    np.testing.assert_array_equal(unroll(batch, actions)[0], unroll(same, actions)[0])


def test_a_drawn_task_is_no_part_of_the_sets():
    batch = MujocoBatch("crippled-hopper", 1, "extreme")
    batch.reset(seeds=[0])
    batch.current_tasks[0]["crippled"].append(7)
    assert all(len(task["crippled"]) == 1 for task in ENVIRONMENTS["crippled-hopper"].tasks.sets["extreme"])


def test_episodes_are_over_by_time_alone():
    batch = MujocoBatch("half-cheetah", 2, episode_steps=5)
    batch.reset(seeds=[0, 1])
    over = []
    for t, action in enumerate(actions_for(batch, 7)):
        if t == 2:
            batch.reset(rows=[1])
        batch.step(action)
        over.append(batch.truncated.tolist())
    assert over == [[False, False]] * 4 + [[True, False], [True, False], [True, True]]
    assert MujocoBatch("crippled-walker", 1).episode_steps == 2000


def test_without_seeds_a_row_goes_on_with_its_own_randomness():
    first, second = MujocoBatch("hopper", 2, "extreme"), MujocoBatch("hopper", 2, "extreme")
    starts = []
    for batch in (first, second):
        batch.reset(seeds=[3, 4])
        starts.append([batch.reset().tolist() for _ in range(3)])
    assert starts[0] == starts[1]
    assert starts[0][0] != starts[0][1]


def test_dynamics_of_one_row_change_in_the_middle_of_an_episode():
    batch, env = MujocoBatch("crippled-hopper", 2), make(ENVIRONMENTS["crippled-hopper"], tasks={})
    batch.reset(seeds=[0, 0], tasks=[{}, {}])
    env.reset(seed=0)
    actions = actions_for(batch, 40)
    broken = {"mass": 1.5, "damping": 0.4, "crippled": [1]}
    for t, action in enumerate(actions):
        if t == 20:
            batch.set_dynamics(1, broken)
            env.unwrapped.set_dynamics(broken)
        action[1] = action[0]
        observations, _ = batch.step(action)
        np.testing.assert_array_equal(observations[1], env.step(action[1])[0])
        assert np.array_equal(*observations) == (t < 20)


def test_a_row_that_blows_up_starts_over_as_the_plain_environment_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where MuJoCo keeps a log of its warnings
    wild = {"mass": 1.0, "damping": 100.0}
    batch, env = MujocoBatch("humanoid-standup", 2), make(ENVIRONMENTS["humanoid-standup"], tasks={})
    batch.reset(seeds=[0, 0], tasks=[{}, wild])
    env.reset(seed=0, options={"task": wild})
    unstable = 0
    for action in np.sign(actions_for(batch, 40)):
        observations, rewards = batch.step(action)
        observation, reward, *_, info = env.step(action[1])
        assert batch.unstable.tolist() == [False, info.get("unstable", False)]
        np.testing.assert_array_equal(observations[1], observation)
        assert reward == rewards[1]
        assert np.abs(observations).max() < UNSTABLE
        unstable += batch.unstable[1]
    assert unstable > 0


def test_a_simulation_that_blows_up_within_a_step_is_reported_and_is_no_jump_of_the_robot(tmp_path, monkeypatch):
    # MuJoCo's own reset in the middle of the step would move the robot from 100 m to 0, for a reward of -2,000.
    monkeypatch.chdir(tmp_path)  # where MuJoCo keeps a log of its warnings
    batch, env = MujocoBatch("half-cheetah", 2), make(ENVIRONMENTS["half-cheetah"], tasks={})
    batch.reset(seeds=[0, 0], tasks=[{}, {}])
    env.reset(seed=0)
    for at, speeds in ((batch._qpos[1], batch._qvel[1]), (env.unwrapped.data.qpos, env.unwrapped.data.qvel)):
        at[0], speeds[:] = 100.0, 1e5
    observations, rewards = batch.step(np.zeros((2, 6), np.float32))
    observation, reward, *_, info = env.step(np.zeros(6, np.float32))
    assert batch.unstable.tolist() == [False, info.get("unstable", False)] == [False, True]
    np.testing.assert_array_equal(observations[1], observation)
    assert reward == rewards[1] == 0.0


@pytest.mark.parametrize("heavier", [False, True])
def test_energy_that_no_motor_gives_is_a_blow_up_and_that_of_a_heavier_robot_is_not(heavier):
    batch, env = MujocoBatch("humanoid-standup", 2), make(ENVIRONMENTS["humanoid-standup"], tasks={})
    batch.reset(seeds=[0, 0], tasks=[{}, {}])
    env.reset(seed=0)
    still = np.zeros((2, 17), np.float32)
    batch.step(still)
    env.step(still[1])
    for qvel in (batch._qvel[1], env.unwrapped.data.qvel):
        qvel[2] = 100.0  # thrown up, to be paid for a height of 500 m
    if heavier:
        for change in (env.unwrapped.set_dynamics, lambda task: batch.set_dynamics(1, task)):
            change({"mass": 4.0, "damping": 1.0})
    observations, rewards = batch.step(still)
    observation, reward, *_, info = env.step(still[1])
    assert batch.unstable.tolist() == [False, info.get("unstable", False)] == [False, not heavier]
    np.testing.assert_array_equal(observations[1], observation)
    assert rewards[1] == reward
    assert (reward > 500.0) == heavier


def test_what_is_not_valid_is_refused():
    with pytest.raises(UnknownName, match="MuJoCo environment 'panda'"):
        MujocoBatch("panda", 2)
    batch = MujocoBatch("hopper", 2)
    with pytest.raises(TaskError, match="mass is -1"):
        batch.reset(seeds=[0, 1], tasks=[None, {"mass": -1}])
    with pytest.raises(SamiError, match="not all finite"):
        batch.step(np.full((2, 3), np.nan, np.float32))
    with pytest.raises(SamiError, match=r"actions of shape \(3,\).*expected \(2, 3\)"):
        batch.step(np.zeros(3, np.float32))
    with pytest.raises(SamiError, match="a batch draws nothing"):
        gym.make_vec("sami/Hopper-v0", 2, render_mode="rgb_array")


def test_the_docstrings_example_runs():
    assert doctest.testmod(batch_module).attempted > 2
    assert doctest.testmod(batch_module).failed == 0


def test_gymnasiums_vector_environment_restarts_rows_and_tells_how_they_ended():
    envs = gym.make_vec("sami/CrippledHopper-v0", 3, tasks="extreme", max_episode_steps=4)
    same = MujocoBatch("crippled-hopper", 3, "extreme", episode_steps=4)
    observations, info = envs.reset(seed=7)
    np.testing.assert_array_equal(observations, same.reset(seeds=[7, 8, 9]))
    tasks = list(same.current_tasks)
    assert info["task"]["mass"].tolist() == [task["mass"] for task in tasks]
    assert info["task"]["crippled"].tolist() == [task["crippled"] for task in tasks]
    for t, action in enumerate(actions_for(same, 4)):
        observations, rewards, terminated, truncated, info = envs.step(action)
        expected, expected_rewards = same.step(action)
        assert not terminated.any()
        assert truncated.all() == truncated.any() == (t == 3)
        np.testing.assert_array_equal(rewards, expected_rewards)
        np.testing.assert_array_equal(np.stack(info["final_obs"]) if t == 3 else observations, expected)
    assert [info["final_info"]["task"]["mass"][row] for row in range(3)] == [task["mass"] for task in tasks]
    np.testing.assert_array_equal(observations, same.reset())
    assert info["task"]["mass"].tolist() == [task["mass"] for task in same.current_tasks]

    masked, info = envs.reset(options={"reset_mask": np.array([False, True, False]), "task": {"mass": 2.0}})
    np.testing.assert_array_equal(masked[[0, 2]], observations[[0, 2]])
    assert envs.unwrapped.batch.current_tasks[1] == {"mass": 2.0, "damping": 1.0, "crippled": []}
    assert info["_task"].tolist() == [False, True, False]
    assert isinstance(gym.wrappers.vector.RecordEpisodeStatistics(envs).reset(seed=0)[0], np.ndarray)


def test_stable_baselines3_steps_them_as_it_steps_its_own():
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    from benchmarks.mujoco_vec_env import MujocoVecEnv

    batch_envs = vec_env.VecMonitor(MujocoVecEnv(MujocoBatch("hopper", 3, "extreme", episode_steps=6)))
    peer_envs = vec_env.VecMonitor(
        vec_env.DummyVecEnv([lambda: make(ENVIRONMENTS["hopper"], tasks="extreme", max_episode_steps=6)] * 3)
    )
    for envs in (batch_envs, peer_envs):
        envs.seed(11)
        envs.set_options({"task": {"mass": 0.5, "damping": 2.0}})
    np.testing.assert_array_equal(batch_envs.reset(), peer_envs.reset())
    assert batch_envs.get_attr("current_task", [1]) == [{"mass": 0.5, "damping": 2.0}]
    assert batch_envs.get_attr("render_mode") == [None] * 3
    rng = np.random.default_rng(0)
    for t in range(15):
        action = rng.uniform(-1, 1, (3, 3)).astype(np.float32)
        (o, r, d, i), (o2, r2, d2, i2) = batch_envs.step(action), peer_envs.step(action)
        np.testing.assert_array_equal(o, o2)
        np.testing.assert_array_equal(r, r2)
        np.testing.assert_array_equal(d, d2)
        assert d.all() == d.any() == (t % 6 == 5)
        for row in range(3):
            assert i[row]["task"] == i2[row]["task"]
            assert i[row].get("TimeLimit.truncated", False) == i2[row]["TimeLimit.truncated"] == d[row]
            if d[row]:
                np.testing.assert_array_equal(i[row]["terminal_observation"], i2[row]["terminal_observation"])
                assert i[row]["episode"]["r"] == pytest.approx(i2[row]["episode"]["r"])
    batch_envs.env_method("set_dynamics", {"mass": 3.0}, indices=[2])
    assert batch_envs.get_attr("current_task", 2) == [{"mass": 3.0, "damping": 1.0}]
    batch_envs.close()
