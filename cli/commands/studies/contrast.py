"""`sami contrast`: measure the bound that a contrastive loss reaches alone."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...measuring import bars
from ...options import JSON, OwnEnvironment, keys_option
from ...output import plain_table, print_table, print_text

if TYPE_CHECKING:
    from rich.table import Table

    from sami_train.studies.contexts.largest_bound import LargestBound

LEAST_LOSSES = 200
"""Smallest number of losses that a bound is a mean over."""


def contrast(
    run: Annotated[Path, typer.Argument(help="Run folder with a checkpoint.")],
    method: Annotated[str, typer.Option(help="Methods, comma-separated.")] = "ccm,satesac,saccm",
    ranking: Annotated[
        str, typer.Option(help="What ranks trajectories, comma-separated: return, advantage, value, shuffled, recency.")
    ] = "return",
    override: Annotated[
        list[str] | None,
        keys_option(
            "Change the run's contrast, e.g. contrast.trajectories=256. losses: most losses of a contrast (4000); "
            "it ends once it converged."
        ),
    ] = None,
    env: OwnEnvironment = None,
) -> None:
    """Print the bound that a contrastive loss reaches alone, on early, middle and final data of a run."""
    from rich.progress import MofNCompleteColumn, TextColumn

    from sami_runtime.errors import SamiError, require_known
    from sami_train.config.resolve import parse_override
    from sami_train.config.schema import RANKINGS
    from sami_train.runs.folder import RunFolder
    from sami_train.studies.contexts.largest_bound import STAGES, largest_bounds

    methods, rankings = method.split(","), ranking.split(",")
    changes = dict(parse_override(text) for text in override or [])
    losses = changes.pop("losses", 4000)
    if not isinstance(losses, int) or losses < LEAST_LOSSES:
        raise SamiError(f"losses is {losses!r}; it must be a whole number of at least {LEAST_LOSSES}.")
    require_known("ranking", rankings, RANKINGS)
    computed = []
    with bars(TextColumn("contrasts: {task.fields[count]}, losses"), MofNCompleteColumn()) as progress:
        task = progress.add_task("", total=None, count=0)
        advance = partial(progress.advance, task)
        for bound in largest_bounds(RunFolder.open(run), methods, rankings, changes, losses, advance):
            computed.append(bound)
            progress.update(task, count=len(computed))
    result = {"run": run.name, "set": changes, "stages": STAGES, "ceilings": [asdict(bound) for bound in computed]}
    if JSON.get():
        print(json.dumps(result, indent=2))
        return
    print_table(_table(computed))
    print_text("bound: highest mean over 200 losses; held out: on episodes not learned from. A constant encoder has 0.")
    print_text("realised: what the run's own training logged at that stage. -: nothing to compare, or nothing logged.")


def _table(computed: list[LargestBound]) -> Table:
    table = plain_table("largest bound alone, nats")
    for name in ("stage", "method", "ranked by"):
        table.add_column(name)
    for name in ("episodes", "bound", "held out", "log K", "losses", "realised"):
        table.add_column(name, justify="right")
    for row in computed:
        numbers = (row.bound, row.held_out, row.log_k, row.realised)
        *bounds, realised = ("-" if number is None else f"{number:.2f}" for number in numbers)
        table.add_row(row.stage, row.method, row.ranking, f"{row.episodes:,}", *bounds, f"{row.losses:,}", realised)
    return table
