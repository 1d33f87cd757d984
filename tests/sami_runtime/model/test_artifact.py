"""What a model file is refused for, before onnxruntime sees it."""

import contextlib
import re

import numpy as np
import pytest

from sami_runtime.distribution import upgrade_hint
from sami_runtime.errors import ArtifactError, ContractError, SamiError
from sami_runtime.model.artifact import graph_sha256, read_artifact
from sami_runtime.model.graph_scan import MAX_DEPTH, MalformedError, scan_model


def test_a_written_file_is_read_back(make, policy):
    path = make.write(policy)
    artifact = read_artifact(path)
    assert artifact.path == path
    assert artifact.contract.name == "tiny"
    assert artifact.model_bytes == path.read_bytes()
    assert artifact.graph_sha256 == artifact.contract.weights_sha256 == graph_sha256(path.read_bytes())


def test_the_scan_sees_what_onnx_sees(make, policy, onnx_tools):
    onnx, *_ = onnx_tools
    data = make.write(policy).read_bytes()
    scan, model = scan_model(data), onnx.load_from_string(data)
    assert scan.operators == {(node.domain, node.op_type) for node in model.graph.node}
    assert [tensor.name for tensor in scan.inputs] == [value.name for value in model.graph.input]
    assert [tensor.name for tensor in scan.outputs] == [value.name for value in model.graph.output]
    assert scan.inputs[-1] == ("state.memory.in", 1, ("batch", 1, 3))
    assert scan.graph == model.graph.SerializeToString()
    assert dict(scan.metadata) == {entry.key: entry.value for entry in model.metadata_props}


def test_the_default_domain_may_be_spelled_out(make, policy):
    def spell(model):
        model.graph.node[0].domain = "ai.onnx"

    read_artifact(make.write(policy, edit=spell))


def test_a_flipped_byte_in_the_weights_is_refused(make, policy):
    path = make.write(policy)
    data = bytearray(path.read_bytes())
    data[data.index(policy.weights["Wm"].tobytes()) + 3] ^= 1
    with pytest.raises(ArtifactError, match="was changed after its export: its graph has SHA-256"):
        read_artifact(make.raw(bytes(data)))


def test_every_cut_is_refused_with_a_message_of_ours(make, policy):
    data = make.write(policy).read_bytes()
    path = make.folder / "cut.onnx"
    for size in range(0, len(data), 3):
        path.write_bytes(data[:size])
        with pytest.raises((ArtifactError, ContractError), match=r"again|carries no"):
            read_artifact(path)


def test_no_flipped_byte_escapes_as_an_error_of_another_kind(make, policy):
    data = make.write(policy).read_bytes()
    path, generator = make.folder / "flipped.onnx", np.random.default_rng(0)
    for at in generator.integers(0, len(data), 400):
        flipped = bytearray(data)
        flipped[at] ^= 1 << int(generator.integers(8))
        path.write_bytes(bytes(flipped))
        with contextlib.suppress(SamiError):
            read_artifact(path)


def test_random_bytes_are_refused(make):
    generator = np.random.default_rng(0)
    for size in (1, 2, 10, 100, 1000):
        with pytest.raises(ArtifactError, match=r"is not a complete ONNX file \(\d+ bytes\)"):
            read_artifact(make.raw(generator.bytes(size)))


def length_delimited(number, content):
    key, size, head = number << 3 | 2, len(content), []
    for value in (key, size):
        while value > 127:
            head.append(value & 127 | 128)
            value >>= 7
        head.append(value)
    return bytes(head) + content


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80" * 11, "a number is cut off or too long"),
        (b"\xff" * 9 + b"\x7f", "a number is cut off or too long"),
        (b"\x02\x00", "field number 0"),
        (b"\x3b", "wire type 3"),
        (b"\x38\x01", "field 7 of a Model"),  # the graph as a number
        (length_delimited(7, b"") + b"", "it has no graph"),
        (length_delimited(7, length_delimited(2, b"a")) * 2, "it has two graphs"),
        (
            length_delimited(7, length_delimited(1, length_delimited(4, b"Add") * 2)),
            "a Node .* has field 4 twice",
        ),
        (length_delimited(7, length_delimited(1, length_delimited(4, b"\xff"))), "is not UTF-8"),
        (
            length_delimited(7, length_delimited(11, length_delimited(1, b"x"))),
            "'x' is not declared as a tensor",
        ),
    ],
)
def test_bytes_that_can_be_read_in_two_ways_are_refused(data, message):
    with pytest.raises(MalformedError, match=message):
        scan_model(data)


