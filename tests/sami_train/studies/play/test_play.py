"""An adopted policy in MuJoCo: joints by name, PD by the recipe's gains, signals by meaning, commands, falls."""

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")

from sami_runtime.errors import SamiError, UnknownName  # noqa: E402
from sami_runtime.model.artifact import read_artifact  # noqa: E402
from sami_runtime.robots.kit.commands import Steering, Timeline, command_of  # noqa: E402
from sami_train.envs.make import make  # noqa: E402
from sami_train.studies.play.env import play_environment  # noqa: E402
from tests.making.stander import MOTORS, RECIPE, mjcf, stander  # noqa: E402


@pytest.fixture(scope="module")
def adopted(tmp_path_factory):
    return stander(tmp_path_factory.mktemp("stander"))


@pytest.fixture
def play_env(adopted, tmp_path):
    """Make the environment of the stander in a scene: by TOML keys, another MJCF, another contract."""

    def make_env(toml="", xml=None, contract=None):
        (tmp_path / "robot.xml").write_text(xml or mjcf())
        (tmp_path / "robot.toml").write_text(f'scene = "robot.xml"\n{toml}')
        played_contract = contract or read_artifact(adopted[1]).contract
        return make(play_environment(played_contract, str(tmp_path / "robot.toml"))).unwrapped

    return make_env


def hold(env, action, steps):
    """The last step's outcome of one action, held."""
    for _ in range(steps):
        outcome = env.step(np.asarray(action, np.float32))
        if outcome[2]:
            break
    return outcome


STANCE = (0.1, 0.1, -0.1, -0.1)


def test_joints_are_matched_by_name_whatever_their_order(play_env):
    env = play_env()
    assert env.robot.joints == ["FL_joint", "FR_joint", "RL_joint", "RR_joint"]
    env.reset(seed=0)
    hold(env, (0.3, 0.1, -0.1, -0.4), 30)
    angles = {name: float(env.data.joint(f"{name}_joint").qpos[0]) for name in ("FL", "FR", "RL", "RR")}
    assert max(angles, key=angles.get) == "FL"
    assert min(angles, key=angles.get) == "RR"


def test_names_that_differ_are_declared_and_a_mismatch_lists_both_sides(play_env):
    other = mjcf().replace('"FL_joint"', '"front_left"')
    with pytest.raises(SamiError, match=r"no joint for FL\. The policy moves FL, FR, RL, RR; the MJCF has front_left,"):
        play_env(xml=other)
    assert play_env('[joints]\nFL = "front_left"', other).robot.joints[0] == "front_left"
    with pytest.raises(SamiError, match="aliases of XX"):
        play_env('[joints]\nXX = "front_left"')
    with pytest.raises(SamiError, match="one joint for two elements"):
        play_env('[joints]\nFL = "FR_joint"')


def test_targets_are_held_by_the_recipes_gains_within_the_motors_torque(play_env):
    env = play_env()
    env.reset(seed=0)
    env.step(np.array(STANCE, np.float32))
    q, v = env.data.qpos[env.robot.qpos], env.data.qvel[env.robot.qvel]
    expected = 40.0 * (np.array(STANCE) - q) - 1.0 * v
    np.testing.assert_allclose(env.data.actuator_force, expected, atol=1e-6)
    env.step(np.full(4, 1.4, np.float32))
    assert np.abs(env.data.actuator_force).max() == 9.0


def test_a_period_of_the_policy_is_a_whole_number_of_physics_steps(play_env):
    env = play_env()
    assert env.robot.substeps == 7
    assert env.robot.substeps * env.model.opt.timestep == pytest.approx(0.02)
    env.reset(seed=0)
    hold(env, STANCE, 3)
    assert env.data.time == pytest.approx(0.06)


