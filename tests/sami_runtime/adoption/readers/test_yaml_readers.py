"""Folders of frameworks that describe their policies in YAML are adopted, and act as the framework's own code does."""

import json

import numpy as np
import pytest

from sami_runtime import adopt
from sami_runtime.adoption.adopt import read_policy
from sami_runtime.adoption.recipe import Recipe
from sami_runtime.errors import SamiError
from sami_runtime.session.session import Session
from tests.making import frameworks
from tests.making.foreign import weights_of
from tests.making.frameworks import JOINTS

POSE = np.array([0.1, -0.1, -1.5, -1.5], np.float32)


class Walk:
    """Drives an adopted file and the framework's formula side by side."""

    def __init__(self, artifact, size, seed=0):
        self.session = Session(artifact)
        self.contract = artifact.contract
        self.weights = weights_of(size, 4)
        self.random = np.random.default_rng(seed)

    def network(self, numbers):
        return np.tanh(np.asarray(numbers, np.float32) @ self.weights["w"] + self.weights["b"])

    def signals(self):
        return {s.name: self.random.normal(size=s.size).astype(np.float32) for s in self.contract.observation}

    def check(self, formula, steps=50):
        """Whether the file acts as `formula(signals, last action)` does, which returns (observation, targets of)."""
        last = np.zeros(4, np.float32)
        for _ in range(steps):
            signals = self.signals()
            observation, targets = formula(signals, last)
            last = self.network(observation)
            np.testing.assert_allclose(self.session.step(signals).action, targets(last), atol=1e-5)
        return True


def contract_of(folder, **fields):
    path = folder / "contract.json"
    path.write_text(json.dumps(fields))
    return path


def isaac_formula(signals, last):
    observation = [
        np.clip(signals["angular_velocity"], -1, 1) * 0.25,
        signals["gravity"],
        signals["command"],
        signals["joint_angles"] - POSE,
        signals["joint_velocities"] * 0.05,
        last,
    ]
    return np.concatenate(observation), lambda raw: POSE + raw * [0.125, 0.125, 0.25, 0.25]


def test_a_run_of_isaac_lab_with_io_descriptors_is_adopted_without_a_contract(tmp_path):
    folder = frameworks.isaaclab(tmp_path / "run", described=True)
    artifact = adopt(folder, None, tmp_path / "out.onnx")
    assert Walk(artifact, frameworks.ISAAC_SIZE).check(isaac_formula)
    recipe = Recipe.of(artifact)
    assert (recipe.name, recipe.rate_hz, recipe.decimation, recipe.episode_steps) == ("quadruped_flat", 50.0, 4, 1000)
    assert recipe.action.elements == tuple(JOINTS)
    assert recipe.action.kp == (25.0,) * 4, "the descriptors' gains are 0 for explicit actuators"
    assert recipe.action.kd == (0.5, 0.5, 0.7, 0.7)
    assert recipe.action.clip == 3.0
    command = next(signal for signal in recipe.signals if signal.command)
    assert (command.low, command.high) == ((-1.0, -0.5, -1.0), (1.5, 0.5, 1.0))


def test_a_run_of_isaac_lab_without_the_joints_order_is_refused_until_a_person_gives_it(tmp_path):
    folder = frameworks.isaaclab(tmp_path / "run")
    with pytest.raises(SamiError, match=r"action\.elements \(unknown: .*--export_io_descriptors"):
        adopt(folder, None, tmp_path / "out.onnx")
    contract = contract_of(tmp_path, action={"elements": JOINTS})
    artifact = adopt(folder / "exported" / "policy.onnx", contract, tmp_path / "out.onnx")
    assert Walk(artifact, frameworks.ISAAC_SIZE).check(isaac_formula)


def test_another_order_of_joints_permutes_what_isaac_lab_gives_by_patterns(tmp_path):
    order = [JOINTS[i] for i in (2, 0, 3, 1)]
    contract = contract_of(tmp_path, action={"elements": order})
    recipe = Recipe.of(adopt(frameworks.isaaclab(tmp_path / "run"), contract, tmp_path / "out.onnx"))
    assert recipe.action.default == (-1.5, 0.1, -1.5, -0.1)
    assert recipe.action.scale == (0.25, 0.125, 0.25, 0.125)