def test_deep_nesting_is_refused_without_recursion():
    content = b""
    for _ in range(MAX_DEPTH):
        content = length_delimited(1, length_delimited(5, length_delimited(6, content)))
    with pytest.raises(MalformedError, match="nested deeper than"):
        scan_model(length_delimited(7, content))


def test_too_many_fields_are_refused(monkeypatch):
    monkeypatch.setattr("sami_runtime.model.graph_scan.MAX_FIELDS", 100)
    with pytest.raises(MalformedError, match="more than 100 fields"):
        scan_model(b"\x08\x01" * 101)


def test_a_file_without_a_contract_is_refused(make, policy, onnx_tools):
    model = make.model_of(policy)
    path = make.raw(model.SerializeToString())
    with pytest.raises(ArtifactError) as error:
        read_artifact(path)
    assert str(error.value) == (
        f'{path} carries no "sami.contract" metadata, so it was not written by sami export. Found keys: none.'
    )
    onnx_tools[1].set_model_props(model, {"author": "me", "a": "b"})
    with pytest.raises(ArtifactError, match=r"Found keys: a, author\."):
        read_artifact(make.raw(model.SerializeToString()))


def test_a_second_contract_is_refused(make, policy):
    data = make.write(policy).read_bytes()
    entry = length_delimited(1, b"sami.contract") + length_delimited(2, b"{}")
    with pytest.raises(ArtifactError, match=r'carries 2 "sami\.contract" entries'):
        read_artifact(make.raw(data + length_delimited(14, entry)))


def test_a_newer_contract_is_refused_with_the_way_out(make, policy):
    data = make.write(policy).read_bytes()
    path = make.raw(data.replace(b'{"version":1', b'{"version":2'))
    with pytest.raises(ContractError, match=f"has contract version 2; .*Upgrade with: {re.escape(upgrade_hint())}"):
        read_artifact(path)


def test_every_difference_between_graph_and_contract_is_named(make, policy):
    def edit(model):
        model.graph.input[0].name = "observation.positon"
        model.graph.input[1].type.tensor_type.shape.dim[1].dim_value = 4
        model.graph.input[2].type.tensor_type.elem_type = 11
        model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 1
        del model.graph.output[1]

    with pytest.raises(ArtifactError) as error:
        read_artifact(make.write(policy, edit=edit))
    for fact in (
        "input 'observation.position' is missing",
        "input 'observation.positon' is not in the contract",
        "input 'observation.goal' has shape [batch, 4], expected [batch, 1]",
        "input 'previous_action' has ONNX element type 11, expected 1 (float32)",
        "output 'action' has shape [1, 2], expected [batch, 2]",
        "output 'context' is missing",
    ):
        assert fact in str(error.value)


def test_files_that_are_not_there_say_what_to_do(make):
    with pytest.raises(ArtifactError, match=r"nowhere.onnx cannot be read: No such file or directory\. Give the path"):
        read_artifact(make.folder / "nowhere.onnx")
    with pytest.raises(ArtifactError, match="cannot be read: it is a directory"):
        read_artifact(make.folder)
    with pytest.raises(ArtifactError, match=r"is empty \(0 bytes\)"):
        read_artifact(make.raw(b""))


def test_a_file_beyond_the_size_limit_is_refused(make, policy, monkeypatch):
    monkeypatch.setattr("sami_runtime.model.artifact.MAX_MODEL_BYTES", 100)
    with pytest.raises(ArtifactError, match="is larger than 100 bytes"):
        read_artifact(make.write(policy))