def test_gains_come_from_the_mjcfs_own_servos_where_the_recipe_has_none(tmp_path, play_env):
    without = RECIPE.replace("kp = 40.0\nkd = 1.0\n", "")
    contract = read_artifact(stander(tmp_path, without)[1]).contract
    servos = "".join(f'<position joint="{leg}_joint" kp="25" kv="2"/>' for leg in ("RR", "RL", "FR", "FL"))
    env = play_env(xml=mjcf(servos), contract=contract)
    assert (env.model.actuator_gainprm[:, 0] == 25.0).all()
    assert (env.model.actuator_biasprm[:, 2] == -2.0).all()
    for motors in ("", MOTORS):
        with pytest.raises(SamiError, match="nothing says the gains of FL_joint, FR_joint, RL_joint, RR_joint"):
            play_env(xml=mjcf(motors), contract=contract)


@pytest.mark.parametrize(("torque", "most"), [('forcerange="-2 2"', 1.0), ('ctrlrange="-3 3"', 1.5)])
def test_a_motor_acts_behind_its_gear(play_env, torque, most):
    geared = MOTORS.replace('ctrlrange="-9 9"', f'gear="-0.5" {torque}')
    env = play_env(xml=mjcf(geared))
    env.reset(seed=0)
    env.step(np.full(4, 1.4, np.float32))
    assert np.abs(env.data.qfrc_actuator[env.robot.qvel]).max() == pytest.approx(most)


def test_a_servo_is_as_stiff_behind_its_gear_as_in_the_mjcf(tmp_path, play_env):
    contract = read_artifact(stander(tmp_path, RECIPE.replace("kp = 40.0\nkd = 1.0\n", ""))[1]).contract
    servos = "".join(f'<position joint="{leg}_joint" kp="5" kv="1" gear="10"/>' for leg in ("RR", "RL", "FR", "FL"))
    model = mujoco.MjModel.from_xml_string(mjcf(servos))
    data = mujoco.MjData(model)
    data.qpos[-4:] = 0.1
    mujoco.mj_forward(model, data)
    env = play_env(xml=mjcf(servos), contract=contract)
    stiffness = -env.model.actuator_biasprm[:, 1]
    np.testing.assert_allclose(-0.1 * stiffness, data.qfrc_actuator[-4:])


def test_it_begins_in_the_default_pose_with_its_feet_on_a_floor(play_env):
    env = play_env("start_noise = 0.0")
    env.reset(seed=0)
    np.testing.assert_allclose(env.data.qpos[env.robot.qpos], STANCE, atol=1e-6)
    feet = env.data.xpos[1:][:, 2].min()
    assert 0.25 < env.data.body("trunk").xpos[2] < 0.28
    assert feet > 0.2
    before = env.data.body("trunk").xpos[2]
    assert hold(env, STANCE, 50)[4]["is_success"]
    assert abs(env.data.body("trunk").xpos[2] - before) < 0.03
    raised = '<geom name="ground" type="plane" size="0 0 1" pos="0 0 0.5"/>'
    high = play_env("start_noise = 0.0", mjcf(more=raised))
    high.reset(seed=0)
    assert high.data.body("trunk").xpos[2] == pytest.approx(before + 0.5, abs=1e-3)


