"""Mutated model files, each made from its number alone: `mutant(number)`."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from sami_runtime.model.contract import HASH_KEY, METADATA_KEY
from sami_runtime.model.graph_scan import OPERATORS
from tests.making.sealed import base, framed, model_of, seal, sealed

CANARY = "canary.bin"
"""A file that some mutants refer to, and that no reader may open."""
STRANGE = (
    None,
    True,
    -1,
    0,
    1,
    2**31,
    10**30,
    1e308,
    "",
    "nan",
    "\x1b[2J",
    "../x",
    [],
    [[]],
    {},
    {"a": 1},
    "x" * 10_000,
)


def other(value, draw):
    """Return a JSON value with one random part replaced or removed."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = list(value)[draw.integers(len(value))]
        if draw.random() < 0.2:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: other(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.8:
        at = int(draw.integers(len(value)))
        return [*value[:at], other(value[at], draw), *value[at + int(draw.integers(2)) :]]
    return STRANGE[draw.integers(len(STRANGE))]


def flipped(data: bytes, draw) -> bytes:
    """Return bytes with up to eight flipped bits."""
    result = bytearray(data)
    for _ in range(int(draw.integers(1, 9))):
        result[draw.integers(len(result))] ^= 1 << int(draw.integers(8))
    return bytes(result)


def relocated(data: bytes, draw) -> bytes:
    """Return bytes with a slice removed, duplicated or overwritten, or truncated or extended bytes."""
    start, length, kind = int(draw.integers(len(data))), int(draw.integers(1, 64)), draw.integers(5)
    piece = data[start : start + length]
    if kind == 0:
        return data[:start] + data[start + length :]
    if kind == 1:
        return data[:start] + piece + data[start:]
    if kind == 2:
        return data[:start]
    if kind == 3:
        return data + draw.bytes(length)
    at = int(draw.integers(len(data)))
    return data[:at] + piece + data[at + len(piece) :]


def lengths(data: bytes, draw) -> bytes:
    """Return bytes with a huge or unterminated varint, the encoding of lengths in protobuf."""
    at = int(draw.integers(len(data)))
    numbers = (b"\xff" * 9 + b"\x01", b"\xff\xff\xff\xff\x0f", b"\x80" * 11, b"\xff\xff\xff\xff\x07")
    return data[:at] + numbers[draw.integers(4)] + data[at + int(draw.integers(2)) :]


def of_bytes(change):
    """Return a mutation that changes the whole file's bytes."""
    return lambda draw: change(sealed(), draw)


def of_graph(change):
    """Return a mutation that changes the graph's bytes, in a file with a correct hash."""

    def mutate(draw):
        contract, weights, nodes = base()
        graph = change(model_of(contract, weights, nodes).graph.SerializeToString(), draw)
        return framed(graph, contract)

    return mutate


def of_model(change):
    """Return a mutation that changes the ONNX model, in a file with correct hashes."""

    def mutate(draw):
        contract, weights, nodes = base()
        model = model_of(contract, weights, nodes)
        change(model, draw)
        return seal(model, json.loads(contract.dumps()))

    return mutate


def _pick(values, draw):
    return values[int(draw.integers(len(values)))]


def weights_not_finite(model, draw):
    """Make a weight NaN, infinite, nearly overflowing, or subnormal."""
    tensor = _pick([item for item in model.graph.initializer if item.data_type == TensorProto.FLOAT], draw)
    value = numpy_helper.to_array(tensor).copy()
    value.flat[draw.integers(value.size)] = _pick([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45], draw)
    tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))


def another_operator(model, draw):
    """Change the operators of one or two nodes."""
    for _ in range(int(draw.integers(1, 3))):
        _pick(model.graph.node, draw).op_type = _pick([*sorted(OPERATORS), "Loop", "If", "Scan", "RandomNormal"], draw)


def rewired(model, draw):
    """Connect inputs or outputs of nodes to other tensors."""
    names = [name for node in model.graph.node for name in (*node.input, *node.output)]
    for _ in range(int(draw.integers(1, 4))):
        node = _pick(model.graph.node, draw)
        side = node.input if draw.random() < 0.8 else node.output
        if side:
            side[int(draw.integers(len(side)))] = _pick(names, draw)


