"""What commands print for people: text and tables that fit the terminal, 80 columns where there is none."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import typer

from .options import JSON

if TYPE_CHECKING:
    from rich.console import Console


class Judgement(Protocol):
    """What a check returns."""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""


COLUMNS = 80
"""Width of what is piped elsewhere, unless the variable COLUMNS states another."""
NARROWEST = 30
"""Columns that are left to the last column of a table in text."""
COMMAND = re.compile(r"\s*(Next: )?(cd [^;]+; )?(\S*/)?(sami|c\+\+) ")
"""Beginning of a line that a reader copies into a shell."""


def in_shell(path: object) -> str:
    """Return a path as a shell reads it."""
    return shlex.quote(str(path))


def text_console(error: bool = False) -> Console:
    """Return a rich console for standard output or standard error, as wide as `print_text` prints."""
    from rich.console import Console

    console = Console(stderr=error)
    if not console.is_terminal:
        console.width = _columns()
    return console


def print_text(*lines: object, error: bool = False) -> None:
    """Print lines that fit; nothing where there are none.

    One that is too long continues below its last column, a command after a backslash. A path is never broken. What is
    piped from standard error stays one line a message, for programs that search it.
    """
    stream, text = sys.stderr if error else sys.stdout, "\n".join(map(str, lines))
    if lines:
        print(wrapped(text, _columns()) if not error or stream.isatty() else text, file=stream, flush=True)


def print_check(result: Judgement, document: Mapping[str, Any]) -> None:
    """Print what a check found, as text or as one JSON document, and end with exit code 4 where something is wrong."""
    from sami_runtime.errors import CheckFailed

    if JSON.get():
        print(json.dumps({"passed": result.passed, **document}, indent=2))
    else:
        print_text(result)
    if not result.passed:
        raise typer.Exit(CheckFailed.exit_code)


def wrapped(text: str, columns: int = COLUMNS) -> str:
    """Return a text whose lines have at most so many columns, apart from a word that is longer."""
    return "\n".join(_wrapped_line(line, columns) for line in text.split("\n"))


def _wrapped_line(line: str, columns: int) -> str:
    if len(line) <= columns:
        return line
    if COMMAND.match(line):
        return _wrapped_command(line, columns)
    gaps = [match.end() for match in re.finditer(r"\S {2,}(?=\S)|^ +(?=\S)", line)]
    hanging = max((end for end in gaps if end <= columns - NARROWEST), default=2)
    return "\n".join(
        textwrap.wrap(line, columns, subsequent_indent=" " * hanging, break_long_words=False, break_on_hyphens=False)
    )


def _wrapped_command(line: str, columns: int) -> str:
    first, *options = re.split(r" (?=-)", line)
    lines = [first]
    for option in options:
        if len(lines[-1]) + len(option) + 3 <= columns:
            lines[-1] += f" {option}"
        else:
            lines.append(f"      {option}")
    return " \\\n".join(lines)


def _columns() -> int:
    """Return the width of the terminal; `COLUMNS` where standard output is none."""
    return shutil.get_terminal_size((COLUMNS, 24)).columns
