"""Counts cells where the shipped MuJoCo policies reach the paper's best method: `python benchmarks/paper_cells.py`.

A cell is a robot and a set of tasks; it compares the mean return of the shipped file's own evaluation with the largest
of the paper's five means. The slim humanoid is left out, because the paper's numbers come from a model that starts
lying down. The returns of the crippled half-cheetah and the crippled ant are halved: their episodes have 2,000 steps
here, and perhaps 1,000 in the paper.
"""

from __future__ import annotations

from pathlib import Path

from sami_train.config.methods import METHODS
from sami_train.evaluation.paper import reported
from sami_train.evaluation.results import Evaluation
from sami_train.studies.sweep.study import find_runs

RUNS = Path(__file__).resolve().parents[1] / "results" / "models"
SETS = ("training", "moderate", "extreme")
LEFT_OUT = ("slim-humanoid",)
HALVED = ("crippled-half-cheetah", "crippled-ant")


def main() -> None:
    """Print each cell, and the count."""
    cells = above = 0
    for record in find_runs([RUNS]):
        if record.evaluation is None or not (evaluation := Evaluation.from_dict(record.evaluation)).env:
            continue
        for name in SETS:
            paper = [cell.mean for method in METHODS.values() if (cell := reported(evaluation.env, method.title, name))]
            if evaluation.env.startswith("panda") or not paper:
                continue
            cells += 1
            ret = evaluation.ret(name) / (2.0 if evaluation.env in HALVED else 1.0)
            better = evaluation.env not in LEFT_OUT and round(ret) >= round(max(paper))
            above += better
            note = "left out" if evaluation.env in LEFT_OUT else "half of it" if evaluation.env in HALVED else ""
            print(
                f"{evaluation.env:22} {name:9} {ret:10,.0f} {max(paper):10,.0f}  {'above' if better else '-':6} {note}"
            )
    print(f"at or above the paper's best in {above} of {cells} cells")


if __name__ == "__main__":
    main()
