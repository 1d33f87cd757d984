"""`sami diagnose` on a policy that the test writes itself: damped joints, a tilt that is corrected, a command."""

import json

import numpy as np
import pytest

from sami_runtime import adopt, shipped_models
from sami_runtime.adoption.diagnosis import diagnose
from sami_runtime.adoption.network import PolicyNetwork, adopted_policy
from sami_runtime.adoption.recipe import Recipe
from sami_runtime.errors import SamiError
from tests.making import foreign

JOINTS = ["FR_hip", "FR_knee", "FL_hip", "FL_knee", "RR_hip", "RR_knee", "RL_hip", "RL_knee"]
COUNT = len(JOINTS)
SIZE = 3 + 2 + 3 * COUNT
PARTS = {"gravity": (0, 3), "command": (3, 5), "q": (5, 13), "dq": (13, 21), "last": (21, 29)}
ROBOT = (
    '<mujoco><compiler angle="radian"/><worldbody><body><freejoint/><geom size=".1"/>{}</body></worldbody>'
    "<actuator>{}</actuator></mujoco>"
)


def weights(**changes):
    rng = np.random.default_rng(0)
    blocks = {
        "gravity": np.outer([1.0, 1.0, 2.0], np.ones(COUNT)) * rng.uniform(0.5, 1, (3, COUNT)),
        "command": rng.uniform(0.3, 1, (2, COUNT)),
        "q": -2 * np.eye(COUNT) + 0.2 * rng.normal(size=(COUNT, COUNT)),
        "dq": -np.eye(COUNT) + 0.1 * rng.normal(size=(COUNT, COUNT)),
        "last": 0.5 * np.eye(COUNT),
    } | changes
    matrix = np.concatenate([blocks[name] for name in PARTS])
    return {"w": matrix.astype(np.float32), "b": matrix[2].astype(np.float32)}  # upright, gravity adds nothing


def policy(values=None, last_operator=None):
    make = foreign.helper.make_node
    nodes = [make("Gemm", ["obs", "w", "b"], ["z" if last_operator else "actions"])]
    nodes += [make(last_operator, ["z"], ["actions"])] if last_operator else []
    inputs, outputs = [foreign.info("obs", [1, SIZE])], [foreign.info("actions", [1, COUNT])]
    return foreign.model(nodes, inputs, outputs, values or weights())


def document(joints=JOINTS, gravity=1.0, velocities=0.05, **action):
    fields = foreign.document(
        signals=[
            foreign.signal("gravity", "1", list("xyz"), [0, 3], gravity),
            foreign.signal("command", "m/s", ["forward", "left"], [3, 5], command=True),
            foreign.signal("joint_positions", "rad", list(joints), [5, 13], offset=[0.1, -1.2] * 4),
            foreign.signal("joint_velocities", "rad/s", list(joints), [13, 21], velocities),
        ],
        last_action={"slice": [21, 29], "kind": "raw"},
    )
    fields["action"] |= {"elements": JOINTS, "scale": 0.25, "default": [0.1, -1.2] * 4, "clip": 10.0} | action
    return fields


@pytest.fixture
def diagnosed(tmp_path):
    """Adopts a policy in memory and diagnoses it; returns findings by check."""

    def run(model=None, recipe=None, robot=None):
        paths = foreign.Foreign(tmp_path).write(model or policy(), recipe or document())
        result = diagnose(adopted_policy(*paths), robot)
        assert result.passed == all(finding.status != "fault" for finding in result.findings)
        for finding in result.findings:
            assert finding.status == "ok" or finding.advice, finding
            json.dumps(finding.numbers)
        return {finding.check: finding for finding in result.findings}

    return run


def robot_of(tmp_path, names=JOINTS, effort=23.7, span="-2 2"):
    bodies = "".join(
        f'<body><joint name="{name}_joint" range="{span}"/><geom size=".05" pos=".1 0 0"/></body>' for name in names
    )
    motors = "".join(f'<motor joint="{name}_joint" ctrlrange="-{effort} {effort}"/>' for name in names)
    path = tmp_path / "robot.xml"
    path.write_text(ROBOT.format(bodies, motors))
    return path


def faults(findings):
    return sorted(check for check, finding in findings.items() if finding.status == "fault")


def test_a_sound_policy_has_no_fault(diagnosed, tmp_path):
    pytest.importorskip("mujoco")
    findings = diagnosed(robot=robot_of(tmp_path))
    assert faults(findings) == []
    assert findings["joint order"].numbers["declared"] > 0.9
    assert findings["joints of the robot"].status == "ok"
    assert findings["torques"].status == "ok"


@pytest.mark.parametrize(
    ("joints", "words"),
    [
        (JOINTS[2:4] + JOINTS[:2] + JOINTS[6:] + JOINTS[4:6], "left and right are swapped"),
        (JOINTS[4:] + JOINTS[:4], "front and rear are swapped"),
        (JOINTS[::2] + JOINTS[1::2], "grouped by"),
        ([JOINTS[i] for i in (3, 0, 7, 1, 6, 2, 5, 4)], f"FR_hip responds to {JOINTS[3]}"),
    ],
)
def test_another_order_of_the_joints_is_a_fault_with_its_name(diagnosed, joints, words):
    findings = diagnosed(recipe=document(joints))
    assert faults(findings) == ["joint order"]
    assert words in findings["joint order"].fact


def test_an_order_that_cannot_be_inferred_is_unclear_and_not_a_guess(diagnosed):
    mixed = np.random.default_rng(3).normal(size=(2, COUNT, COUNT))
    findings = diagnosed(policy(weights(q=mixed[0], dq=0.3 * mixed[0] + mixed[1])))
    assert findings["joint order"].status == "unclear"
    assert "cannot be inferred" in findings["joint order"].advice