def test_histories_of_isaac_lab_are_stacked_per_term_oldest_first(tmp_path):
    env = frameworks.ENV.replace("history_length: null", "history_length: 2")
    folder = frameworks.isaaclab(tmp_path / "run", env, described=True, size=2 * frameworks.ISAAC_SIZE)
    artifact = adopt(folder, None, tmp_path / "out.onnx")
    past = []

    def formula(signals, last):
        terms, targets = [], isaac_formula(signals, last)[1]
        flat = isaac_formula(signals, last)[0]
        past.append(flat)
        before = past[-2] if len(past) > 1 else flat
        for start, stop in ((0, 3), (3, 6), (6, 9), (9, 13), (13, 17), (17, 21)):
            terms += [before[start:stop], flat[start:stop]]
        return np.concatenate(terms), targets

    assert Walk(artifact, 2 * frameworks.ISAAC_SIZE).check(formula)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("isaaclab.envs.mdp.observations:base_ang_vel", "my_tasks.mdp.observations:base_ang_vel", "base_ang_vel"),
        ("joint_actions:JointPositionAction", "joint_actions:RelativeJointPositionAction", r"action\.meaning"),
        ("velocity_command:UniformVelocityCommand", "pose_command:UniformPoseCommand", "velocity_commands"),
    ],
)
def test_what_isaac_lab_computes_in_code_that_no_table_has_is_refused_by_name(tmp_path, old, new, field):
    folder = frameworks.isaaclab(tmp_path / "run", frameworks.ENV.replace(old, new), described=True)
    with pytest.raises(SamiError, match=field):
        adopt(folder, None, tmp_path / "out.onnx")


@pytest.mark.parametrize(("action", "observed"), [(True, False), (False, True), (True, True)])
def test_joints_are_observed_in_the_actions_order_only_where_both_preserve_it(tmp_path, action, observed):
    """A list with `preserve_order` is in its own order; without it, and for all joints, in the robot's."""
    order = [JOINTS[i] for i in (0, 2, 1, 3)]
    listed = "joint_names:\n" + "".join(f"{{0}}- {name}\n" for name in order)
    env = frameworks.ENV.replace("    joint_names:\n    - .*\n", "    " + listed.format("    "))
    env = env.replace("    preserve_order: false", f"    preserve_order: {str(action).lower()}")
    if observed:
        listed = "          " + listed.format("          ") + "          preserve_order: true\n"
        env = env.replace("          joint_names: null\n", listed)
    folder = frameworks.isaaclab(tmp_path / "run", env, described=True)
    described = folder / "params" / "robot_IO_descriptors.yaml"
    described.write_text(described.read_text().replace(", ".join(JOINTS), ", ".join(order if action else JOINTS)))
    with pytest.raises(SamiError, match=r"signals\.\w+\.elements \(unknown: .* otherwise than the action"):
        adopt(folder, None, tmp_path / "out.onnx")


def test_an_env_yaml_with_sorted_keys_has_lost_the_order_of_its_terms(tmp_path):
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, tag, node: loader.construct_sequence(node))
    env = yaml.dump(yaml.load(frameworks.ENV, Loader), sort_keys=True)
    folder = frameworks.isaaclab(tmp_path / "run", env, described=True)
    with pytest.raises(SamiError, match=r"signals\.\w+\.slice"):
        adopt(folder, None, tmp_path / "out.onnx")


def test_an_observation_of_another_size_than_the_networks_is_refused(tmp_path):
    folder = frameworks.isaaclab(tmp_path / "run", described=True, size=24)
    with pytest.raises(SamiError, match=r"gives 21 numbers .*the network reads 24"):
        adopt(folder, None, tmp_path / "out.onnx")


def test_a_run_of_unitree_rl_lab_names_joints_by_their_motors_and_reorders_the_gains(tmp_path):
    artifact = adopt(frameworks.unitree_lab(tmp_path / "run"), None, tmp_path / "out.onnx")
    recipe = Recipe.of(artifact)
    assert recipe.action.elements == ("motor_2", "motor_0", "motor_3", "motor_1")
    assert recipe.action.kp == (12.0, 10.0, 13.0, 11.0)
    assert recipe.rate_hz == 50.0
    past = []
    pose = np.array([0.1, -0.1, -1.5, -1.6], np.float32)

    def formula(signals, last):
        rotation, angles = signals["angular_velocity"] * 0.2, np.clip(signals["joint_angles"] - pose, -2, 2)
        past.append((rotation, angles))
        before = past[-2] if len(past) > 1 else past[-1]
        observation = [before[0], rotation, signals["command"], before[1], angles, last]
        return np.concatenate(observation), lambda raw: pose + raw * [0.25, 0.25, 0.5, 0.5]

    assert Walk(artifact, 21).check(formula)


def test_a_run_of_unitree_rl_lab_names_joints_as_env_yaml_names_the_motors(tmp_path):
    folder = frameworks.unitree_lab(tmp_path / "run")
    (folder / "params" / "env.yaml").write_text("scene:\n  robot:\n    joint_sdk_names: [a, b, c, d]\n")
    assert Recipe.of(adopt(folder, None, tmp_path / "out.onnx")).action.elements == ("c", "a", "d", "b")


