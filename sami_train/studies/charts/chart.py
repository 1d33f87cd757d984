"""Charts: their style, and panels drawn from a table of rows, as SVG for a page, as PNG and as CSV.

Colours are Okabe and Ito's, which colour-blind readers can distinguish; two spare ones are Tol's.
"""

from __future__ import annotations

import csv
import html
import io
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sami_train.config.methods import METHODS, Method
from sami_train.files import make_folder, unfinished

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {
    "PEARL": "#6b6b6b",
    "TESAC": "#0072B2",
    "CCM": "#009E73",
    "SaTESAC": "#D55E00",
    "SaCCM": "#CC79A7",
    "SAC": "#E69F00",
    "SAC with history": "#56B4E9",
    "Oracle": "#000000",
}
"""A method's colour, by its title."""
_SPARE = ("#F0E442", "#332288", "#882255")
"""Colours for methods without an entry in `_COLOURS`."""
INK, FAINT, LINE = "#1b1f24", "#586069", "#dfe3e8"
"""Colours of text, secondary text and lines: a page replaces them by its own CSS variables of these names."""
CATEGORIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#6b6b6b")
_DARK_CATEGORIES = ("#56b4e9", "#f28e4b", "#2dc79a", "#e79bc5", "#e6b94c", "#a9d6f5", "#b4b8bd")
SHADES = 16
"""Number of colours for ordered values, from dark to light."""
HEAT = "cividis"
"""Colour map of heat maps, which is perceptually uniform for colour-blind readers, too."""
GREY = "#444444"
STYLES = ("-", "--", ":", "-.")
BAND: dict[str, Any] = {"alpha": 0.4, "solid_capstyle": "butt"}
"""Style of the bar that shows an interval."""
SETTINGS: Any = {
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "grid.color": LINE,
    "xtick.color": FAINT,
    "xtick.labelcolor": FAINT,
    "ytick.color": FAINT,
    "ytick.labelcolor": FAINT,
    "savefig.dpi": 130,
    "svg.fonttype": "none",
    "svg.hashsalt": "sami",
}
"""matplotlib's settings for every chart."""


def colour_of(method: Method) -> str:
    """Return a method's colour, which is the same in every figure.

    Titles without a colour of their own, such as a student's, get the spare ones, methods by their order.
    """
    without = [other.title for other in METHODS.values() if other.title not in _COLOURS]
    return _COLOURS.get(method.title) or _SPARE[[*without, method.title].index(method.title) % len(_SPARE)]


def colours_of(values: Sequence[str], ordered: bool = False) -> dict[str, str]:
    """Return a colour for each value, which a dark page can replace: categories repeat, ordered values get lighter."""
    if not ordered:
        return {value: CATEGORIES[place % len(CATEGORIES)] for place, value in enumerate(values)}
    places = np.linspace(0, SHADES - 1, len(values)).round().astype(int)
    return {value: shades(SHADES)[place] for value, place in zip(values, places, strict=True)}


def page_variables() -> dict[str, tuple[str, str, str]]:
    """Return, by colour, the CSS variable that replaces it, with its values on light and on dark backgrounds."""
    pairs = zip((*CATEGORIES, *shades(SHADES)), (*_DARK_CATEGORIES, *shades(SHADES, 0.42, 1.0)), strict=True)
    variables = {light: (f"--chart-{number}", light, dark) for number, (light, dark) in enumerate(pairs)}
    return {INK: ("--ink", "", ""), FAINT: ("--faint", "", ""), LINE: ("--line", "", ""), **variables}


