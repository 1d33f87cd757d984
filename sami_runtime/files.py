"""Reads documents that people write, and writes outputs that appear whole and never replace a file by accident."""

from __future__ import annotations

import errno
import glob
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from sami_runtime.errors import SamiError, UnknownName, excerpt

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
"""Largest document that is read [bytes]; documents that people write have a few kB."""
_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}
"""Error numbers of a disk that is full, read-only or broken, and of a limit of this process (`ulimit -f`)."""
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG}
M = TypeVar("M", bound=BaseModel)
ENDING = ".unfinished"
"""Suffix of files and folders that are being written, see `unfinished`."""


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, for `object_pairs_hook`; raise ValueError if a key occurs twice.

    A reader may see the first of two values, but Python would use the last.
    """
    table = dict(pairs)
    if len(table) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} comes twice")
    return table


def printable(text: str, allowed: str = "") -> str:
    """Return a text with all characters escaped that a terminal would not print but obey.

    Args:
        text: Any text.
        allowed: Characters that are not escaped, such as a newline.
    """
    if text.isprintable():
        return text
    return "".join(c if c in allowed or c.isprintable() else ascii(c)[1:-1] for c in text)


def plain_strings(value: Any, allowed: str = "") -> Any:
    """Return a JSON value with all texts and keys made `printable`."""
    if isinstance(value, str):
        return printable(value, allowed)
    if isinstance(value, dict):
        return {printable(key, allowed): plain_strings(item, allowed) for key, item in value.items()}
    return [plain_strings(item, allowed) for item in value] if isinstance(value, list) else value


def keys_at(kind: Any, path: Sequence[str]) -> set[str]:
    """Return the keys that a table at a path of a document may have; `kind` is the type of the document."""
    if origin := get_origin(kind):
        path = path[1:] if origin in (dict, list, tuple) else path
        return {key for part in get_args(kind) for key in keys_at(part, path)}
    fields = getattr(kind, "model_fields", {})
    if not path:
        return set(fields)
    return keys_at(fields[path[0]].annotation, path[1:]) if path[0] in fields else set()


def checked_table(kind: type[M], document: Mapping[str, Any], where: str, page: str) -> M:
    """Return a table that people write as a checked object.

    Args:
        kind: Class of the object.
        document: Values by key.
        where: Where the table is written, for messages.
        page: Page that explains each key, for messages: "docs/X.md lists the keys".

    Raises:
        SamiError: A key does not exist, is missing, or has an invalid value; the message lists the faults.
    """
    try:
        return kind.model_validate(dict(document))
    except ValidationError as error:
        raise SamiError(f"{where}: {faults_of(error, document, kind)}. Correct what is named; {page}.") from None


def faults_of(error: ValidationError, document: Mapping[str, Any], kind: type[BaseModel]) -> str:
    """Return the first ten faults of a document of a type `kind` as text, each with its key, and valid keys.

    A table in a list goes by its name. Where a value may be of several kinds, Pydantic names each kind among the keys;
    they are left out, and of a number or a table only what is wrong within the table is reported.
    """
    faults: dict[str, str] = {}
    tables: set[str] = set()
    for fault in error.errors():
        keys: list[str] = []
        inner: Any = document
        for part in fault["loc"]:
            try:
                # A key "a.b" may be written as a table in a table.
                for name in [part] if isinstance(part, int) or part in inner else part.split("."):
                    inner = inner[name]
            except (TypeError, LookupError):
                if (fault["type"], part) != ("missing", fault["loc"][-1]):
                    continue
            is_listed = isinstance(part, int) and isinstance(inner, Mapping)
            keys.append(str(inner.get("name", f"number {int(part) + 1}") if is_listed else part))
        tables.update(".".join(keys[:end]) for end in range(1, len(keys)))
        has_value = keys and fault["type"] not in ("missing", "extra_forbidden")  # else: the whole document
        value = f", and it is {excerpt(fault['input'])}" if has_value else ""
        message = fault["msg"].removeprefix("Value error, ")
        message = (
            message.partition(" or instance of ")[0].replace("valid dictionary", "table").replace("valid tuple", "list")
        )
        if valid := fault["type"] == "extra_forbidden" and keys_at(kind, keys[:-1]):
            message = str(UnknownName("key", keys[-1], valid)).removesuffix(".")
        faults.setdefault(".".join(keys) or "the file", f"{message[:1].lower()}{message[1:]}{value}")
    texts = [f"{key}: {text}" for key, text in faults.items() if key not in tables]
    return "; ".join(texts[:10] + [f"and {len(texts) - 10} more"] * (len(texts) > 10))


def read_bounded(path: Path, most: int, advice: str, error_type: type[SamiError] = SamiError) -> bytes:
    """Return the bytes of a regular file: reading a pipe may block for ever, and a device has no end.

    Args:
        path: The file.
        most: Most bytes to read.
        advice: What to do about an error, as a sentence.
        error_type: Class of the error.

    Raises:
        SamiError: The file cannot be read, or is larger.
    """
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is a directory" if path.is_dir() else "it is no regular file")
        with path.open("rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise ValueError(f"it is larger than {most} bytes")
    except (OSError, ValueError) as error:
        raise error_type(f"{path} cannot be read: {getattr(error, 'strerror', '') or error}. {advice}") from None
    return data


def read_document(path: Path, content: str) -> dict[str, Any]:
    """Return the table that a file holds, NAME.toml or NAME.json.

    Args:
        path: The file.
        content: The expected content, in the plural: `"limits"`.

    Raises:
        SamiError: The file cannot be read, or does not contain a table.
    """
    if path.suffix not in (".toml", ".json"):
        raise SamiError(f"{path} is no file of {content}; give the path of a file NAME.toml or NAME.json.")
    data = read_bounded(path, MAX_DOCUMENT_BYTES, f"Give the path of a file of {content}.")
    try:
        text = data.decode("utf-8")
        document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise SamiError(f"{path} cannot be read: {error}. Write it as the documentation of {content} shows.") from None
    if not isinstance(document, dict):
        raise SamiError(f"{path} holds a {type(document).__name__}; expected a table of {content}.")
    return document


def toml_value(text: str) -> Any:
    """Return the value of a TOML expression; a text that is none is returned as it is, so it needs no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text.strip()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert an OSError of a full or write-protected disk, or of this path, to a SamiError that names the file."""
    try:
        yield
    except OSError as error:
        is_ours = error.errno in _FORBIDDEN
        if isinstance(error.filename, (str, os.PathLike)):
            place, cause = path.absolute(), Path(error.filename).absolute()
            within = f"{cause}/".startswith((f"{place}/", f"{place}.{platform.node()}-"))  # or a temporary file
            is_ours = within or f"{place}/".startswith(f"{cause}/")
        if error.errno not in _UNWRITABLE and not is_ours:
            raise
        file = path.with_name(path.name.partition(f".{platform.node()}-")[0]) if path.suffix == ENDING else path
        raise SamiError(
            f"{file} cannot be written: {error.strerror}. Make room or choose another place; an existing file was not "
            "changed."
        ) from error


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are missing; raise SamiError if the system does not."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def unfinished(path: Path, replaces: bool = True) -> Iterator[Path]:
    """Make a file or folder that appears whole, or not at all.

    Args:
        path: The file or folder.
        replaces: Whether an existing file is replaced; if not, it stays, even if it appeared after the block began.

    Yields:
        A temporary path beside `path`, unique to this process, at which nothing exists. After an error it is removed;
        leftovers of killed processes of this machine are removed, too.

    Raises:
        SamiError: The disk is full or not writable, or the file exists and must not be replaced.
    """
    host = platform.node()
    temporary, backup = (path.with_name(f"{path.name}.{host}-{role}{os.getpid()}{ENDING}") for role in ("", "old-"))
    for leftover in path.parent.glob(f"{glob.escape(f'{path.name}.{host}')}-*{ENDING}"):
        if not _is_alive(leftover.name.removesuffix(ENDING).rpartition("-")[2]):
            remove(leftover)
    try:
        with writing(path):
            yield temporary
            # On the disk before it gets its name, so that a crash leaves the old file or the new one.
            for entry in temporary.rglob("*") if temporary.is_dir() else (temporary,):
                if entry.is_file():
                    with entry.open("rb") as file:
                        os.fsync(file.fileno())
            if replaces:
                _put_in_place(temporary, path, backup)
            else:
                _put_new(temporary, path)
    finally:
        remove(temporary)
        remove(backup)


@contextmanager
def folder_of_outputs(folder: Path) -> Iterator[None]:
    """Make a folder and those above it for a `with` block, and remove the new ones that are still empty after it."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    make_folder(folder)
    try:
        yield
    finally:
        with suppress(OSError):  # not empty, and so are those above it
            for path in missing:
                path.rmdir()


