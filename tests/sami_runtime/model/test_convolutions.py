"""Convolutions are allowed; strides, pads and sizes by which a kernel divides or fills the memory are not."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

from sami_runtime.errors import ArtifactError
from sami_runtime.model.artifact import read_artifact
from sami_runtime.session.session import Session


def convolution(**attributes):
    """An edit that adds a convolution over the memory of the tiny policy, [batch, 1, 3], to its action."""

    def edit(model):
        kernel = np.ones((2, 1, 2), np.float32)
        model.graph.initializer.append(numpy_helper.from_array(kernel, "kernel"))
        model.graph.initializer.append(numpy_helper.from_array(np.array([2], np.int64), "last_axis"))
        action = next(node for node in model.graph.node if "action" in node.output)
        action.output[0] = "before"
        model.graph.node.extend(
            [
                helper.make_node("Conv", ["state.memory.in", "kernel"], ["scanned"], **attributes),
                helper.make_node("ReduceMax", ["scanned", "last_axis"], ["most"], keepdims=0),
                helper.make_node("Add", ["before", "most"], ["action"]),
            ]
        )

    return edit


def test_a_policy_with_a_convolution_is_stepped(make, policy):
    session = Session(read_artifact(make.write(policy, edit=convolution(pads=[1, 1], strides=[1]))))
    plain = Session(read_artifact(make.write(policy)))
    observation = {name: values[0] for name, values in make.observations(1).items()}
    np.testing.assert_allclose(session.step(observation).action, plain.step(observation).action + 1.0, atol=1e-6)


@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [0]},
        {"strides": [-1]},
        {"strides": [2**62]},
        {"dilations": [0]},
        {"dilations": [2**31]},
        {"group": 0},
        {"group": -(2**63)},
        {"pads": [-1, 0]},
        {"pads": [2**28, 0]},
        {"pads": [0, 2**63 - 1]},
        {"kernel_shape": [0]},
        {"kernel_shape": [1025]},
    ],
)
def test_numbers_that_no_convolution_of_a_policy_has_are_refused_before_onnxruntime_sees_them(make, policy, attributes):
    [name] = attributes
    with pytest.raises(ArtifactError, match=rf"it has {name} of a Conv, where 1 \(pads: 0\) to 1024 is allowed"):
        read_artifact(make.write(policy, edit=convolution(**attributes)))


def test_packed_numbers_are_read_too(make, policy):
    """Both forms are valid on the wire: one field for each number, or one for all."""
    data = make.write(policy, edit=convolution(strides=[7])).read_bytes()
    strides = helper.make_attribute("strides", [7]).SerializeToString()
    plain, packed = b"\x40\x07", b"\x42\x01\x00"
    assert plain in strides
    from sami_runtime.model.graph_scan import odd_convolutions, scan_model

    graph = scan_model(data).graph
    assert odd_convolutions(graph) == []
    node = helper.make_node("Conv", ["x", "w"], ["y"]).SerializeToString()
    attribute = strides.replace(plain, packed)
    node += b"\x2a" + bytes([len(attribute)]) + attribute
    assert odd_convolutions(b"\x0a" + bytes([len(node)]) + node) == ["strides of a Conv"]
