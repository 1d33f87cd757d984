"""Reads pickles and torch archives as plain data: no function or class that they name is imported or called.

A pickle is a program for a small stack machine. `pickle.loads` runs it, and so runs whatever code the file names. This
module follows the same opcodes, but records a `Call` instead of calling a function. So it does not need torch, either.
"""

from __future__ import annotations

import io
import math
import pickletools
import warnings
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import ArtifactError
from sami_runtime.files import printable, read_bounded

MAX_ARCHIVE_BYTES = 512 * 1024 * 1024
"""Largest archive, and the largest sum of its files' sizes [bytes]; a policy has less than 100 MB."""
MAX_PICKLE_BYTES = 16 * 1024 * 1024
MAX_OPCODES = 500_000
"""Most opcodes of a pickle and parts that they copy: an opcode of one byte may copy all that came before."""
MAX_MEMBERS = 10_000
_DAMAGES = (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, OSError)

Array = NDArray[Any]


@dataclass(eq=False)
class Call:
    """A function that a pickle would have called, or an object that it would have created."""

    function: str
    """Dotted name, such as `"torch._utils._rebuild_tensor_v2"`; `"persistent"` for data outside of the pickle."""
    arguments: tuple[Any, ...] = ()
    state: dict[str, Any] = field(default_factory=dict)
    """Attributes and items that the pickle sets afterwards, if their names are texts."""


class _Mark:
    """Marks the place on the stack at which the elements of a list, tuple or dictionary begin."""


