"""Prints the value of changes to the learner: scores by arm, and differences to the same learner without the change.

    python benchmarks/learner_changes.py

Reads results/panda-100k-learner and results/panda-100k-critics, whose runs come from patches, and runs of that budget
without a change in results/placebo and results/panda-100k-one-age; at 550,000 steps, results/panda-550k and the first
stages in results/panda-heavy; for the half-cheetah, results/half-cheetah-200k-learner and results/half-cheetah-long;
for a hopper that falls, results/hopper-300k-windows.
± is the deviation over seeds; differences are of means over seeds, with Welch's 95 % interval.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from contrast_worth import text_of

from sami_train.studies.compare.estimates import welch
from sami_train.studies.compare.groups import read_runs

RESULTS = Path(__file__).resolve().parents[1] / "results"
TESAC = ("placebo:panda-tesac-?", "panda-100k-one-age:panda-tesac-*")
SATESAC = ("placebo:panda-satesac-?",)
RETURNS = {"returns of 3 steps": "return-steps", "first deviation 0.37": "first-policy"}
CRITICS = {
    "TESAC, a categorical critic": "categorical",
    "TESAC, critics that are told the task": "privileged",
    "SaTESAC, an optimiser of its own for the contrast": "separate",
}
LONG = {
    "shipped `half-cheetah-satesac`": "final-shipped",
    "returns of 3 steps, TESAC, seed 10": "final-10",
    "returns of 3 steps, TESAC, seed 11": "final-11",
    "returns of 3 steps, TESAC, seed 12": "final-12",
    "returns of 1 step, TESAC, seed 10": "final-plain-10",
}
CHEETAH = {"nothing changed": "plain", "returns of 3 steps": "returns-3", "even windows": "windows"}
HOPPER = {"every episode": "episodes", "every window": "windows"}
SETS = ("training", "moderate", "extreme")
SCORES = " | ".join(SETS)

Scores = Mapping[str, np.ndarray]
"""Scores of the seeds (n,) by set."""


def success_of(selections: Sequence[str]) -> Scores:
    """Return the success, by set and seed, of runs that `sami compare` can read."""
    runs = read_runs([RESULTS / selection for selection in selections])
    return {of: np.array([run.scores(of).mean() for run in runs]) for of in SETS}


def seed_scores(folder: str, name: str, key: str = "success") -> Scores:
    """Return the scores that `sami eval` printed for each seed of patched runs, which `sami compare` does not read."""
    lines = (RESULTS / folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    evaluations = [json.loads(line)["evaluation"]["sets"] for line in lines]
    return {of: np.array([sets[of][key] for sets in evaluations]) for of in SETS}


def sets_of(path: Path) -> dict[str, dict[str, float]]:
    """Return an evaluation's means by set."""
    sets: dict[str, dict[str, float]] = json.loads(path.read_text(encoding="utf-8"))["sets"]
    return sets


def print_arms(title: str, arms: Mapping[str, Scores], digits: int = 3) -> None:
    """Print the mean and deviation over seeds of each arm."""
    print(f"\n| {title} | seeds | {SCORES} |\n|---|---|---|---|---|")
    for name, scores in arms.items():
        cells = [f"{scores[of].mean():,.{digits}f}" for of in SETS]
        if len(scores["training"]) > 1:
            cells = [f"{cell} ± {scores[of].std(ddof=1):,.{digits}f}" for cell, of in zip(cells, SETS, strict=True)]
        print(f"| {name} | {len(scores['training'])} | {' | '.join(cells)} |")


def print_less(title: str, pairs: Mapping[str, tuple[Scores, Scores]], digits: int = 3) -> None:
    """Print the difference of each pair of arms, if the first arm has several seeds."""
    print(f"\n| {title} | {SCORES} |\n|---|---|---|---|")
    for name, (changed, unchanged) in pairs.items():
        if len(changed["training"]) > 1:
            print(f"| {name} | {' | '.join(text_of(welch(changed[of], unchanged[of]), digits) for of in SETS)} |")


def at_full_length() -> list[tuple[str, dict[str, float]]]:
    """Return the success by set of each run of 550,000 steps, with its returns and method."""
    runs = read_runs([RESULTS / "panda-550k"])
    rows = [(f"1 step, {run.method.title}", {of: float(run.scores(of).mean()) for of in SETS}) for run in runs]
    for path in sorted((RESULTS / "panda-heavy").glob("stage1-*.json")):
        sets = sets_of(path)
        rows.append(("3 steps, TESAC", {of: sets[of]["success"] for of in SETS}))
    return rows


def print_long() -> None:
    """Print the return by set of long runs of the half-cheetah, ± the standard error over starts."""
    print(f"\n| half-cheetah, final seed | {SCORES} |\n|---|---|---|---|")
    for title, name in LONG.items():
        sets = sets_of(RESULTS / "half-cheetah-long" / f"{name}.json")
        cells = [f"{sets[of]['ret']:,.0f} ± {sets[of]['ret_error']:,.0f}" for of in SETS]
        print(f"| {title} | {' | '.join(cells)} |")


def main() -> None:
    """Print the tables."""
    tesac = success_of(TESAC)
    returns = {title: seed_scores("panda-100k-learner", name) for title, name in RETURNS.items()}
    print_arms("TESAC with", {"nothing changed": tesac} | returns)
    print_less("less nothing changed", {title: (scores, tesac) for title, scores in returns.items()})
    print(f"\n| 550,000 steps, returns of | {SCORES} |\n|---|---|---|---|")
    for title, sets in at_full_length():
        print(f"| {title} | {' | '.join(f'{sets[of]:.3f}' for of in SETS)} |")
    critics = {title: seed_scores("panda-100k-critics", name) for title, name in CRITICS.items()}
    satesac = success_of(SATESAC)
    print_arms("critics of", {"TESAC, nothing changed": tesac, "SaTESAC, nothing changed": satesac} | critics)
    without = {title: satesac if title.startswith("SaTESAC") else tesac for title in CRITICS}
    print_less("less its method, nothing changed", {title: (critics[title], without[title]) for title in CRITICS})
    cheetah = {title: seed_scores("half-cheetah-200k-learner", name, "ret") for title, name in CHEETAH.items()}
    print_arms("half-cheetah, TESAC with", cheetah, digits=0)
    plain = cheetah.pop("nothing changed")
    print_less("less nothing changed there", {title: (scores, plain) for title, scores in cheetah.items()}, digits=0)
    print_long()
    hopper = {title: seed_scores("hopper-300k-windows", name, "ret") for title, name in HOPPER.items()}
    print_arms("hopper that falls, SAC, drawn as often is", hopper, digits=0)
    print_less("less every episode", {"every window": (hopper["every window"], hopper["every episode"])}, digits=0)


if __name__ == "__main__":
    main()
