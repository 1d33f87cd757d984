"""The SO-101: its arm is the published one, hidden features change the physics as told, and no velocity is read."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco")

import mujoco

from sami_runtime.errors import SamiError, UnknownName
from sami_train.agent.networks import feature_layout
from sami_train.config.resolve import resolve
from sami_train.envs.make import make
from sami_train.envs.so101.entry import MOTORS, SO101
from sami_train.envs.so101.env import SUBSTEPS
from sami_train.envs.so101.kinematics import HOME, STEP, joints_at, push, tip_of
from sami_train.envs.tasks import TaskError

STILL = np.zeros(4, np.float32)
PUBLISHED = (
    ((0.0388353, 0.0, 0.0624), (0.0, 0.0, -1.0, 0.0), "shoulder_pan"),
    ((-0.0303992, -0.0182778, -0.0542), (0.5, -0.5, -0.5, -0.5), "shoulder_lift"),
    ((-0.11257, -0.028, 0.0), (0.7071068, 0.0, 0.0, 0.7071068), "elbow_flex"),
    ((-0.1349, 0.0052, 0.0), (0.7071068, 0.0, 0.0, -0.7071068), "wrist_flex"),
    ((0.0, -0.0611, 0.0181), (0.0172091, -0.0172091, 0.706897, 0.706897), "wrist_roll"),
)
"""The frames of so101_new_calib: place in the frame before [m], quaternion, and the joint that turns about its z."""
TIP = (-0.0079, -0.000218121, -0.0981274)
"""`gripperframe` in the last of them [m]."""


@pytest.fixture(scope="module")
def env():
    with make(SO101, tasks={}) as instance:
        yield instance


def begin(env, seed=0, **task):
    """Start an episode in a task, and return the bare environment."""
    env.reset(seed=seed, options={"task": task})
    return env.unwrapped


def rotation(quaternion):
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, np.array(quaternion) / np.linalg.norm(quaternion))
    return matrix.reshape(3, 3)


def published_tip(angles):
    """Where the published frames have the fingertips, for angles by joint."""
    place, turned = np.zeros(3), np.eye(3)
    for offset, quaternion, joint in PUBLISHED:
        cos, sin = np.cos(angles[joint]), np.sin(angles[joint])
        place = place + turned @ offset
        turned = turned @ rotation(quaternion) @ [[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]]
    return place + turned @ TIP


def test_the_fingertips_are_where_the_published_frames_have_them(env):
    bare, rng = begin(env), np.random.default_rng(0)
    model, data = bare.model, mujoco.MjData(bare.model)
    for _ in range(20):
        angles = {name: rng.uniform(*model.joint(name).range) for _, _, name in PUBLISHED}
        for name, angle in angles.items():
            data.joint(name).qpos[0] = angle
        mujoco.mj_kinematics(model, data)
        assert data.site("tip").xpos == pytest.approx(published_tip(angles), abs=2e-5)
        four = np.array([angles[name] for name in MOTORS])
        straight = published_tip(angles | {"wrist_roll": 0.0})
        assert tip_of(four) == pytest.approx(straight, abs=4e-4), "the script's arm has no sideways offsets"


def test_the_arm_has_the_published_masses_limits_and_torque(env):
    model = begin(env).model
    arm = sum(model.body(name).mass[0] for name in ("shoulder", "upper_arm", "lower_arm", "wrist", "gripper", "jaw"))
    assert arm == pytest.approx(0.485, abs=1e-4)
    degrees = {name: np.degrees(model.joint(name).range).round(1).tolist() for name in MOTORS}
    assert degrees["shoulder_pan"] == [-110.0, 110.0]
    assert degrees["shoulder_lift"] == [-100.0, 100.0]
    assert degrees["wrist_flex"] == [-95.0, 95.0]
    assert (abs(model.actuator_forcerange) == 2.94).all()
    assert model.opt.timestep * SUBSTEPS == pytest.approx(1 / 30) == pytest.approx(1 / SO101.rate_hz)


def test_a_policy_reads_positions_and_no_velocity(env):
    bare = begin(env)
    assert {signal.unit for signal in SO101.signals} == {"rad", "m", "1"}
    before = bare._observe()
    bare.data.qvel[:] = 3.0
    assert (bare._observe() == before).all()
    angles = [bare.data.joint(name).qpos[0] for name in MOTORS]
    assert before[:4] == pytest.approx(angles)
    assert before[4:6] == pytest.approx(bare.data.body("cube").xpos[:2])
    assert before[6:8] == pytest.approx(bare.data.body("cube").xmat[[0, 3]], abs=1e-6)


def test_an_action_is_a_step_of_the_targets_from_where_the_joints_are(env):
    bare = begin(env, play=0.0)
    angles = bare.data.qpos[bare._angles].copy()
    env.step(np.array([1.0, -0.5, 0.0, 7.0], np.float32))
    assert bare.data.ctrl[:4] == pytest.approx(angles + STEP * np.array([1.0, -0.5, 0.0, 1.0]))
    for _ in range(40):
        env.step(np.array([1.0, 0.0, 0.0, 0.0], np.float32))
    assert bare.data.ctrl[0] == bare.model.joint("shoulder_pan").range[1]
    assert bare.data.joint("shoulder_pan").qpos[0] == pytest.approx(1.91986, abs=0.01)


def test_a_heavier_cube_presses_harder_on_the_table(env):
    for mass in (0.05, 0.8):
        bare = begin(env, mass=mass)
        for _ in range(5):
            env.step(STILL)
        force, pressing = np.zeros(6), 0.0
        for i, contact in enumerate(bare.data.contact):
            if bare.model.geom("cube").id in contact.geom:
                mujoco.mj_contactForce(bare.model, bare.data, i, force)
                pressing += force[0]
        assert pressing == pytest.approx(9.81 * mass, rel=0.03)
        assert bare.model.body("cube").inertia == pytest.approx(mass * 0.04**2 / 6.0)


@pytest.mark.parametrize("friction", [0.2, 0.8])
def test_a_cube_slides_as_far_as_coulombs_law_says(env, friction):
    bare = begin(env, friction=friction)
    cube, speed = bare.data.joint("cube"), 0.5
    cube.qpos[:] = [0.3, 0.3, 0.02, 1.0, 0.0, 0.0, 0.0]
    cube.qvel[:] = [speed, 0.0, 0.0, 0.0, 0.0, 0.0]
    for _ in range(20):
        env.step(STILL)
    assert cube.qpos[0] - 0.3 == pytest.approx(speed**2 / (2.0 * friction * 9.81), rel=0.1)


def test_a_link_is_loose_by_the_play_and_its_servo_does_not_see_it(env):
    swings = {}
    for play in (0.0, 0.02, 0.06):
        bare, headings = begin(env, play=play), []
        hand, shaft = bare.data.body("gripper"), bare.data.joint("shoulder_pan")
        for sideways in (0.3, -0.3):  # [N]
            hand.xfrc_applied[1], angle = sideways, shaft.qpos[0]
            for _ in range(6):
                env.step(STILL)
            assert shaft.qpos[0] == pytest.approx(angle, abs=1e-3)
            headings.append(np.arctan2(hand.xmat[3], hand.xmat[0]))
        hand.xfrc_applied[1] = 0.0
        swings[play] = headings[0] - headings[1]
    assert swings[0.0] == pytest.approx(0.0, abs=3e-3)
    assert swings[0.02] == pytest.approx(0.02, abs=3e-3)
    assert swings[0.06] == pytest.approx(0.06, abs=3e-3)


def test_gravity_takes_up_the_play(env):
    heights = []
    for play in (0.0, 0.06):
        bare = begin(env, play=play)
        for _ in range(6):
            env.step(STILL)
        heights.append(bare.data.site("tip").xpos[2])
    assert heights[0] - heights[1] > 0.005


def test_the_dynamics_change_within_an_episode_and_wrong_ones_are_refused(env):
    bare = begin(env)
    bare.set_dynamics({"mass": 0.7, "friction": 0.9, "play": 0.04})
    assert bare.model.body("cube").mass[0] == pytest.approx(0.7)
    assert bare.model.geom("cube").friction[0] == pytest.approx(0.9)
    assert bare.model.joint("elbow_flex_play").range == pytest.approx([-0.02, 0.02])
    with pytest.raises(TaskError, match=r"play is 0\.5; it must be a number at least 0 and at most"):
        bare.set_dynamics({"play": 0.5})
    with pytest.raises(UnknownName, match="backlash"):
        bare.set_dynamics({"backlash": 0.01})
    with pytest.raises(SamiError, match="4 finite numbers"):
        bare.step(np.full(4, np.nan))
    with pytest.raises(SamiError, match="4 finite numbers"):
        bare.step(np.zeros(6))


def test_a_seed_begins_the_same_episode_and_no_cube_lies_at_its_goal(env):
    starts = []
    for seed in (*range(30), *range(30)):
        observation, info = env.reset(seed=seed, options={"task": {}})
        assert not info["is_success"]
        assert np.linalg.norm(observation[4:6] - observation[8:10]) >= 0.06
        assert observation[:4] == pytest.approx(HOME, abs=0.051)
        starts.append(observation)
    assert (np.array(starts[:30]) == starts[30:]).all()
    assert len(np.unique(starts, axis=0)) == 30


def test_the_fingertips_go_where_the_inverse_kinematics_sends_them():
    for tip in ((0.2, 0.1, 0.02), (0.3, -0.05, 0.06), (0.18, 0.0, 0.03)):
        assert tip_of(joints_at(np.array(tip))) == pytest.approx(tip, abs=1e-9)


def test_the_script_brings_most_cubes_to_their_goals_and_that_ends_the_episode(env):
    rng, reached = np.random.default_rng(0), 0
    for seed in range(20):
        observation, info = env.reset(seed=seed, options={"task": {}})
        for _ in range(SO101.episode_steps):
            observation, reward, terminated, _, info = env.step(push(observation, rng, {}))
            near = np.linalg.norm(observation[4:6].astype(float) - observation[8:10]) < 0.025
            assert terminated == info["is_success"] == near
            assert reward == (0.0 if near else -1.0)
            if terminated:
                break
        reached += terminated
    assert reached >= 14


def test_a_simulation_that_blows_up_ends_the_episode_without_success(env, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where MuJoCo keeps a log of its warnings
    env.reset(seed=0)
    env.unwrapped.data.qvel[:] = 1e12
    env.unwrapped._goal = env.unwrapped.model.body("cube").pos[:2]  # where the cube is put
    observation, reward, terminated, truncated, info = env.step(np.zeros(4))
    assert (reward, terminated, truncated, info["is_success"]) == (-1.0, True, False, False)
    assert np.isfinite(observation).all()


def test_its_page_says_that_no_memory_has_seen_where_the_cube_was():
    layout = feature_layout(SO101.layout.size, SO101.goal, resolve("fast-cpu", {"env": "so101"}).network)
    columns = np.abs(layout.projection[:, : layout.encoder_columns]).sum(axis=1) > 0.0
    unseen = [name for name in SO101.layout.by_name(columns) if not columns[SO101.layout.numbers(name)].any()]
    assert unseen == ["cube_position", "goal"]
    page = (Path(__file__).parents[3] / "docs" / "reference" / "so101.md").read_text(encoding="utf-8")
    assert "No memory here has seen where the cube was" in page