def pickle_tree(data: bytes, source: str) -> Any:
    """Return the content of a pickle as numbers, text, bytes, lists, tuples, dictionaries and `Call`.

    Keys that are not texts are left out; no weight has such a key.

    Raises:
        ArtifactError: The pickle is damaged, too large, or uses an opcode that weights do not need.
    """
    if len(data) > MAX_PICKLE_BYTES:
        raise ArtifactError(f"{source} has {len(data)} bytes of pickle; at most {MAX_PICKLE_BYTES} are read.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in a damaged pickle's text
            return _walk(data)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        cause = printable(str(error) or type(error).__name__)[:200]
        raise ArtifactError(f"{source} is damaged or holds no weights: {cause}. Save the policy again.") from None


def _walk(data: bytes) -> Any:
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    operations: Iterable[tuple[Any, Any, int | None]] = pickletools.genops(data)
    work = 0
    for opcode, argument, _ in operations:
        name = opcode.name
        work += 1 + sum(map(_size, stack[max(0, len(stack) - _COPIED.get(name, 0)) :]))
        if work > MAX_OPCODES:
            raise ValueError(f"it has more than {MAX_OPCODES} opcodes and parts that they copy")
        if name == "STOP":
            return stack[-1]
        if name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            memo[len(memo) if argument is None else int(argument)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[int(argument)])
        elif name == "MARK":
            stack.append(_Mark)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in _WITH_ARGUMENT:
            stack.append(argument)
        elif name == "GLOBAL":
            stack.append(Call(".".join(argument.split(" ", 1))))
        elif name == "PERSID":
            stack.append(Call("persistent", (argument,)))
        elif name in _ON_STACK:
            _ON_STACK[name](stack)
        elif name not in ("PROTO", "FRAME"):
            raise ValueError(f"it uses the opcode {name}")
    raise ValueError("it has no end")


def _size(value: Any) -> int:
    """Return the number of parts that an opcode copies of a value, such as the two tables of an object's state."""
    tables = [part for part in value if isinstance(part, dict)] if isinstance(value, tuple) and len(value) == 2 else []
    return sum(len(part) for part in (value, *tables) if isinstance(part, str | tuple | list | dict))


def _to_mark(stack: list[Any]) -> list[Any]:
    """Remove the items above the last mark, and the mark, from the stack; return the items."""
    items: list[Any] = []
    while (item := stack.pop()) is not _Mark:
        items.append(item)
    return items[::-1]


def _pop(stack: list[Any], count: int) -> list[Any]:
    if len(stack) < count or _Mark in stack[-count:]:
        raise ValueError("an element is missing")
    items = stack[-count:]
    del stack[-count:]
    return items


def _by_name(pairs: Iterable[Any]) -> dict[str, Any]:
    items = list(pairs)
    return {key: value for key, value in zip(items[::2], items[1::2], strict=True) if isinstance(key, str)}


def _fill(target: Any, items: dict[str, Any]) -> None:
    (target.state if isinstance(target, Call) else target).update(items)


def _build(stack: list[Any]) -> None:
    """Set the state of an object: a dictionary, a pair of two, or, for arrays, a tuple."""
    (state,) = _pop(stack, 1)
    target = stack[-1]
    for part in state if isinstance(state, tuple) and len(state) == 2 else (state,):
        if isinstance(part, dict):
            _fill(target, part)
    if isinstance(state, tuple):
        target.arguments += state


def _call(stack: list[Any], keywords: bool = False) -> None:
    function, arguments, *_ = _pop(stack, 3 if keywords else 2)
    stack.append(Call(function.function, tuple(arguments)))


def _extend(stack: list[Any], items: list[Any]) -> None:
    target = stack[-1]
    if isinstance(target, list):
        target.extend(items)


_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_EMPTY: dict[str, Any] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": list}
_WITH_ARGUMENT = frozenset(
    [
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    ]
)
_COPIED = {"BUILD": 1, "REDUCE": 1, "NEWOBJ": 1, "NEWOBJ_EX": 2, "STACK_GLOBAL": 2}
"""Opcodes that copy what is on top of the stack, and how many values."""
_ON_STACK: dict[str, Any] = {
    "POP": lambda stack: stack.pop(),
    "POP_MARK": _to_mark,
    "DUP": lambda stack: stack.append(stack[-1]),
    "TUPLE": lambda stack: stack.append(tuple(_to_mark(stack))),
    "TUPLE1": lambda stack: stack.append(tuple(_pop(stack, 1))),
    "TUPLE2": lambda stack: stack.append(tuple(_pop(stack, 2))),
    "TUPLE3": lambda stack: stack.append(tuple(_pop(stack, 3))),
    "LIST": lambda stack: stack.append(_to_mark(stack)),
    "FROZENSET": lambda stack: stack.append(_to_mark(stack)),
    "DICT": lambda stack: stack.append(_by_name(_to_mark(stack))),
    "APPEND": lambda stack: _extend(stack, _pop(stack, 1)),
    "APPENDS": lambda stack: (lambda items: _extend(stack, items))(_to_mark(stack)),
    "ADDITEMS": lambda stack: (lambda items: _extend(stack, items))(_to_mark(stack)),
    "SETITEM": lambda stack: (lambda pair: _fill(stack[-1], _by_name(pair)))(_pop(stack, 2)),
    "SETITEMS": lambda stack: (lambda pairs: _fill(stack[-1], _by_name(pairs)))(_to_mark(stack)),
    "STACK_GLOBAL": lambda stack: stack.append(Call(".".join(_pop(stack, 2)))),
    "BINPERSID": lambda stack: stack.append(Call("persistent", _pop(stack, 1)[0])),
    "REDUCE": _call,
    "NEWOBJ": _call,
    "NEWOBJ_EX": lambda stack: _call(stack, keywords=True),
    "BUILD": _build,
}


def array_of(value: Any) -> Array | None:
    """Return the NumPy array that a pickle's value describes; None if it describes no array.

    Raises:
        ValueError: It describes an array of another size than its bytes, or of objects.
    """
    if not isinstance(value, Call):
        return None
    arguments = value.arguments
    if value.function.endswith("multiarray._reconstruct") and len(arguments) >= 8:
        _, shape, dtype, fortran, data = arguments[3:8]
    elif value.function.endswith("numeric._frombuffer") and len(arguments) == 4:
        data, dtype, shape, order = arguments
        fortran = order == "F"
    elif value.function.endswith("multiarray.scalar") and len(arguments) == 2:
        (dtype, data), shape, fortran = arguments, (), False
    else:
        return None
    kind = str(dtype.arguments[0])
    if kind not in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "b1"):
        raise ValueError(f"an array has elements of kind {kind!r}")
    order = ">" if len(dtype.arguments) > 4 and dtype.arguments[4] == ">" else "<"
    return np.frombuffer(data, np.dtype(order + kind)).reshape(shape, order="F" if fortran else "C")


def read_archive(path: Path) -> bytes:
    """Return the content of a checkpoint; ArtifactError if it cannot be read, or is too large."""
    return read_bounded(path, MAX_ARCHIVE_BYTES, "Give the path of a checkpoint.", ArtifactError)


