"""What cannot be adopted is refused in one line that says what to do."""

import re

import pytest
from onnx import TensorProto

from sami_runtime import SamiError, adopt
from sami_runtime.adoption.adopt import read_policy
from sami_runtime.adoption.recipe import History, Recipe
from sami_runtime.adoption.sources import FieldSource, PolicyReading, draft
from tests.making import foreign

PASSING = foreign.document()


def document_with(path, value):
    """The recipe with one value replaced, or removed if None: `signals.0.scale`."""
    document = foreign.document()
    table, (*way, key) = document, path.split(".")
    for step in way:
        table = table[int(step)] if step.isdigit() else table[step]
    if value is None:
        del table[key]
    else:
        table[key] = value
    return document


def edited(edit):
    policy = foreign.feed_forward()
    edit(policy)
    return policy


def float16(policy):
    policy.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16


def external(policy):
    tensor = policy.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")


def unknown_operator(policy):
    policy.graph.node[1].op_type = "NonZero"


BAD_RECIPES = {
    "signals.joint_angles.slice is [0, 3] for 2 elements": document_with("signals.0.slice", [0, 3]),
    "slice [3, 5] of joint_velocities leaves a gap; expected a start at 2": document_with("signals.1.slice", [3, 5]),
    "slice [1, 3] of joint_velocities overlaps the one before it": document_with("signals.1.slice", [1, 3]),
    "the slices of 'obs' end at 6, the input at 8": document_with("last_action", None),
    "signals.joint_angles.scale: field required": document_with("signals.0.scale", None),
    "signals.joint_angles.scale is 0, which would hide the number": document_with("signals.0.scale", 0.0),
    "signals.joint_angles.offset is missing": document_with("signals.0.offset", None),
    "signals.joint_angles.offset has 3 numbers for 2 elements": document_with("signals.0.offset", [0.0, 1.0, 2.0]),
    "signals.joint_angles.clip is [1.0, -1.0]": document_with("signals.0.clip", [1.0, -1.0]),
    "action.default: field required": document_with("action.default", None),
    "rate_hz: field required": document_with("rate_hz", None),
    ": action.scale.1: input should be a valid number": document_with("action.scale", [1.0, "wide"]),
    "last_action.kind: field required": document_with("last_action.kind", None),
    "signals.joint_angles.scael: unknown key 'scael'. Did you mean 'scale'?": document_with("signals.0.scael", 1.0),
    "Did you mean 'scale'?": document_with("signals.0.scael", 1.0),
    "unknown input of": document_with("input", "observations"),
    "unknown output of": document_with("output", "action"),
    "unknown output": document_with("state", [{"name": "h", "input": "obs2", "output": "h_out"}]),
    "signal name used twice: joint_angles": document_with("signals.1.name", "joint_angles"),
    "the signal name last_action is taken": document_with("signals.1.name", "last_action"),
    "the file: state name used twice: begun. Correct --contract": document_with(
        "state", [{"name": "begun", "input": "h_in", "output": "h_out"}]
    ),
    "state.h.input: field required": document_with("state", [{"name": "h", "output": "h_out"}]),
    "signals: input should be a list": document_with("signals", 3),
    "history.first: field required": document_with("history", {"steps": 3, "start": "zero"}),
}


@pytest.mark.parametrize("fact", BAD_RECIPES)
def test_a_wrong_recipe_is_refused(tmp_path, fact):
    paths = foreign.Foreign(tmp_path).write(foreign.feed_forward(), BAD_RECIPES[fact])
    with pytest.raises(SamiError) as caught:
        adopt(*paths, tmp_path / "out.onnx")
    if fact == "unknown output":
        fact = "unknown input of"
    assert fact in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.onnx").exists()


BAD_POLICIES = {
    "'obs' has shape [1, 'n']; expected [batch, size]": foreign.feed_forward(shape=[1, "n"]),
    "'obs' has shape [4, 8]; expected [batch, size] with a batch of 1": foreign.feed_forward(shape=[4, 8]),
    "'obs' has shape [8]; expected [batch, size]": foreign.feed_forward(shape=[8]),
    "input 'obs' is float16; only float32 is adopted": edited(float16),
    "tensors with external data ('w')": edited(external),
    "operators NonZero, which are not among": edited(unknown_operator),
    "has opset 99; 11 to": foreign.feed_forward(opset=99),
    "has opset 9; 11 to": foreign.feed_forward(opset=9),
    "nothing fills the input 'h_in', 'c_in'": foreign.recurrent(),
    "is not a complete ONNX file": b"no model",
}


@pytest.mark.parametrize("fact", BAD_POLICIES)
def test_a_policy_that_cannot_be_adopted_is_refused(tmp_path, fact):
    paths = foreign.Foreign(tmp_path).write(BAD_POLICIES[fact], PASSING)
    with pytest.raises(SamiError) as caught:
        adopt(*paths, tmp_path / "out.onnx")
    assert fact in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.onnx").exists()


def test_states_must_be_pairs_of_one_shape(tmp_path):
    policy = foreign.recurrent("GRU")
    policy.graph.output[1].type.tensor_type.shape.dim[2].dim_value = 7
    paths = foreign.Foreign(tmp_path).write(policy, foreign.document(state=foreign.STATES[:1]))
    with pytest.raises(SamiError, match=r"state 'h_in' has shape \[2, 1, 5\], its output \[2, 1, 7\]"):
        adopt(*paths, tmp_path / "out.onnx")


