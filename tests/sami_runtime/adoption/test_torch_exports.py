"""What torch's newer exporter writes in a form of its own is adopted."""

import re

import numpy as np
import pytest
from onnx import helper, numpy_helper

from sami_runtime import ArtifactError, ContractError, Session
from sami_runtime.adoption import adopt as module
from sami_runtime.adoption.adopt import read_policy
from tests.making.foreign import JOINTS, STATES, Foreign, document, feed_forward, info, model, signal, weights_of

SIZE, HIDDEN = 4, 5


def test_notes_of_the_exporter_at_inputs_are_ignored(adopted):
    policy = feed_forward()
    for tensor in (*policy.graph.input, *policy.graph.output):
        for key in ("pkg.torch.a", "pkg.torch.b"):
            entry = tensor.metadata_props.add()
            entry.key, entry.value = key, "1"
    assert adopted(policy, document()).contract.name == "walker"


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_recurrent_policy_whose_batch_the_exporter_fixed_takes_many_episodes(adopted, kind):
    """`adopt` verifies a batch of 2, and compares with the exported file over 500 steps."""
    generator = np.random.default_rng(0)
    gates = {"LSTM": 4, "GRU": 3}[kind]
    states = ["h", "c"] if kind == "LSTM" else ["h"]
    weights = {
        "W": generator.normal(0, 0.4, (1, gates * HIDDEN, SIZE)).astype(np.float32),
        "R": generator.normal(0, 0.4, (1, gates * HIDDEN, HIDDEN)).astype(np.float32),
        "axis": np.array([0], np.int64),
        "shape": np.array([1, 1, HIDDEN], np.int64),
        **weights_of(HIDDEN),
    }
    layer = ["x", "W", "R", "", "", *(f"{state}_in" for state in states)]
    nodes = [
        helper.make_node("Unsqueeze", ["obs", "axis"], ["x"]),
        helper.make_node(kind, layer, ["y", *(f"{state}_out" for state in states)], hidden_size=HIDDEN),
        helper.make_node("Transpose", ["y"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["turned", "shape"], ["flat"]),
        helper.make_node("Squeeze", ["flat", "axis"], ["last"]),
        helper.make_node("Gemm", ["last", "w", "b"], ["actions"]),
    ]
    inputs = [info("obs", [1, SIZE]), *(info(f"{state}_in", [1, 1, HIDDEN]) for state in states)]
    outputs = [info("actions", [1, 2]), *(info(f"{state}_out", [1, 1, HIDDEN]) for state in states)]
    exported = model(nodes, inputs, outputs, weights)
    pairs = [{"name": state, "input": f"{state}_in", "output": f"{state}_out"} for state in states]
    fields = document(state=pairs, signals=[signal("joint_angles", "rad", JOINTS * 2, [0, SIZE])])
    fields["signals"][0]["elements"] = list("abcd")
    del fields["last_action"]
    artifact = adopted(exported, fields)
    assert len(artifact.contract.state) == len(states)
    assert numpy_helper.to_array(exported.graph.initializer[3]).tolist() == [1, 1, HIDDEN]


def test_a_recurrent_policy_that_counts_sequences_takes_many_episodes(adopted):
    """RecurrentPPO of sb3-contrib, by torch's older exporter: a constant node says that there is one sequence."""
    generator = np.random.default_rng(0)
    weights = {
        "W": generator.normal(0, 0.4, (1, 4 * HIDDEN, SIZE)).astype(np.float32),
        "R": generator.normal(0, 0.4, (1, 4 * HIDDEN, HIDDEN)).astype(np.float32),
        "axis": np.array([1], np.int64),
        **weights_of(HIDDEN),
    }
    nodes = [
        helper.make_node("Constant", [], ["shape"], value=numpy_helper.from_array(np.array([1, -1, SIZE]))),
        helper.make_node("Reshape", ["obs", "shape"], ["sequences"]),
        helper.make_node("Transpose", ["sequences"], ["x"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["x", "W", "R", "", "", "h", "c"], ["y", "h_out", "c_out"], hidden_size=HIDDEN),
        helper.make_node("Squeeze", ["y", "axis"], ["steps"]),
        helper.make_node("Transpose", ["steps"], ["turned"], perm=[1, 0, 2]),
        helper.make_node("Flatten", ["turned"], ["last"], axis=2),
        helper.make_node("Gemm", ["last", "w", "b"], ["actions"]),
    ]
    inputs = [info("obs", [1, SIZE]), *(info(state, [1, 1, HIDDEN]) for state in "hc")]
    outputs = [info("actions", [1, 2]), *(info(f"{state}_out", [1, 1, HIDDEN]) for state in "hc")]
    pairs = [{"name": state, "input": state, "output": f"{state}_out"} for state in "hc"]
    fields = document(state=pairs, signals=[signal("joint_angles", "rad", list("abcd"), [0, SIZE])])
    del fields["last_action"]
    assert len(adopted(model(nodes, inputs, outputs, weights), fields).contract.state) == 2


def action_of_named_size():
    """A policy as torch's older exporter writes it with a dynamic batch: the size of a computed action is a name."""
    policy = feed_forward()
    del policy.graph.output[:]
    policy.graph.output.append(info("actions", ["batch", "Tanhactions_dim_1"]))
    return policy


def test_an_action_whose_size_the_exporter_named_has_the_recipes_size(adopted):
    assert adopted(action_of_named_size(), document()).contract.action.size == 2


def test_an_action_of_another_size_than_the_recipes_is_refused_where_the_exporter_named_its_size(adopted):
    fields = document(signals=[signal("all", "1", list("abcdefgh"), [0, 8])])
    fields["action"] |= {"elements": [*JOINTS, "third"], "scale": 1.0, "default": 0.0}
    del fields["last_action"]
    with pytest.raises(ArtifactError, match=re.escape("answers [1, 2] for 'actions'; expected [1, 3]")):
        adopted(action_of_named_size(), fields)


def test_domains_that_are_declared_and_not_used_are_ignored(adopted):
    """tf2onnx declares ai.onnx.ml for every model."""
    policy = feed_forward()
    policy.opset_import.extend([helper.make_opsetid("ai.onnx.ml", 2), helper.make_opsetid("com.microsoft", 1)])
    assert adopted(policy, document()).contract.name == "walker"


def with_default(default):
    """A policy whose recurrent input `h_in` has a default [1, HIDDEN]."""
    weights = {"u": np.full((8, HIDDEN), 0.1, np.float32), "h_in": np.full((1, HIDDEN), default, np.float32)}
    nodes = [
        helper.make_node("MatMul", ["obs", "u"], ["new"]),
        helper.make_node("Add", ["h_in", "new"], ["h_out"]),
        helper.make_node("Gemm", ["h_out", "w", "b"], ["actions"]),
    ]
    inputs = [info("obs", ["batch", 8]), info("h_in", ["batch", HIDDEN])]
    outputs = [info("actions", ["batch", 2]), info("h_out", ["batch", HIDDEN])]
    return model(nodes, inputs, outputs, weights | weights_of(HIDDEN))


def test_a_recurrent_input_with_a_default_is_a_state_all_the_same(adopted):
    artifact = adopted(with_default(0.1), document(state=[{**STATES[0], "initial": 0.1}]))
    session = Session(artifact)
    first, second = (session.step(session._inputs.zeros).action for _ in range(2))
    assert [state.name for state in artifact.contract.state] == ["h", "last_action"]
    assert (first != second).all()


def test_the_policy_is_parsed_once_to_fit_its_recipe_and_its_states_defaults(tmp_path, monkeypatch):
    policy = Foreign(tmp_path).write(with_default(0.1), document(state=[{**STATES[0], "initial": 0.1}]))
    reading, parsed = read_policy(*policy), []
    whole = module.read_model
    monkeypatch.setattr(module, "read_model", lambda *arguments: parsed.append(1) or whole(*arguments))
    module.adopt_in_process(reading, "policy.onnx")
    assert parsed == [1]


def test_a_recurrent_input_with_a_default_is_asked_for_where_the_recipe_has_no_state(adopted):
    with pytest.raises(ContractError, match=r"nothing fills the input 'h_in'; a recurrent one is a \[\[state\]\]"):
        adopted(with_default(0.0), document())


@pytest.mark.parametrize(("default", "words"), [(0.5, "0.5 to 0.5"), (np.arange(5), "0 to 4")])
def test_a_default_that_is_not_the_initial_state_of_the_recipe_is_refused(adopted, default, words):
    message = f"state 'h' begins at 0, its input's default is {words}. Correct `initial`, or the export."
    with pytest.raises(ContractError, match=re.escape(message)):
        adopted(with_default(default), document(state=STATES[:1]))
