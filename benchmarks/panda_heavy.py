"""Prints the success of policies whose training included heavier cubes: `python benchmarks/panda_heavy.py`.

Reads evaluations in results/panda-heavy. The first table has the development tasks with the development seed, for
choices; the second has the paper's tasks with the final seed, looked at once; the third groups the same episodes by
the initial distance of cube and goal.
"""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.utils.seeding import np_random

from sami_train import seeds
from sami_train.envs.panda.tasks import PANDA_TASKS
from sami_train.envs.panda_mujoco.world import World
from sami_train.episodes.rollout import beginning

RESULTS = Path(__file__).resolve().parents[1] / "results" / "panda-heavy"
DEVELOPMENT = {
    "together": ("longer-0", "longer-1"),
    "lifting first": ("staged-1", "staged-2", "staged-3"),
    "without memory": ("staged-sac-0",),
}
"""Evaluations by kind of training, one per seed."""
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
STICKS = 5.0
"""Smallest friction at which the heaviest cube cannot be pushed."""
BY_DISTANCE = {
    "shipped": ("final-shipped",),
    "without memory": ("final-sac-0",),
    "lifting first": ("final-1", "final-2", "final-3"),
}
EDGES = (0.0, 0.05, 0.12, 0.16, 0.2, 0.3, 0.45)
"""Edges of the bins of distances [m]; a cube in the first bin begins at its goal."""


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
    """Return, as text, success in a task, or the fraction of episodes with a skill, by seed; `-` if not measured."""
    rows = [rows[task] for rows in map(tasks_of, names) if task in rows]
    return " / ".join(f"{row['skills'][skill] if skill else row['success']:.2f}" for row in rows) or "-"


def distances(episodes: int) -> np.ndarray:
    """Return the initial distance of cube and goal in each evaluated episode, (episodes,) [m]."""
    world = World()
    cube = int(world.model.joint("cube").qposadr[0])
    starts = [world.start(np_random(beginning(seeds.FINAL, k)[0])[0]) for k in range(episodes)]
    return np.array([np.linalg.norm(goal - qpos[cube : cube + 3]) for qpos, goal in starts])


def stuck_successes(names: tuple[str, ...]) -> np.ndarray:
    """Return which episodes succeed with the heaviest cube on sticking tables, (policies x tasks, episodes)."""
    rows = [row for name in names for task, row in tasks_of(name).items() if task[0] == HEAVIEST and task[1] >= STICKS]
    return np.array([[outcome == "1" for outcome in row["successes"]] for row in rows])


def print_by_distance() -> None:
    """Print the success with the heaviest cube on sticking tables, by the initial distance from its goal."""
    outcomes = {title: stuck_successes(names) for title, names in BY_DISTANCE.items()}
    far = distances(next(iter(outcomes.values())).shape[1])
    print(f"\n| from the goal [cm] | starts | {' | '.join(outcomes)} |\n|---{'|---' * (len(outcomes) + 1)}|")
    for low, high in pairwise(EDGES):
        in_range = (low <= far) & (far < high)
        scores = " | ".join(f"{of[:, in_range].mean():.2f}" for of in outcomes.values())
        print(f"| {100 * low:g} to {100 * high:g} | {in_range.sum()} | {scores} |")


def main() -> None:
    """Print the tables."""
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
        by_friction = ", ".join(f"{rows[HEAVIEST, friction]['success']:.2f}" for friction in heaviest)
        scores = " | ".join(f"{paper_success(name, of):.3f}" for of in SETS)
        print(f"| {title} | {scores} | {by_friction} |")
    print_by_distance()


if __name__ == "__main__":
    main()