def test_a_history_of_a_signal_and_of_whole_frames_do_not_mix():
    history = History(steps=3, first="oldest", start="zero").model_dump()
    document = document_with("signals.0.history", history) | {"history": history}
    document["signals"][0]["slice"] = [0, 6]
    with pytest.raises(SamiError, match=r"signals.joint_angles.history is in the way of the history of the whole"):
        Recipe.parse(document, "test")


@pytest.mark.parametrize("kind", ["default", "inferred", "unknown"])
@pytest.mark.parametrize("field", ["action.scale", "action.default", "rate_hz", "last_action", "signals.joint_angles"])
def test_what_moves_a_robot_is_never_a_guess(kind, field):
    sources = {key: FieldSource(kind="file", where="env.yaml") for key in PASSING}
    sources[field] = FieldSource(kind=kind, where="nothing says it")
    reading = PolicyReading(b"", PASSING, sources)
    with pytest.raises(SamiError, match=f"{field}.* \\({kind}: nothing says it\\).* Give these fields in --contract"):
        reading.recipe("policy.onnx")
    corrected = reading.overlaid(PASSING, "my.toml")
    assert corrected.recipe("policy.onnx") == Recipe.parse(PASSING, "test")


def test_a_field_that_is_missing_is_refused_with_what_the_reader_knows_of_it():
    document = document_with("action.default", None)
    sources = {key: FieldSource(kind="file", where="env.yaml") for key in PASSING}
    sources["action.default"] = FieldSource(kind="unknown", where="env.yaml has no init_state")
    reading = PolicyReading(b"", document, sources)
    with pytest.raises(SamiError, match=r"action.default \(unknown: env.yaml has no init_state\)"):
        reading.recipe("policy.onnx")
    assert re.search(r"# \?\?\?  default =   # missing: .*pose.* \(env.yaml has no init_state\)", draft(reading))


def test_a_contract_changes_single_fields_of_what_a_reader_found():
    sources = {key: FieldSource(kind="file", where="env.yaml") for key in PASSING}
    reading = PolicyReading(b"", PASSING, sources)
    changes = {"signals": [{"name": "command", "scale": 2.0}], "action": {"scale": 0.5}}
    changed_reading = reading.overlaid(changes, "my.toml")
    recipe = changed_reading.recipe("policy.onnx")
    assert [signal.scale for signal in recipe.signals] == [1.0, 0.05, 2.0]
    assert (recipe.action.scale, recipe.action.default) == (0.5, tuple(foreign.DEFAULT))
    assert str(changed_reading.source_of("signals.command.scale")) == "file: my.toml"
    assert str(changed_reading.source_of("signals.command.offset")) == "file: env.yaml"


def test_a_signal_of_the_reader_without_an_input_is_not_given_that_of_another_signal():
    reading = PolicyReading(b"", document_with("input", None), {})
    reading.values.pop("last_action")
    changes = {"signals": [{**PASSING["signals"][0], "name": "camera", "input": "pixels"}]}
    assert "input" not in reading.overlaid(changes, "my.toml").values


def test_a_draft_is_a_contract_once_its_gaps_are_filled(tmp_path):
    paths = foreign.Foreign(tmp_path).write(foreign.feed_forward(), PASSING)
    text = draft(read_policy(*paths))
    assert "???  " not in text
    toml = tmp_path / "my.toml"
    toml.write_text(text)
    assert read_policy(paths[0], toml).recipe("it") == Recipe.parse(PASSING, "test")
    bare = draft(read_policy(paths[0]))
    assert 'input = "obs"  # file: ' in bare
    assert bare.count("# ???  scale =   # missing: ") == 2


@pytest.mark.parametrize(
    ("key", "names"), [("input", "['obs', 'h_in', 'c_in']"), ("output", "['actions', 'h_out', 'c_out']")]
)
def test_a_draft_names_the_tensors_of_a_graph_that_has_several_and_the_table_of_a_state(tmp_path, key, names):
    paths = foreign.Foreign(tmp_path).write(foreign.recurrent(), PASSING)
    text = draft(read_policy(paths[0]))
    line = next(line for line in text.splitlines() if line.startswith(f"# ???  {key} ="))
    assert line.endswith(f"({key}s: {names})")
    assert "a table [[state]] with `name`, `input`, `output`" in text


def test_a_draft_explains_each_gap_with_an_example_and_names_the_size_of_the_input(tmp_path):
    paths = foreign.Foreign(tmp_path).write(foreign.feed_forward(), PASSING)
    text = draft(read_policy(paths[0]))
    assert "reads: obs has 8 columns." in text
    gaps = [line for line in text.splitlines() if line.startswith("# ???")]
    assert len(gaps) == 12
    assert all(re.search(r"# missing: \w.*(e\.g\. |gets )", line) for line in gaps)


def test_a_file_that_was_not_adopted_has_no_recipe():
    from sami_runtime import read_artifact, shipped_models

    with pytest.raises(SamiError, match="has no recipe, because `sami adopt` did not write it"):
        Recipe.of(read_artifact(shipped_models()["panda-satesac"]))


def test_the_package_onnx_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    paths = foreign.Foreign(tmp_path).write(foreign.feed_forward(), PASSING)
    with pytest.raises(SamiError, match=r"needs the package onnx. Install it with: .*adopt"):
        adopt(*paths, tmp_path / "out.onnx")
