"""Printing for people: text and tables that fit the terminal, or 80 columns without a terminal."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import typer

from .options import JSON

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


class Judgement(Protocol):
    """Result of a check."""

    @property
    def passed(self) -> bool:
        """Whether the check found no fault."""


COLUMNS = 80
"""Width of piped output, unless the environment variable COLUMNS sets another."""
NARROWEST = 30
"""Smallest width of the last column of a table in text."""
NARROWEST_NAME = 12
"""Smallest width of a column of names in a table, which folds or cuts longer words."""
COMMAND = re.compile(r"\s*(Next: )?(cd [^;]+; )?(\S*/)?(sami|c\+\+) ")
"""Start of a line that is a shell command to copy."""


def text_console(error: bool = False) -> Console:
    """Return a rich console for standard output or standard error, as wide as `print_text` prints."""
    from rich.console import Console

    console = Console(stderr=error)
    if not console.is_terminal:
        console.width = _columns()
    return console


def plain_table(title: str | None = None, gap: int = 0) -> Table:
    """Return a table whose only line is below its heads, with `gap` blanks after each cell."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, gap, 0, 0))


def print_table(table: Table) -> None:
    """Print a table, wider than the terminal where its numbers need it: a number that is cut reads as another one."""
    console = text_console()
    for column in table.columns:
        cells = [console.measure(cell) for cell in column.cells]
        needed = max((cell.maximum if column.no_wrap else cell.minimum for cell in cells), default=0)
        column.min_width = needed if column.no_wrap or column.justify == "right" else min(needed, NARROWEST_NAME)
    console.print(table, crop=False)


def print_text(*lines: object, error: bool = False) -> None:
    """Print lines, wrapped to the terminal's width; without lines, print nothing.

    A long line continues below its last column, a command after a backslash. Paths are never broken. Messages piped
    from standard error are not wrapped, so that programs can search them. What a terminal would obey is escaped.
    """
    from sami_runtime.files import printable

    stream, text = sys.stderr if error else sys.stdout, printable("\n".join(map(str, lines)), "\n\t")
    if lines:
        print(wrapped(text, _columns()) if not error or stream.isatty() else text, file=stream, flush=True)


def print_check(result: Judgement, document: Mapping[str, Any]) -> None:
    """Print the result of a check, as text or as one JSON document; exit with code 4 if it failed."""
    from sami_runtime.errors import CheckFailed

    if JSON.get():
        print(json.dumps({"passed": result.passed, **document}, indent=2))
    else:
        print_text(result)
    if not result.passed:
        raise typer.Exit(CheckFailed.exit_code)


def wrapped(text: str, columns: int = COLUMNS) -> str:
    """Return a text wrapped to `columns`; only longer words exceed that width."""
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
    """Return the width of the terminal; `COLUMNS` if standard output is no terminal."""
    return shutil.get_terminal_size((COLUMNS, 24)).columns
