"""The paper's results (arXiv 2406.04815, NeurIPS 2024): tables 1 and 2, and the appendix's paired t-tests.

Five seeds, 1.6 million environment steps, 100 episodes; success on Panda, average return elsewhere. `paper.toml` has
the numbers.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from sami_runtime.files import tomllib

SETS = ("training", "moderate", "extreme")
SOURCE = "arXiv 2406.04815: five seeds, 1.6 million environment steps, 100 episodes"
SPREAD = {
    "panda": "its ± is the deviation across the set's tasks, not seeds, as the published raw data show (across seeds "
    "the mean deviates by 0.01 to 0.08)",
}
"""The meaning of the number after the ±, if it is not the standard deviation across seeds."""


class Reported(NamedTuple):
    """A cell of the paper's tables."""

    mean: float
    spread: float
    """The number after the ±; see `SPREAD`."""


def reported(env: str, title: str, task_set: str) -> Reported | None:
    """Return the paper's result of a method, by its title; None if the paper has none."""
    cells = _tables()["results"].get(env, {}).get(title)
    return Reported(*cells[SETS.index(task_set)]) if cells and task_set in SETS else None


def reported_p(env: str, x: str, y: str, task_set: str) -> float | None:
    """Return the paper's p of a paired t-test of x - y, by titles; None if the paper has none."""
    p_values = _tables()["p_values"].get(env, {}).get(f"{x} - {y}")
    return p_values[SETS.index(task_set)] if p_values and task_set in SETS else None


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(files("sami_train.evaluation").joinpath("paper.toml").read_text(encoding="utf-8"))
