"""Small policy files and recipes that would exhaust memory or time, to test `sami adopt`."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tests.making import foreign

make = helper.make_node


def bombed(*nodes, **weights):
    """Return `feed_forward()` with additional nodes, which compute `large` and add zero to the output."""
    policy = foreign.feed_forward()
    policy.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), name) for name, v in weights.items())
    policy.graph.initializer.append(numpy_helper.from_array(np.float32(0.0), "nought"))
    after = [
        make("ReduceSum", ["large"], ["total"], keepdims=0),
        make("Mul", ["total", "nought"], ["nothing"]),
        make("Add", ["z", "nothing"], ["late"]),
        make("Tanh", ["late"], ["actions"]),
    ]
    rest = [policy.graph.node[0], *nodes, *after]
    del policy.graph.node[:]
    policy.graph.node.extend(rest)
    return policy


def constant():
    return bombed(make("ConstantOfShape", ["shape"], ["large"]), shape=np.array([1 << 20, 1 << 20]))


def tiled():
    return bombed(make("Tile", ["obs", "times"], ["large"]), times=np.array([1 << 20, 1 << 16]))


def expanded():
    return bombed(make("Expand", ["w", "shape"], ["large"]), shape=np.array([1 << 36, 8, 2]))


def large_range():
    ends = {"start": np.float32(0), "limit": np.float32(1e12), "delta": np.float32(1)}
    return bombed(make("Range", list(ends), ["large"]), **ends)


def doubled():
    nodes = [make("Concat", [f"x{i}", f"x{i}"], [f"x{i + 1}"], axis=1) for i in range(40)]
    return bombed(make("Identity", ["obs"], ["x0"]), *nodes, make("Identity", ["x40"], ["large"]))


def outer():
    letters = "abcdefghijkl"
    equation = f"{','.join(letters)}->{letters}"
    flat = make("Reshape", ["obs", "flat"], ["v"])
    return bombed(flat, make("Einsum", ["v"] * 12, ["large"], equation=equation), flat=np.array([-1]))


def padded():
    image = make("Reshape", ["obs", "cube"], ["image"])
    conv = make("Conv", ["image", "kernel"], ["large"], kernel_shape=[1, 1, 1], pads=[1024] * 6)
    kernel = np.ones((1, 1, 1, 1, 1), np.float32)
    return bombed(image, conv, cube=np.array([1, 1, 2, 2, 2]), kernel=kernel)


def slow(side=4_000):
    """Return a policy whose step takes seconds; at most one second of processor time is allowed."""
    first = make("Slice", ["obs", "zero", "one", "one"], ["cell"])
    square = make("Expand", ["cell", "shape"], ["square"])
    ends = {"zero": np.array([0]), "one": np.array([1])}
    return bombed(first, square, make("MatMul", ["square", "square"], ["large"]), shape=np.array([side, side]), **ends)


def endless(side=2_000, count=5_000):
    """Return a policy whose step takes about an hour, in many short nodes."""
    nodes = [make("MatMul", [f"x{i}", "x0"], [f"x{i + 1}"]) for i in range(count)]
    begin = [make("Slice", ["obs", "zero", "one", "one"], ["cell"]), make("Expand", ["cell", "shape"], ["x0"])]
    end = make("Identity", [f"x{count}"], ["large"])
    return bombed(*begin, *nodes, end, shape=np.array([side, side]), zero=np.array([0]), one=np.array([1]))


def many_nodes(count=100_000):
    nodes = [make("Tanh", [f"x{i}"], [f"x{i + 1}"]) for i in range(count)]
    return bombed(make("Identity", ["obs"], ["x0"]), *nodes, make("Identity", [f"x{count}"], ["large"]))


def cyclic():
    return bombed(make("Add", ["obs", "back"], ["large"]), make("Tanh", ["large"], ["back"]))


def looped():
    body = helper.make_graph(
        [make("Identity", ["on"], ["on_out"]), make("Concat", ["value", "value"], ["value_out"], axis=1)],
        "body",
        [
            foreign.info("i", [], TensorProto.INT64),
            foreign.info("on", [], TensorProto.BOOL),
            foreign.info("value", [1, None]),
        ],
        [foreign.info("on_out", [], TensorProto.BOOL), foreign.info("value_out", [1, None])],
    )
    return bombed(make("Loop", ["trips", "", "obs"], ["large"], body=body), trips=np.int64(60))


def functions(cyclic=False, levels=40):
    """Return a policy with functions that each call the next one twice: inlined, 2 ** `levels` nodes."""
    policy = bombed(make("f0", ["obs"], ["large"], domain="bomb"))
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("bomb", 1)]
    for level in range(levels):
        inner = f"f{level + 1}" if level + 1 < levels else "f0" if cyclic else ""
        call = {"domain": "bomb"} if inner else {}
        nodes = [make(inner or "Tanh", ["x"], ["y"], **call), make(inner or "Tanh", ["y"], ["z"], **call)]
        policy.functions.append(helper.make_function("bomb", f"f{level}", ["x"], ["z"], nodes, opset))
    policy.opset_import.append(helper.make_opsetid("bomb", 1))
    return policy


def cyclic_functions():
    return functions(cyclic=True, levels=2)


def declared(dims=(1 << 40,)):
    """Return a policy with an initializer that declares more numbers than it has bytes for."""
    policy = bombed(make("Identity", ["lie"], ["large"]))
    tensor = policy.graph.initializer.add(name="lie", data_type=TensorProto.FLOAT, raw_data=b"\0" * 16)
    tensor.dims.extend(dims)
    return policy


def negative():
    return declared((-4, 1 << 62))


def named_bomb(size=50_000_000):
    """Return a policy with a tensor's name of 50 million letters."""
    policy = foreign.feed_forward()
    policy.graph.node[0].output[0] = policy.graph.node[1].input[0] = "z" * size
    policy.graph.node[1].op_type = "Tan" * (size // 10)
    return policy


def wide_state(size=1 << 40):
    """Return a policy with a recurrent state of 2 ** 40 numbers."""
    policy = foreign.feed_forward()
    policy.graph.input.append(foreign.info("h_in", [1, size]))
    policy.graph.output.append(foreign.info("h_out", [1, size]))
    policy.graph.node.append(make("Identity", ["h_in"], ["h_out"]))
    return policy


def wide_input():
    return foreign.feed_forward(shape=[1, 1 << 62])


GRAPHS = (
    *(constant, tiled, expanded, large_range, doubled, outer, padded, slow, endless, many_nodes, cyclic, looped),
    *(functions, cyclic_functions, declared, negative, named_bomb, wide_state, wide_input),
)


def recipe_of(graph):
    """Return the recipe for one of `GRAPHS`."""
    return foreign.document(state=foreign.STATES[:1] if graph is wide_state else [])


TEXTS = {
    "deep arrays": "x = " + "[" * 100_000 + "]" * 100_000,
    "deep tables": ".".join(["a"] * 100_000) + " = 1",
    "deep inline tables": "x = " + "{a=" * 40_000 + "1" + "}" * 40_000,
    "a long number": "rate_hz = " + "9" * 200_000,
    "a long name": 'name = "' + "n" * 200_000 + '"',
    "a long key": "k" * 200_000 + " = 1",
    "many tables": "[[signals]]\n" * 20_000,
    "many keys": "".join(f"k{i} = 1\n" for i in range(20_000)),
    "a large file": "# " + "x" * 4_000_000,
    "no text": "\0" * 1_000_000,
    "not a number": "rate_hz = nan\nclip = inf\nepisode_steps = -1",
}
"""TOML files that are not valid recipes."""
