"""What changes of the learner are worth on Panda at 100,000 steps: success by arm, and less TESAC's.

    python benchmarks/learner_changes.py

Reads results/panda-100k-learner, whose runs come from a patch, and all TESAC runs of that budget in results/placebo and
results/panda-100k-one-age; at 550,000 steps, results/panda-550k and the first stages in results/panda-heavy. ± is the
deviation over seeds; differences are of means over seeds, with Welch's 95 % interval.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from contrast_worth import shown

from sami_train.studies.compare.estimates import welch
from sami_train.studies.compare.groups import read_runs

RESULTS = Path(__file__).resolve().parents[1] / "results"
TESAC = ("placebo:panda-tesac-?", "panda-100k-one-age:panda-tesac-*")
ARMS = {"returns of 3 steps": "return-steps", "first deviation 0.37": "first-policy"}
SETS = ("training", "moderate", "extreme")


def patched(name: str) -> dict[str, np.ndarray]:
    """Return the success of each seed by set, of runs whose configuration has keys that the product lacks."""
    lines = (RESULTS / "panda-100k-learner" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    evaluations = [json.loads(line)["evaluation"]["sets"] for line in lines]
    return {of: np.array([sets[of]["success"] for sets in evaluations]) for of in SETS}


def at_full_length() -> list[tuple[str, dict[str, float]]]:
    """Return the success by set of each run of 550,000 steps, with its returns and method."""
    runs = read_runs([RESULTS / "panda-550k"])
    rows = [(f"1 step, {run.method.title}", {of: float(run.scores(of).mean()) for of in SETS}) for run in runs]
    for path in sorted((RESULTS / "panda-heavy").glob("stage1-*.json")):
        sets = json.loads(path.read_text(encoding="utf-8"))["sets"]
        rows.append(("3 steps, TESAC", {of: sets[of]["success"] for of in SETS}))
    return rows


def main() -> None:
    """Print the tables."""
    runs = read_runs([RESULTS / selection for selection in TESAC])
    arms = {"TESAC": {of: np.array([run.scores(of).mean() for run in runs]) for of in SETS}}
    arms |= {title: patched(name) for title, name in ARMS.items()}
    print("| TESAC with | seeds | training | moderate | extreme |\n|---|---|---|---|---|")
    for title, scores in arms.items():
        means = " | ".join(f"{scores[of].mean():.3f} ± {scores[of].std(ddof=1):.3f}" for of in SETS)
        print(f"| {'nothing changed' if title == 'TESAC' else title} | {len(scores['training'])} | {means} |")
    print("\n| less nothing changed | training | moderate | extreme |\n|---|---|---|---|")
    for title in ARMS:
        print(f"| {title} | {' | '.join(shown(welch(arms[title][of], arms['TESAC'][of])) for of in SETS)} |")
    print("\n| 550,000 steps, returns of | training | moderate | extreme |\n|---|---|---|---|")
    for title, sets in at_full_length():
        print(f"| {title} | {' | '.join(f'{sets[of]:.3f}' for of in SETS)} |")


if __name__ == "__main__":
    main()
