"""A figure of the report: panels side by side over one table of rows, which is also its CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sami_train.files import unfinished
from sami_train.studies.report.charts.theme import LIGHT, config

Row = Mapping[str, Any]
Spec = dict[str, Any]
"""A view in Vega-Lite's terms, without data and size."""
SCALE = 2.0
"""Pixels of a PNG for each of the page's."""


@dataclass(frozen=True)
class Panel:
    """One view of a figure."""

    title: str
    spec: Spec
    where: Mapping[str, Any]
    """The rows that it shows: those with these values."""


@dataclass(frozen=True)
class Figure:
    """Panels that belong together."""

    name: str
    """Of its files."""
    caption: str
    panels: tuple[Panel, ...]
    rows: tuple[Row, ...]
    width: int = 300
    """Of a panel in the PNG, and the least in the page where there is room [pixels]."""
    height: int = 230
    columns: int = 3
    """Most panels in a row."""

    def views(self) -> list[dict[str, Any]]:
        """Return what the page embeds: a Vega-Lite view as wide as its place for each panel, with its rows by name."""
        return [
            {
                "width": "container",
                "height": self.height,
                "autosize": {"type": "fit-x", "contains": "padding"},
                **self._view(panel),
            }
            for panel in self.panels
        ]

    def write(self, folder: Path) -> list[Path]:
        """Write NAME.csv and NAME.png."""
        import vl_convert

        folder.mkdir(parents=True, exist_ok=True)
        table, picture = folder / f"{self.name}.csv", folder / f"{self.name}.png"
        columns = list(dict.fromkeys(key for row in self.rows for key in row))
        with unfinished(table) as beside, beside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
        views = [
            {**self._view(panel), "title": panel.title, "width": self.width, "height": self.height}
            for panel in self.panels
        ]
        document = {
            "concat": views,
            "columns": min(self.columns, len(views)),
            "resolve": {"scale": {"color": "independent", "shape": "independent"}},
            "datasets": {"rows": list(self.rows)},
            "padding": 12,
        }
        png = vl_convert.vegalite_to_png(json.dumps(document), scale=SCALE, config=config(LIGHT))
        with unfinished(picture) as beside:
            beside.write_bytes(png)
        return [picture, table]

    def _view(self, panel: Panel) -> dict[str, Any]:
        chosen = [f"datum[{json.dumps(key)}] === {json.dumps(value)}" for key, value in panel.where.items()]
        only = [{"filter": " && ".join(chosen)}] if chosen else []
        spec = dict(panel.spec)
        return {"data": {"name": "rows"}, "transform": [*only, *spec.pop("transform", [])], **spec}


def field(name: str, kind: str, title: str | None = None, **more: Any) -> dict[str, Any]:
    """Return an encoding of a column: `kind` is quantitative, ordinal or nominal; its title is its name if None."""
    return {"field": name, "type": kind, "title": name if title is None else title, **more}


def tooltip(*columns: str | tuple[str, str]) -> list[dict[str, Any]]:
    """Return what pointing at a mark tells: columns, or (column, number format)."""
    return [
        {"field": each[0], "type": "quantitative", "format": each[1]} if isinstance(each, tuple) else {"field": each}
        for each in columns
    ]


def picked(name: str) -> Sequence[dict[str, Any]]:
    """Return the parameter by which a legend's entries can be picked, to show one value of a column alone."""
    return [{"name": "pick", "select": {"type": "point", "fields": [name]}, "bind": "legend"}]


FADED = {"condition": {"param": "pick", "value": 0.9}, "value": 0.08}
"""Opacity of what was picked, and of the rest."""
