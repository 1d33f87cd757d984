"""The MuJoCo environments one at a time: tasks read back from the simulator, starts, episodes, options."""

import itertools

import gymnasium as gym
import numpy as np
import pytest

from sami_runtime.errors import SamiError, UnknownName
from sami_train.envs import ENVIRONMENTS
from sami_train.envs.make import make as make_env

mujoco = pytest.importorskip("mujoco")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from sami_train.envs.mujoco.env import (  # noqa: E402
    UNSTABLE,
    MujocoSkillEnv,
    Robot,
)
from sami_train.envs.mujoco.table import ROWS, find_row  # noqa: E402

NAMES = [row.name for row in ROWS]
# Joints that the paper's numbers stand for: of the half-cheetah and the walker one each, of the ant two a leg.
SILENT = {
    "half": dict(enumerate([{"bthigh"}, {"bshin"}, {"bfoot"}, {"fthigh"}, {"fshin"}, {"ffoot"}])),
    "ant": {leg: {f"hip_{leg + 1}", f"ankle_{leg + 1}"} for leg in range(4)},
    "hopper": dict(enumerate([{"thigh_joint"}, {"leg_joint"}, {"foot_joint"}])),
    "walker": dict(
        enumerate(
            [{"thigh_joint"}, {"leg_joint"}, {"foot_joint"}]
            + [{"thigh_left_joint"}, {"leg_left_joint"}, {"foot_left_joint"}]
        )
    ),
}


def make(name, tasks=None, **options):
    return make_env(ENVIRONMENTS[name], tasks=tasks or {}, **options)


def corners(name):
    """The extremes of mass and damping over all sets, and each choice of crippled parts once."""
    tasks = list(itertools.chain(*ENVIRONMENTS[name].tasks.sets.values()))
    ends = [(min(values), max(values)) for key in ("mass", "damping") if (values := {task[key] for task in tasks})]
    parts = sorted({tuple(task.get("crippled", ())) for task in tasks})
    scales = [{"mass": mass, "damping": damping} for mass, damping in itertools.product(*ends)]
    crippled = [{"mass": 1.0, "damping": 1.0, "crippled": list(part)} for part in parts if part]
    return scales + crippled


@pytest.mark.parametrize("name", NAMES)
def test_mass_and_damping_read_back_from_the_simulator_are_the_tasks(name):
    nominal = Robot(find_row(name), {}).model
    env = make(name)
    model = env.unwrapped.model
    for task in corners(name):
        _, info = env.reset(options={"task": task})
        assert info["task"] == ({"crippled": []} if name.startswith("crippled-") else {}) | task
        np.testing.assert_array_equal(model.body_mass, nominal.body_mass * task["mass"])
        np.testing.assert_array_equal(model.dof_damping, nominal.dof_damping * task["damping"])
        np.testing.assert_array_equal(model.body_inertia, nominal.body_inertia)
        # What follows from the masses has followed.
        np.testing.assert_allclose(model.body_subtreemass[0], nominal.body_mass.sum() * task["mass"])
        assert np.allclose(model.dof_invweight0, nominal.dof_invweight0) == (task["mass"] == 1.0)
    assert nominal.dof_damping.any()
    assert (nominal.body_mass[1:] > 0).all()


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("crippled-")])
def test_a_crippled_part_has_no_torque_and_all_others_have(name):
    env = make(name)
    model, data = env.unwrapped.model, env.unwrapped.data
    joint_of = [model.joint(int(joint)).name for joint in model.actuator_trnid[:, 0]]
    for task in [*corners(name), {"crippled": []}]:
        env.reset(seed=0, options={"task": task})
        env.step(np.full(env.action_space.shape, -0.7, np.float32))
        crippled = set().union(*(SILENT[name.split("-")[1]][part] for part in task.get("crippled", [])))
        assert {joint for joint, force in zip(joint_of, data.actuator_force, strict=True) if force == 0} == crippled
        torque = {joint: data.qfrc_actuator[model.joint(joint).dofadr[0]] for joint in joint_of}
        assert {joint for joint, value in torque.items() if value == 0} == crippled


def test_a_crippled_part_costs_no_control():
    env = make("crippled-half-cheetah", {"crippled": [0, 1]})
    env.reset(seed=0)
    x = env.unwrapped.data.qpos[0]
    _, reward, *_ = env.step(np.ones(6, np.float32))
    assert reward == pytest.approx((env.unwrapped.data.qpos[0] - x) / 0.05 - 0.1 * 4)


@pytest.mark.filterwarnings("ignore:.*infinity. This is probably too")
@pytest.mark.parametrize("name", NAMES)
def test_it_is_an_environment_as_gymnasium_checks_them(name):
    env = make(name, "training")
    check_env(env.unwrapped, skip_render_check=True)
    assert env.spec.max_episode_steps == ENVIRONMENTS[name].episode_steps
    assert env.observation_space.shape == (ENVIRONMENTS[name].layout.size,)
    assert env.unwrapped.robot.step_s == pytest.approx(1 / ENVIRONMENTS[name].rate_hz)


def test_joints_are_listed_as_the_model_has_them():
    for name in NAMES:
        model, spec = make(name).unwrapped.model, ENVIRONMENTS[name]
        motors = tuple(model.joint(int(joint)).name for joint in model.actuator_trnid[:, 0])
        assert spec.action.elements == motors
        np.testing.assert_array_equal(np.abs(model.actuator_ctrlrange), find_row(name).body.limit)
        joints = tuple(model.joint(i).name for i in range(model.njnt))
        angles = next(signal for signal in spec.signals if signal.name == "joint_angles")
        assert angles.elements == joints[-len(motors) :]


