"""MuJoCo's Panda is PyBullet's but for the engine: starts, signals, tasks, ends; one world and many are the same."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("mujoco")

from sami_runtime.errors import AdapterError, SamiError, UnknownName
from sami_train.envs.catalog import environment
from sami_train.envs.layout import flatten
from sami_train.envs.make import make
from sami_train.envs.panda_mujoco import model as panda_model
from sami_train.envs.panda_mujoco.batch import PandaMujocoBatch
from sami_train.envs.panda_mujoco.env import PandaMujocoEnv
from sami_train.envs.panda_mujoco.kinematics import Kinematics, euler_of
from sami_train.envs.tasks import TaskError

FINE_PHYSICS = True

SPEC, BULLET = environment("panda-mujoco"), environment("panda")
MIDDLE = {"mass": 1.0, "friction": 1.0}


@pytest.fixture(scope="module")
def env():
    instance = make(SPEC)
    yield instance
    instance.close()


@pytest.fixture(scope="module")
def bullet():
    pytest.importorskip("panda_gym")
    instance = make(BULLET)
    yield instance
    instance.close()


def physics_of(bullet):
    return bullet.unwrapped.sim.physics_client, bullet.unwrapped.sim._bodies_idx


def actions_of(seed, steps, rows=()):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (steps, *rows, 4)).astype(np.float32)


def rollout_of(env, seed, actions, task=MIDDLE):
    """Flat observations of an episode, also past its end."""
    observations = [flatten(env.reset(seed=seed, options={"task": task})[0])]
    return np.array(observations + [flatten(env.unwrapped.step(action)[0]) for action in actions])


def test_its_contract_is_pybullets():
    assert SPEC.signals == BULLET.signals
    assert (SPEC.action, SPEC.rate_hz, SPEC.episode_steps) == (BULLET.action, BULLET.rate_hz, BULLET.episode_steps)
    assert (SPEC.tasks, SPEC.goal, SPEC.sheet, SPEC.skills) == (BULLET.tasks, BULLET.goal, BULLET.sheet, BULLET.skills)


@pytest.mark.parametrize("seed", range(4))
def test_an_episode_begins_as_pybullets_does(env, bullet, seed):
    start, other = (flatten(engine.reset(seed=seed)[0]) for engine in (env, bullet))
    np.testing.assert_allclose(start, other, atol=1e-6)
    assert env.unwrapped.current_task == bullet.unwrapped.current_task


def test_the_same_seed_is_the_same_episode_whatever_was_before(env):
    actions = actions_of(0, 15)
    first = rollout_of(env, 3, actions)
    rollout_of(env, 4, actions_of(1, 15), {"mass": 10.0, "friction": 5.0})
    np.testing.assert_array_equal(rollout_of(env, 3, actions), first)


def test_a_batch_is_single_worlds_bit_for_bit(env):
    tasks = [{"mass": mass, "friction": friction} for mass in (1.0, 10.0) for friction in (0.1, 5.0)]
    batch = PandaMujocoBatch(len(tasks), threads=2)
    actions = actions_of(2, 20, (len(tasks),))
    observations = [batch.reset(seeds=range(len(tasks)), tasks=tasks)] + [batch.step(action)[0] for action in actions]
    for row, task in enumerate(tasks):
        np.testing.assert_array_equal(np.array(observations)[:, row], rollout_of(env, row, actions[:, row], task))


def test_rows_of_a_batch_are_reset_and_changed_alone():
    batch = PandaMujocoBatch(2)
    batch.reset(seeds=[0, 1], tasks=[MIDDLE, MIDDLE])
    before, _ = batch.step(np.zeros((2, 4), np.float32))
    after = batch.reset(seeds=[7], tasks=[{"mass": 5.0, "friction": 0.1}], rows=[1])
    np.testing.assert_array_equal(batch.observations()[0], before[0])
    np.testing.assert_array_equal(batch.observations()[1], after[0])
    assert batch.steps.tolist() == [1, 0]
    assert batch.model(0).body("cube").mass == 1.0
    assert batch.model(1).body("cube").mass == 5.0
    batch.set_dynamics(0, {"mass": 10.0, "friction": 1.0})
    assert batch.model(0).body("cube").mass == 10.0


def test_a_batch_tells_reward_and_end_of_each_row():
    batch = PandaMujocoBatch(2, episode_steps=3)
    batch.reset(seeds=[0, 1], tasks=[MIDDLE, MIDDLE])
    batch.goals[1] = batch.observations()[1, 7:10]
    _, rewards = batch.step(np.zeros((2, 4), np.float32))
    assert rewards.tolist() == [-1.0, 0.0]
    assert batch.terminated.tolist() == [False, True]
    assert batch.truncated.tolist() == [False, False]
    for _ in range(2):
        batch.step(np.zeros((2, 4), np.float32))
    assert batch.truncated.all()


@pytest.mark.parametrize("task", [*SPEC.tasks.sets["training"], *SPEC.tasks.sets["extreme"]], ids=str)
def test_mass_and_friction_arrive_and_frictions_are_multiplied_and_bounded(env, task):
    env.reset(seed=0, options={"task": task})
    model = env.unwrapped.model
    cube = model.body("cube")
    assert cube.mass == task["mass"]
    np.testing.assert_allclose(cube.inertia, task["mass"] * 0.04**2 / 6.0)
    assert model.pair("cube-table").friction[0] == pytest.approx(min(10.0, 0.5 * task["friction"]))
    assert model.pair("table-finger0").friction[0] == pytest.approx(min(10.0, task["friction"]))
    assert model.pair("cube-finger1").friction[0] == 0.5


def test_dynamics_change_in_the_middle_of_an_episode_and_bad_ones_change_nothing(env):
    env.reset(seed=0, options={"task": MIDDLE})
    env.unwrapped.set_dynamics({"mass": 5.0, "friction": 0.1})
    with pytest.raises(TaskError, match="mass is -1"):
        env.unwrapped.set_dynamics({"mass": -1.0, "friction": 0.1})
    assert env.unwrapped.model.body("cube").mass == 5.0


def test_inertias_are_those_that_bullet_works_with(env, bullet):
    bullet.reset(seed=0)
    physics, bodies = physics_of(bullet)
    model = env.unwrapped.model
    for link in range(physics.getNumJoints(bodies["panda"])):
        name = physics.getJointInfo(bodies["panda"], link)[12].decode()
        mass, _, inertia, centre, *_ = physics.getDynamicsInfo(bodies["panda"], link)
        assert model.body(name).mass == pytest.approx(mass), name
        np.testing.assert_allclose(model.body(name).inertia, inertia, atol=6e-6, err_msg=name)
        np.testing.assert_allclose(model.body(name).ipos, centre, atol=1e-9, err_msg=name)


def test_inverse_kinematics_are_bullets_within_a_third_of_a_millimetre(bullet):
    chain, hands, results = Kinematics(panda_model.load_model()), [], []
    bullet.reset(seed=0)
    physics, bodies = physics_of(bullet)
    arm = bodies["panda"]
    for action in actions_of(5, 30):
        now = np.array([physics.getJointState(arm, joint)[0] for joint in range(7)])
        target = chain.forward(now).place + 0.05 * action[:3]
        solved = physics.calculateInverseKinematics(arm, 11, target.tolist(), [1.0, 0.0, 0.0, 0.0])
        for poses, joints in ((hands, chain.reach(now, target)), (results, np.array(solved[:7]))):
            poses.append(chain.forward(joints).place.copy())
        bullet.unwrapped.step(action)
    np.testing.assert_allclose(hands, results, atol=3e-4)


def test_eulers_angles_are_bullets(bullet):
    physics, _ = physics_of(bullet)
    quaternions = np.random.default_rng(0).normal(size=(200, 4))
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    upright = np.array([[1.0, 0.0, 1.0, 0.0], [1.0, 0.0, -1.0, 0.0], [0.5, 0.5, 0.5, -0.5]]) / np.sqrt([[2], [2], [1]])
    every = np.concatenate((quaternions, upright))
    expected = [physics.getEulerFromQuaternion([x, y, z, w]) for w, x, y, z in every]
    np.testing.assert_allclose([euler_of(turn) for turn in every], expected, atol=1e-6)


def test_free_motion_looks_as_pybullets_in_every_signal(env, bullet):
    actions = np.tile(np.float32([0.3, -0.3, 0.2, 0.4]), (6, 1))
    motion, other = (rollout_of(engine, 3, actions) for engine in (env, bullet))
    for name, column in ((signal.name, SPEC.layout.columns(signal.name)) for signal in SPEC.signals):
        tolerance = 0.02 if "velocity" in name else 0.001
        np.testing.assert_allclose(motion[:, column], other[:, column], atol=tolerance, err_msg=name)


def test_a_spinning_cube_turns_about_the_axes_that_its_velocity_tells(env):
    env.reset(seed=0, options={"task": MIDDLE})
    data, joint = env.unwrapped.data, env.unwrapped.model.joint("cube")
    data.qpos[joint.qposadr[0] : joint.qposadr[0] + 7] = (0.2, 0.3, 0.4, *np.sqrt([0.5, 0.5, 0.0, 0.0]))
    data.qvel[joint.dofadr[0] + 3 : joint.dofadr[0] + 6] = (0.0, 1.0, 0.0)  # of its own y, which is the table's z
    observations = [env.unwrapped.step(np.zeros(4, np.float32))[0]["observation"] for _ in range(2)]
    np.testing.assert_allclose(observations[1][16:19], [0.0, 0.0, 1.0], atol=0.02)
    assert observations[1][12] - observations[0][12] == pytest.approx(0.04, rel=0.02)


def test_a_cube_falls_as_it_must(env):
    env.reset(seed=0, options={"task": MIDDLE})
    data, column = env.unwrapped.data, env.unwrapped.model.joint("cube").qposadr[0]
    data.qpos[column : column + 3] = (0.2, 0.3, 0.3)
    for _ in range(3):
        observation, *_ = env.unwrapped.step(np.zeros(4, np.float32))
    assert observation["achieved_goal"][2] - 0.3 == pytest.approx(-0.5 * 9.81 * 0.12**2, rel=0.03)
    assert observation["observation"][15] == pytest.approx(-9.81 * 0.12, rel=0.02)


def test_the_goal_ends_an_episode_and_pays(env):
    env.reset(seed=0, options={"task": MIDDLE})
    _, reward, terminated, _, info = env.unwrapped.step(np.zeros(4, np.float32))
    assert (reward, terminated, info["is_success"]) == (-1.0, False, False)
    env.unwrapped.goal[:] = env.unwrapped.data.body("cube").xpos
    _, reward, terminated, _, info = env.unwrapped.step(np.zeros(4, np.float32))
    assert (reward, terminated, info["is_success"], info["skill"]) == (0.0, True, True, "other")


def test_a_dense_reward_is_the_distance_and_a_fall_ends_where_asked():
    with gym.make(SPEC.id, reward="dense", end_on_fall=True) as env:
        env.reset(seed=0, options={"task": MIDDLE})
        observation, reward, *_ = env.step(np.zeros(4, np.float32))
        difference = observation["achieved_goal"] - observation["desired_goal"]
        assert reward == pytest.approx(-float(np.linalg.norm(difference)))
        column = env.unwrapped.model.joint("cube").qposadr[0]
        env.unwrapped.data.qpos[column : column + 3] = (0.6, 0.0, -0.1)
        _, _, terminated, _, info = env.step(np.zeros(4, np.float32))
        assert terminated
        assert info["fallen"]


def test_a_simulation_that_blows_up_ends_the_episode_without_success(env, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where MuJoCo keeps a log of its warnings
    batch, world = PandaMujocoBatch(2), env.unwrapped
    batch.reset(seeds=[0, 0], tasks=[MIDDLE, MIDDLE])
    world.reset(seed=0, options={"task": MIDDLE})
    for qvel in (batch._qvel[1], world.data.qvel):
        qvel[:] = 1e12
    world.goal[:] = batch.goals[1] = world.model.body("cube").pos  # where the cube is put
    observation, reward, terminated, truncated, info = world.step(np.zeros(4))
    assert (reward, terminated, truncated, info["is_success"]) == (-1.0, True, False, False)
    observations, rewards = batch.step(np.zeros((2, 4), np.float32))
    assert (rewards.tolist(), batch.terminated.tolist()) == ([-1.0, -1.0], [False, True])
    np.testing.assert_array_equal(observations[1], flatten(observation))
    batch.reset(seeds=[0, 0], tasks=[MIDDLE, MIDDLE])
    assert not batch.terminated.any()


def test_a_mujoco_without_the_integrator_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setattr(panda_model, "mujoco", SimpleNamespace(mjtIntegrator=object(), __version__="3.17.0"))
    with pytest.raises(AdapterError, match=r"mujoco is 3.17.0, .* of 4.0; install it with: .*panda-mujoco"):
        panda_model._compiled.__wrapped__()


def test_what_is_not_valid_is_refused():
    with pytest.raises(UnknownName, match="Did you mean 'dense'"):
        gym.make(SPEC.id, reward="danse")
    with pytest.raises(UnknownName, match="render mode"):
        PandaMujocoEnv(render_mode="ansi")
    with pytest.raises(SamiError, match="not finite"):
        PandaMujocoBatch(1).step(np.full((1, 4), np.nan))
    with pytest.raises(SamiError, match=r"shape \(3,\)"):
        PandaMujocoBatch(1).step(np.zeros((1, 3)))
    with pytest.raises(SamiError, match="2 actions for 1 Pandas"):
        PandaMujocoBatch(1).step(np.zeros((2, 4)))