def attributes(model, draw):
    """Change the value of an attribute, or add an attribute."""
    node = _pick(model.graph.node, draw)
    numbers = [0, -1, 1, 7, 2**31 - 1, -(2**31), 2**62, [0], [1, 0], [], [2**40] * 3, 0.0, -1e30, "text"]
    names = ["axis", "axes", "perm", "hidden_size", "to", "alpha", "fmod", "direction", "num_outputs", "keepdims"]
    name = _pick(node.attribute, draw).name if node.attribute and draw.random() < 0.6 else _pick(names, draw)
    rest = [item for item in node.attribute if item.name != name or draw.random() < 0.1]
    del node.attribute[:]
    node.attribute.extend(rest)
    value = _pick(numbers, draw)
    node.attribute.append(helper.make_attribute(name, value, attr_type=7 if value == [] else None))


def shapes(model, draw):
    """Declare another shape or type of a weight."""
    tensor = _pick(model.graph.initializer, draw)
    if draw.random() < 0.5 and tensor.dims:
        tensor.dims[int(draw.integers(len(tensor.dims)))] = _pick([0, 1, 5, 2**20, 2**40, -1, 2**62], draw)
    else:
        tensor.data_type = int(draw.integers(0, 25))


def declared(model, draw):
    """Change the graph's declaration of an input or output."""
    info = _pick([*model.graph.input, *model.graph.output], draw)
    kind, dims = draw.integers(4), info.type.tensor_type.shape.dim
    if kind == 0:
        info.name = _pick(["x", "", "action", info.name + "\0"], draw)
    elif kind == 1:
        info.type.tensor_type.elem_type = int(draw.integers(0, 25))
    elif kind == 2:
        dims[int(draw.integers(len(dims)))].dim_value = int(_pick([0, 1, 3, 2**40, -1], draw))
    else:
        info.type.Clear()


def huge(model, draw):
    """Add nodes that make a large tensor from small ones."""
    side = int(10 ** draw.uniform(1, 6))
    operator = _pick(["Expand", "ConstantOfShape", "Tile", "Conv"], draw)
    if operator == "Conv":
        model.graph.initializer.append(numpy_helper.from_array(np.ones((1, 1, 3), np.float32), "small"))
        numbers = _pick([{"pads": [side, side]}, {"dilations": [side], "pads": [side, side]}], draw)
        odd = _pick(
            [{}, {"strides": [side]}, {"group": side}, {"kernel_shape": [side]}, {"pads": [-side, -side]}], draw
        )
        large = helper.make_node("Conv", ["small", "small"], ["large"], **numbers | odd)
    else:
        model.graph.initializer.append(numpy_helper.from_array(np.array([side, side], np.int64), "side"))
        large = helper.make_node(operator, ["side"] if operator[0] == "C" else ["scale2", "side"], ["large"])
    model.graph.node.insert(0, large)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((1, 1), np.float32), "scale2"))
    model.graph.node.insert(1, helper.make_node("ReduceSum", ["large"], ["total"], keepdims=0))
    model.graph.node[-1].input[0] = "late"
    model.graph.node.insert(len(model.graph.node) - 1, helper.make_node("Add", ["raw", "total"], ["late"]))


def whole_numbers(model, draw):
    """Add an integer operation without a valid result, such as a division by 0."""
    kind = _pick([np.int8, np.uint8, np.int32, np.int64], draw)
    values = [np.array([value]).astype(kind) for value in (np.iinfo(kind).min, _pick([0, -1], draw))]
    model.graph.initializer.extend(numpy_helper.from_array(v, n) for v, n in zip(values, ("a_", "b_"), strict=True))
    node = helper.make_node(_pick(["Div", "Mod", "ReduceMean", "Pow", "Range"], draw), ["a_", "b_"], ["boom"])
    model.graph.node.insert(int(draw.integers(len(model.graph.node))), node)


def external_weights(model, draw):
    """Refer to a weight in another file."""
    tensor = _pick(model.graph.initializer, draw)
    if draw.random() < 0.7:
        tensor.data_location = 1  # EXTERNAL
    if draw.random() < 0.7:
        tensor.ClearField("raw_data")
        tensor.external_data.add(key="location", value=_pick([CANARY, f"./{CANARY}", f"../x/{CANARY}"], draw))