def test_unitree_rl_labs_action_may_move_some_joints_and_its_terms_of_own_code_are_asked_for(tmp_path):
    few = frameworks.DEPLOY.replace("joint_ids_map: [2, 0, 3, 1]", "joint_ids_map: [2, 0, 3, 1, 4, 5]")
    few = few.replace("joint_ids: !!python/object/apply:builtins.slice [null, null, null]", "joint_ids: [5, 0, 1, 2]")
    few = few.replace("stiffness: [10.0, 11.0, 12.0, 13.0]", "stiffness: [10.0, 11.0, 12.0, 13.0, 14.0, 15.0]")
    few = few.replace("damping: [0.1, 0.2, 0.3, 0.4]", "damping: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]")
    few = few.replace("default_joint_pos: [0.1, -0.1, -1.5, -1.6]", "default_joint_pos: [0.1, -0.1, -1.5, -1.6, 0, 0]")
    few = few.replace("scale: [1.0, 1.0, 1.0, 1.0]", "scale: [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]", 1)
    few = few.replace("base_ang_vel:", "torso_rate:")
    folder = frameworks.write_files(
        tmp_path, {"params/deploy.yaml": few, "exported/policy.onnx": frameworks.policy(6 + 3 + 12 + 4)}
    )
    with pytest.raises(SamiError, match=r"signals\.torso_rate\.elements \(unknown: torso_rate has 3 numbers"):
        adopt(folder, None, tmp_path / "out.onnx")
    term = {"name": "torso_rate", "unit": "rad/s", "elements": ["x", "y", "z"], "frame": "torso"}
    recipe = Recipe.of(adopt(folder, contract_of(tmp_path, signals=[term]), tmp_path / "out.onnx"))
    assert recipe.action.elements == ("motor_5", "motor_2", "motor_0", "motor_3")
    assert recipe.action.kp == (15.0, 12.0, 10.0, 13.0)
    signals = {signal.name: signal for signal in recipe.signals}
    assert (signals["torso_rate"].slice, signals["torso_rate"].history.steps) == ((0, 6), 2)
    assert signals["joint_angles"].elements == ("motor_2", "motor_0", "motor_3", "motor_1", "motor_4", "motor_5")


def test_unitree_rl_labs_clip_of_the_last_action_bounds_what_the_network_reads(tmp_path):
    head, _, last = frameworks.DEPLOY.partition("  last_action:")
    clipped = head.replace("clip: null", "clip: [-9.0, 9.0]").replace("clip: [-9.0, 9.0]", "clip: null", 1)
    config = clipped + "  last_action:" + last.replace("clip: null", "clip: [-9.0, 9.0]")
    recipe = Recipe.of(adopt(frameworks.unitree_lab(tmp_path / "run", config), None, tmp_path / "out.onnx"))
    assert recipe.clip == 9.0
    config = config.replace("scale: [0.2, 0.2, 0.2]", "scale: [1.2, 1.2, 1.2]")
    with pytest.raises(SamiError, match=r"last_action\.clip .*in which all other terms stay"):
        adopt(frameworks.unitree_lab(tmp_path / "wide", config), None, tmp_path / "out.onnx")


def sar_formula(signals, last):
    pose = np.array([0.1, -0.1, -1.5, -1.6], np.float32)
    observation = [
        signals["command"] * [2, 2, 0.25],
        signals["angular_velocity"] * 0.25,
        signals["gravity"],
        signals["joint_angles"] - pose,
        signals["joint_velocities"] * 0.05,
        last,
    ]
    return np.clip(np.concatenate(observation), -5, 5), lambda raw: pose + raw * [0.125, 0.125, 0.25, 0.25]


def test_a_policy_of_rl_sar_is_adopted_with_its_joints_in_the_policys_order(tmp_path):
    artifact = adopt(frameworks.rl_sar(tmp_path), None, tmp_path / "out.onnx")
    recipe = Recipe.of(artifact)
    assert recipe.action.elements == tuple(JOINTS), "joint_mapping takes base.yaml's order to the policy's"
    assert recipe.action.kp == (20.0, 21.0, 22.0, 23.0)
    assert Walk(artifact, 21).check(sar_formula)