def test_an_episode_is_cut_at_its_length_and_never_ends_before():
    env = make("hopper", "extreme")
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    ends = [env.step(rng.uniform(-1, 1, 3).astype(np.float32))[2:4] for _ in range(1000)]
    assert ends == [(False, False)] * 999 + [(False, True)]
    assert env.unwrapped.data.qpos[1] < 0.5  # it has long fallen


def test_a_task_is_drawn_at_each_reset_and_told_at_each_step():
    env = make("crippled-hopper", "extreme")
    tasks = ENVIRONMENTS["crippled-hopper"].tasks.sets["extreme"]
    names = set()
    for seed in range(40):
        _, info = env.reset(seed=seed)
        assert info["task"] in tasks
        assert env.step(np.zeros(3, np.float32))[4]["task"] == info["task"]
        np.testing.assert_allclose(env.unwrapped.model.body_mass[1] / info["task"]["mass"], 3.66519143)
        names.add(str(info["task"]))
    assert len(names) > 20


@pytest.mark.parametrize("name", ["half-cheetah", "crippled-ant"])
def test_the_same_seed_gives_the_same_episode_whatever_ran_before(name):
    first, second = make(name, "training"), make(name, "training")
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (20, *first.action_space.shape)).astype(np.float32)

    def episode(env):
        observation, info = env.reset(seed=4)
        return [observation.tolist(), info["task"], *((o.tolist(), r) for o, r, *_ in map(env.step, actions))]

    second.reset(seed=9, options={"task": {"mass": 0.2, "damping": 4.0}})
    for action in actions:
        second.step(action)
    assert episode(second) == episode(first) == episode(first)


def test_starts_are_noisy_as_in_the_reference_code():
    for name, positions, velocities in (
        ("half-cheetah", ("normal", 0.001), ("normal", 0.001)),
        ("ant", ("uniform", 0.1), ("normal", 0.1)),
        ("hopper", ("uniform", 0.005), ("uniform", 0.005)),
        ("walker", ("uniform", 0.005), ("uniform", 0.005)),
        ("humanoid-standup", ("uniform", 0.01), ("uniform", 0.01)),
    ):
        robot, rng = Robot(find_row(name), {}), np.random.default_rng(0)
        starts = [robot.start(rng) for _ in range(300)]
        for kind, scale, values in (
            (*positions, np.concatenate([qpos - robot.model.qpos0 for qpos, _ in starts])),
            (*velocities, np.concatenate([qvel for _, qvel in starts])),
        ):
            spread = scale / np.sqrt(3.0) if kind == "uniform" else scale
            assert values.std() == pytest.approx(spread, rel=0.05)
            assert (np.abs(values).max() <= scale) == (kind == "uniform")


def test_dynamics_change_in_the_middle_of_an_episode():
    env = make("crippled-ant", {"mass": 1.0, "damping": 1.0})
    env.reset(seed=0)
    env.step(np.ones(8, np.float32))
    before = env.unwrapped.data.qpos.copy()
    env.unwrapped.set_dynamics({"mass": 2.0, "damping": 0.5, "crippled": [3]})
    np.testing.assert_array_equal(env.unwrapped.data.qpos, before)
    *_, info = env.step(np.ones(8, np.float32))
    assert info["task"] == {"mass": 2.0, "damping": 0.5, "crippled": [3]}
    assert (env.unwrapped.data.ctrl == [0, 0, 1, 1, 1, 1, 1, 1]).all()
    with pytest.raises(SamiError, match="crippled is"):
        env.unwrapped.set_dynamics({"crippled": [4]})


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_action_that_is_no_number_is_refused_and_one_out_of_range_cut_off(bad):
    env, same = make("slim-humanoid"), make("slim-humanoid")
    for item in (env, same):
        item.reset(seed=0)
    action = np.zeros(17, np.float32)
    action[3] = bad
    with pytest.raises(SamiError, match="not all finite"):
        env.step(action)
    action[3] = 5.0
    np.testing.assert_array_equal(env.step(action)[0], same.step(np.clip(action, -1, 1))[0])
    assert env.unwrapped.data.ctrl[3] == 0.4


def test_a_simulation_that_blows_up_starts_over_from_the_first_pose_and_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where MuJoCo keeps a log of its warnings
    env = make("humanoid-standup", {"mass": 1.0, "damping": 100.0})
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        observation, reward, terminated, truncated, info = env.step(rng.choice([-1.0, 1.0], 17).astype(np.float32))
        assert np.isfinite(observation).all()
        assert abs(reward) < 1e4
        assert (terminated, truncated) == (False, False)
        assert np.abs(env.unwrapped.data.qvel).max() < UNSTABLE
        if info.get("unstable"):
            break
    assert info["unstable"]
    np.testing.assert_array_equal(env.unwrapped.data.qpos, env.unwrapped.model.qpos0)
    assert reward == pytest.approx(0.105 / 0.003 + 1 - 0.1 * 17 * 0.4**2)


def test_unknown_arguments_are_refused():
    with pytest.raises(UnknownName, match="option of hopper 'contact_cost'"):
        make("hopper", contact_cost=True)
    with pytest.raises(UnknownName, match="render mode 'ascii'"):
        MujocoSkillEnv("hopper", render_mode="ascii")
    with pytest.raises(UnknownName, match="task set 'easy'"):
        make("hopper", "easy")
    assert isinstance(gym.make("sami/Hopper-v0", tasks="moderate").unwrapped.tasks, tuple)