def panels(columns: int, width: float, height: float, sharey: bool = True) -> tuple[Figure, np.ndarray]:
    """Return a figure of a width and height [inch], and its panels side by side, (columns,)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns, squeeze=False, sharey=sharey)[0]


def legend_below(figure: Any, handles: list[Any], columns: int = 5) -> None:
    """Add a legend below all panels of a figure or subfigure."""
    look = {"loc": "outside lower center", "frameon": False, "fontsize": 9, "columnspacing": 1.4, "handletextpad": 0.5}
    figure.legend(handles=handles, ncols=min(len(handles), columns), **look)


def shades(count: int, low: float = 0.0, high: float = 0.85) -> list[str]:
    """Return `count` colours from dark to light, from the part `low` to `high` of the colour map viridis."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["viridis"](x)) for x in np.linspace(low, high, count)]


Row = Mapping[str, Any]
PER_INCH = 72
"""Units per inch of a panel's size, as in matplotlib's SVG."""
LEGEND_LINE, LEGEND_LETTER, LEGEND_HANDLE = 15, 6, 28
"""Height of a legend's line, width of a letter, width of the mark beside a label [1/72 inch]."""


@dataclass(frozen=True)
class Panel:
    """One panel of a chart."""

    title: str
    draw: Callable[[Axes], None]
    """Draws into empty axes; the legend has the labels of the lines and marks."""


@dataclass(frozen=True)
class Chart:
    """A chart of one or several panels, with the data that they show."""

    name: str
    """Name of the chart's files, without suffix."""
    caption: str
    panels: tuple[Panel, ...]
    rows: tuple[Row, ...]
    """The data, as plain values."""
    width: int = 300
    """Width of a panel [1/72 inch]."""
    height: int = 230
    """Height of a panel without its legend [1/72 inch]."""
    columns: int = 3
    """Most panels in a row."""

    def pictures(self) -> list[str]:
        """Return an SVG element for each panel, with an accessible name for screen readers.

        Colours that differ on a dark background are CSS variables, see `page_variables`.
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
        """Write all panels as one picture, in the format of the suffix."""
        import matplotlib

        with matplotlib.rc_context(SETTINGS), unfinished(path) as temporary:
            self.figure().savefig(temporary, format=path.suffix[1:])

    def write(self, folder: Path) -> list[Path]:
        """Write NAME.csv and NAME.png, and return their paths."""
        make_folder(folder)
        table, picture = folder / f"{self.name}.csv", folder / f"{self.name}.png"
        columns = list(dict.fromkeys(key for row in self.rows for key in row))
        with unfinished(table) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
        self.savefig(picture)
        return [picture, table]

    def _draw(self, panel: Panel, place: Any) -> int:
        """Draw a panel and its legend into a figure or subfigure; return the number of lines of the legend."""
        axes = place.subplots()
        panel.draw(axes)
        handles, labels = axes.get_legend_handles_labels()
        if not handles:
            return 0
        longest = min(max(map(len, labels)), (self.width - LEGEND_HANDLE) // LEGEND_LETTER)
        for handle, text in zip(handles, labels, strict=True):
            handle.set_label(textwrap.fill(text, longest))
        columns = max(1, self.width // (LEGEND_LETTER * longest + LEGEND_HANDLE))
        legend_below(place, handles, columns)
        return -(-len(handles) // columns) * max(-(-len(text) // longest) for text in labels)


def rows_where(rows: Sequence[Row], **values: Any) -> list[Row]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in values.items())]


def _in_page(svg: str, name: str) -> str:
    """Return matplotlib's SVG as an HTML element with an accessible name, and CSS variables for colours."""
    box, _, shapes = svg[svg.index("viewBox=") :].partition(">")
    shapes = re.sub(r"<metadata>.*?</metadata>\s*", "", shapes, count=1, flags=re.DOTALL)
    shapes = re.sub(r'<g id="[^"]*"', "<g", shapes)  # identifiers must be unique in a page of several charts
    for colour, (variable, _, _) in page_variables().items():
        shapes = shapes.replace(colour, f"var({variable})")
    view_box = box.split('"')[1]
    return f'<svg viewBox="{view_box}" role="img" aria-label="{html.escape(name)}">{shapes}'
