"""Reads frameworks' YAML as plain data, and collects the fields of a recipe, each with its source."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sami_runtime.adoption.readers.inlined import read_inlined
from sami_runtime.adoption.readers.torchscript import torchscript_as_onnx
from sami_runtime.adoption.sources import FieldSource, PolicyReading
from sami_runtime.distribution import install_hint
from sami_runtime.errors import ArtifactError, ContractError, SamiError, UnknownName
from sami_runtime.files import MAX_DOCUMENT_BYTES, printable, read_bounded
from sami_runtime.model.artifact import scan_bytes

MAX_DEPTH = 50
MAX_NODES = 200_000
"""Most values of a YAML file once its aliases are expanded."""
STATE = {"h_in": ("hidden", "h_out"), "c_in": ("cell", "c_out")}
"""rsl_rl's recurrent inputs, with the name of the state and its output; a suffix such as `_0` numbers the layers."""


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the table in a YAML file: mappings, lists, text, numbers, booleans and None.

    Tags such as `!!python/tuple` and `!!python/object/apply` are ignored: their content is read as plain data, and no
    object is created or called.

    Raises:
        ContractError: The file cannot be read, is no YAML table, is too large or nested too deeply, or expands too far.
        SamiError: The package that reads YAML is missing.
    """
    try:
        import yaml
    except ModuleNotFoundError:
        raise SamiError(f"{path} is YAML. Install what reads it with: {install_hint('adopt')}") from None

    class PlainLoader(yaml.SafeLoader):
        """Reads unknown tags as plain data, and limits depth and size."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            alias = self.peek_event().anchor if self.check_event(yaml.AliasEvent) else None
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise yaml.YAMLError(f"it is nested deeper than {MAX_DEPTH} levels")
            node = super().compose_node(parent, index)
            self.depth -= 1
            if alias is not None and not hasattr(node, "size"):
                raise yaml.YAMLError(f"the alias {alias} contains itself")
            children = [] if isinstance(node, yaml.ScalarNode) else node.value
            parts = [part for child in children for part in (child if isinstance(child, tuple) else (child,))]
            node.size = 1 + sum(part.size for part in parts)
            if node.size > MAX_NODES:
                raise yaml.YAMLError(f"it has more than {MAX_NODES} values")
            return node

        def plain(self, node: Any) -> Any:
            if isinstance(node, yaml.MappingNode):
                return self.construct_mapping(node, deep=True)
            if isinstance(node, yaml.SequenceNode):
                return self.construct_sequence(node, deep=True)
            return self.construct_scalar(node)

    PlainLoader.add_constructor(None, PlainLoader.plain)
    data = read_bounded(path, MAX_DOCUMENT_BYTES, "Give the framework's own file.", ContractError)
    try:
        document = yaml.load(data, PlainLoader)
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        cause = printable(" ".join(str(error).split()))[:200]
        raise ContractError(f"{path} cannot be read as YAML: {cause}. Give it as the framework wrote it.") from None
    if not isinstance(document, dict):
        raise ContractError(f"{path} holds a {type(document).__name__}; expected a table.")
    return document


