"""Prints the value of contrastive losses on Panda at 100,000 steps: success by arm, gains over TESAC, detectable gains.

    python benchmarks/contrast_worth.py

Reads results/placebo, results/panda-100k-rate and results/panda-100k-one-age. Differences are of means over seeds, with
Welch's 95 % interval. The detectable gain is the one that a test (two-sided, 0.05) detects with 80 % probability.
"""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy import stats

from sami_train.studies.compare.estimates import Interval, welch
from sami_train.studies.compare.groups import EvaluatedRun, read_runs

RESULTS = Path(__file__).resolve().parents[1] / "results"
RUNS = ("placebo:panda-tesac-?", "placebo:panda-satesac-?", "panda-100k-rate:*", "panda-100k-one-age")
SETS = ("training", "moderate", "extreme")
POWER = 0.8


def arm(run: EvaluatedRun) -> str:
    """Return the title of the arm of a run, that is of all runs that differ from it only in the seed."""
    if run.config["method"] == "tesac":
        return "TESAC"
    where = "after equal numbers of steps" if run.config["contrast.pairing"] == "one_age" else "at the last step"
    rate = f", rate {run.config['contrast.rate']:g}" if run.config["contrast.rate"] else ""
    return f"SaTESAC, compared {where}{rate}"


def detectable(x: np.ndarray, y: np.ndarray) -> float:
    """Return the difference of two means that a test detects with probability `POWER`, given the seeds' deviations."""
    a, b = x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)
    freedom = (a + b) ** 2 / (a**2 / (len(x) - 1) + b**2 / (len(y) - 1))
    return float((stats.t.ppf(0.975, freedom) + stats.t.ppf(POWER, freedom)) * math.sqrt(a + b))


def text_of(less: Interval, digits: int = 3) -> str:
    """Return a difference and its interval."""
    value, low, high = (f"{number:+,.{digits}f}" for number in less)
    return f"{value} [{low}, {high}]"


def main() -> None:
    """Print both tables, and the outcome by seed."""
    arms: dict[str, list[EvaluatedRun]] = defaultdict(list)
    for run in sorted(read_runs([RESULTS / runs for runs in RUNS]), key=lambda run: run.seed):
        if run.config["contrast.rate"] in (0.0, 0.001):
            arms[arm(run)].append(run)
    means = {
        name: {of: np.array([run.scores(of).mean() for run in runs]) for of in SETS} for name, runs in arms.items()
    }
    print("| method | seeds | bound, nats | training | moderate | extreme |\n|---|---|---|---|---|---|")
    for name, runs in arms.items():
        bounds = [
            np.mean([row["contrast/bound"] for row in run.record.metrics if "contrast/bound" in row])
            for run in runs
            if name != "TESAC"
        ]
        bound = f"{min(bounds):.2f} to {max(bounds):.2f}" if bounds else ""
        cells = [f"{scores.mean():.3f} ± {scores.std(ddof=1):.3f}" for scores in means[name].values()]
        print(f"| {name} | {len(runs)} | {bound} | {' | '.join(cells)} |")
    print("\n| less TESAC | training | moderate | extreme | detectable, moderate |\n|---|---|---|---|---|")
    base = means["TESAC"]
    for name, scores in means.items():
        if name != "TESAC":
            cells = [text_of(welch(scores[of], base[of])) for of in SETS]
            print(f"| {name} | {' | '.join(cells)} | {detectable(scores['moderate'], base['moderate']):.3f} |")
    print("\n| moderate, by seed | " + " | ".join(map(str, range(12))) + " |\n" + "|---" * 13 + "|")
    for name, runs in arms.items():
        by_seed = {run.seed: f"{run.scores('moderate').mean():.3f}" for run in runs}
        print(f"| {name} | {' | '.join(by_seed.get(seed, '') for seed in range(12))} |")


if __name__ == "__main__":
    main()
