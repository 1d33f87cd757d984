"""How charts look. Colours are Okabe and Ito's, which colour-blind readers can tell apart; two spare ones are Tol's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sami_train.methods.methods import METHODS, Method

if TYPE_CHECKING:
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
"""For methods without one."""
INK, FAINT, LINE = "#1b1f24", "#586069", "#dfe3e8"
"""Text, second text, lines of axes: the page's own colours of the same names."""
CATEGORIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#6b6b6b")
_DARK_CATEGORIES = ("#56b4e9", "#f28e4b", "#2dc79a", "#e79bc5", "#e6b94c", "#a9d6f5", "#b4b8bd")
SHADES = 16
"""Colours of ordered values, from dark to light."""
HEAT = "cividis"
"""The colours of heat maps: as even for colour-blind readers as for others."""
GREY = "#444444"
STYLES = ("-", "--", ":", "-.")
BAND: dict[str, Any] = {"alpha": 0.4, "solid_capstyle": "butt"}
"""How the bar of an interval is drawn."""
SETTINGS: Any = {
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "grid.color": LINE,
    "xtick.color": LINE,
    "xtick.labelcolor": FAINT,
    "ytick.color": LINE,
    "ytick.labelcolor": FAINT,
    "savefig.dpi": 130,
    "svg.fonttype": "none",
    "svg.hashsalt": "sami",
}
"""matplotlib's settings for every chart."""


def colour_of(method: Method) -> str:
    """Return a method's colour: its own, or the spare one that its rank among all methods without one gives it.

    So it is the same in every figure, whichever methods these compare.
    """
    without = [other.title for other in METHODS.values() if other.title not in _COLOURS]
    return _COLOURS.get(method.title) or _SPARE[without.index(method.title) % len(_SPARE)]


def colours_of(values: Sequence[str], ordered: bool = False) -> dict[str, str]:
    """Return a colour for each value that a dark page can replace: categories repeat, ordered values get lighter."""
    if not ordered:
        return {value: CATEGORIES[place % len(CATEGORIES)] for place, value in enumerate(values)}
    places = np.linspace(0, SHADES - 1, len(values)).round().astype(int)
    return {value: shades(SHADES)[place] for value, place in zip(values, places, strict=True)}


def page_variables() -> dict[str, tuple[str, str, str]]:
    """Return the CSS variable of each colour that a page replaces, with its value on light and on dark ground."""
    pairs = zip((*CATEGORIES, *shades(SHADES)), (*_DARK_CATEGORIES, *shades(SHADES, 0.42, 1.0)), strict=True)
    variables = {light: (f"--chart-{number}", light, dark) for number, (light, dark) in enumerate(pairs)}
    return {INK: ("--ink", "", ""), FAINT: ("--faint", "", ""), LINE: ("--line", "", ""), **variables}


def panels(columns: int, width: float, height: float, sharey: bool = True) -> tuple[Figure, np.ndarray]:
    """Return a figure of so many inches with panels side by side, (columns,)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns, squeeze=False, sharey=sharey)[0]


def legend_below(figure: Any, handles: list[Any], columns: int = 5) -> None:
    """Add a legend under all panels of a figure, or of a part of one."""
    look = {"loc": "outside lower center", "frameon": False, "fontsize": 9, "columnspacing": 1.4, "handletextpad": 0.5}
    figure.legend(handles=handles, ncols=min(len(handles), columns), **look)


def shades(count: int, low: float = 0.0, high: float = 0.85) -> list[str]:
    """Colours from dark to light, for the values of a key."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["viridis"](x)) for x in np.linspace(low, high, count)]
