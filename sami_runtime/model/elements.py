"""What the tensors of a graph are made of: weights are finite, and whole numbers are not divided.

A processor answers a division of whole numbers that has no result with a signal that ends the process, and with it the
control of a robot: by 0, and of the smallest number by -1. Floats have a result for everything.
"""

from __future__ import annotations

import numpy as np

from sami_runtime.model.graph_scan import BYTES, VARINT, Field, MalformedError, Reader, single_fields

FLOAT, INT64, BOOL = 1, 7, 9
"""ONNX's TensorProto.DataType."""
FLOATS = frozenset({FLOAT, 10, 11, 16})
"""float32, float16, float64 and bfloat16."""

DIVIDING = frozenset({"Div", "Mod", "ReduceMean"})
"""Operators whose kernels divide what they are given as it is."""
_LOGIC = {"And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Xor"}
_OF_ITS_OWN = {**dict.fromkeys(_LOGIC, BOOL), "Shape": INT64, "Size": INT64}
_OF_SECOND = {"CastLike", "Where"}
"""Operators whose outputs are of their second input's type; all others' are of their first's."""
_VALUES = {"value_float": FLOAT, "value_floats": FLOAT, "value_int": INT64, "value_ints": INT64}

# Fields of onnx.proto.
_NODE, _INITIALIZER, _INPUT = 1, 5, 11
_INPUTS, _OUTPUTS, _OPERATOR, _ATTRIBUTE = 1, 2, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_INT, _ATTRIBUTE_TENSOR = 1, 3, 5
_TENSOR_TYPE, _TENSOR_FLOATS, _TENSOR_NAME, _TENSOR_RAW = 2, 4, 8, 9
_STORED = {FLOAT: "<f4", 10: "<f2", 11: "<f8"}
"""How floats lie in a file, by their type."""


def whole_divisions(graph: bytes) -> list[str]:
    """Return what a graph divides that is, or may be, whole numbers: a phrase for each node.

    Args:
        graph: A serialized GraphProto without subgraphs, as the scan found it.

    Raises:
        MalformedError: It is cut off, or can be read in two ways: a tensor made twice, an attribute given twice.
    """
    reader = Reader(graph)
    nodes, types = [], {}  # type: list[Field], dict[str, int]
    for entry in reader.fields(0, len(graph)):
        if entry.number == _NODE:
            nodes.append(entry)
        elif entry.number == _INITIALIZER:
            _note(types, *_tensor(reader, entry))
        elif entry.number == _INPUT:
            _note(types, *_input(reader, entry))
    divisions = []
    for at, node in enumerate(nodes):
        operator, inputs, outputs, attributes = _node(reader, node)
        if operator in DIVIDING and types.get(inputs[0] if inputs else "", 0) not in FLOATS:
            divisions.append(f"{operator} of {inputs[0]!r}" if inputs else f"{operator} of nothing (node {at})")
        kind = _output_type(operator, [types.get(name, 0) for name in inputs], attributes)
        for name in filter(None, outputs):
            if name in types:
                raise MalformedError(f"the tensor {name!r} is made twice")
            types[name] = kind
    return divisions


def weights_not_finite(graph: bytes) -> list[str]:
    """Return the names of the tensors that hold NaN, or infinity among other numbers: a bound alone may be infinite.

    A kernel may well make a finite action of a weight that is none, so that no step would tell.
    """
    reader = Reader(graph)
    tensors: list[Field] = []
    for entry in reader.fields(0, len(graph)):
        if entry.number == _INITIALIZER:
            tensors.append(entry)
        elif entry.number == _NODE:
            inner = (field for field in reader.fields(entry.start, entry.end) if field.number == _ATTRIBUTE)
            for attribute in inner:
                parts = reader.fields(attribute.start, attribute.end)
                tensors += [part for part in parts if part.number == _ATTRIBUTE_TENSOR]
    return [_tensor(reader, tensor)[0] for tensor in tensors if not _finite(reader, tensor)]


