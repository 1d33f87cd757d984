"""Finds out from the bytes of an ONNX file what onnxruntime would execute, before onnxruntime reads the file.

A small reader of the protobuf wire format: no `onnx`, no generated code, no recursion. It follows every message that
can contain a tensor, an operator or a graph, and skips the rest. If a hostile file could be read in two ways (a field
given twice, a known field of another wire type), it raises an error instead of choosing.

It also follows element types through the graph. An integer division without a result (by 0, or of the smallest number
by -1) makes the processor end the process, and with it the control of a robot. A division of floats always has a
result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

_ARITHMETIC = "Abs Add Ceil Clip Div Floor Max Mean Min Mod Mul Neg Pow Reciprocal Round Sign Sqrt Sub Sum"
_FUNCTIONS = "Cos Erf Exp Log Sin Tan Atan"
_ACTIVATIONS = (
    "Celu Elu Gelu HardSigmoid HardSwish LeakyRelu LogSoftmax Mish PRelu Relu Selu Sigmoid Softmax Softplus Softsign "
    "Tanh ThresholdedRelu"
)
_REDUCTIONS = "ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
_SHAPES = (
    "Cast CastLike Concat Constant ConstantOfShape Expand Flatten Gather GatherElements Identity Range Reshape Shape "
    "Size Slice Split Squeeze Tile Transpose Unsqueeze"
)
_LOGIC = "And Equal Greater GreaterOrEqual Less LessOrEqual Not Or Xor"
_LAYERS = "Conv Einsum Gemm MatMul GRU LSTM RNN LayerNormalization RMSNormalization Where"
OPERATORS = frozenset(" ".join([_ARITHMETIC, _FUNCTIONS, _ACTIVATIONS, _REDUCTIONS, _SHAPES, _LOGIC, _LAYERS]).split())
"""Operators of the default domain that a model file may use: an allow-list, because a hostile file reaches every kernel
that onnxruntime has. Deterministic arithmetic: no control flow, files, randomness, strings or quantisation."""
DOMAINS = frozenset({"", "ai.onnx"})
"""The default domain, by its two names."""

MAX_DEPTH = 32
"""Deepest nesting of messages; a policy without control flow has about 6."""
MAX_FIELDS = 1_000_000
"""Most fields that are read from one file, so that a hostile file takes seconds and not hours."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