def contains_bytes(path: Path, *marks: bytes) -> bool:
    """Return whether the first megabyte of a file contains all marks; False if the file cannot be read."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(1_000_000)
    except OSError:
        return False
    return all(mark in head for mark in marks)


class Document:
    """A table of a framework's file. Its getters raise ContractError with file and key if a value is invalid."""

    def __init__(self, path: Path, table: Mapping[str, Any] | None = None, prefix: str = "") -> None:
        self.path = path
        self.table = read_yaml(path) if table is None else table
        self.prefix = prefix

    def get(self, key: str) -> Any:
        """Return the value of a dotted key; None if it, or a table around it, is missing."""
        value: Any = self.table
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def source(self, key: str) -> FieldSource:
        """Return the source of a field whose value is under this key."""
        return FieldSource(kind="file", where=f"{self.path.name}: {self.prefix}{key}")

    def refuse(self, key: str, expected: str) -> ContractError:
        """Return the error for a key whose value is invalid."""
        value = self.get(key)
        state = "is missing" if value is None else f"is {printable(repr(value))[:100]}"
        return ContractError(f"{self.path}: {self.prefix}{key} {state}; expected {expected}. Correct the file.")

    def under(self, key: str) -> Document:
        """Return a table in this one."""
        value = self.get(key)
        if not isinstance(value, Mapping):
            raise self.refuse(key, "a table")
        return Document(self.path, value, f"{self.prefix}{key}.")

    def number(self, key: str, above: float = -math.inf) -> float:
        """Return a finite number greater than `above`."""
        value = self.get(key)
        if not _is_number(value) or value <= above:
            raise self.refuse(key, "a number" if above == -math.inf else f"a number above {above:g}")
        return float(value)

    def count(self, key: str) -> int:
        """Return a whole number of at least 1."""
        value = self.number(key, 0)
        if value != int(value):
            raise self.refuse(key, "a whole number")
        return int(value)

    def text(self, key: str) -> str:
        """Return a text."""
        value = self.get(key)
        if not isinstance(value, str) or not value:
            raise self.refuse(key, "text")
        return value

    def numbers(self, key: str, size: int | None = None) -> list[float]:
        """Return a list of finite numbers; with `size`, of that length, and a single number is repeated."""
        value = self.get(key)
        if size is not None and _is_number(value):
            return [float(value)] * size
        if not isinstance(value, list) or not all(map(_is_number, value)) or len(value) != (size or len(value)):
            raise self.refuse(key, f"{size or 'a list of'} numbers")
        return [float(number) for number in value]

    def names(self, key: str) -> list[str]:
        """Return a list of at least one text."""
        value = self.get(key)
        if not isinstance(value, list) or not value or not all(isinstance(name, str) and name for name in value):
            raise self.refuse(key, "a list of names")
        return value

    def order(self, key: str, size: int | None = None) -> list[int]:
        """Return a list of distinct whole numbers from 0 to 999: indices of joints or motors."""
        value = self.numbers(key, size)
        if len({*value}) != len(value) or not value or any(n != int(n) or not 0 <= n < 1000 for n in value):
            raise self.refuse(key, "different whole numbers of joints")
        return [int(number) for number in value]

    def by_joint(self, key: str, joints: Sequence[str], rest: float | None = None) -> list[float]:
        """Return a number for each joint, from one number for all or from Isaac Lab's table by patterns of names.

        Args:
            key: The dotted key.
            joints: The joints' names.
            rest: Number for joints that no pattern names; if None, such a joint is an error.
        """
        value = self.get(key)
        if _is_number(value):
            return [float(value)] * len(joints)
        if not isinstance(value, Mapping) or not all(map(_is_number, value.values())):
            raise self.refuse(key, "a number, or a table of numbers by joint")
        numbers = []
        for joint in joints:
            hits = [float(number) for pattern, number in value.items() if self.matches(pattern, joint, key)]
            if len(hits) > 1 or (not hits and rest is None):
                raise self.refuse(key, f"one number for joint {joint!r}, which {len(hits)} patterns name")
            numbers.append(hits[0] if hits else float(rest or 0))
        return numbers

    def matches(self, pattern: Any, name: str, key: str) -> bool:
        """Return whether a pattern matches a joint's name; a pattern that could take forever to match is an error."""
        text = str(pattern)
        if len(text) > 200 or len(re.findall(r"[*+{]", text)) > 4 or re.search(r"\)[*+{?]", text):
            raise self.refuse(key, f"patterns with at most 4 repetitions, none of them of a group, not {text[:60]!r}")
        try:
            return re.fullmatch(text, name) is not None
        except (re.error, OverflowError):
            raise self.refuse(key, f"patterns of names, not {printable(text)[:60]!r}") from None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e30


class Draft:
    """The recipe that a reader fills: values by dotted field, such as `"signals.gravity.scale"`, with their sources."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._sources: dict[str, FieldSource] = {}

    def put(self, field: str, value: Any, source: FieldSource) -> None:
        """Set a field; if `value` is None, only its source is stored, which explains why it is unknown."""
        self._sources[field] = source
        table = self._values
        *path, last = field.split(".")
        for part in path:
            table = table.setdefault(part, {})
        table[last] = value

    def put_all(self, table: str, values: Mapping[str, Any], source: FieldSource) -> None:
        """Set several fields of one table, by name, from one source."""
        for name, value in values.items():
            self.put(f"{table}.{name}", value, source)

    def put_bounds(self, table: str, pairs: Sequence[Sequence[float]], source: FieldSource) -> None:
        """Set `low` and `high` of a table from pairs (low, high), one for each element."""
        low, high = ([pair[side] for pair in pairs] for side in (0, 1))
        self.put_all(table, {"low": low, "high": high}, source)

    def put_history(self, table: str, steps: int, where: FieldSource, code: FieldSource) -> None:
        """Set the history of a term whose oldest frame comes first, and whose first frame is repeated at the start."""
        if steps > 1:
            self.put(f"{table}.history.steps", steps, where)
            self.put_all(f"{table}.history", {"first": "oldest", "start": "repeat"}, code)

    def put_rate(self, document: Document, step: str, decimation: str) -> float:
        """Set rate and decimation by the keys of the simulation's step [s] and decimation; return the rate [1/s]."""
        count, source = document.count(decimation), document.source(f"{step}, {decimation}")
        rate = round(1 / (document.number(step, 0) * count), 6)
        self.put("rate_hz", rate, source)
        self.put("decimation", count, source)
        return rate

    def unknown(self, field: str, reason: str) -> None:
        """Mark a field as unknown, with the reason, or how to find the value."""
        self.put(field, None, FieldSource(kind="unknown", where=reason))

    def reading(self, policy: bytes) -> PolicyReading:
        """Return what was read, with the policy's bytes."""
        values = _without_nulls(self._values)
        for key in ("signals", "state"):
            if key in values:
                tables = values[key]
                values[key] = [{"name": name, **table} for name, table in tables.items()]
                for name in tables:
                    self._sources.setdefault(f"{key}.{name}", TABLE)
        return PolicyReading(policy, values, self._sources)


