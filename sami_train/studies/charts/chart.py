"""A chart: panels over one table of rows, as SVG for a page, as PNG for a document and as CSV for a reader's own."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sami_train.files import unfinished
from sami_train.studies.charts.style import SETTINGS, legend_below, page_variables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
PER_INCH = 72
"""Units of a panel's size in an inch: those of SVG as matplotlib writes it."""
LEGEND_LINE = 15
"""Height of a line of a legend."""


@dataclass(frozen=True)
class Panel:
    """One view of a chart."""

    title: str
    draw: Callable[[Axes], None]
    """Draws into empty axes; the labels of what it draws make the legend."""


@dataclass(frozen=True)
class Chart:
    """Panels that belong together."""

    name: str
    """Of its files."""
    caption: str
    panels: tuple[Panel, ...]
    rows: tuple[Row, ...]
    """What it shows, as plain values."""
    width: int = 300
    """Of a panel [1/72 inch]."""
    height: int = 230
    """Of a panel without its legend [1/72 inch]."""
    columns: int = 3
    """Most panels in a row."""

    def pictures(self) -> list[str]:
        """Return an SVG element for each panel, with a name for those who cannot see it.

        Colours that differ on dark ground are CSS variables, see `page_variables`.
        """
        import matplotlib
        from matplotlib.figure import Figure

        pictures = []
        with matplotlib.rc_context(SETTINGS):
            for panel in self.panels:
                figure = Figure(layout="constrained")
                lines = self._draw(panel, figure)
                figure.set_size_inches(self.width / PER_INCH, (self.height + LEGEND_LINE * lines) / PER_INCH)
                text = io.StringIO()
                figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
                pictures.append(_in_page(text.getvalue(), f"{panel.title}. {self.caption.partition('. ')[0]}"))
        return pictures

    def figure(self) -> Figure:
        """Return all panels as one figure."""
        import matplotlib
        from matplotlib.figure import Figure

        columns = min(self.columns, len(self.panels))
        rows = -(-len(self.panels) // columns)
        with matplotlib.rc_context(SETTINGS):
            figure = Figure(layout="constrained")
            places = figure.subfigures(rows, columns, squeeze=False).ravel()
            lines = 0
            for panel, place in zip(self.panels, places, strict=False):
                place.suptitle(panel.title, fontsize=11)
                lines = max(lines, self._draw(panel, place))
            height = rows * (self.height + 22 + LEGEND_LINE * lines)
            figure.set_size_inches(columns * self.width / PER_INCH, height / PER_INCH)
        return figure

    def savefig(self, path: Path) -> None:
        """Write all panels as one picture, as matplotlib's figures do."""
        import matplotlib

        with matplotlib.rc_context(SETTINGS), unfinished(path) as beside:
            self.figure().savefig(beside, format=path.suffix[1:])

    def write(self, folder: Path) -> list[Path]:
        """Write NAME.csv and NAME.png."""
        folder.mkdir(parents=True, exist_ok=True)
        table, picture = folder / f"{self.name}.csv", folder / f"{self.name}.png"
        columns = list(dict.fromkeys(key for row in self.rows for key in row))
        with unfinished(table) as beside, beside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
        self.savefig(picture)
        return [picture, table]

    def _draw(self, panel: Panel, place: Any) -> int:
        """Draw a panel and its legend into a figure or a part of one; return the lines of the legend."""
        axes = place.subplots()
        panel.draw(axes)
        handles, labels = axes.get_legend_handles_labels()
        if not handles:
            return 0
        columns = max(1, int(self.width / (6 * max(map(len, labels)) + 28)))
        legend_below(place, handles, columns)
        return -(-len(handles) // columns)


def rows_where(rows: Sequence[Row], **values: Any) -> list[Row]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in values.items())]


def _in_page(svg: str, name: str) -> str:
    """Return matplotlib's SVG as an element of a page: named, without a prologue, its colours as variables."""
    box, _, shapes = svg[svg.index("viewBox=") :].partition(">")
    shapes = re.sub(r"<metadata>.*?</metadata>\s*", "", shapes, count=1, flags=re.DOTALL)
    shapes = re.sub(r'<g id="[^"]*"', "<g", shapes)  # a page has several charts, and an identifier once
    for colour, (variable, _, _) in page_variables().items():
        shapes = shapes.replace(colour, f"var({variable})")
    view_box = box.split('"')[1]
    return f'<svg viewBox="{view_box}" role="img"><title>{html.escape(name)}</title>{shapes}'
