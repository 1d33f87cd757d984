"""The page: sections as one HTML file that asks the network for nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from sami_train.studies.report.charts.theme import DARK, LIGHT, config
from sami_train.studies.report.sections import Section, Tile

LIBRARY, CHARTS = "<script>@@LIBRARY@@</script>", ">@@CHARTS@@</script>"
"""Where the template leaves room; with their brackets no escaped text reads like them."""


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
        ModuleNotFoundError: jinja2 or vl-convert is not installed.
    """
    import vl_convert
    from jinja2 import Environment, StrictUndefined

    views: list[Any] = []
    data: dict[str, Any] = {}

    def embed(block_folder: str, figure: Any) -> list[int]:
        """Keep a figure's views for the script, and return their numbers."""
        name = f"{block_folder}/{figure.name}"
        data[name] = list(figure.rows)
        first = len(views)
        views.extend({"data": name, "spec": view} for view in figure.views())
        return list(range(first, len(views)))

    def inlined(block_folder: str, name: str) -> str:
        content = base64.b64encode((folder / block_folder / name).read_bytes()).decode("ascii")
        return f"data:image/webp;base64,{content}"

    room = files("sami_train.studies.report")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    template = environment.from_string((room / "page.html.j2").read_text(encoding="utf-8"))
    page = template.render(
        head=head,
        sections=sections,
        embed=embed,
        inlined=inlined,
        style=(room / "page.css").read_text(encoding="utf-8"),
        script=(room / "page.js").read_text(encoding="utf-8"),
    )
    # Last, as the template has gathered the views by then; and not as template values, which would be copied often.
    charts = {"views": views, "data": data, "light": config(LIGHT), "dark": config(DARK)}
    charts["light"] = {**charts["light"], "background": None}  # type: ignore[dict-item] # the page's own
    library = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script")
    before, _, rest = page.partition(LIBRARY)
    between, _, after = rest.partition(CHARTS)
    return f"{before}<script>{library}</script>{between}>{in_script(charts)}</script>{after}"


def in_script(value: Any) -> str:
    """Return JSON that may stand in a script element: nothing in it ends the element or begins a comment."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