def test_wrong_signs_are_faults(diagnosed):
    assert faults(diagnosed(recipe=document(gravity=-1.0))) == ["sign of gravity"]
    assert faults(diagnosed(recipe=document(velocities=-0.05))) == ["sign of velocities"]


def test_a_joint_whose_sign_is_turned_on_one_side_is_a_fault_and_on_both_sides_is_not(diagnosed):
    turned = np.eye(COUNT)
    turned[JOINTS.index("FL_knee"), JOINTS.index("FL_knee")] = -1.0
    whole = weights()["w"]
    q, dq = (whole[slice(*PARTS[name])] for name in ("q", "dq"))
    findings = diagnosed(policy(weights(q=turned @ q, dq=turned @ dq)))
    assert faults(findings) == ["sign of single joints"]
    assert "FL_knee +1" in findings["sign of single joints"].fact
    turned[JOINTS.index("FR_knee"), JOINTS.index("FR_knee")] = -1.0
    findings = diagnosed(policy(weights(q=turned @ q, dq=turned @ dq)))
    assert findings["sign of single joints"].status == "ok", "a policy may swing a pair of joints so"


def test_where_joints_do_not_answer_for_themselves_the_sign_of_a_single_one_is_unclear(diagnosed):
    mixed = np.random.default_rng(3).normal(size=(2, COUNT, COUNT))
    findings = diagnosed(policy(weights(q=mixed[0], dq=0.3 * mixed[0] + mixed[1])))
    assert findings["sign of single joints"].status == "unclear"


def test_an_ignored_command_is_a_fault_and_another_dead_input_is_not(diagnosed):
    findings = diagnosed(policy(weights(command=np.outer([0.0, 1.0], np.ones(COUNT)))))
    assert faults(findings) == ["command command"]
    assert "ignores forward" in findings["command command"].fact
    findings = diagnosed(policy(weights(last=np.zeros((COUNT, COUNT)))))
    assert faults(findings) == []
    assert findings["dead inputs"].status == "unclear"
    assert findings["dead inputs"].numbers["dead"] == COUNT


def test_infinite_outputs_at_extreme_inputs_are_a_fault(diagnosed):
    huge = weights()
    findings = diagnosed(policy({"w": huge["w"] * 3, "b": huge["b"]}, "Exp"))
    assert faults(findings) == ["extreme inputs"]
    assert "NaN or infinity" in findings["extreme inputs"].fact


def test_outputs_at_their_clip_are_saturated(diagnosed):
    assert "saturation" in faults(diagnosed(recipe=document(clip=1e-3)))


def test_gains_are_judged_by_the_torque_limits_of_the_recipe_or_of_the_robot(diagnosed, tmp_path):
    pytest.importorskip("mujoco")
    assert diagnosed()["torques"].status == "unclear", "nothing says the limits"
    assert faults(diagnosed(recipe=document(kp=2000.0, effort=20.0))) == ["torques"]
    assert faults(diagnosed(robot=robot_of(tmp_path, effort=0.1))) == ["torques"]
    assert faults(diagnosed(recipe=document(kp=0.5, kd=20.0, effort=20.0))) == ["gains"]


def test_the_robot_must_have_the_joints_and_the_default_pose_in_their_ranges(diagnosed, tmp_path):
    pytest.importorskip("mujoco")
    findings = diagnosed(robot=robot_of(tmp_path, ["FL_hip", "elbow"]))
    assert faults(findings) == ["joints of the robot"]
    assert "FL_knee" in findings["joints of the robot"].fact
    findings = diagnosed(robot=robot_of(tmp_path, span="-1 1"))
    assert faults(findings) == ["default pose"]
    (tmp_path / "robot.xml").write_text("<mujoco")
    with pytest.raises(SamiError, match="cannot be read"):
        diagnosed(robot=tmp_path / "robot.xml")


def test_the_network_without_its_recipe_answers_as_the_original(tmp_path):
    paths = foreign.Foreign(tmp_path).write(policy(), document())
    artifact = adopted_policy(*paths)
    rows = np.random.default_rng(0).normal(size=(5, SIZE))
    values = weights()
    expected = rows @ values["w"] + values["b"]
    np.testing.assert_allclose(PolicyNetwork(artifact).answer({"obs": rows}), expected, atol=1e-5)
    assert Recipe.of(artifact).name == "walker"


def test_a_file_that_describes_itself_is_not_taken_for_a_policy_without_a_recipe(tmp_path):
    with pytest.raises(SamiError, match="has no recipe, because `sami adopt` did not write it"):
        adopted_policy(shipped_models()["panda-satesac"])
    adopted = tmp_path / "adopted.onnx"
    whole = adopt(*foreign.Foreign(tmp_path).write(policy(), document()), adopted).model_bytes
    adopted.write_bytes(whole.replace(b"walker", b"talker"))
    with pytest.raises(SamiError, match="was changed after its export"):
        adopted_policy(adopted)


def test_a_recurrent_network_is_followed_step_by_step_and_begins_anew_with_each_episode(tmp_path):
    recipe = foreign.document(state=foreign.STATES)
    artifact = adopted_policy(*foreign.Foreign(tmp_path).write(foreign.recurrent(), recipe))
    network = PolicyNetwork(artifact)
    rows = np.tile(np.random.default_rng(0).normal(size=(3, 8)), (2, 1))
    answers = network.follow({"obs": rows}, np.array([0, 1, 2, 0, 1, 2]))
    np.testing.assert_array_equal(answers[:3], answers[3:])
    np.testing.assert_allclose(answers[:1], network.answer({"obs": rows[:1]}), atol=1e-6)
    assert np.abs(answers[1] - network.answer({"obs": rows[1:2]})[0]).max() > 1e-4