def _without_nulls(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table of tables without values of None, and without tables that are then empty."""
    inner = {key: _without_nulls(value) if isinstance(value, Mapping) else value for key, value in table.items()}
    return {key: value for key, value in inner.items() if value is not None and value != {}}


TABLE = FieldSource(kind="table", where="names of this package")


def policy_in(folder: Path, *candidates: str) -> Path:
    """Return the policy of a folder: the first candidate that exists, or else the only ONNX or TorchScript file.

    Raises:
        ArtifactError: There is none, or more than one.
    """
    for candidate in candidates:
        if (folder / candidate).is_file():
            return folder / candidate
    files = sorted(folder.glob("*.onnx")) or sorted(folder.glob("*.pt"))
    if len(files) != 1:
        listed = ", ".join(file.name for file in files[:5]) or "none"
        raise ArtifactError(
            f"{folder} has {len(files)} policies ({listed}); expected {candidates[0] if candidates else 'one'}. "
            "Export the policy to ONNX there, or give the path of the file."
        )
    return files[0]


def read_network(draft: Draft, path: Path) -> tuple[bytes, int, int]:
    """Read an ONNX or TorchScript policy with one input beside its state, and put its names into a draft.

    Returns:
        The ONNX file's bytes, the size of the network's input, and the size of its output.

    Raises:
        ArtifactError: The network has other inputs or outputs than those that rsl_rl and legged_gym export.
    """
    data = torchscript_as_onnx(path) if path.suffix == ".pt" else read_inlined(path)
    scan = scan_bytes(data, path)
    source = FieldSource(kind="file", where=path.name)
    outputs = {tensor.name for tensor in scan.outputs}
    pairs = {}
    for tensor in scan.inputs:
        kind, layer = tensor.name[:4], tensor.name[4:]
        if kind in STATE and STATE[kind][1] + layer in outputs:
            pairs[tensor.name] = (STATE[kind][0] + layer, STATE[kind][1] + layer)
    for name, (state, output) in pairs.items():
        draft.put(f"state.{state}.input", name, source)
        draft.put(f"state.{state}.output", output, source)
    sizes = []
    for kind, tensors, used_names in (
        ("input", scan.inputs, {*pairs}),
        ("output", scan.outputs, {output for _, output in pairs.values()}),
    ):
        rest = [tensor for tensor in tensors if tensor.name not in used_names]
        if len(rest) != 1 or len(rest[0].shape) != 2 or not isinstance(rest[0].shape[1], int):
            listed = ", ".join(f"{printable(tensor.name)} {list(tensor.shape)}" for tensor in tensors[:8]) or "none"
            raise ArtifactError(
                f"{path} has the {kind}s {listed}; expected one of shape [batch, size]"
                f"{' and ' + ', '.join(pairs) if pairs else ''}. Give a bare ONNX file with --contract instead."
            )
        draft.put(kind, rest[0].name, source)
        sizes.append(rest[0].shape[1])
    return data, sizes[0], sizes[1]


def put_slices(draft: Draft, sizes: Mapping[str, int], total: int, source: FieldSource) -> None:
    """Put the slices of successive signals into a draft; `last_action` is the table of that name, not a signal.

    Raises:
        ContractError: The sizes do not add up to `total`, the size of the network's input.
    """
    if sum(sizes.values()) != total:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise ContractError(
            f"{source.where} gives {sum(sizes.values())} numbers ({listed}); the network reads {total}. "
            "Give the files of the same training."
        )
    start = 0
    for name, size in sizes.items():
        field = name if name == "last_action" else f"signals.{name}"
        draft.put(f"{field}.slice", [start, start + size], source)
        start += size


def require_known(kind: str, name: str, valid: Iterable[str], document: Document) -> None:
    """Raise UnknownName if a name is not among the names that the reader knows."""
    if name not in {*valid}:
        raise UnknownName(f"{kind} of {document.path}", printable(name), valid)
