"""Files of frameworks that are damaged or hostile are refused in one line, and nothing in them is created or called."""

import json
import struct
import time

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.external_data_helper import convert_model_to_external_data

from sami_runtime import adopt
from sami_runtime.adoption.adopt import read_policy
from sami_runtime.adoption.readers.documents import Document, read_yaml
from sami_runtime.adoption.recipe import Recipe, fields_of, moves_robot
from sami_runtime.errors import ContractError, SamiError
from sami_runtime.session.session import Session
from tests.making import frameworks
from tests.making.foreign import document, feed_forward, info, model


def yaml_of(tmp_path, text):
    path = tmp_path / "file.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_tags_of_python_are_plain_data(tmp_path):
    text = f"""
a: !!python/tuple [1, 2]
b: !!python/object/apply:os.mkdir ["{tmp_path / "made"}"]
c: !!python/name:os.system ''
d: !!python/object/new:builtins.list {{x: 1}}
e: !mine 3
"""
    table = read_yaml(yaml_of(tmp_path, text))
    assert table["a"] == [1, 2]
    assert table["b"] == [str(tmp_path / "made")]
    assert table["d"] == {"x": 1}
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 5000, "nested deeper than"),
        ("a: " + "[" * 40 + "]" * 40 + "\nb: 1", None),
        ("{a: " * 60 + "1" + "}" * 60, "nested deeper than"),
        ("a: &x [1, *x]", "contains itself"),
        (
            "a: &a0 [1, 1]\n" + "".join(f"b{i}: &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]\n" for i in range(12)),
            "more than",
        ),
        ("a: [1, 2", "cannot be read as YAML"),
        ("a: {b}: c", "cannot be read as YAML"),
        ("? [1]\n: 2", "cannot be read as YAML"),
        ("- 1\n- 2", "holds a list"),
        ("", "holds a NoneType"),
        (b"\xff\xff: 1", "YAML"),
        ("a: 2026-99-99", "cannot be read as YAML"),
        ("a: !!int x", "cannot be read as YAML"),
        ("x" * (5 << 20), "larger than"),
    ],
)
def test_yaml_that_no_framework_writes_is_refused_in_one_line(tmp_path, text, message):
    if message is None:
        assert read_yaml(yaml_of(tmp_path, text))["b"] == 1
        return
    with pytest.raises(ContractError, match=message) as refused:
        read_yaml(yaml_of(tmp_path, text))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("pattern", ["(a+)+$", ".*.*.*.*.*.*x", "[", "(?P<x>", "a" * 300, "(x){9999999}"])
def test_patterns_that_could_take_forever_are_refused(tmp_path, pattern):
    start = time.perf_counter()
    table = Document(yaml_of(tmp_path, json.dumps({"scale": {pattern: 1.0}})))
    with pytest.raises(ContractError, match="scale"):
        table.by_joint("scale", ["a" * 60])
    assert time.perf_counter() - start < 2


FOLDERS = {
    "isaaclab": (lambda folder: frameworks.isaaclab(folder, described=True), "params/env.yaml"),
    "unitree_rl_lab": (frameworks.unitree_lab, "params/deploy.yaml"),
    "rl_sar": (frameworks.rl_sar, "config.yaml"),
    "unitree_rl_gym": (frameworks.unitree_gym, "robot.yaml"),
    "leapp": (lambda folder: leapp_folder(folder), "Reach.yaml"),
}


@pytest.mark.parametrize("framework", FOLDERS)
def test_no_damage_to_a_document_escapes_as_another_error(tmp_path, framework):
    make, name = FOLDERS[framework]
    folder = make(tmp_path)
    text = (folder / name).read_text()
    lines = text.splitlines()
    random = np.random.default_rng(0)
    odd = [
        "null",
        "[]",
        "{}",
        "-1",
        "1e400",
        ".nan",
        "true",
        "'text'",
        "[1, [2]]",
        "!!python/tuple [1]",
        "99999999999999999",
    ]
    for _ in range(120):
        damaged = list(lines)
        for _ in range(random.integers(1, 3)):
            at = int(random.integers(len(damaged)))
            kind = random.integers(3)
            if kind == 0:
                damaged.pop(at)
            elif kind == 1 and ":" in damaged[at]:
                damaged[at] = f"{damaged[at].partition(':')[0]}: {odd[random.integers(len(odd))]}"
            else:
                damaged[at] = damaged[at][: random.integers(len(damaged[at]) + 1)]
        (folder / name).write_text("\n".join(damaged))
        try:
            read_policy(folder)
        except SamiError as error:
            message = str(error)
        else:
            message = ""
        assert "\n" not in message


