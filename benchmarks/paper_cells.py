"""Counts cells where the shipped MuJoCo policies reach the paper's best method: `python benchmarks/paper_cells.py`.

A cell is a robot and a set of tasks; it compares the mean return of the shipped file with the largest of the paper's
five means: once by the file's own evaluation, of the development seed, and once by the episodes of the final seed that
`need_a_context.py` stored, which chose nothing. The slim humanoid is left out, because the paper's numbers come from a
model that starts lying down. The returns of the crippled half-cheetah and the crippled ant are halved: their episodes
have 2,000 steps here, and perhaps 1,000 in the paper.

Below a cell that the development seed does not reach, it prints the tasks with the lowest and the highest mean, and how
much the mean return of training episodes rose in the last tenth of the training.

A second table has the crippled robots again, with the further seeds of `results/crippled-seeds`, by the final seed of
evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from need_a_context import SETS, scores_by_start

from sami_runtime.model.atlas import label
from sami_train.config.methods import METHODS
from sami_train.evaluation.paper import reported
from sami_train.evaluation.results import Evaluation
from sami_train.studies.sweep.study import find_runs

RESULTS = Path(__file__).resolve().parents[1] / "results"
LEFT_OUT = ("slim-humanoid",)
HALVED = ("crippled-half-cheetah", "crippled-ant")
FURTHER_SEEDS = "crippled-seeds"


def main() -> None:
    """Print each cell, and the counts."""
    cells, above = 0, {"development": 0, "final": 0}
    print(f"{'environment':22} {'set':10} {'development':>11} {'final':>11} {'paper':>11}  at or above, by seed")
    for record in find_runs([RESULTS / "models"]):
        if record.evaluation is None or not (evaluation := Evaluation.from_dict(record.evaluation)).env:
            continue
        env = evaluation.env
        for name in SETS:
            best, part = paper_best(env, name), share_counted(env)
            if env.startswith("panda") or best is None:
                continue
            cells += 1
            returns = {
                "development": round(evaluation.ret(name) * part),
                "final": round(scores_by_start(f"need-a-context/{env}-satesac")[name].mean() * part),
            }
            reaches = [seed for seed, value in returns.items() if env not in LEFT_OUT and value >= best]
            for seed in reaches:
                above[seed] += 1
            note = "left out" if env in LEFT_OUT else ", ".join(reaches) or "-"
            columns = " ".join(f"{value:11,}" for value in (*returns.values(), best))
            print(f"{env:22} {name:10} {columns}  {note}{' (half of it)' if env in HALVED else ''}")
            if "development" not in reaches and env not in LEFT_OUT:
                print(f"    {_extremes(evaluation, name)}; {_rise(record.metrics)}")
    for seed, count in above.items():
        print(f"{seed} seed: at or above the paper's best in {count} of {cells} cells")
    print()
    print("\n".join(seeds_table()))


def share_counted(env: str) -> float:
    """Return the share of a robot's return that counts, because its episodes may be longer than the paper's."""
    return 0.5 if env in HALVED else 1.0


def paper_best(env: str, name: str) -> int | None:
    """Return the largest of the paper's means over its methods, in whole numbers; None where it has none."""
    means = [cell.mean for method in METHODS.values() if (cell := reported(env, method.title, name))]
    return round(max(means)) if means else None


def seeds_table() -> Iterator[str]:
    """Yield the rows of the robots that were trained with further seeds: each seed's return by the final seed."""
    runs = {record.name: record for record in find_runs([RESULTS / FURTHER_SEEDS])}
    envs = dict.fromkeys(str(record.config["env"]) for record in runs.values())
    yield "| robot, set | shipped | further seeds | mean | the paper's best | seeds at or above it |"
    yield "|---|---|---|---|---|---|"
    for env in envs:
        further = [f"{FURTHER_SEEDS}:{name}" for name, record in runs.items() if record.config["env"] == env]
        scores = [scores_by_start(study) for study in (f"need-a-context/{env}-satesac", *further)]
        for name in SETS:
            returns = [score[name].mean() * share_counted(env) for score in scores]
            best = paper_best(env, name)
            assert best is not None
            reached = sum(round(value) >= best for value in returns)
            listed = ", ".join(f"{value:,.0f}" for value in returns[1:])
            row = (f"`{env}`, {name}", f"{returns[0]:,.0f}", listed, f"{np.mean(returns):,.0f}", f"{best:,}")
            yield f"| {' | '.join(row)} | {reached} of {len(returns)} |"


def _extremes(evaluation: Evaluation, name: str) -> str:
    """Say which tasks of a set have the lowest and the highest mean return, with the mean length of episodes."""
    ranked = sorted(evaluation.of(name), key=lambda result: result.ret or 0.0)
    ends = (
        f"{result.ret:,.0f} in {result.steps:.0f} steps at {label(result.task)}" for result in (ranked[0], ranked[-1])
    )
    return f"means by task: {' to '.join(ends)}"


def _rise(metrics: Sequence[Mapping[str, float]]) -> str:
    """Say how the mean return of training episodes changed from the last tenth but one to the last tenth."""
    curve = [row["rollout/ep_rew_mean"] for row in metrics if "rollout/ep_rew_mean" in row]
    tenth = len(curve) // 10
    before, last = np.mean(curve[-2 * tenth : -tenth]), np.mean(curve[-tenth:])
    return f"in training {before:,.0f}, then {last:,.0f} in the last tenth ({last / before - 1:+.1%})"


if __name__ == "__main__":
    main()
