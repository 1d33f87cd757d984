"""How plots look. Colours are Okabe and Ito's, which colour-blind readers can tell apart; two spare ones are Tol's."""

from __future__ import annotations

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
"""A method's own colour, by its title."""
_SPARE = ("#F0E442", "#332288", "#882255")
"""For methods without one."""
GREY = "#444444"
STYLES = ("-", "--", ":", "-.")
BAND: dict[str, Any] = {"alpha": 0.4, "solid_capstyle": "butt"}
"""How the bar of an interval is drawn."""
SETTINGS: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.titlesize": 11,
    "savefig.dpi": 130,
}
"""matplotlib's settings for every plot."""


def colour_of(method: Method) -> str:
    """Return a method's colour: its own, or the spare one that its rank among all methods without one gives it.

    So it is the same in every figure, whichever methods these compare.
    """
    without = [other.title for other in METHODS.values() if other.title not in _COLOURS]
    return _COLOURS.get(method.title) or _SPARE[without.index(method.title) % len(_SPARE)]


def panels(columns: int, width: float, height: float, sharey: bool = True) -> tuple[Figure, np.ndarray]:
    """Return a figure of so many inches with panels side by side, (columns,)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns, squeeze=False, sharey=sharey)[0]


def legend_below(figure: Figure, handles: list[Any]) -> None:
    """Return a legend under all panels."""
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5), frameon=False, fontsize=9)


def shades(count: int) -> list[Any]:
    """Colours from dark to light, for the values of a key."""
    from matplotlib import colormaps

    return [colormaps["viridis"](x) for x in np.linspace(0, 0.85, count)]