def require_output(path: Path, force: bool = False, inputs: Iterable[Path] = (), makes_folder: bool = False) -> None:
    """Check that an output can be written without losing another file; a command calls this before it computes.

    Args:
        path: The output file.
        force: Whether an existing file may be replaced.
        inputs: Files that the command reads, which it must not replace.
        makes_folder: Whether the command creates a missing folder.

    Raises:
        SamiError: The path exists, is an input, or has no folder that may be written to.
    """
    folder = next(parent for parent in path.parents if parent.exists() or not makes_folder)
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        problem = "write-protected. Change that" if folder.is_dir() else "no folder. Make it"
        raise SamiError(f"{path} cannot be written: {folder} is {problem}, or choose another place.")
    for source in inputs:
        if path == source or (path.exists() and source.exists() and path.samefile(source)):
            raise SamiError(f"{path} is read by this command, which never replaces what it reads. Choose another name.")
    if path.is_dir():
        raise SamiError(f"{path} exists and is a folder, which is never replaced. Choose another name.")
    if not force and os.path.lexists(path):
        raise SamiError(f"{path} exists; choose another name, or replace it with --force.")


@contextmanager
def output(path: Path, force: bool = False, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """Write an output of a command, which appears whole or not at all; see `require_output` and `unfinished`."""
    require_output(path, force, inputs)
    with unfinished(path, replaces=force) as temporary:
        yield temporary


def remove(path: Path) -> None:
    """Remove a file or a folder; nothing where there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):  # else it may lie below a file, at which unlink raises
        path.unlink(missing_ok=True)


def _put_in_place(source: Path, path: Path, backup: Path) -> None:
    """Rename what was made. A folder that holds something cannot be replaced, and half removed it would look whole."""
    if source.is_dir() and path.exists():
        path.replace(backup)
    try:
        source.replace(path)
    except OSError:
        if backup.exists():
            backup.replace(path)
        raise


def _put_new(source: Path, path: Path) -> None:
    """Name what was made, unless the name is taken."""
    if not source.is_dir():
        with suppress(OSError):  # the name is taken, or the file system has no links
            os.link(source, path)  # unlike a rename, it never replaces a file
            return
    if os.path.lexists(path):
        raise SamiError(f"{path} exists; it appeared while it was written, and stays. Choose another name.")
    source.rename(path)


def _is_alive(process: str) -> bool:
    """Whether a process of this machine is there, by its number; not this one, which is only beginning."""
    if not process.isdecimal() or int(process) == os.getpid():
        return False
    try:
        os.kill(int(process), 0)
    except (OSError, OverflowError) as error:  # no process has a number that the system cannot take
        return not isinstance(error, ProcessLookupError | OverflowError)  # any other: somebody else's process
    return True
