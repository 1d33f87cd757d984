"""Compares policies from the same starts in pairs: tables of the results of ros2_task.py and franka_task.py.

    python benchmarks/paired_episodes.py results/ros2-loop/satesac-*.json -- results/ros2-loop/ahead-*.json

`--` separates groups of files. For each group: success with its 95 % interval over seeds, since all tasks share a
seed's start; and against the first group, on common episodes: wins and losses, the p of the exact sign test, and the p
of the sign-flip test over starts, because the episodes of a start in the six tasks are not independent.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np

from sami_train.evaluation.intervals import interval_over_starts


def outcomes(files: list[str]) -> dict[tuple[str, int], bool]:
    """Return whether each episode was a success, by task and seed."""
    rows = [row for file in files for row in json.loads(Path(file).read_text(encoding="utf-8"))["episodes"]]
    return {(json.dumps(row["task"], sort_keys=True), row["seed"]): bool(row["success"]) for row in rows}


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided p of the wins and losses, if both were equally likely."""
    count = wins + losses
    tail = sum(math.comb(count, k) for k in range(min(wins, losses) + 1)) / 2**count
    return min(1.0, 2.0 * tail)


def flip_test(differences: list[int]) -> float:
    """Return the two-sided p of the sum of the differences, (starts,), if both signs of each were equally likely."""
    chance = {0: 1.0}
    for difference in differences:
        spread: dict[int, float] = {}
        for total, share in chance.items():
            for flipped in (total + difference, total - difference):
                spread[flipped] = spread.get(flipped, 0.0) + share / 2.0
        chance = spread
    return min(1.0, sum(share for total, share in chance.items() if abs(total) >= abs(sum(differences))))


def main() -> None:
    """Print the table."""
    groups: list[list[str]] = [[]]
    for word in sys.argv[1:]:
        groups.append([]) if word == "--" else groups[-1].append(word)
    if not groups[0]:
        sys.exit((__doc__ or "").strip())
    first = outcomes(groups[0])
    for files in groups:
        results = outcomes(files)
        seeds = sorted({seed for _, seed in results})
        means = [np.mean([success for (_, seed), success in results.items() if seed == item]) for item in seeds]
        low, high = interval_over_starts(np.array(means), (0.0, 1.0)) or (math.nan, math.nan)
        text = f"{Path(files[0]).stem}: {sum(results.values())} of {len(results)} [{low:.2f}, {high:.2f}]"
        if files is not groups[0]:
            pairs = [episode for episode in results if episode in first]
            wins, losses = (sum(a[e] and not b[e] for e in pairs) for a, b in ((results, first), (first, results)))
            text += f"; of {len(pairs)} that both had {wins} won, {losses} lost, p = {sign_test(wins, losses):.2g}"
            by_start = [sum(results[e] - first[e] for e in pairs if e[1] == seed) for seed in seeds]
            text += f", by start {flip_test(by_start):.2g}"
        print(text)


if __name__ == "__main__":
    main()
