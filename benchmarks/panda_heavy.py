"""Success of policies that were trained on heavier cubes, too: `python benchmarks/panda_heavy.py`.

Reads evaluations in results/panda-heavy. The first table is of tasks to choose by, on the development seed; the second
is of the paper's tasks, looked at once, on the final seed.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from sami_train.envs.panda.tasks import PANDA_TASKS

RESULTS = Path(__file__).resolve().parents[1] / "results" / "panda-heavy"
DEVELOPMENT = {
    "together": ("longer-0", "longer-1"),
    "lifting first": ("staged-1", "staged-2", "staged-3"),
    "without memory": ("staged-sac-0",),
}
"""Evaluations of each kind of training, a seed each."""
TIPPED = "lifting first"
FINAL = {
    "shipped `panda-satesac`": "final-shipped",
    "from it, half of the tasks heavy": "final-pilot",
    "lifting first, seed 1": "final-1",
    "lifting first, seed 2": "final-2",
    "lifting first, seed 3": "final-3",
    "without memory": "final-sac-0",
}
SETS = ("training", "moderate", "extreme")
HEAVIEST = 30.0


@cache
def tasks_of(name: str) -> dict[tuple[float, float], dict[str, Any]]:
    """Return an evaluation's rows by mass and friction."""
    rows = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["tasks"]
    return {(row["task"]["mass"], row["task"]["friction"]): row for row in rows}


def paper_success(name: str, of: str) -> float:
    """Return the mean success of the paper's tasks of a set."""
    rows = tasks_of(name)
    paper_tasks = [(float(task["mass"]), float(task["friction"])) for task in PANDA_TASKS.sets[of]]
    return sum(rows[task]["success"] for task in paper_tasks) / len(paper_tasks)


def of_seeds(task: tuple[float, float], names: tuple[str, ...], skill: str = "") -> str:
    """Return success in a task, or the share of episodes with a skill, of each seed; `-` where none was measured."""
    rows = [rows[task] for rows in map(tasks_of, names) if task in rows]
    return " / ".join(f"{row['skills'][skill] if skill else row['success']:.2f}" for row in rows) or "-"


def main() -> None:
    """Print both tables."""
    tasks = {task for names in DEVELOPMENT.values() for name in names for task in tasks_of(name)}
    print(f"| mass [kg] | friction | {' | '.join(DEVELOPMENT)} | {TIPPED}: tipped |\n|---{'|---' * 5}|")
    for task in sorted(tasks):
        scores = " | ".join(of_seeds(task, names) for names in DEVELOPMENT.values())
        print(f"| {task[0]:g} | {task[1]:g} | {scores} | {of_seeds(task, DEVELOPMENT[TIPPED], 'tip')} |")
    heaviest = sorted(friction for mass, friction in tasks_of("final-1") if mass == HEAVIEST)
    titles = f"{' | '.join(SETS)} | 30 kg at friction {', '.join(f'{friction:g}' for friction in heaviest)}"
    print(f"\n| policy | {titles} |\n|---{'|---' * (len(SETS) + 1)}|")
    for title, name in FINAL.items():
        rows = tasks_of(name)
        alone = ", ".join(f"{rows[HEAVIEST, friction]['success']:.2f}" for friction in heaviest)
        scores = " | ".join(f"{paper_success(name, of):.3f}" for of in SETS)
        print(f"| {title} | {scores} | {alone} |")


if __name__ == "__main__":
    main()