def test_starts_are_repeated_by_their_seed(play_env):
    env = play_env()
    first, other, again = (env.reset(seed=seed)[0] for seed in (1, 2, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_signals_are_what_their_names_say(play_env):
    env = play_env('[signals]\ncommand = "command"')
    env.reset(seed=0, options={"task": {"forward": 0.4, "left": -0.1, "turn": 0.2}})
    quarter = np.sqrt(0.5)
    env.data.qpos[3:7] = [quarter, quarter, 0.0, 0.0]  # rolled by 90 degrees to its right side
    env.data.qvel[:6] = [1.0, 2.0, 3.0, 0.1, 0.2, 0.3]
    mujoco.mj_forward(env.model, env.data)
    values = dict(
        zip(
            ("gyro", "gravity", "command", "angles", "speeds"),
            np.split(env._observe()[:17], [3, 6, 9, 13]),
            strict=True,
        )
    )
    np.testing.assert_allclose(values["gyro"], [0.1, 0.2, 0.3], atol=1e-6)
    np.testing.assert_allclose(values["gravity"], [0.0, -1.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(values["command"], [0.4, -0.1, 0.2], atol=1e-6)
    np.testing.assert_allclose(
        values["angles"], [env.data.joint(f"{n}_joint").qpos[0] for n in ("FL", "FR", "RL", "RR")]
    )
    np.testing.assert_allclose(
        values["speeds"], [env.data.joint(f"{n}_joint").qvel[0] for n in ("FL", "FR", "RL", "RR")]
    )


SWAPPED = {
    "base_lin_vel": ("base_lin_vel", "m/s", "x y z", "", [1.0, 3.0, -2.0]),
    "in the world": ("base_lin_vel", "m/s", "x y z", 'frame = "world"\n', [1.0, 2.0, 3.0]),
    "turning in the world": ("gyro", "rad/s", "x y z", 'frame = "world"\n', [0.1, -0.3, 0.2]),
    "place": ("place", "m", "x y z", "", [0.0, 0.0, 0.9]),
}


@pytest.mark.parametrize("case", SWAPPED)
def test_other_quantities_and_sensors_are_given_in_their_frame(case, tmp_path, play_env):
    name, unit, elements, more, expected = SWAPPED[case]
    first, rest = RECIPE.split("[[signals]]", 2)[0], RECIPE.split("[[signals]]", 2)[2]
    listed = ", ".join(f'"{element}"' for element in elements.split())
    term = f'\nname = "{name}"\nunit = "{unit}"\nelements = [{listed}]\nslice = [0, 3]\nscale = 1.0\n{more}\n'
    contract = read_artifact(stander(tmp_path, f"{first}[[signals]]{term}[[signals]]{rest}")[1]).contract
    env = play_env(contract=contract)
    env.reset(seed=0)
    quarter = np.sqrt(0.5)
    env.data.qpos[:7] = [0.0, 0.0, 0.9, quarter, quarter, 0.0, 0.0]
    env.data.qvel[:6] = [1.0, 2.0, 3.0, 0.1, 0.2, 0.3]
    mujoco.mj_forward(env.model, env.data)
    np.testing.assert_allclose(env._observe()[:3], expected, atol=1e-6)


def test_what_the_mjcf_cannot_give_is_refused_by_its_name(tmp_path, play_env):
    scan = RECIPE.replace('"base_ang_vel"', '"height_scan"').replace(
        'unit = "rad/s"\nelements = ["x"', 'unit = "m"\nelements = ["x"'
    )
    contract = read_artifact(stander(tmp_path, scan)[1]).contract
    with pytest.raises(
        SamiError, match=r"cannot give the signal 'height_scan' \(x, y, z\).*sensor of the model \(place\)"
    ):
        play_env(contract=contract)
    assert play_env('[signals]\nheight_scan = "place"', contract=contract)
    with pytest.raises(UnknownName, match="quantity of height_scan"):
        play_env('[signals]\nheight_scan = "lidar"', contract=contract)
    phases = RECIPE.replace('"base_ang_vel"', '"sin_phase"')
    contract = read_artifact(stander(tmp_path, phases)[1]).contract
    with pytest.raises(SamiError, match="'sin_phase', the phase of a gait"):
        play_env(contract=contract)


def test_actions_that_are_no_positions_are_refused(tmp_path, play_env):
    torques = RECIPE.replace(
        'unit = "rad"\nmeaning = "position targets of the joints"', 'unit = "N m"\nmeaning = "torques"'
    )
    contract = read_artifact(stander(tmp_path, torques)[1]).contract
    with pytest.raises(SamiError, match=r"writes torques \[N m\], and only position targets"):
        play_env(contract=contract)


def test_a_gait_clock_stands_at_half_a_cycle_while_nothing_is_commanded(tmp_path, play_env):
    phases = RECIPE.replace('"base_ang_vel"', '"cos_phase"').replace("scale = 0.25", "scale = 1.0\ncommand = true")
    contract = read_artifact(stander(tmp_path, phases)[1]).contract
    env = play_env("[clock]\nperiod_s = 0.4\noffsets = [0.0, 0.5, 0.25]", contract=contract)
    env.source = Timeline([{"time_s": 0.0}, {"time_s": 0.1, "left": 0.1}], dict.fromkeys(env.elements, 0.0))
    env.reset(seed=0)
    np.testing.assert_allclose(hold(env, STANCE, 3)[0][:3], -1.0, atol=1e-6)
    np.testing.assert_allclose(hold(env, STANCE, 2)[0][:3], [1.0, -1.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(hold(env, STANCE, 10)[0][:3], [-1.0, 1.0, 0.0], atol=1e-6)


def test_a_fall_ends_the_episode_without_success(play_env):
    env = play_env()
    env.reset(seed=0)
    _, _, over, _, info = hold(env, (-1.5, -1.5, 1.5, 1.5), 60)
    assert over
    assert not info["is_success"]
    env.reset(seed=0)
    assert hold(env, STANCE, 60)[4]["is_success"]


@pytest.mark.parametrize("steps", [0, 3])
def test_a_simulation_that_blows_up_ends_the_episode_without_success(play_env, tmp_path, monkeypatch, steps):
    monkeypatch.chdir(tmp_path)  # where MuJoCo keeps a log of its warnings
    env = play_env()
    env.reset(seed=0)
    for _ in range(steps):
        env.step(np.asarray(STANCE, np.float32))
    env.data.qvel[:] = 1e6
    observation, reward, over, _, info = env.step(np.asarray(STANCE, np.float32))
    assert (over, info["is_success"]) == (True, False)
    assert np.isfinite([*observation, reward]).all()


def test_the_reward_is_the_distance_from_the_command(play_env):
    env = play_env()
    env.reset(seed=0, options={"task": {"forward": 0.3, "turn": 0.4}})
    reward, info = hold(env, STANCE, 40)[1:5:3]
    assert reward == -info["tracking_error"]
    assert info["tracking_error"] == pytest.approx(0.5, abs=0.05)


def test_a_timeline_holds_each_command_until_the_next(tmp_path):
    rest = {"forward": 0.0, "left": 0.0, "turn": 0.0}
    (tmp_path / "walk.csv").write_text("time_s,forward,turn\n0,0.5,0\n2,0,0.8\n")
    (tmp_path / "walk.toml").write_text(
        "[[command]]\ntime_s = 0.0\nforward = 0.5\n[[command]]\ntime_s = 2.0\nturn = 0.8\n"
    )
    for name in ("walk.csv", "walk.toml"):
        source = command_of(str(tmp_path / name), rest)
        assert source.at(1.99) == {"forward": 0.5, "left": 0.0, "turn": 0.0}
        assert source.at(2.0) == {"forward": 0.0, "left": 0.0, "turn": 0.8}
    assert command_of("forward=0.5, turn=-0.2", rest).at(9.0) == {"forward": 0.5, "left": 0.0, "turn": -0.2}
    tall = {"forward": 0.0, "height": 0.6}
    assert command_of("forward=0.5", tall).at(0.0) == {"forward": 0.5, "height": 0.6}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("forwards=1", "element of the command in --command 'forwards'. Did you mean 'forward'"),
        ("forward=fast", "forward is 'fast'; it must be a number"),
        ("forward", "forward is ''; it must be a number"),
        ("late.csv", "does not begin at time_s = 0"),
        ("back.csv", "times must grow"),
        ("none.csv", "cannot be read"),
        ("none.toml", "cannot be read"),
    ],
)
def test_a_command_that_makes_no_sense_is_refused(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "late.csv").write_text("time_s,forward\n1,0.5\n")
    (tmp_path / "back.csv").write_text("time_s,forward\n0,0.5\n0,0.6\n")
    with pytest.raises(SamiError) as refused:
        command_of(text, {"forward": 0.0, "left": 0.0})
    assert message in str(refused.value)
    with pytest.raises(SamiError, match="reads no command"):
        command_of("forward=1", {})


def test_keys_change_the_command_in_steps():
    steering = Steering({"forward": 0.0, "turn": 0.0})
    for key in "iiijux":
        steering.press(key)
        if key == "j":
            assert steering.at(0.0) == {"forward": 0.3, "turn": 0.1}
    assert steering.at(0.0) == {"forward": 0.0, "turn": 0.0}


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("joint = 1", "unknown key 'joint'. Did you mean 'joints'?"),
        ("fallen_tilt_deg = -1.0", "fallen_tilt_deg"),
        ('base = "head"', "unknown body (base) 'head'"),
        ('keyframe = "home"', "unknown keyframe"),
        ("commands = [{ sideways = 1.0 }]", "sideways"),
        ('[signals]\nnothing = "gravity"', "unknown signal in [signals] 'nothing'"),
    ],
)
def test_a_wrong_robot_file_is_refused_by_its_key(toml, message, play_env):
    with pytest.raises(SamiError) as refused:
        play_env(toml)
    assert message in str(refused.value)


def test_files_that_are_no_model_are_refused(adopted, tmp_path):
    contract = read_artifact(adopted[1]).contract
    with pytest.raises(SamiError, match="is no file"):
        play_environment(contract, str(tmp_path / "none.xml"))
    (tmp_path / "bad.xml").write_text("<mujoco><worldbody><body/></mujoco>")
    with pytest.raises(SamiError, match="MuJoCo cannot read"):
        play_environment(contract, str(tmp_path / "bad.xml"))


ARM = """<mujoco><compiler angle="radian"/><worldbody>
  <body pos="0 0 1"><joint name="shoulder" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02"/>
    <body pos="0.3 0 0"><joint name="elbow" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.02"/>
    </body>
  </body></worldbody></mujoco>"""
ARM_RECIPE = """
name = "arm"
rate_hz = 50.0
episode_steps = 40
input = "obs"
output = "actions"
[[signals]]
name = "joint_pos"
unit = "rad"
elements = ["elbow", "shoulder"]
slice = [0, 2]
scale = 1.0
[[signals]]
name = "command"
unit = "m"
elements = ["x", "y", "z"]
slice = [2, 5]
scale = 1.0
command = true
[[signals]]
name = "joint_vel"
unit = "rad/s"
elements = ["elbow", "shoulder", "SPARE"]
slice = [5, 8]
scale = 1.0
[action]
name = "targets"
unit = "rad"
meaning = "position targets"
elements = ["a", "b", "c", "d"]
scale = 1.0
default = 0.3
kp = 50.0
kd = 2.0
"""


def test_an_arm_is_played_without_a_base_and_its_command_keeps_its_elements(tmp_path, play_env):
    wrist = ARM.replace(
        "\n    </body>\n  </body>",
        '<body><joint name="w1" axis="0 1 0"/><geom size="0.03"/>'
        '<body><joint name="w2" axis="0 1 0"/><geom size="0.03"/></body></body></body>\n  </body>',
    )
    recipe = ARM_RECIPE.replace("SPARE", "w2").replace('["a", "b", "c", "d"]', '["elbow", "shoulder", "w1", "w2"]')
    contract = read_artifact(stander(tmp_path, recipe, 8)[1]).contract
    with pytest.raises(SamiError, match="is commanded x, y, z, and nothing says what they are"):
        play_env(xml=wrist, contract=contract)
    env = play_env("start_noise = 0.0\ncommands = [{ x = 0.4, y = 0.0, z = 0.0 }]", wrist, contract)
    assert env.elements == ["x", "y", "z"]
    observation, _ = env.reset(seed=0, options={"task": {"x": 0.4, "y": 0.0, "z": 0.0}})
    np.testing.assert_allclose(observation, [0.3, 0.3, 0.4, 0.0, 0.0, 0.0, 0.0, 0.0], atol=1e-6)
    _, reward, over, _, info = hold(env, (0.6, 0.2, 0.3, 0.3), 40)
    assert info["is_success"]
    assert not over
    assert reward == 0.0
    assert env.data.joint("elbow").qpos[0] > 0.45
