"""`sami adapt`: measure the value of the context after the dynamics change in the middle of an episode."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...measuring import findings, progress, write_findings
from ...model_file import model_and_environment
from ...options import JSON, ModelEnvironment, OptionalModel
from ...output import plain_table, print_table, print_text

if TYPE_CHECKING:
    from sami_train.studies.contexts.adaptation import Adaptation, Delay, Mean

LEGEND = """±: one standard error. live less: the live context's success (return, without a goal) minus this one's.
noticed, crossed, identified: fraction of episodes, median steps since; see docs/results/adaptation-panda.md."""


def adapt(
    change: Annotated[
        list[str],
        typer.Option(
            help="NAME=FROM:TO or NAME=VALUE, then @STEP: mass=1:10,friction=0.1@5. latency_s=0:0.08 and other delays "
            "of a profile may change too. May be given often."
        ),
    ],
    env: ModelEnvironment = None,
    model: OptionalModel = None,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of each variant.")] = 100,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the first episode; one of this command's own if left out.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for adaptation.json and adaptation.png.")] = None,
) -> None:
    """Change the dynamics in the middle of episodes: live context against a frozen, a reset, and an informed one."""
    from sami_runtime.model.artifact import read_artifact
    from sami_train.studies.contexts.adaptation import SEED, adaptation
    from sami_train.studies.contexts.changed_episodes import DynamicsChange

    seed = SEED if seed is None else seed
    model, spec = model_and_environment(model, env)
    spec.require_changes()
    changes = [DynamicsChange.parse(text, spec.tasks, spec.episode_steps) for text in change]
    files = findings(out, "adaptation")
    weights = read_artifact(model).contract.weights_sha256
    with progress("running changed episodes", len(changes) * episodes) as advance:
        adaptations = [adaptation(model, spec, change, episodes, seed, advance) for change in changes]
    document = {
        "model": model.name,
        "weights_sha256": weights,
        "env": spec.name,
        "episodes": episodes,
        "seed": seed,
        "changes": [result.to_dict() for result in adaptations],
    }
    if files is not None:
        from sami_train.studies.charts.contexts import draw_adaptations

        write_findings(files, json.dumps(document), partial(draw_adaptations, adaptations))
    if JSON.get():
        print(json.dumps(document, indent=2))
        return
    for result in adaptations:
        _print(result)
    print_text(LEGEND)
    for path in files or ():
        print_text(f"wrote {path}")


def _print(result: Adaptation) -> None:
    goal = result.rows[0].success is not None
    print_text(f"{result.change}: {result.reached} of {result.episodes} episodes were not over before the change")
    table = plain_table()
    table.add_column("context", no_wrap=True)
    for name in (*(("success",) if goal else ()), "return", "live less", "noticed", "crossed", "identified"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in result.rows:
        digits = 1 if abs(row.ret.value) < 100 else 0  # of a return
        table.add_row(
            row.variant.value,
            *((_mean(row.success, 2),) if row.success is not None else ()),
            _mean(row.ret, digits),
            _mean(row.less_than_live, 2 if goal else digits),
            _delay(row.detected),
            _delay(row.adapted),
            _delay(row.identified),
        )
    print_table(table)


def _mean(mean: Mean, digits: int) -> str:
    error = "" if mean.error is None else f" ±{mean.error:.{digits}f}"
    return f"{round(mean.value, digits) + 0.0:.{digits}f}{error}"  # no minus sign before a zero


def _delay(delay: Delay | None) -> str:
    if delay is None:
        return "-"
    return f"{delay.share:.2f}" + ("" if delay.median is None else f", {delay.median:g}")
