"""Several trainings behind a gap, several seeds each: a table of what `sami eval --run RUN --gap GAP --json` printed.

    python benchmarks/seeds_behind_gap.py results/panda-behind [--against none]

Reads FOLDER/ARM-SEED.json. For each arm and set: success by seed, their mean, and the mean's difference to one arm with
Welch's 95 % interval; an interval that excludes 0 is marked.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sami_train.studies.compare.estimates import welch


def difference(scores: Sequence[float], base: Sequence[float], form: str = ".2f") -> str:
    """Return the difference of two means with Welch's 95 % interval, and * where that excludes 0."""
    less = welch(np.array(scores), np.array(base))
    told = f"{less.value:+{form}}"
    if less.low is not None and less.high is not None:
        told += f" [{less.low:+{form}}, {less.high:+{form}}]" + (" *" if less.low * less.high > 0 else "")
    return told


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--against", default="none", help="the arm that the others are compared with (none)")
    arguments = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    gaps, episodes = set(), set()
    for path in sorted(arguments.folder.glob("*-*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        gaps.add(told["gap"])
        episodes |= {task["episodes"] for task in told["tasks"]}
        for name, score in told["sets"].items():
            found[path.stem.rsplit("-", 1)[0]][name].append(score["success"])
    if len(gaps) != 1 or len(episodes) != 1:
        parser.error(f"these were measured behind {len(gaps)} gaps with {sorted(episodes)} episodes a task")
    base = found[arguments.against]
    print(f"behind {gaps.pop()}, {episodes.pop()} episodes a task\n")
    print("| arm | set | by seed | mean | difference |\n|---|---|---|---|---|")
    for arm in sorted(found, key=lambda name: (name != arguments.against, name)):
        for name, scores in found[arm].items():
            told = "" if arm == arguments.against else difference(scores, base[name])
            seeds = ", ".join(f"{score:.2f}" for score in scores)
            print(f"| {arm} | {name} | {seeds} | {np.mean(scores):.2f} | {told} |")


if __name__ == "__main__":
    main()