@pytest.mark.parametrize(("order", "first"), [("[2, 1, 0]", "oldest"), ("[0, 1, 2]", "newest")])
def test_rl_sar_stacks_whole_frames_and_begins_with_zeros(tmp_path, order, first):
    config = frameworks.RL_SAR.replace("observations_history: []", f"observations_history: {order}")
    artifact = adopt(frameworks.rl_sar(tmp_path, config, size=63), None, tmp_path / "out.onnx")
    frames = [np.zeros(21, np.float32)] * 2

    def formula(signals, last):
        frame, targets = sar_formula(signals, last)
        frames.append(frame)
        stack = frames[-3:] if first == "oldest" else frames[-3:][::-1]
        return np.concatenate(stack), targets

    assert Walk(artifact, 63).check(formula)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("wheel_indices: []", "wheel_indices: [2]", "wheel_indices"),
        ('"gravity_vec", ', '"my_phase", ', "my_phase"),
        ("observations_history: []", "observations_history: [2, 0, 1]", "observations_history"),
        ('model_name: "policy.onnx"', 'model_name: "policy.pt"', None),
        ("joint_mapping: [1, 0, 3, 2]", "joint_mapping: [1, 0, 3, 3]", "joint_mapping"),
        ("action_scale: [0.125, 0.125, 0.25, 0.25]", "action_scale: [0.125]", r"action_scale .*expected 4 numbers"),
        ("clip_obs: 5.0", "clip_obs: .nan", "clip_obs"),
        ("rl_kp: [20.0, 21.0, 22.0, 23.0]", "rl_kp: [1.0e+300, 1, 1, 1]", "rl_kp"),
    ],
)
def test_a_configuration_of_rl_sar_that_cannot_be_adopted_is_refused_in_one_line(tmp_path, old, new, message):
    size = 63 if "2, 0, 1" in new else 21
    folder = frameworks.rl_sar(tmp_path, frameworks.RL_SAR.replace(old, new), size)
    if message is None:  # the ONNX file beside it is read instead
        assert Recipe.of(adopt(folder, None, tmp_path / "out.onnx")).rate_hz == 50.0
        return
    with pytest.raises(SamiError, match=message) as refused:
        adopt(folder, None, tmp_path / "out.onnx")
    assert "\n" not in str(refused.value)


def test_unitree_rl_gyms_simulation_is_asked_for_the_joints_and_its_robot_has_the_motors(tmp_path):
    simulated = frameworks.unitree_gym(tmp_path / "simulated")
    with pytest.raises(SamiError, match=r"action\.elements \(unknown: .*xml_path"):
        adopt(simulated, None, tmp_path / "out.onnx")
    artifact = adopt(
        frameworks.unitree_gym(tmp_path / "real", frameworks.UNITREE_GYM_REAL), None, tmp_path / "out.onnx"
    )
    recipe = Recipe.of(artifact)
    assert recipe.action.elements == ("motor_6", "motor_7", "motor_8", "motor_9")
    assert next(signal.high for signal in recipe.signals if signal.command) == (0.8, 0.5, 1.57)
    pose = np.array([-0.1, 0.0, 0.3, -0.2], np.float32)

    def formula(signals, last):
        observation = [
            signals["angular_velocity"] * 0.25,
            signals["gravity"],
            signals["command"] * [2, 2, 0.25],
            signals["joint_angles"] - pose,
            signals["joint_velocities"] * 0.05,
            last,
            signals["gait_phase"],
        ]
        return np.concatenate(observation), lambda raw: pose + raw * 0.25

    assert Walk(artifact, 23).check(formula)


def test_a_yaml_in_unitree_rl_gyms_checkout_has_its_policy_where_policy_path_says(tmp_path):
    config = "policy_path: '{LEGGED_GYM_ROOT_DIR}/deploy/pre_train/robot/walk.onnx'\n" + "\n".join(
        line for line in frameworks.UNITREE_GYM_REAL.splitlines() if not line.startswith("policy_path")
    )
    files = {"deploy/deploy_real/configs/robot.yaml": config, "deploy/pre_train/robot/walk.onnx": frameworks.policy(23)}
    frameworks.write_files(tmp_path, files)
    robot_file = tmp_path / "deploy" / "deploy_real" / "configs" / "robot.yaml"
    assert Recipe.of(adopt(robot_file, None, tmp_path / "out.onnx")).name == "robot"
    robot_file.write_text(config.replace("/deploy/pre_train", "/../pre_train"))
    with pytest.raises(SamiError, match="has 0 policies"):
        adopt(robot_file, None, tmp_path / "out.onnx")


def test_every_field_of_a_reading_has_a_source(tmp_path):
    folders = [
        frameworks.isaaclab(tmp_path / "isaaclab", described=True),
        frameworks.unitree_lab(tmp_path / "unitree_rl_lab"),
        frameworks.rl_sar(tmp_path / "rl_sar"),
        frameworks.unitree_gym(tmp_path / "unitree_rl_gym"),
    ]
    from sami_runtime.adoption.recipe import fields_of

    for folder in folders:
        reading = read_policy(folder)
        for name, _ in fields_of(reading.values):
            assert reading.source_of(name).kind in ("file", "table"), f"{folder}: {name}"
            assert reading.source_of(name).where
