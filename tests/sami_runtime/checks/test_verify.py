"""`verify` passes what was exported and fails what was changed, at whatever step the change shows."""

import re

import numpy as np
import pytest

from sami_runtime.checks.verify import verify
from sami_runtime.errors import CheckFailed

NAMES = ["file", "operators", "contract", "weights", "inputs and outputs", "golden", "session"]
NAMES += ["golden replay", "closed loop", "reset", "batch"]


def failed(verification):
    return {check.name: check.detail for check in verification.checks if not check.passed}


def test_an_exported_policy_passes_every_check(make, policy):
    report = verify(make.write(policy, golden=make.golden_of(policy)))
    assert [check.name for check in report.checks] == NAMES
    assert report.passed, str(report)
    assert str(report).endswith("all 11 checks passed")
    report.require()


def test_a_memoryless_policy_passes_too(make):
    policy = make.memoryless()
    observations = make.observations(8)
    actions, contexts = policy.reference(observations)
    golden = make.pack(policy, observations, actions, {"action": actions, "context": contexts}, (0, 3))
    report = verify(make.write(policy, golden=golden))
    assert report.passed, str(report)
    assert "own action fed back at 8 of 8 steps" in str(report)


def test_the_closed_loop_feeds_back_the_policys_own_actions(make, policy):
    observations = make.observations(20)
    actions, contexts = policy.reference(observations, resets=(0, 9))
    golden = make.pack(policy, observations, actions, {"action": actions, "context": contexts}, (0, 9))
    report = verify(make.write(policy, golden=golden))
    assert report.passed, str(report)
    assert "own action fed back at 20 of 20 steps" in str(report)


@pytest.mark.parametrize("weight", ["Wx", "Wm", "Wc", "Wa"])
def test_one_changed_weight_fails_although_the_hash_was_rewritten(make, policy, onnx_tools, weight):
    to_array, from_array = onnx_tools[2].to_array, onnx_tools[2].from_array
    generator = np.random.default_rng(3)

    def perturb(model):
        tensor = next(t for t in model.graph.initializer if t.name == weight)
        value = to_array(tensor).copy()
        value.flat[generator.integers(value.size)] += 1e-3
        tensor.CopyFrom(from_array(value, weight))

    report = verify(make.write(policy, edit=perturb, golden=make.golden_of(policy)))
    assert {"golden replay", "closed loop"} <= failed(report).keys() <= {"golden replay", "closed loop"}
    assert re.search(r"largest error \d\.\de-0\d in (action|context)\[\d\] at step \d+ \(", str(report))
    with pytest.raises(CheckFailed, match="2 of 11 checks failed"):
        report.require()


@pytest.mark.parametrize("step", [0, 6, 15])
def test_an_error_at_any_step_fails_and_is_located(make, policy, step):
    steps = make.contract_of(policy, golden=make.golden_of(policy)).golden_steps()
    steps.answers["action"][step, 1] += 0.5
    report = verify(make.write(policy, golden=make.contract_of(policy).pack_golden(steps)))
    assert f"largest error 5.0e-01 in action[1] at step {step} (" in failed(report)["golden replay"]


@pytest.mark.parametrize(("share", "passes"), [(1e-6, True), (1e-4, False)])
def test_rounding_of_large_outputs_counts_in_parts_of_their_size(make, share, passes):
    policy, observations = make.inverse(), make.observations(8)
    observations["position"] *= 1e4
    actions = observations["position"] / observations["goal"] * np.float32(1 + share)
    golden = make.pack(policy, observations, actions, {"action": actions}, (0, 3))
    assert verify(make.write(policy, golden=golden)).passed == passes


def test_a_forgotten_reset_fails(make, policy):
    whole = make.golden_of(policy, resets=(0,))
    split = whole.model_copy(update={"resets": (0, 7)})
    assert verify(make.write(policy, golden=whole)).passed
    assert "golden replay" in failed(verify(make.write(policy, golden=split)))


def test_a_graph_that_mixes_the_rows_of_a_batch_fails(make, policy, onnx_tools):
    def mix(model):
        helper, numpy_helper = onnx_tools[1], onnx_tools[2]
        model.graph.initializer.append(numpy_helper.from_array(np.array([0], np.int64), "rows"))
        nodes = model.graph.node
        nodes[8 - 1].output[0] = "own_context"  # the MatMul with Wc
        nodes.insert(8, helper.make_node("ReduceMean", ["own_context", "rows"], ["mean"], keepdims=1))
        nodes.insert(9, helper.make_node("Sub", ["own_context", "mean"], ["centred"]))
        nodes.insert(10, helper.make_node("Add", ["centred", "mean_once"], ["context"]))
        nodes.insert(8, helper.make_node("Slice", ["own_context", "rows", "one", "rows"], ["mean_once"]))

    report = verify(make.write(policy, edit=mix, golden=make.golden_of(policy)))
    assert failed(report).keys() == {"batch"}, str(report)


def test_a_model_without_golden_steps_fails(make, policy):
    report = verify(make.write(policy))
    assert failed(report) == {"golden": "the file carries no golden steps to compare with. Export the model again."}


def test_a_tampered_file_fails_and_nothing_is_run(make, policy):
    path = make.write(policy, golden=make.golden_of(policy))
    data = bytearray(path.read_bytes())
    data[data.index(policy.weights["Wm"].tobytes())] ^= 1
    report = verify(make.raw(bytes(data)))
    assert failed(report).keys() == {"weights"}
    assert report.checks[-1].name == "weights"


def test_a_missing_file_is_a_failed_check(make):
    report = verify(make.folder / "nowhere.onnx")
    assert "No such file" in failed(report)["file"]


def test_a_policy_that_fails_in_the_middle_is_a_failed_check(make):
    policy = make.inverse()
    observations = make.observations(4)
    observations["goal"][2] = 0.0
    actions = np.zeros((4, 2))
    report = verify(make.write(policy, golden=make.pack(policy, observations, actions, {"action": actions})))
    assert "tick 2: output 'action' contains infinity" in failed(report)["golden replay"]