# Fields that are followed, by message: number -> message. Numbers are those of onnx.proto.
_MESSAGES: dict[str, dict[int, str]] = {
    "Model": {7: "Graph", 8: "OperatorSet", 14: "Metadata", 20: "Training", 25: "Function"},
    "Graph": {1: "Node", 5: "Tensor", 11: "Input", 12: "Output", 15: "Sparse"},
    "Subgraph": {1: "Node", 5: "Tensor", 15: "Sparse"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Subgraph", 10: "Tensor", 11: "Subgraph", 22: "Sparse", 23: "Sparse"},
    "Sparse": {1: "Tensor", 2: "Tensor"},
    "Tensor": {13: "ExternalEntry"},
    "Function": {7: "Node", 9: "OperatorSet", 11: "Attribute"},
    "Training": {1: "Subgraph", 2: "Subgraph"},
}
# Scalar fields that are read, by message: number -> wire type.
_SCALARS: dict[str, dict[int, int]] = {
    "OperatorSet": {1: BYTES},
    "Metadata": {1: BYTES, 2: BYTES},
    "Node": {4: BYTES, 7: BYTES},
    "Tensor": {8: BYTES, 14: VARINT},
}
_NODE, _INITIALIZER, _INPUT = 1, 5, 11
_INPUTS, _OUTPUTS, _OPERATOR, _ATTRIBUTE = 1, 2, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_INT, _ATTRIBUTE_TENSOR, _ATTRIBUTE_INTS = 1, 3, 5, 8
_TENSOR_TYPE, _TENSOR_FLOATS, _TENSOR_NAME, _TENSOR_RAW = 2, 4, 8, 9

FLOAT, INT64, BOOL = 1, 7, 9
"""ONNX's TensorProto.DataType."""
FLOATS = frozenset({FLOAT, 10, 11, 16})
"""float32, float16, float64 and bfloat16."""
_STORED = {FLOAT: "<f4", 10: "<f2", 11: "<f8"}
"""NumPy's type of the stored data, by element type."""
_DIVIDING = frozenset({"Div", "Mod", "ReduceMean"})
"""Operators whose kernels divide in the element type of their input, integers included."""
_FIXED_TYPE = {**dict.fromkeys(_LOGIC.split(), BOOL), "Shape": INT64, "Size": INT64}
"""Output type of some operators. Other operators have the type of an input, mostly of the first."""
MAX_CONV = 1024
"""Largest stride, dilation, padding, kernel size and number of groups of a convolution: padding takes memory."""
_VALUES = {"value_float": FLOAT, "value_floats": FLOAT, "value_int": INT64, "value_ints": INT64}


class MalformedError(ValueError):
    """The bytes are not an ONNX file, or can be read in two ways."""


class TensorType(NamedTuple):
    """A declared input or output of the graph."""

    name: str
    dtype: int
    """ONNX's TensorProto.DataType; 1 is float32."""
    shape: tuple[int | str, ...]
    """A number for each fixed axis, a name (possibly empty) for each dynamic one."""


@dataclass
class ModelScan:
    """The content of a model file, as far as it decides whether the file may be loaded."""

    graph: bytes = b""
    """The serialized graph, exactly as in the file."""
    opset_domains: set[str] = field(default_factory=set)
    operators: set[tuple[str, str]] = field(default_factory=set)
    """(domain, operator) of every node, including those of subgraphs and functions."""
    metadata: list[tuple[str, str]] = field(default_factory=list)
    inputs: list[TensorType] = field(default_factory=list)
    outputs: list[TensorType] = field(default_factory=list)
    external: list[str] = field(default_factory=list)
    """Names of the tensors whose data are outside the file."""
    messages: Counter[str] = field(default_factory=Counter)
    """Number of messages of each kind, such as `"Function"`."""


class Field(NamedTuple):
    """A field of a message."""

    number: int
    wire: int
    start: int
    """Offset at which the content begins."""
    end: int
    value: int
    """The number of a VARINT field."""


class Reader:
    """Reads the fields of messages, at most `MAX_FIELDS` in all."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._room = MAX_FIELDS

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """Return the number at offset `at`, and the offset behind it."""
        value = shift = 0
        while at < end and shift < 70:
            byte = self.data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 1 << 64:
                    break
                return value, at
            shift += 7
        raise MalformedError(f"a number is cut off or too long at byte {at}")

    def fields(self, start: int, end: int) -> Iterator[Field]:
        """Yield the fields of the message in the bytes [start, end)."""
        at = start
        while at < end:
            self._room -= 1
            if self._room < 0:
                raise MalformedError(f"it has more than {MAX_FIELDS} fields")
            begin = at
            key, at = self.varint(at, end)
            number, wire, value, content = key >> 3, key & 7, 0, at
            if number == 0 or key >= 1 << 32:
                raise MalformedError(f"field number {number} at byte {begin} is not valid")
            if wire == VARINT:
                value, at = self.varint(at, end)
            elif wire == BYTES:
                length, content = self.varint(at, end)
                at = content + length
            elif wire in (FIXED32, FIXED64):
                at += 4 if wire == FIXED32 else 8
            else:
                raise MalformedError(f"wire type {wire} at byte {begin} is not used by ONNX")
            if at > end:
                raise MalformedError(f"it is cut off in the field at byte {begin}")
            yield Field(number, wire, content, at, value)

    def inner(self, entry: Field) -> Iterator[Field]:
        """Yield the fields of the message that a field contains."""
        return self.fields(entry.start, entry.end)

    def single(self, entry: Field, repeated: int = 0) -> dict[int, Field]:
        """Return the fields of a message by number; raise MalformedError if one but `repeated` occurs twice."""
        if entry.wire != BYTES:
            raise MalformedError(f"a message is expected at byte {entry.start}")
        fields: dict[int, Field] = {}
        for inner in self.inner(entry):
            if inner.number in fields and inner.number != repeated:
                raise MalformedError(f"field {inner.number} at byte {inner.start} comes twice")
            fields[inner.number] = inner
        return fields

    def text(self, field: Field | None) -> str:
        """Return the string in a BYTES field; an empty string without a field."""
        if field is None:
            return ""
        try:
            return self.data[field.start : field.end].decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedError(f"the string at byte {field.start} is not UTF-8") from error


def scan_model(data: bytes) -> ModelScan:
    """Find everything in a model file that decides whether it may be loaded.

    Raises:
        MalformedError: The bytes are cut off, no ONNX file, too nested, or ambiguous.
    """
    reader, scan = Reader(data), ModelScan()
    pending = [("Model", 0, len(data), 0)]
    while pending:
        kind, start, end, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise MalformedError(f"its messages are nested deeper than {MAX_DEPTH}")
        children, scalars = _MESSAGES.get(kind, {}), _SCALARS.get(kind, {})
        fields: dict[int, Field] = {}
        for entry in reader.fields(start, end):
            expected = BYTES if entry.number in children else scalars.get(entry.number, entry.wire)
            if entry.wire != expected:
                raise MalformedError(
                    f"field {entry.number} of a {kind} near byte {entry.start} has wire type {entry.wire}"
                )
            if entry.number in scalars and entry.number in fields:
                raise MalformedError(f"a {kind} near byte {entry.start} has field {entry.number} twice")
            fields[entry.number] = entry
            if child := children.get(entry.number):
                scan.messages[child] += 1
                if child == "Graph":
                    scan.graph = data[entry.start : entry.end]
                elif child == "Input":
                    scan.inputs.append(_declared(reader, entry))
                elif child == "Output":
                    scan.outputs.append(_declared(reader, entry))
                pending.append((child, entry.start, entry.end, depth + 1))
        if scan.messages["Graph"] > 1:
            raise MalformedError("it has two graphs")
        if kind == "OperatorSet":
            scan.opset_domains.add(reader.text(fields.get(1)))
        elif kind == "Metadata":
            scan.metadata.append((reader.text(fields.get(1)), reader.text(fields.get(2))))
        elif kind == "Node":
            scan.operators.add((reader.text(fields.get(7)), reader.text(fields.get(4))))
        elif kind == "Tensor" and (13 in fields or (14 in fields and fields[14].value != 0)):
            # Any location but DEFAULT counts: readers differ in what they make of an unknown enum value.
            scan.external.append(reader.text(fields.get(8)))
    if not scan.graph:
        raise MalformedError("it has no graph")
    return scan


def _declared(reader: Reader, entry: Field) -> TensorType:
    """Return the name, type and shape that a ValueInfoProto declares."""
    info = reader.single(entry, repeated=4)  # field 4: notes of the exporter, which are not read
    name = reader.text(info.get(1))
    kind = reader.single(info[2]) if 2 in info else {}
    if 1 not in kind:
        raise MalformedError(f"input or output {name!r} is not declared as a tensor")
    tensor = reader.single(kind[1])
    shape: list[int | str] = []
    for axis in reader.inner(tensor[2]) if 2 in tensor else ():
        size = reader.single(axis)
        shape.append(size[1].value if 1 in size else reader.text(size.get(2)))
    return TensorType(name, tensor[1].value if 1 in tensor else 0, tuple(shape))


def whole_divisions(graph: bytes) -> list[str]:
    """Return the nodes of a graph that divide integers, or may do so: a phrase for each node.

    Args:
        graph: A serialized GraphProto without subgraphs: `ModelScan.graph`.

    Raises:
        MalformedError: It is cut off, or can be read in two ways: a tensor made twice, an attribute given twice.
    """
    reader = Reader(graph)
    nodes: list[Field] = []
    types: dict[str, int] = {}
    for entry in reader.fields(0, len(graph)):
        if entry.number == _NODE:
            nodes.append(entry)
        elif entry.number in (_INITIALIZER, _INPUT):
            name, kind = _tensor(reader, entry) if entry.number == _INITIALIZER else _declared(reader, entry)[:2]
            # A tensor may be an input and have an initial value, but both must have one type.
            if types.setdefault(name, kind) != kind:
                raise MalformedError(f"the tensor {name!r} is declared with two types")
    divisions = []
    for at, node in enumerate(nodes):
        operator, inputs, outputs, attributes = _node(reader, node)
        if operator in _DIVIDING and types.get(inputs[0] if inputs else "", 0) not in FLOATS:
            divisions.append(f"{operator} of {inputs[0]!r}" if inputs else f"{operator} of nothing (node {at})")
        kind = _output_type(operator, [types.get(name, 0) for name in inputs], attributes)
        for name in filter(None, outputs):
            if name in types:
                raise MalformedError(f"the tensor {name!r} is made twice")
            types[name] = kind
    return divisions


def odd_convolutions(graph: bytes) -> list[str]:
    """Return the attributes of convolutions (strides, pads, sizes) that are 0, negative or huge: a phrase for each.

    Kernels divide by strides and groups, and allocate the padding; not every version of onnxruntime checks them.
    """
    reader = Reader(graph)
    odd = []
    for node in reader.fields(0, len(graph)):
        parts = list(reader.inner(node)) if node.number == _NODE else []
        if not any(part.number == _OPERATOR and reader.text(part) == "Conv" for part in parts):
            continue
        for part in parts:
            if part.number != _ATTRIBUTE:
                continue
            attribute = list(reader.inner(part))
            name = next((reader.text(entry) for entry in attribute if entry.number == _ATTRIBUTE_NAME), "")
            # A negative number is encoded as a huge one.
            least = 0 if name == "pads" else 1
            if any(not least <= number <= MAX_CONV for entry in attribute for number in _whole_numbers(reader, entry)):
                odd.append(f"{name} of a Conv")
    return odd


def _whole_numbers(reader: Reader, entry: Field) -> list[int]:
    """Return the integers in a field of an attribute, which contains one integer or several packed ones."""
    if entry.number not in (_ATTRIBUTE_INT, _ATTRIBUTE_INTS):
        return []
    if entry.wire != BYTES:
        return [entry.value]
    numbers, at = [], entry.start
    while at < entry.end:
        number, at = reader.varint(at, entry.end)
        numbers.append(number)
    return numbers


def weights_not_finite(graph: bytes) -> list[str]:
    """Return the names of the tensors that contain NaN, or infinity among other numbers; one bound may be infinite.

    A kernel may compute a finite action from a weight that is not finite, so that outputs would not show it.
    """
    reader = Reader(graph)
    tensors: list[Field] = []
    for entry in reader.fields(0, len(graph)):
        if entry.number == _INITIALIZER:
            tensors.append(entry)
        elif entry.number == _NODE:
            for attribute in reader.inner(entry):
                if attribute.number == _ATTRIBUTE:
                    tensors += [part for part in reader.inner(attribute) if part.number == _ATTRIBUTE_TENSOR]
    return [_tensor(reader, tensor)[0] for tensor in tensors if not _finite(reader, tensor)]


def _finite(reader: Reader, tensor: Field) -> bool:
    stored = {_TENSOR_RAW: _STORED.get(_tensor(reader, tensor)[1]), _TENSOR_FLOATS: "<f4"}
    for part in reader.inner(tensor):
        kind = stored.get(part.number)
        if kind is None or part.wire != BYTES:
            continue
        size = np.dtype(kind).itemsize
        numbers = np.frombuffer(reader.data, kind, (part.end - part.start) // size, part.start)
        if np.isnan(numbers).any() or (len(numbers) > 1 and np.isinf(numbers).any()):
            return False
    return True


def _output_type(operator: str, inputs: list[int], attributes: dict[str, int]) -> int:
    """Return the element type of a node's outputs; 0 if it is unknown."""
    if operator in _FIXED_TYPE:
        return _FIXED_TYPE[operator]
    if operator == "Cast":
        return attributes.get("to", 0)
    if operator == "Constant":
        kinds = [_VALUES.get(name, kind) for name, kind in attributes.items() if name.startswith("value")]
        return kinds[0] if len(kinds) == 1 else 0
    if operator == "ConstantOfShape":
        return attributes.get("value", FLOAT)
    at = 1 if operator in ("CastLike", "Where") else 0
    return inputs[at] if len(inputs) > at else 0


def _node(reader: Reader, node: Field) -> tuple[str, list[str], list[str], dict[str, int]]:
    """Return a node's operator, the names of its inputs and outputs, and its attributes, see `_attribute`."""
    operator = ""
    inputs: list[str] = []
    outputs: list[str] = []
    attributes: dict[str, int] = {}
    for entry in reader.inner(node):
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
    """Return an attribute's name, and its tensor's element type, else its integer, such as a Cast's `to`; else 0."""
    parts: dict[int, Field] = {}
    for inner in reader.inner(entry):
        if inner.number in (_ATTRIBUTE_NAME, _ATTRIBUTE_INT, _ATTRIBUTE_TENSOR):
            if inner.number in parts:
                raise MalformedError(f"field {inner.number} of an attribute near byte {inner.start} comes twice")
            parts[inner.number] = inner
    name = reader.text(parts.get(_ATTRIBUTE_NAME))
    if _ATTRIBUTE_TENSOR in parts:
        return name, _tensor(reader, parts[_ATTRIBUTE_TENSOR])[1]
    number = parts.get(_ATTRIBUTE_INT)
    return name, number.value if number is not None else 0


def _tensor(reader: Reader, entry: Field) -> tuple[str, int]:
    """Return a tensor's name and element type; raise MalformedError if the type occurs twice."""
    name = ""
    kinds = []
    for inner in reader.inner(entry):
        if inner.number == _TENSOR_NAME and inner.wire == BYTES:
            name = reader.text(inner)
        elif inner.number == _TENSOR_TYPE:
            kinds.append(inner.value)
    if len(kinds) > 1:
        raise MalformedError(f"the tensor {name!r} has its type twice")
    return name, kinds[0] if kinds else 0
