"""The page: sections as one HTML file that asks the network for nothing."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from sami_train.studies.charts.style import page_variables
from sami_train.studies.report.sections import Section, Tile


@dataclass(frozen=True)
class Head:
    """What stands above and below the sections."""

    title: str
    subtitle: str
    tiles: Mapping[str, Sequence[Tile]]
    """By subject."""
    facts: Mapping[str, Mapping[str, Any]]
    """How each subject came to be."""
    made: Mapping[str, str]
    """How this page came to be."""
    files: Sequence[str]
    """What lies beside it."""


def render(head: Head, sections: Sequence[Section], folder: Path) -> str:
    """Return the page.

    Args:
        head: what stands above and below.
        sections: what is told.
        folder: where the films lie, which the page takes in.

    Raises:
        ModuleNotFoundError: jinja2 or matplotlib is not installed.
    """
    from jinja2 import Environment, StrictUndefined

    def inlined(block_folder: str, name: str) -> str:
        content = base64.b64encode((folder / block_folder / name).read_bytes()).decode("ascii")
        return f"data:image/webp;base64,{content}"

    room = files("sami_train.studies.report")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    template = environment.from_string((room / "page.html.j2").read_text(encoding="utf-8"))
    return template.render(
        head=head,
        sections=sections,
        inlined=inlined,
        style=(room / "page.css").read_text(encoding="utf-8"),
        colours=page_variables().values(),
    )
