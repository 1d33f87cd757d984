"""Success of a pilot that was trained on heavier cubes, by task: `python benchmarks/heavy_panda.py`.

Reads results/panda-heavy/evaluation.json, the evaluation of examples/own_environment/heavy_panda.py.
"""

from __future__ import annotations

import json
from pathlib import Path

EVALUATION = Path(__file__).resolve().parents[1] / "results" / "panda-heavy" / "evaluation.json"


def main() -> None:
    """Print a row for each task, by mass and friction."""
    tasks = json.loads(EVALUATION.read_text(encoding="utf-8"))["tasks"]
    print("| mass [kg] | friction | trained on | success | steps |\n|---|---|---|---|---|")
    for row in sorted(tasks, key=lambda row: (row["task"]["mass"], row["task"]["friction"])):
        task, trained = row["task"], "yes" if row["task_set"] == "training" else "no"
        print(f"| {task['mass']:g} | {task['friction']:g} | {trained} | {row['success']:.2f} | {row['steps']:.0f} |")


if __name__ == "__main__":
    main()