def _finite(reader: Reader, tensor: Field) -> bool:
    kind = _tensor(reader, tensor)[1]
    for part in reader.fields(tensor.start, tensor.end):
        stored = {_TENSOR_RAW: _STORED.get(kind), _TENSOR_FLOATS: "<f4"}.get(part.number)
        if stored is None or part.wire != BYTES:
            continue
        data = reader.data[part.start : part.end]
        numbers = np.frombuffer(data[: len(data) // np.dtype(stored).itemsize * np.dtype(stored).itemsize], stored)
        if np.isnan(numbers).any() or (len(numbers) > 1 and np.isinf(numbers).any()):
            return False
    return True


def _output_type(operator: str, inputs: list[int], attributes: dict[str, int]) -> int:
    """Return what a node's outputs are made of; 0 where that is not known."""
    if operator in _OF_ITS_OWN:
        return _OF_ITS_OWN[operator]
    if operator == "Cast":
        return attributes.get("to", 0)
    if operator == "Constant":
        kinds = {name: _VALUES.get(name, attributes[name]) for name in attributes if name.startswith("value")}
        return next(iter(kinds.values())) if len(kinds) == 1 else 0
    if operator == "ConstantOfShape":
        return attributes.get("value", FLOAT)
    at = 1 if operator in _OF_SECOND else 0
    return inputs[at] if len(inputs) > at else 0


def _note(types: dict[str, int], name: str, kind: int) -> None:
    # Once as an input and once as its initial value is one tensor, and one type.
    if types.setdefault(name, kind) != kind:
        raise MalformedError(f"the tensor {name!r} is declared with two types")


def _node(reader: Reader, node: Field) -> tuple[str, list[str], list[str], dict[str, int]]:
    """Return a node's operator, the names of its inputs and outputs, and what its attributes say of types."""
    operator, inputs, outputs, attributes = "", [], [], {}  # type: str, list[str], list[str], dict[str, int]
    for entry in reader.fields(node.start, node.end):
        if entry.number == _INPUTS:
            inputs.append(reader.text(entry))
        elif entry.number == _OUTPUTS:
            outputs.append(reader.text(entry))
        elif entry.number == _OPERATOR:
            operator = reader.text(entry)
        elif entry.number == _ATTRIBUTE:
            name, kind = _attribute(reader, entry)
            if name in attributes:
                raise MalformedError(f"an attribute {name!r} is given twice")
            attributes[name] = kind
    return operator, inputs, outputs, attributes


def _attribute(reader: Reader, entry: Field) -> tuple[str, int]:
    """Return an attribute's name, and the type that it holds or names: of its tensor, else its number."""
    name, number, tensors = "", 0, []  # type: str, int, list[int]
    seen = set()
    for inner in reader.fields(entry.start, entry.end):
        if inner.number in (_ATTRIBUTE_NAME, _ATTRIBUTE_INT, _ATTRIBUTE_TENSOR):
            if inner.number in seen:
                raise MalformedError(f"field {inner.number} of an attribute near byte {inner.start} comes twice")
            seen.add(inner.number)
        if inner.number == _ATTRIBUTE_NAME:
            name = reader.text(inner)
        elif inner.number == _ATTRIBUTE_INT and inner.wire == VARINT:
            number = inner.value
        elif inner.number == _ATTRIBUTE_TENSOR:
            tensors.append(_tensor(reader, inner)[1])
    return name, tensors[0] if tensors else number


def _tensor(reader: Reader, entry: Field) -> tuple[str, int]:
    """Return a tensor's name and element type; dimensions and data may come in pieces, these may not."""
    name, kinds = "", []  # type: str, list[int]
    for inner in reader.fields(entry.start, entry.end):
        if inner.number == _TENSOR_NAME and inner.wire == BYTES:
            name = reader.text(inner)
        elif inner.number == _TENSOR_TYPE:
            kinds.append(inner.value if inner.wire == VARINT else 0)
    if len(kinds) > 1:
        raise MalformedError(f"the tensor {name!r} has its type twice")
    return name, kinds[0] if kinds else 0


def _input(reader: Reader, entry: Field) -> tuple[str, int]:
    """Return an input's name and element type; the scan has refused those that are not declared as tensors."""
    info = single_fields(reader, entry)
    kind = single_fields(reader, single_fields(reader, info[2])[1])
    return reader.text(info[1]) if 1 in info else "", kind[1].value if 1 in kind else 0
