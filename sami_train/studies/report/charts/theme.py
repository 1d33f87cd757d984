"""How charts look on light and on dark ground. Colours are Okabe and Ito's, lightened on dark ground."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif"


@dataclass(frozen=True)
class Theme:
    """Colours of one ground."""

    ink: str
    faint: str
    """Of axes and second lines."""
    grid: str
    ground: str | None
    """None is see-through: the page's."""
    categories: tuple[str, ...]
    ordered: tuple[str, ...]
    """From low to high, of which some are taken."""


LIGHT = Theme(
    ink="#1b1f24",
    faint="#626b76",
    grid="#e5e8ec",
    ground="#ffffff",
    categories=("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#56B4E9", "#6b6b6b"),
    ordered=("#440154", "#3b528b", "#21918c", "#5ec962", "#d9b300"),
)
DARK = Theme(
    ink="#e8eaed",
    faint="#9aa4b0",
    grid="#2c333b",
    ground=None,
    categories=("#56B4E9", "#F28E4B", "#2DC79A", "#E79BC5", "#E6B94C", "#A9D6F5", "#b4b8bd"),
    ordered=("#b794f4", "#7aa2f7", "#3ec6c0", "#8bd77a", "#fde725"),
)
HEAT = "cividis"
"""The scheme of heat maps: as even for colour-blind readers as for others."""


def config(theme: Theme) -> dict[str, Any]:
    """Return Vega-Lite's configuration of a theme."""
    words = {"labelColor": theme.faint, "titleColor": theme.ink, "labelFontSize": 11, "titleFontSize": 12}
    return {
        "background": theme.ground,
        "font": FONT,
        "view": {"stroke": None},
        "title": {"color": theme.ink, "fontSize": 13, "fontWeight": 600, "anchor": "start", "offset": 8},
        "axis": {
            **words,
            "titleFontWeight": "normal",
            "gridColor": theme.grid,
            "domainColor": theme.grid,
            "tickColor": theme.grid,
            "labelOverlap": "greedy",
            "labelSeparation": 8,
        },
        "legend": {**words, "titleFontWeight": "normal", "orient": "bottom", "symbolOpacity": 1, "columns": 6},
        "rule": {"color": theme.faint},
        "text": {"color": theme.ink},
        "line": {"strokeWidth": 2},
        "range": {
            "category": list(theme.categories),
            "ordinal": {"scheme": list(theme.ordered)},
            "ramp": {"scheme": HEAT},
            "heatmap": {"scheme": HEAT},
        },
    }