class Archive:
    """A zip archive of bounded size; ArtifactError if the data are none, or too large."""

    def __init__(self, data: bytes, source: str) -> None:
        self.source = source
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            members = self._zip.infolist()
        except _DAMAGES as error:
            raise ArtifactError(f"{source} is no zip archive: {error}. Save the policy again.") from None
        size = sum(member.file_size for member in members)
        if len(members) > MAX_MEMBERS or size > MAX_ARCHIVE_BYTES:
            raise ArtifactError(
                f"{source} would unpack to {len(members)} files and {size} bytes; at most {MAX_MEMBERS} files and "
                f"{MAX_ARCHIVE_BYTES} bytes are read."
            )
        self.names = [member.filename for member in members]

    def read(self, name: str) -> bytes:
        """Return the content of one file of the archive."""
        try:
            return self._zip.read(name)
        except (KeyError, RuntimeError, *_DAMAGES) as error:
            raise ArtifactError(f"{self.source}: {printable(name)} cannot be read: {error}. Save it again.") from None


def torch_tree(data: bytes, source: str) -> Any:
    """Return the content of a file of `torch.save`, with tensors as NumPy arrays, without torch.

    Raises:
        ArtifactError: The file is damaged, in the format before torch 1.6, or contains tensors of an unusual type.
    """
    archive = Archive(data, source)
    pickles = [name for name in archive.names if name.endswith("/data.pkl") or name == "data.pkl"]
    if len(pickles) != 1:
        raise ArtifactError(f"{source} was not written by torch.save: it has no data.pkl. Save the policy again.")
    folder = pickles[0].removesuffix("data.pkl")
    order = archive.read(f"{folder}byteorder") if f"{folder}byteorder" in archive.names else b"little"
    if order != b"little":
        raise ArtifactError(f"{source} was saved by a big-endian machine. Save it on another.")
    tree = pickle_tree(archive.read(pickles[0]), source)
    try:
        return _Tensors(archive, folder).of(tree, 0)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise ArtifactError(f"{source} is damaged: {printable(str(error))[:200]}. Save the policy again.") from None


_KINDS = {"Float": "<f4", "Double": "<f8", "Half": "<f2", "Long": "<i8", "Int": "<i4", "Short": "<i2", "Byte": "u1"}


class _Tensors:
    """Replaces tensors of a tree by arrays, up to a limit on bytes: data that a file shares is copied at each use."""

    def __init__(self, archive: Archive, folder: str) -> None:
        self._archive, self._folder = archive, folder
        self._room = MAX_ARCHIVE_BYTES

    def of(self, value: Any, depth: int) -> Any:
        """Return a value with tensors converted to arrays, and ordered dictionaries to dictionaries."""
        self._spend(1000)
        if depth > 30:
            raise ValueError("it is nested too deeply")
        if isinstance(value, Call):
            if value.function == "torch._utils._rebuild_tensor_v2":
                return self._tensor(value.arguments)
            if value.function in ("torch._utils._rebuild_parameter", "torch.nn.parameter.Parameter"):
                return self.of(value.arguments[0], depth + 1)
            if value.function.startswith("__torch__."):  # a module of TorchScript
                return Call(value.function, (), {key: self.of(item, depth + 1) for key, item in value.state.items()})
            if value.function != "collections.OrderedDict":
                return value
            value = {key: item for key, item in value.state.items() if key != "_metadata"}
        if isinstance(value, dict):
            return {key: self.of(item, depth + 1) for key, item in value.items()}
        return value

    def _tensor(self, arguments: tuple[Any, ...]) -> Array:
        storage, offset, shape, strides = arguments[:4]
        _, kind, key, _, _ = storage.arguments
        dtype = _KINDS[kind.function.rpartition(".")[2].removesuffix("Storage")]
        data = np.frombuffer(self._archive.read(f"{self._folder}data/{key}"), dtype)
        sizes = [offset, *shape, *strides]
        if len(shape) != len(strides) or not all(isinstance(size, int) and size >= 0 for size in sizes):
            raise ValueError(f"a tensor has shape {shape} and strides {strides}")
        last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        count = math.prod(shape)
        if count and (last >= len(data) or count > len(data)):
            raise ValueError(f"a tensor of shape {shape} is larger than its data")
        self._spend(data.nbytes)
        if not count:
            return np.zeros(shape, dtype)
        steps = [stride * data.itemsize for stride in strides]
        return np.lib.stride_tricks.as_strided(data[offset:], shape, steps, writeable=False).copy()

    def _spend(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise ValueError(f"it holds more than {MAX_ARCHIVE_BYTES} bytes")
