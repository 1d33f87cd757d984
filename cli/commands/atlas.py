"""`sami atlas`: what the contexts of known dynamics look like, measured and put into the model file."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sami_train.studies.contexts.alarms import Alarms

EPISODES = 60
"""Of each training task."""


def atlas(
    model: Annotated[Path, typer.Argument(help="Model file; the atlas is added to it.")],
    env: Annotated[str | None, typer.Option(help="Environment; the model's own if left out.")] = None,
    episodes: Annotated[
        int | None, typer.Option(min=1, help="Episodes of each training task, half of them held out; 60 if left out.")
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(min=1, help="Contexts that are averaged; a sixteenth of the median episode if left out."),
    ] = None,
    gap: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="With --check, behind this gap to reality, or 'none'; what it learned behind if left out.",
        ),
    ] = None,
    check: Annotated[
        int, typer.Option(min=0, help="Write nothing; count alarms in so many fresh episodes of every task.")
    ] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an atlas that is there.")] = False,
    json: Annotated[bool, typer.Option("--json", help="With --check, print JSON.")] = False,
) -> None:
    """Measure where the contexts of the training tasks lie, so that `sami run` notices others."""
    from rich.console import Console
    from rich.progress import Progress

    from sami_runtime.errors import SamiError
    from sami_runtime.gap.profile import GapProfile
    from sami_runtime.model.artifact import read_artifact
    from sami_train.export.atlas import measure, require_enough
    from sami_train.export.seen import Behind, known_tasks
    from sami_train.studies.contexts.alarms import check as count

    from ..model_and_env import environment_of

    contract = read_artifact(model).contract
    spec = environment_of(contract, env)
    behind = None if gap is None else Behind(None if gap == "none" else GapProfile.load(gap))
    training = len(known_tasks(contract.training, spec))
    if check and (episodes or window or force):
        raise SamiError("--check measures what is there and writes nothing; leave out --episodes, --window, --force.")
    if gap is not None and not check:
        raise SamiError("--gap goes with --check; an atlas is measured behind the gap that the policy learned behind.")
    episodes = episodes or EPISODES
    total = check * sum(map(len, spec.tasks.sets.values())) if check else episodes * training
    if not check:
        from sami_train.export.model_file import attach

        if contract.atlas is not None and not force:
            raise SamiError(f"{model} has an atlas; count its alarms with --check, or replace it with --force.")
        require_enough(episodes, training)
    console = Console(stderr=True)
    with Progress(console=console, disable=json or not console.is_terminal, transient=True) as bar:
        shown = bar.add_task("measuring contexts", total=total)
        if check:
            alarms = count(model, spec, check, on_round=lambda done: bar.advance(shown, done), behind=behind)
        else:
            made = measure(model, spec, episodes, window, on_round=lambda done: bar.advance(shown, done))
    if check:
        _print(alarms, json)
        return
    attach(model, made)
    print(
        f"{model} has an atlas now: {len(made.tasks)} tasks, window {made.window}, from step {made.step} "
        f"on; {made.episodes} episodes fitted, {made.held_out} held out; alarm beyond {made.threshold:.2f} standard "
        f"deviations, calibrated for false alarms in {made.false_alarm_rate:.0%} of episodes (--check measures)"
    )


def _print(alarms: list[Alarms], json: bool) -> None:
    if json:
        print(json_module.dumps([row._asdict() for row in alarms], indent=2, default=dict))
        return
    from rich.console import Console
    from rich.table import Table

    from sami_train.envs.tasks import label

    table = Table(title=f"alarms in {alarms[0].episodes} fresh episodes per task", title_justify="left")
    for name in ("task set", "task"):
        table.add_column(name)
    for name in ("alarms", "first at step", "nearest is this task"):
        table.add_column(name, justify="right")
    for task_set in dict.fromkeys(row.task_set for row in alarms):
        same = [row for row in alarms if row.task_set == task_set]
        for row in same:
            first = "-" if row.first is None else f"{row.first:g}"
            nearest = "-" if row.nearest is None else f"{row.nearest:.2f}"
            table.add_row(task_set, label(row.task), f"{row.alarms / row.episodes:.2f}", first, nearest)
        share = sum(row.alarms for row in same) / sum(row.episodes for row in same)
        table.add_row(task_set, "all", f"{share:.3f}", "", "", style="bold", end_section=True)
    Console().print(table)
