"""Prints a table of trainings evaluated with a profile, over seeds, from `sami eval --run RUN --gap GAP --json`.

    python benchmarks/seeds_with_profile.py results/panda-behind [--against none]

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
    """Return the difference of two means with Welch's 95 % interval, and * if the interval excludes 0."""
    less = welch(np.array(scores), np.array(base))
    text = f"{less.value:+{form}}"
    if less.low is not None and less.high is not None:
        text += f" [{less.low:+{form}}, {less.high:+{form}}]" + (" *" if less.low * less.high > 0 else "")
    return text


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--against", default="none", help="the arm that the others are compared with (none)")
    arguments = parser.parse_args()
    result: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    gaps, episodes = set(), set()
    for path in sorted(arguments.folder.glob("*-*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        gaps.add(document["gap"])
        episodes |= {task["episodes"] for task in document["tasks"]}
        for name, score in document["sets"].items():
            result[path.stem.rsplit("-", 1)[0]][name].append(score["success"])
    if len(gaps) != 1 or len(episodes) != 1:
        parser.error(f"these were measured with {len(gaps)} profiles and {sorted(episodes)} episodes a task")
    base = result[arguments.against]
    print(f"with {gaps.pop()}, {episodes.pop()} episodes a task\n")
    print("| arm | set | by seed | mean | difference |\n|---|---|---|---|---|")
    for arm in sorted(result, key=lambda name: (name != arguments.against, name)):
        for name, scores in result[arm].items():
            document = "" if arm == arguments.against else difference(scores, base[name])
            seeds = ", ".join(f"{score:.2f}" for score in scores)
            print(f"| {arm} | {name} | {seeds} | {np.mean(scores):.2f} | {document} |")


if __name__ == "__main__":
    main()
