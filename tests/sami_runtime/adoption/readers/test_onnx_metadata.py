"""Policies of mjlab and holosoma are adopted by the metadata of their files, and act as their runtimes let them."""

import json

import numpy as np
import pytest

from sami_runtime import Session, adopt
from sami_runtime.adoption.recipe import Recipe
from sami_runtime.errors import SamiError
from tests.making import foreign

JOINTS = ["hip", "thigh", "calf"]
POSE = np.float32([0.1, 0.9, -1.8])
MJLAB = {
    "joint_names": "hip,thigh,calf",
    "joint_stiffness": "20.000,20.000,40.000",
    "joint_damping": "1.000,1.000,2.000",
    "default_joint_pos": "0.100,0.900,-1.800",
    "observation_names": "base_ang_vel,projected_gravity,joint_pos,joint_vel,actions,command",
    "observation_terms_scale": "1.000,1.000,1.000,0.050,1.000,2.000;2.000;0.250",
    "observation_terms_flatten_history_dim": "1.000,1.000,1.000,1.000,1.000,1.000",
    "observation_terms_history_length": "0.000,0.000,0.000,2.000,0.000,0.000",
    "observation_terms_clip": "-1.000;1.000,-inf;inf,-inf;inf,-inf;inf,-inf;inf,-inf;inf",
    "action_scale": "0.373,0.373,0.249",
}
G1 = ["left_hip_pitch_joint", *(f"joint_{number}" for number in range(1, 29))]
RANGES = {"lin_vel_x": [-1.0, 1.0], "lin_vel_y": [-0.5, 0.5], "ang_vel_yaw": [-2.0, 2.0], "heading": [-3.14, 3.14]}
HOLOSOMA = {
    "dof_names": json.dumps(G1),
    "kp": json.dumps([40.0] * 29),
    "kd": json.dumps([2.0] * 29),
    "command_ranges": json.dumps(RANGES),
}


@pytest.fixture
def policy(tmp_path):
    """Writes a feed-forward policy with metadata, and a contract of some fields; returns both paths."""

    def write(size, actions, metadata, **fields):
        model = foreign.feed_forward(size, actions)
        for key, value in metadata.items():
            model.metadata_props.add(key=key, value=value)
        return foreign.Foreign(tmp_path).write(model, fields)

    return write


def network(frame, actions):
    weights = foreign.weights_of(len(frame), actions)
    return np.tanh(np.float32(frame) @ weights["w"] + weights["b"])


def observation_of(contract, rng):
    return {signal.name: rng.normal(size=signal.size).astype(np.float32) for signal in contract.observation}


def test_mjlabs_metadata_is_the_whole_recipe_but_the_rate(policy, tmp_path):
    paths = policy(21, 3, MJLAB, rate_hz=50.0)
    artifact = adopt(*paths, tmp_path / "out.onnx")
    session, rng, last = Session(artifact), np.random.default_rng(0), np.zeros(3, np.float32)
    velocities = None
    for _ in range(20):
        signals = observation_of(artifact.contract, rng)
        now = signals["joint_velocities"] * np.float32(0.05)
        velocities = now if velocities is None else velocities
        frame = [
            *np.clip(signals["angular_velocity"], -1, 1),
            *signals["gravity"],
            *(signals["joint_angles"] - POSE),
            *velocities,
            *now,
            *last,
            *(signals["command"] * np.float32([2, 2, 0.25])),
        ]
        velocities, last = now, network(frame, 3)
        expected = POSE + last * np.float32([0.373, 0.373, 0.249])
        np.testing.assert_allclose(session.step(signals).action, expected, atol=1e-5)
    recipe = Recipe.of(artifact)
    assert (recipe.action.kp, recipe.action.kd) == ((20.0, 20.0, 40.0), (1.0, 1.0, 2.0))
    source = artifact.contract.training["adopted"]["sources"]["action.scale"]
    assert source == {"kind": "file", "where": "policy.onnx: metadata action_scale"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, r"rate_hz \(unknown: mjlab's metadata has no rate"),
        (
            {"observation_names": MJLAB["observation_names"].replace("command", "height_scan")},
            "unknown observation of .*'height_scan'",
        ),
        ({"joint_names": "hip,thigh"}, "metadata joint_names is .*; expected 3 joints, one an action"),
        ({"default_joint_pos": "0.1,zero,2.0"}, "metadata default_joint_pos is .*expected a list of numbers"),
        ({"observation_terms_scale": "1.000,1.000"}, "observation_terms_scale is .*; expected an entry for each of 6"),
        ({"observation_terms_history_length": "0,0,0,9,0,0"}, "gives 42 numbers .*; the network reads 21"),
        ({"observation_terms_flatten_history_dim": "True,True,True,False,True,True"}, "expected True, or no history"),
        ({"observation_terms_flatten_history_dim": "1.000,1.000,1.000,0.000,1.000,1.000"}, "expected True, or no hist"),
    ],
)
def test_what_mjlabs_metadata_does_not_say_is_refused_in_one_line(policy, tmp_path, change, message):
    fields = {} if not change else {"rate_hz": 50.0}
    with pytest.raises(SamiError, match=message) as caught:
        adopt(*policy(21, 3, MJLAB | change, **fields), tmp_path / "out.onnx")
    assert "\n" not in str(caught.value)


def test_holosomas_locomotion_is_adopted_by_its_joints_and_a_table(policy, tmp_path):
    artifact = adopt(policy(100, 29, HOLOSOMA)[0], None, tmp_path / "out.onnx")
    session, rng, last = Session(artifact), np.random.default_rng(0), np.zeros(29, np.float32)
    pose = np.float32(Recipe.of(artifact).action.default)
    assert (pose[0], pose[3], pose[9], pose[18]) == tuple(np.float32([-0.312, 0.669, 0.669, 0.6]))
    for _ in range(10):
        signals = observation_of(artifact.contract, rng)
        frame = [  # sorted by holosoma's names: actions, base_ang_vel, command_..., cos_phase, dof_..., sin_phase
            *last,
            *(signals["angular_velocity"] * np.float32(0.25)),
            *signals["command_ang_vel"],
            *signals["command_lin_vel"],
            *signals["cos_phase"],
            *(signals["joint_angles"] - pose),
            *(signals["joint_velocities"] * np.float32(0.05)),
            *signals["gravity"],
            *signals["sin_phase"],
        ]
        last = network(frame, 29)
        np.testing.assert_allclose(session.step(signals).action, pose + np.float32(0.25) * last, atol=1e-5)
    command = next(signal for signal in artifact.contract.observation if signal.name == "command_lin_vel")
    assert (command.low, command.high) == ((-1.0, -0.5), (1.0, 0.5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dof_names": json.dumps(["hip", *G1[1:]])}, r"rate_hz \(unknown: .*action\.scale \(unknown"),
        ({"command_ranges": "null"}, r"rate_hz \(unknown"),
        ({"kp": "[1, 2]"}, "metadata kp is .*; expected 29 numbers"),
        ({"kp": "[" * 9999}, "metadata kp is no JSON"),
        ({"command_ranges": '{"lin_vel_x": 1}'}, "metadata command_ranges.lin_vel_x is 1; expected 2 numbers|numbers"),
    ],
)
def test_what_holosomas_metadata_does_not_say_is_refused_in_one_line(policy, tmp_path, change, message):
    with pytest.raises(SamiError, match=message) as caught:
        adopt(policy(100, 29, HOLOSOMA | change)[0], None, tmp_path / "out.onnx")
    assert "\n" not in str(caught.value)