@pytest.mark.parametrize("framework", FOLDERS)
def test_a_cut_off_document_is_refused_or_lacks_nothing_that_moves_the_robot(tmp_path, framework):
    make, name = FOLDERS[framework]
    folder = make(tmp_path)
    text = (folder / name).read_text()
    whole = moving_fields(read_policy(folder))
    for end in range(0, len(text) - 1, max(1, len(text) // 12)):
        (folder / name).write_text(text[:end])
        try:
            adopt(folder, None, tmp_path / "out.onnx")
        except SamiError:
            continue
        assert moving_fields(read_policy(folder)) == whole


def moving_fields(reading):
    return {name: value for name, value in fields_of(reading.values) if moves_robot(name)}


def leapp_model():
    """`Reach` as LEAPP exports it: signals and the last action in, joint targets and the action out."""
    weights = {
        "w": np.random.default_rng(0).normal(0, 0.4, (11, 4)).astype(np.float32),
        "scale": np.full(4, 0.5, np.float32),
        "pose": np.full(4, 0.1, np.float32),
    }
    nodes = [
        helper.make_node("Concat", ["robot_joint_pos", "robot_root_ang_vel_b", "raw_actions_in"], ["obs"], axis=1),
        helper.make_node("MatMul", ["obs", "w"], ["z"]),
        helper.make_node("Tanh", ["z"], ["raw_actions_out"]),
        helper.make_node("Mul", ["raw_actions_out", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "pose"], ["robot_joint_pos_target"]),
    ]
    inputs = [("robot_joint_pos", 4), ("robot_root_ang_vel_b", 3), ("raw_actions_in", 4)]
    outputs = [("robot_joint_pos_target", 4), ("raw_actions_out", 4)]
    infos = [[info(name, [1, size]) for name, size in tensors] for tensors in (inputs, outputs)]
    return model(nodes, *infos, weights), weights["w"]


def leapp_folder(folder, yaml=frameworks.LEAPP, initial=0.0):
    header = json.dumps({"Reach/raw_actions_in": {"dtype": "F32", "shape": [1, 4], "data_offsets": [0, 16]}}).encode()
    values = struct.pack("<Q", len(header)) + header + struct.pack("<4f", *[initial] * 4)
    files = {"Reach.yaml": yaml, "Reach_initial_values.safetensors": values}
    return frameworks.write_files(folder, files | {"Reach.onnx": leapp_model()[0].SerializeToString()})


@pytest.mark.parametrize("initial", [0.0, 0.25])
def test_a_policy_of_leapp_is_adopted_without_a_contract(tmp_path, initial):
    artifact = adopt(leapp_folder(tmp_path, initial=initial), None, tmp_path / "out.onnx")
    session, weights, last = Session(artifact), leapp_model()[1], np.full(4, initial, np.float32)
    random = np.random.default_rng(1)
    for _ in range(50):
        signals = {
            signal.name: random.normal(size=signal.size).astype(np.float32) for signal in artifact.contract.observation
        }
        last = np.tanh(np.concatenate([*signals.values(), last]) @ weights)
        np.testing.assert_allclose(session.step(signals).action, last * 0.5 + 0.1, atol=1e-5)
    recipe = Recipe.of(artifact)
    assert recipe.rate_hz == 50.0
    assert recipe.signals[1].frame == "body"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("model_path: Reach.onnx", "model_path: ../Reach.onnx", "model_path"),
        ("model_path: Reach.onnx", "model_path: Reach.pt", "model_path"),
        ("initial_values: Reach_initial_values.safetensors", "initial_values: /etc/passwd", "initial_values"),
        ("Reach/raw_actions_out: [Reach/raw_actions_in]", "Other/x: [Reach/raw_actions_in]", "feedback_flow"),
        ("kind: target/joint/position", "kind: target/body/position", "target/body/position"),
        ("    frequency: 50.0", "    other: 1", "rate_hz"),
        ("      element_names: [[x, y, z]]\n", "", r"robot_root_ang_vel_b\.elements"),
    ],
)
def test_a_description_of_leapp_that_cannot_be_adopted_is_refused(tmp_path, old, new, message):
    with pytest.raises(SamiError, match=message):
        adopt(leapp_folder(tmp_path, frameworks.LEAPP.replace(old, new)), None, tmp_path / "out.onnx")


def with_external_data(folder, location="policy.onnx.data"):
    """A policy with its weights in a file beside it, as torch exports it, and its recipe."""
    exported = feed_forward()
    convert_model_to_external_data(exported, location=location, size_threshold=0)
    onnx.save(exported, folder / "policy.onnx")
    (folder / "my.json").write_text(json.dumps(document()))
    return folder / "policy.onnx", folder / "my.json"


def test_weights_in_a_file_beside_the_policy_are_adopted_into_one_file(tmp_path):
    policy, recipe = with_external_data(tmp_path)
    external = adopt(policy, recipe, tmp_path / "out.onnx")
    whole = tmp_path / "whole.onnx"
    whole.write_bytes(feed_forward().SerializeToString())
    inside = adopt(whole, recipe, tmp_path / "other.onnx")
    steps = external.contract.golden_steps(), inside.contract.golden_steps()
    np.testing.assert_array_equal(steps[0].answers["action"], steps[1].answers["action"])


@pytest.mark.parametrize("location", ["/etc/passwd", "../secret", "folder/../../secret"])
def test_weights_outside_of_the_policys_folder_are_not_read(tmp_path, location):
    policy, recipe = with_external_data(tmp_path)
    exported = onnx.load(policy, load_external_data=False)
    for tensor in exported.graph.initializer:
        for entry in tensor.external_data:
            entry.value = location if entry.key == "location" else entry.value
    policy.write_bytes(exported.SerializeToString())
    with pytest.raises(SamiError, match="only a file in the same folder"):
        adopt(policy, recipe, tmp_path / "out.onnx")


@pytest.mark.parametrize(("key", "value"), [("length", "99999"), ("offset", "-1"), ("offset", "x"), ("length", "1e3")])
def test_weights_outside_of_the_file_beside_the_policy_are_refused(tmp_path, key, value):
    policy, recipe = with_external_data(tmp_path)
    exported = onnx.load(policy, load_external_data=False)
    for entry in exported.graph.initializer[0].external_data:
        entry.value = value if entry.key == key else entry.value
    policy.write_bytes(exported.SerializeToString())
    with pytest.raises(SamiError, match="lie outside of"):
        adopt(policy, recipe, tmp_path / "out.onnx")


def test_a_file_of_weights_that_is_missing_is_named(tmp_path):
    policy, recipe = with_external_data(tmp_path)
    (tmp_path / "policy.onnx.data").unlink()
    with pytest.raises(SamiError, match=r"policy\.onnx\.data, which is not beside it"):
        adopt(policy, recipe, tmp_path / "out.onnx")
