"""What training with heavier cubes brings the Panda, by set and by task: `python benchmarks/heavy_panda.py`.

Reads the runs in results/panda-heavy, and beside them the evaluation of the shipped panda-satesac on the same starts.
± is the deviation over seeds.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sami_runtime.model.atlas import shown
from sami_train.evaluation.results import Evaluation
from sami_train.studies.compare.groups import read_runs

RESULTS = Path(__file__).resolve().parents[1] / "results" / "panda-heavy"
SETS = ("training", "development", "moderate", "extreme")
SHIPPED = "panda-satesac"


def main() -> None:
    """Print a table of the sets, and one of the tasks."""
    heavy = [run.evaluation for run in sorted(read_runs([RESULTS]), key=lambda run: run.seed)]
    light = Evaluation.from_dict(json.loads((RESULTS / f"{SHIPPED}.json").read_text(encoding="utf-8")))
    print(
        f"| success, {heavy[0].seed_name} | tasks | {SHIPPED} | with heavier cubes | each seed |\n|---|---|---|---|---|"
    )
    known = {tuple(result.task.values()): result for result in light.results}
    for of in SETS:
        scores = np.array([evaluation.success(of) for evaluation in heavy])
        beside = [known[tuple(result.task.values())].success for result in heavy[0].of(of)]
        each = " / ".join(f"{score:.3f}" for score in scores)
        spread = f"{scores.mean():.3f} ± {scores.std(ddof=1):.3f}"
        print(f"| {of} | {len(beside)} | {np.mean(beside):.3f} | {spread} | {each} |")
    print(f"\n| mass [kg] | friction | set | {SHIPPED} | with heavier cubes | tip |\n|---|---|---|---|---|---|")
    by_task: dict[tuple[float, float], list] = {}
    for result in (result for evaluation in heavy for result in evaluation.results):
        by_task.setdefault((result.task["mass"], result.task["friction"]), []).append(result)
    for task, results in sorted(by_task.items()):
        success = np.mean([row.success for row in results])
        tip = np.mean([row.skills["tip"] for row in results])
        place = f"{shown(task[0])} | {shown(task[1])} | {results[0].task_set}"
        print(f"| {place} | {known[task].success:.2f} | {success:.2f} | {tip:.2f} |")


if __name__ == "__main__":
    main()