def nested(model, draw):
    """Add nested graphs in attributes, functions or training information."""
    graph = helper.make_graph([helper.make_node("Identity", ["raw"], ["y"])], "inner", [], [])
    for _ in range(int(draw.integers(1, 29))):
        node = helper.make_node(_pick(["If", "Loop", "Identity", "Add"], draw), ["raw"], ["y"])
        node.attribute.append(helper.make_attribute(_pick(["then_branch", "body", "x"], draw), graph))
        graph = helper.make_graph([node], "outer", [], [])
    where = draw.integers(3)
    if where == 0:
        model.graph.node.extend(graph.node)
    elif where == 1:
        model.functions.append(helper.make_function("own", "f", [], ["y"], graph.node, model.opset_import))
    else:
        model.training_info.add().algorithm.CopyFrom(graph)


def nodes_gone_or_twice(model, draw):
    """Remove or duplicate a node, or change the order of nodes."""
    nodes = list(model.graph.node)
    order = draw.permutation(len(nodes)) if draw.random() < 0.3 else np.arange(len(nodes))
    order = np.delete(order, draw.integers(len(order))) if draw.random() < 0.5 else np.append(order, _pick(order, draw))
    del model.graph.node[:]
    model.graph.node.extend(nodes[at] for at in order)


def lying(draw):
    """Return a file with a mutated contract and a correct hash."""
    contract, weights, nodes = base()
    document = other(json.loads(contract.dumps()), draw)
    return seal(model_of(contract, weights, nodes), document if isinstance(document, dict) else {})


def doubled(draw):
    """Return a file with duplicate metadata, or metadata under other names."""
    contract, weights, nodes = base()
    keys = (METADATA_KEY, HASH_KEY, METADATA_KEY.upper(), "", "x" * 1000, "sami.contract\0")
    extra = tuple((_pick(keys, draw), _pick(["{}", "0" * 64, "", contract.dumps()], draw)) for _ in range(2))
    return seal(model_of(contract, weights, nodes), json.loads(contract.dumps()), extra)


def golden(draw):
    """Return a file whose golden steps are damaged, pickles, or decompress to a huge array."""
    contract, weights, nodes = base()
    document, stream = json.loads(contract.dumps()), io.BytesIO()
    kind = draw.integers(4)
    if kind == 0:
        np.savez(stream, **{"observation.position": np.array([print, len], object)})
    elif kind == 1:
        np.savez_compressed(stream, action=np.zeros((4, int(10 ** draw.uniform(1, 6))), np.float32))
    else:
        change = flipped if kind == 2 else relocated
        stream.write(change(base64.b64decode(document["golden"]["data"]), draw))
    document["golden"]["data"] = base64.b64encode(stream.getvalue()).decode()
    return seal(model_of(contract, weights, nodes), document)


MUTATIONS = {
    "bits of the file": of_bytes(flipped),
    "slices of the file": of_bytes(relocated),
    "lengths in the file": of_bytes(lengths),
    "bits of the graph": of_graph(flipped),
    "slices of the graph": of_graph(relocated),
    "lengths in the graph": of_graph(lengths),
    "weights not finite": of_model(weights_not_finite),
    "other operators": of_model(another_operator),
    "other wires": of_model(rewired),
    "attributes": of_model(attributes),
    "shapes and types": of_model(shapes),
    "inputs and outputs": of_model(declared),
    "huge from small": of_model(huge),
    "whole numbers divided": of_model(whole_numbers),
    "weights elsewhere": of_model(external_weights),
    "nested graphs": of_model(nested),
    "nodes gone or twice": of_model(nodes_gone_or_twice),
    "lying contract": lying,
    "doubled metadata": doubled,
    "golden steps": golden,
}
"""Mutations by kind: each takes a random generator, and returns the bytes of a file."""


def mutant(number: int) -> tuple[str, bytes]:
    """Return the kind and the bytes of the file with this number."""
    kind = kind_of(number)
    return kind, MUTATIONS[kind](np.random.default_rng([number, 2026]))


def kind_of(number: int) -> str:
    """Return the kind of mutation of the file with this number."""
    return list(MUTATIONS)[number % len(MUTATIONS)]
