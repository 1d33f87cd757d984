"""What a model file's graph may not hold: data of other files, and what a policy does not need."""

import numpy as np
import pytest

from sami_runtime.errors import ArtifactError
from sami_runtime.model.artifact import read_artifact


def external(tensor):
    """Moves a tensor's data out of the file, to where a hostile one would point."""
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../etc/passwd"


def weight(helper, TensorProto, edit=None):
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [1], np.ones(1, np.float32).tobytes(), raw=True)
    if edit:
        edit(tensor)
    return tensor


def subgraph(helper, TensorProto, tensor):
    out = helper.make_tensor_value_info("w", TensorProto.FLOAT, [1])
    return helper.make_graph([], "branch", [], [out], [tensor])


def sparse(helper, TensorProto, edit=None):
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [0])
    return helper.make_sparse_tensor(weight(helper, TensorProto, edit), indices, [3])


def constant_of(tools, edit):
    _, helper, _, T = tools

    def change(model):
        model.graph.node.append(helper.make_node("Constant", [], ["k"], value=weight(helper, T, edit)))

    return change


def attribute(tools, name, value):
    _, helper, *_ = tools

    def change(model):
        node = helper.make_node("Constant", [], ["k"])
        node.attribute.append(helper.make_attribute(name, value))
        model.graph.node.append(node)

    return change


def initializer(tools, edit):
    return lambda model: edit(model.graph.initializer[0])


def sparse_initializer(tools, edit):
    _, helper, _, T = tools
    return lambda model: model.graph.sparse_initializer.append(sparse(helper, T, edit))


def sparse_attribute(tools, edit):
    _, helper, _, T = tools
    return attribute(tools, "sparse_value", sparse(helper, T, edit))


def tensors_attribute(tools, edit):
    _, helper, _, T = tools
    return attribute(tools, "values", [weight(helper, T), weight(helper, T, edit)])


def branch(tools, edit):
    _, helper, _, T = tools
    return attribute(tools, "then_branch", subgraph(helper, T, weight(helper, T, edit)))


def branches(tools, edit):
    _, helper, _, T = tools
    inner = helper.make_node("If", ["c"], ["k"])
    inner.attribute.append(helper.make_attribute("else_branch", subgraph(helper, T, weight(helper, T, edit))))
    graph = helper.make_graph([inner], "outer", [], [])
    return attribute(tools, "bodies", [graph])


def function(tools, edit):
    _, helper, _, T = tools

    def change(model):
        node = helper.make_node("Constant", [], ["k"], value=weight(helper, T, edit))
        opset = [helper.make_opsetid("", 18)]
        model.functions.append(helper.make_function("mine", "f", [], ["k"], [node], opset))

    return change


PLACES = [
    initializer,
    constant_of,
    sparse_initializer,
    sparse_attribute,
    tensors_attribute,
    branch,
    branches,
    function,
]


@pytest.mark.parametrize("place", PLACES)
def test_external_data_is_refused_wherever_it_hides(make, policy, onnx_tools, place):
    path = make.write(policy, edit=place(onnx_tools, external))
    with pytest.raises(ArtifactError, match=r"tensors with external data \('w'|tensors with external data \('Wx'"):
        read_artifact(path)


def only_location(tensor):
    tensor.data_location = 1


def only_entries(tensor):
    tensor.external_data.add(key="location", value="w.bin")


@pytest.mark.parametrize("edit", [only_location, only_entries])
def test_one_sign_of_external_data_is_enough(make, policy, onnx_tools, edit):
    with pytest.raises(ArtifactError, match="external data"):
        read_artifact(make.write(policy, edit=initializer(onnx_tools, edit)))


def foreign_node(tools):
    return lambda m: m.graph.node.append(tools[1].make_node("Gelu", ["raw"], ["y"], domain="com.microsoft"))


def foreign_opset(tools):
    return lambda m: m.opset_import.append(tools[1].make_opsetid("com.evil", 1))


def control_flow(tools):
    return lambda m: m.graph.node.append(tools[1].make_node("Loop", ["raw"], ["y"]))


def random(tools):
    return lambda m: m.graph.node.append(tools[1].make_node("RandomNormal", [], ["y"], shape=[1]))


def nameless(tools):
    return lambda m: m.graph.node.append(tools[1].make_node("", [], ["y"]))


def training(tools):
    return lambda m: m.training_info.add().algorithm.node.append(tools[1].make_node("Add", ["a"], ["b"]))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (foreign_node, "operator domains com.microsoft, where only the default one is allowed"),
        (foreign_opset, "operator domains com.evil"),
        (control_flow, "operators Loop, which are not among the"),
        (random, "operators RandomNormal, which"),
        (nameless, r"operators \(unnamed\), which"),
        (training, "training information"),
        (lambda tools: function(tools, None), "1 model-local functions"),
        (lambda tools: sparse_initializer(tools, None), "1 sparse tensors"),
        (lambda tools: branch(tools, None), "1 subgraphs"),
    ],
)
def test_what_a_policy_does_not_need_is_refused(make, policy, onnx_tools, edit, message):
    with pytest.raises(ArtifactError, match=message):
        read_artifact(make.write(policy, edit=edit(onnx_tools)))
