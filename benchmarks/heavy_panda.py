"""Success of policies that were trained on heavier cubes, by task: `python benchmarks/heavy_panda.py`.

Reads results/panda-heavy: evaluations of a pilot and of two longer runs of examples/own_environment/heavy_panda.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "results" / "panda-heavy"
RUNS = ("pilot", "longer-0", "longer-1")


def tasks_of(run: str) -> dict[tuple[float, float], dict[str, Any]]:
    """Return an evaluation's rows by mass and friction."""
    rows = json.loads((RESULTS / f"{run}.json").read_text(encoding="utf-8"))["tasks"]
    return {(row["task"]["mass"], row["task"]["friction"]): row for row in rows}


def main() -> None:
    """Print a row for each task, by mass and friction: success of each run, and how often the longer ones tip."""
    pilot, *longer = (tasks_of(run) for run in RUNS)
    print("| mass [kg] | friction | trained on | pilot | longer, two seeds | tipped |\n|---|---|---|---|---|---|")
    for task in sorted(set(pilot) & set(longer[0])):
        mass, friction = task
        trained = "yes" if longer[0][task]["task_set"] == "training" else "no"
        scores = " / ".join(f"{run[task]['success']:.2f}" for run in longer)
        tipped = " / ".join(f"{run[task]['skills']['tip']:.2f}" for run in longer)
        success = pilot[task]["success"]
        print(f"| {mass:g} | {friction:g} | {trained} | {success:.2f} | {scores} | {tipped} |")


if __name__ == "__main__":
    main()
