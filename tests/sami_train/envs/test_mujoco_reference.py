"""The MuJoCo environments beside Gymnasium's own at m = d = 1, the options, and the pictures."""

import sys

import gymnasium as gym
import numpy as np
import pytest

from sami_runtime.errors import SamiError
from sami_train.envs import ENVIRONMENTS
from sami_train.envs.make import make

mujoco = pytest.importorskip("mujoco")
pytest.importorskip("imageio", reason="Gymnasium's own MuJoCo environments need it")

from sami_train.envs.mujoco.env import Robot  # noqa: E402
from sami_train.envs.mujoco.table import find_row  # noqa: E402

STEPS = 150
ALWAYS = {"terminate_when_unhealthy": False}
SLIM = {f"include_{name}_in_observation": False for name in ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")}

SAME = {
    # ours, with options: Gymnasium's, with the weights that make their formula this one
    "half-cheetah": ({}, "HalfCheetah-v5", {}),
    "crippled-half-cheetah": ({}, "HalfCheetah-v5", {}),
    "hopper": ({"control_cost": 1e-3}, "Hopper-v5", ALWAYS),
    "crippled-hopper": ({}, "Hopper-v5", ALWAYS),
    "walker": ({}, "Walker2d-v5", {**ALWAYS, "xml_file": "walker2d.xml"}),  # theirs rubs its left foot less
    "crippled-walker": ({}, "Walker2d-v5", {**ALWAYS, "xml_file": "walker2d.xml"}),
    "ant": ({}, "Ant-v5", {**ALWAYS, "ctrl_cost_weight": 0.01, "include_cfrc_ext_in_observation": False}),
    "crippled-ant": ({}, "Ant-v5", {**ALWAYS, "ctrl_cost_weight": 0.01, "include_cfrc_ext_in_observation": False}),
    "slim-humanoid": ({}, "Humanoid-v5", {**ALWAYS, **SLIM}),
    "humanoid-standup": ({}, "HumanoidStandup-v5", {"impact_cost_weight": 0.0, **SLIM}),
}


def steps(name, options, gym_name, arguments, count=STEPS):
    """Both environments from one state through the same actions, step by step."""
    env = make(ENVIRONMENTS[name], tasks={"mass": 1.0, "damping": 1.0}, **options).unwrapped
    other = gym.make(gym_name, **arguments).unwrapped
    observation, _ = env.reset(seed=3)
    other.reset(seed=0)
    other.set_state(env.data.qpos.copy(), env.data.qvel.copy())
    rng = np.random.default_rng(5)
    for _ in range(count):
        action = rng.uniform(-1, 1, env.action_space.shape).astype(np.float32)
        before = env.data.qpos.copy(), env.data.qvel.copy()
        observation, reward, *_ = env.step(action)
        their_observation, their_reward, *_, info = other.step(action.astype(np.float64) * env.robot.body.limit)
        yield env, other, before, action, observation, reward, their_observation, their_reward, info


@pytest.mark.parametrize("name", SAME)
def test_motion_is_gymnasiums_to_the_bit(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where MuJoCo keeps a log of its warnings
    distance = 0.0
    for env, other, before, _, observation, _, expected, _, _ in steps(name, *SAME[name]):
        np.testing.assert_array_equal(env.data.qpos, other.data.qpos)
        np.testing.assert_array_equal(env.data.qvel, other.data.qvel)
        speed = name.split("-")[-1] in ("cheetah", "ant")
        np.testing.assert_array_equal(observation[speed:], expected.astype(np.float32))
        if speed:
            np.testing.assert_allclose(observation[0], (env.data.qpos[0] - before[0][0]) / env.robot.step_s, rtol=1e-5)
        distance += np.abs(env.data.qpos - before[0]).sum()
    assert distance > 1.0


@pytest.mark.parametrize("name", [name for name in SAME if "ant" not in name and name != "slim-humanoid"])
def test_rewards_are_gymnasiums(name, tmp_path, monkeypatch):
    """But for the bonus for being healthy: the paper's robots never die, and get it at every step."""
    monkeypatch.chdir(tmp_path)
    unhealthy = 0
    for _, other, _, _, _, reward, _, expected, info in steps(name, *SAME[name]):
        bonus = info.get("reward_survive", 1.0) if hasattr(other, "is_healthy") else 1.0
        unhealthy += bonus == 0.0
        assert reward == pytest.approx(expected + 1.0 - bonus, abs=1e-9)
    assert (unhealthy > 0) == (name.split("-")[-1] in ("hopper", "walker"))


@pytest.mark.parametrize("name", ["ant", "crippled-ant", "ant-cadm"])
def test_an_ants_reward_is_its_speed_and_a_bonus_less_the_control_cost(name):
    """Gymnasium's takes the torso's place from before the last simulation step, ours from after it."""
    cost, alive = (0.005, 0.05) if name == "ant-cadm" else (0.01, 1.0)
    arguments = SAME["ant"][2] | {"contact_cost_weight": 0.0}
    total = their_total = 0.0
    for env, _, before, action, _, reward, _, _, info in steps(name, {}, "Ant-v5", arguments):
        speed = (env.data.qpos[0] - before[0][0]) / 0.05
        assert reward == pytest.approx(speed + alive - cost * np.square(action.astype(float)).sum())
        total += speed
        their_total += info["reward_forward"]
    # The sum of speeds is a distance, and the two differ by at most what one simulation step moves at either end.
    assert total == pytest.approx(their_total, abs=2 * 0.01 / 0.05 * np.abs(env.data.qvel).max())


def test_the_slim_humanoids_reward_is_its_velocity_and_staying_up():
    up = set()
    for env, _, (_, qvel), action, _, reward, *_ in steps("slim-humanoid", *SAME["slim-humanoid"]):
        upright = 1.0 <= env.data.qpos[2] <= 2.0
        up.add(upright)
        cost = 0.1 * np.square(0.4 * action.astype(float)).sum()
        assert reward == pytest.approx(0.25 / 0.015 * qvel[0] - cost + 5.0 * upright)
    assert up == {True, False}


def test_the_hopper_pays_more_for_control_unless_asked_for_gymnasiums_weight():
    for name, options, cost in (("hopper", {}, 0.1), ("hopper", {"control_cost": 0.0}, 0.0), ("walker", {}, 1e-3)):
        env = make(ENVIRONMENTS[name], tasks={}, **options).unwrapped
        env.reset(seed=0)
        x = env.data.qpos[0]
        _, reward, *_ = env.step(np.ones(env.action_space.shape, np.float32))
        assert reward == pytest.approx((env.data.qpos[0] - x) / 0.008 + 1.0 - cost * env.action_space.shape[0])


def test_cadms_scaling_of_the_ant_is_an_option():
    task = {"mass": 2.0, "damping": 4.0}
    plain, legacy = (Robot(find_row("ant"), {"legacy_ant_scaling": on}).dynamics(task) for on in (False, True))
    nominal = Robot(find_row("ant"), {}).model
    np.testing.assert_array_equal(plain["body_mass"], nominal.body_mass * 2.0)
    factors = legacy["body_mass"][1:] / nominal.body_mass[1:]
    np.testing.assert_allclose(factors, [1.0] + [2.0] * 6 + [0.5] * 6)
    # Its damping goes by the links' numbers, so that the first joints that have any are the second leg's.
    np.testing.assert_allclose(legacy["dof_damping"][6:], [4.0, 4.0] + [0.25] * 6)


@pytest.mark.parametrize("name", ["ant", "humanoid-standup"])
def test_the_contact_cost_is_an_option(name):
    robot = make(ENVIRONMENTS[name], tasks={}, contact_cost=True).unwrapped
    free = make(ENVIRONMENTS[name], tasks={}).unwrapped
    rng = np.random.default_rng(0)
    robot.reset(seed=0)
    free.reset(seed=0)
    costs = []
    for _ in range(30):
        action = rng.uniform(-1, 1, robot.action_space.shape).astype(np.float32)
        with_cost, without = robot.step(action)[1], free.step(action)[1]
        force = robot.data.cfrc_ext
        cost = 0.5 * np.square(np.clip(force, -1, 1)).sum() if name == "ant" else 5e-7 * np.square(force).sum()
        assert without - with_cost == pytest.approx(min(cost, 10.0) if name != "ant" else cost, abs=1e-9)
        costs.append(cost)
    assert max(costs) > 0.0
    np.testing.assert_array_equal(robot.data.qpos, free.data.qpos)
    assert not free.data.cfrc_ext.any()


def test_the_links_inertia_stays_unless_asked_to_follow_their_mass():
    nominal = Robot(find_row("hopper"), {}).model.body_inertia
    env = make(ENVIRONMENTS["hopper"], tasks={"mass": 2.0}, scale_inertia=True).unwrapped
    env.reset(seed=0)
    np.testing.assert_array_equal(env.model.body_inertia, nominal * 2.0)


def test_the_slim_humanoid_starts_standing_unless_asked_to_lie():
    for options, height in (({}, 1.4), ({"lying_start": True}, 0.105)):
        env = make(ENVIRONMENTS["slim-humanoid"], tasks={}, **options).unwrapped
        env.reset(seed=0)
        assert env.data.qpos[2] == pytest.approx(height, abs=0.011)


def test_crippled_parts_can_shrink_as_in_the_reference_code():
    nominal = Robot(find_row("crippled-ant"), {}).model
    env = make(ENVIRONMENTS["crippled-ant"], tasks={"crippled": [1]}, shrink_geoms=True).unwrapped
    env.reset(seed=0)
    leg, ankle = nominal.geom("right_leg_geom").id, nominal.geom("right_ankle_geom").id
    geoms = {i for i in range(nominal.ngeom) if (nominal.geom_size[i] != env.model.geom_size[i]).any()}
    assert geoms == {leg, ankle}
    np.testing.assert_array_equal(env.model.geom_size[[leg, ankle], :2], nominal.geom_size[[leg, ankle], :2] / 2)
    np.testing.assert_array_equal(env.model.geom_pos[ankle], nominal.geom_pos[leg])
    env.reset(options={"task": {"crippled": []}})
    np.testing.assert_array_equal(env.model.geom_size, nominal.geom_size)

    walker = Robot(find_row("crippled-walker"), {"shrink_geoms": True})
    geom = {
        i: walker.model.geom(name).id for i, name in enumerate(["thigh", "leg", "foot"]) for name in [f"{name}_geom"]
    }
    size, position = (
        walker.dynamics({"mass": 1, "damping": 1, "crippled": [0]})[key] for key in ("geom_size", "geom_pos")
    )
    assert size[geom[0], 1] == walker.model.geom_size[geom[0], 1] / 2
    assert (position[[geom[1], geom[2]]] == walker.model.geom_pos[geom[0]]).all()
    shrunk = walker.dynamics({"mass": 1, "damping": 1, "crippled": [4, 5]})["geom_pos"]
    ids = [walker.model.geom(f"{part}_left_geom").id for part in ("thigh", "leg", "foot")]
    np.testing.assert_array_equal(shrunk[ids[2]], walker.model.geom_pos[ids[1]])
    np.testing.assert_array_equal(shrunk[ids[:2]], walker.model.geom_pos[ids[:2]])


def test_a_robot_is_drawn_without_a_display_and_its_crippled_parts_are_red():
    env = make(
        ENVIRONMENTS["crippled-half-cheetah"],
        tasks={"crippled": [0, 1]},
        render_mode="rgb_array",
        render_size=(160, 120),
    )
    env.reset(seed=0)
    first = env.render()
    assert (first.shape, first.dtype) == ((120, 160, 3), np.uint8)
    red = (first[..., 0] > 100) & (first[..., 1:].max(-1) < 60)
    assert red.sum() > 20
    env.reset(options={"task": {"crippled": []}})
    sound = env.render()
    assert not ((sound[..., 0] > 100) & (sound[..., 1:].max(-1) < 60)).any()
    for _ in range(20):
        env.step(np.ones(6, np.float32))
    assert (env.render() != sound).any()
    env.unwrapped.data.qpos[0] = 500.0  # the model's own floor ends at 40 m
    mujoco.mj_forward(env.unwrapped.model, env.unwrapped.data)
    assert env.render()[80:].std() > 40
    env.close()
    env.close()


def test_without_opengl_or_a_display_rendering_says_what_to_do(monkeypatch):
    for kind in ("egl", "osmesa", "glfw"):
        monkeypatch.setitem(sys.modules, f"mujoco.{kind}", None)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    with pytest.raises(SamiError, match=r"egl: .*mujoco\.egl.*; osmesa: .*apt install libegl1"):
        make(ENVIRONMENTS["hopper"], render_mode="rgb_array")
    with pytest.raises(SamiError, match="needs a display and DISPLAY is not set"):
        make(ENVIRONMENTS["hopper"], render_mode="human")
