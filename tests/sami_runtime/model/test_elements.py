"""Whole numbers are not divided: a processor ends the process that tries it with a divisor that has no result."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from sami_runtime.errors import ArtifactError
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.graph_scan import MalformedError, whole_divisions
from sami_runtime.session.session import Session

LEAST = np.iinfo(np.int32).min


def adding(*nodes, **weights):
    """An edit that adds nodes, and weights by name."""

    def edit(model):
        model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
        model.graph.node.extend(nodes)

    return edit


def with_count(model):
    """The smallest number is divided by -1 once a hundred steps were counted in a state, and by 1 before."""
    add, node = model.graph.node.extend, helper.make_node
    model.graph.initializer.append(numpy_helper.from_array(np.array([LEAST], np.int32), "least"))
    add([node("Cast", ["state.memory.in"], ["steps"], to=TensorProto.INT32)])
    add([node("Div", ["least", "steps"], ["boom"])])


@pytest.mark.parametrize("operator", ["Div", "Mod"])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64])
def test_a_division_of_whole_numbers_is_refused_before_onnxruntime_sees_it(make, policy, operator, kind):
    """onnxruntime 1.31 folds this constant when it loads the file, and the process is gone."""
    edit = adding(helper.make_node(operator, ["a", "b"], ["boom"]), a=np.array([7], kind), b=np.array([0], kind))
    with pytest.raises(ArtifactError, match=rf"divisions of whole numbers \({operator} of 'a'\)"):
        read_artifact(make.write(policy, edit=edit))


def test_one_that_follows_from_a_counted_state_is_refused_too(make, policy):
    with pytest.raises(ArtifactError, match=r"divisions of whole numbers \(Div of 'least'\)"):
        read_artifact(make.write(policy, edit=with_count))


I = np.array([1], np.int64)  # noqa: E741


@pytest.mark.parametrize(
    "nodes",
    [
        [helper.make_node("Shape", ["action"], ["w"])],
        [helper.make_node("Size", ["action"], ["w"])],
        [helper.make_node("Cast", ["action"], ["w"], to=TensorProto.INT64)],
        [helper.make_node("CastLike", ["action", "i"], ["w"])],
        [helper.make_node("Greater", ["action", "raw"], ["c"]), helper.make_node("Where", ["c", "i", "i"], ["w"])],
        [helper.make_node("Constant", [], ["w"], value_int=3)],
        [helper.make_node("Constant", [], ["w"], value_ints=[3])],
        [helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(I))],
        [helper.make_node("ConstantOfShape", ["i"], ["w"], value=numpy_helper.from_array(I))],
        [helper.make_node("Identity", ["i"], ["v"]), helper.make_node("Concat", ["v", "v"], ["w"], axis=0)],
        [helper.make_node("Split", ["ii"], ["v", "w"], num_outputs=2)],
    ],
)
@pytest.mark.parametrize("operator", ["Div", "ReduceMean"])
def test_whole_numbers_are_followed_through_every_operator_that_makes_them(make, policy, nodes, operator):
    division = helper.make_node(operator, ["w", "i"] if operator == "Div" else ["w"], ["boom"])
    edit = adding(*nodes, division, i=I, ii=np.array([1, 2], np.int64))
    with pytest.raises(ArtifactError, match=f"{operator} of 'w'"):
        read_artifact(make.write(policy, edit=edit))


def test_floats_are_divided_as_ever(make, policy):
    nodes = [
        helper.make_node("Constant", [], ["two"], value_float=2.0),
        helper.make_node("ConstantOfShape", ["i"], ["nought"]),
        helper.make_node("Cast", ["i"], ["whole"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["action", "two"], ["half"]),
        helper.make_node("Div", ["whole", "nought"], ["infinite"]),
        helper.make_node("ReduceMean", ["half"], ["mean"]),
    ]
    Session(read_artifact(make.write(policy, edit=adding(*nodes, i=I)))).step(
        {name: value[0] for name, value in make.observations(1).items()}
    )


def test_what_is_divided_before_it_is_made_is_not_known_to_be_floats(make, policy):
    late = [helper.make_node("Div", ["later", "later"], ["x_"]), helper.make_node("Identity", ["raw"], ["later"])]
    with pytest.raises(ArtifactError, match="Div of 'later'"):
        read_artifact(make.write(policy, edit=adding(*late)))


def again(model):
    model.graph.node.append(helper.make_node("Shape", ["x"], ["raw"]))


def two_types(model):
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((1, 2), np.int64), "observation.position"))


def attribute_twice(model):
    model.graph.node[0].attribute.append(helper.make_attribute("axis", 1))


def empty_division(model):
    model.graph.node.append(helper.make_node("Div", [], ["nothing"]))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (again, "'raw' is made twice"),
        (two_types, "'observation.position' is declared with two types"),
        (attribute_twice, "an attribute 'axis' is given twice"),
        (empty_division, r"Div of nothing \(node 11\)"),
    ],
)
def test_a_graph_whose_types_can_be_read_in_two_ways_is_refused(make, policy, edit, message):
    with pytest.raises(ArtifactError, match=message):
        read_artifact(make.write(policy, edit=edit))


def test_a_tensor_that_gives_its_type_twice_is_refused():
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0]).SerializeToString() + b"\x10\x07"
    with pytest.raises(MalformedError, match="'w' has its type twice"):
        whole_divisions(b"\x2a" + bytes([len(tensor)]) + tensor)


@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_weights_that_are_not_finite_are_refused_although_every_answer_may_be(make, policy, wild, kind):
    """tanh as onnxruntime computes it makes a finite action of them."""
    value = np.array([0.0, wild, 1.0], kind)
    with pytest.raises(ArtifactError, match=r"weights that are not finite \('spare'\)"):
        read_artifact(make.write(policy, edit=adding(spare=value)))
    constant = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(value, "spare"))
    with pytest.raises(ArtifactError, match=r"weights that are not finite \('spare'\)"):
        read_artifact(make.write(policy, edit=adding(constant)))


def test_floats_that_lie_one_by_one_are_looked_at_too(make, policy):
    def edit(model):
        model.graph.initializer.append(helper.make_tensor("spare", TensorProto.FLOAT, [2], [1.0, np.nan]))

    with pytest.raises(ArtifactError, match=r"weights that are not finite \('spare'\)"):
        read_artifact(make.write(policy, edit=edit))


def test_a_single_bound_may_be_infinite(make, policy):
    read_artifact(make.write(policy, edit=adding(highest=np.array(np.inf, np.float32))))
