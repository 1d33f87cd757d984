"""A bar that advances with the tasks of a measurement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sami_train.evaluation.results import OnTask, TaskResult


@contextmanager
def advancing(title: str, total: int, quiet: bool) -> Iterator[OnTask]:
    """Show a bar on stderr within, which goes as soon as that ends; yield what takes each result as it arrives."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), disable=quiet, transient=True) as bar:
        shown = bar.add_task(title, total=total)

        def arrived(_: TaskResult) -> None:
            bar.advance(shown)

        yield arrived
