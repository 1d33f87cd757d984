"""Reads what an ONNX file would make onnxruntime do, from its bytes and before onnxruntime sees them.

A small reader of the protobuf wire format: no `onnx`, no generated code, no recursion. It follows every
message in which a tensor, an operator or a graph can hide, and skips the rest. Where a hostile file could be
read in two ways (a field given twice, a known field of another wire type) it refuses instead of choosing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_DEPTH = 32
"""Deepest nesting of messages; a policy without control flow has about 6."""

MAX_FIELDS = 1_000_000
"""Most fields that are read of one file, so that a hostile one costs seconds and not hours."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

# Fields that are followed, by message: number -> message. Numbers are those of onnx.proto.
_MESSAGES: dict[str, dict[int, str]] = {
    "Model": {7: "Graph", 8: "OperatorSet", 14: "Metadata", 20: "Training", 25: "Function"},
    "Graph": {1: "Node", 5: "Tensor", 11: "Input", 12: "Output", 15: "Sparse"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Subgraph", 10: "Tensor", 11: "Subgraph", 22: "Sparse", 23: "Sparse"},
    "Sparse": {1: "Tensor", 2: "Tensor"},
    "Tensor": {13: "ExternalEntry"},
    "Function": {7: "Node", 9: "OperatorSet", 11: "Attribute"},
    "Training": {1: "Subgraph", 2: "Subgraph"},
}
_MESSAGES["Subgraph"] = {1: "Node", 5: "Tensor", 15: "Sparse"}

# Scalar fields that are read, by message: number -> wire type.
_SCALARS: dict[str, dict[int, int]] = {
    "OperatorSet": {1: BYTES},
    "Metadata": {1: BYTES, 2: BYTES},
    "Node": {4: BYTES, 7: BYTES},
    "Tensor": {8: BYTES, 14: VARINT},
}


class MalformedError(ValueError):
    """The bytes are no ONNX file, or one that can be read in two ways."""


class TensorType(NamedTuple):
    """A declared input or output of the graph."""

    name: str
    dtype: int
    """ONNX's TensorProto.DataType; 1 is float32."""
    shape: tuple[int | str, ...]
    """A number for each fixed axis, a name (possibly empty) for each dynamic one."""


@dataclass
class ModelScan:
    """What was found in a model file."""

    graph: bytes = b""
    """The serialized graph, exactly as in the file."""
    opset_domains: set[str] = field(default_factory=set)
    operators: set[tuple[str, str]] = field(default_factory=set)
    """(domain, operator) of every node, of subgraphs and functions too."""
    metadata: list[tuple[str, str]] = field(default_factory=list)
    inputs: list[TensorType] = field(default_factory=list)
    outputs: list[TensorType] = field(default_factory=list)
    external: list[str] = field(default_factory=list)
    """Names of the tensors whose data lies outside the file."""
    sparse_tensors: int = 0
    functions: int = 0
    subgraphs: int = 0
    trainings: int = 0


class Field(NamedTuple):
    """A field of a message."""

    number: int
    wire: int
    start: int
    """Where the content of a BYTES field begins."""
    end: int
    value: int
    """The number of a VARINT field."""


class Reader:
    """Walks the fields of messages, and counts them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._left = MAX_FIELDS

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """Return the number at `at` and where it ends."""
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
        """Return the fields of the message that fills [start, end)."""
        at = start
        while at < end:
            self._left -= 1
            if self._left < 0:
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

    def text(self, field: Field) -> str:
        """Return the string in a BYTES field."""
        try:
            return self.data[field.start : field.end].decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedError(f"the string at byte {field.start} is not UTF-8") from error


def scan_model(data: bytes) -> ModelScan:
    """Find everything in a model file that decides whether it may be loaded.

    Args:
        data: The whole file.

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
            if entry.number in children:
                child = children[entry.number]
                _enter(scan, reader, child, entry)
                pending.append((child, entry.start, entry.end, depth + 1))
        _leave(scan, reader, kind, fields)
    if not scan.graph:
        raise MalformedError("it has no graph")
    return scan


def _enter(scan: ModelScan, reader: Reader, kind: str, entry: Field) -> None:
    """Record that a message of `kind` is there."""
    if kind == "Graph":
        if scan.graph:
            raise MalformedError("it has two graphs")
        scan.graph = reader.data[entry.start : entry.end]
    elif kind == "Input":
        scan.inputs.append(_tensor_type(reader, entry))
    elif kind == "Output":
        scan.outputs.append(_tensor_type(reader, entry))
    elif kind == "Sparse":
        scan.sparse_tensors += 1
    elif kind == "Function":
        scan.functions += 1
    elif kind == "Subgraph":
        scan.subgraphs += 1
    elif kind == "Training":
        scan.trainings += 1


def _leave(scan: ModelScan, reader: Reader, kind: str, fields: dict[int, Field]) -> None:
    """Record the scalars of a message that was read to its end."""

    def text(number: int) -> str:
        return reader.text(fields[number]) if number in fields else ""

    if kind == "OperatorSet":
        scan.opset_domains.add(text(1))
    elif kind == "Metadata":
        scan.metadata.append((text(1), text(2)))
    elif kind == "Node":
        scan.operators.add((text(7), text(4)))
    elif kind == "Tensor" and (13 in fields or (14 in fields and fields[14].value != 0)):
        # Any location but DEFAULT counts: readers differ in what they make of an unknown enum value.
        scan.external.append(text(8))


def _tensor_type(reader: Reader, entry: Field) -> TensorType:
    """Return the name, type and shape that a ValueInfoProto declares."""
    info = single_fields(reader, entry)
    name = reader.text(info[1]) if 1 in info else ""
    kind = single_fields(reader, info[2]) if 2 in info else {}
    if 1 not in kind:
        raise MalformedError(f"input or output {name!r} is not declared as a tensor")
    tensor = single_fields(reader, kind[1])
    shape: list[int | str] = []
    if 2 in tensor:
        for axis in reader.fields(tensor[2].start, tensor[2].end):
            size = single_fields(reader, axis)
            shape.append(size[1].value if 1 in size else reader.text(size[2]) if 2 in size else "")
    return TensorType(name, tensor[1].value if 1 in tensor else 0, tuple(shape))


def single_fields(reader: Reader, entry: Field) -> dict[int, Field]:
    """Return the fields, by number, of a message none of whose fields may come twice."""
    if entry.wire != BYTES:
        raise MalformedError(f"a message is expected at byte {entry.start}")
    fields: dict[int, Field] = {}
    for inner in reader.fields(entry.start, entry.end):
        if inner.number in fields:
            raise MalformedError(f"field {inner.number} at byte {inner.start} comes twice")
        fields[inner.number] = inner
    return fields
