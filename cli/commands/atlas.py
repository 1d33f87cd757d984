"""`sami atlas`: measure the contexts of known tasks, and store them as a reference in the model file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..measuring import progress
from ..model_file import environment_of
from ..options import FORCE, JSON, Key, Model, ModelEnvironment, require_unchanged, set_option, set_values
from ..output import print_table, print_text

if TYPE_CHECKING:
    from sami_runtime.model.recovery import Recovery
    from sami_train.studies.contexts.alarms import Alarms
    from sami_train.studies.contexts.recovery import Recoveries

SETTINGS = {
    "episodes": Key(int, "of each training task, half of them held out (60)", 1),
    "window": Key(int, "contexts that are averaged (a sixteenth of the median episode)", 1),
    "changes": Key(int, "only add the time to adapt, from N episodes with a change of task and N without", 59),
    "gap": Key(str, "with --check, the sim-to-real profile: a file, or none (the one of its training)"),
}


def atlas(
    model: Model,
    env: ModelEnvironment = None,
    check: Annotated[
        int | None, typer.Option(min=1, help="Write nothing; count alarms in this many fresh episodes of every task.")
    ] = None,
    override: Annotated[list[str] | None, set_option(SETTINGS)] = None,
) -> None:
    """Measure the contexts of the training tasks: the in-distribution reference, for out-of-distribution alarms.

    The reference is added to the model file.
    """
    from sami_runtime.errors import SamiError
    from sami_runtime.gap.profile import GapProfile
    from sami_runtime.model.artifact import read_artifact
    from sami_train.export.atlas import attach, measure, require_enough
    from sami_train.export.model_file import recompose, write
    from sami_train.export.training_ranges import MeasuredGap, known_tasks
    from sami_train.seeds import RECOVERY_TEST
    from sami_train.studies.contexts.alarms import check as count
    from sami_train.studies.contexts.recovery import measure_recoveries, measure_recovery

    settings = set_values(SETTINGS, override)
    artifact = read_artifact(model)
    contract = artifact.contract
    spec = environment_of(contract, env)
    if check:
        if settings.keys() - {"gap"} or FORCE.get():
            raise SamiError(
                "--check measures what is there and writes nothing; leave out episodes, window, changes, --force."
            )
        gap = settings.get("gap")
        profile = None if gap is None else MeasuredGap(None if gap == "none" else GapProfile.load(gap))
        total = check * sum(map(len, spec.tasks.sets.values()))
        with progress("measuring contexts", total) as advance:
            alarms = count(model, spec, check, on_round=advance, profile=profile)
        recoveries = None
        if contract.recovery is not None and profile is None:
            tasks = known_tasks(contract.training, spec)
            with progress("changing dynamics", 2 * check * len(tasks)) as advance:
                recoveries = measure_recoveries(model, spec, tasks, check * len(tasks), RECOVERY_TEST, advance)
        _print(alarms, contract.recovery, recoveries)
        return
    if "gap" in settings:
        raise SamiError("gap goes with --check; a reference is measured with the profile of the policy's training.")
    if changes := settings.pop("changes", None):
        if settings:
            raise SamiError("changes goes without episodes and window, which make another atlas. Make that first.")
        recovers = contract.recovery is not None
        require_unchanged(model, recovers, "has a time to adapt; judge it with --check, or replace it with --force.")
        with progress("changing dynamics", 2 * changes) as advance:
            recovery = measure_recovery(model, spec, changes, on_round=advance)
        write(recompose(artifact, {"recovery": recovery}))
        print_text(f"{model} has a time to adapt now: {recovery}")
        return
    has_atlas = contract.atlas is not None
    require_unchanged(model, has_atlas, "has an atlas; count its alarms with --check, or replace it with --force.")
    training, episodes = len(known_tasks(contract.training, spec)), settings.get("episodes", 60)
    require_enough(episodes, training)
    with progress("measuring contexts", episodes * training) as advance:
        fit = measure(model, spec, episodes, settings.get("window"), on_round=advance)
    attach(model, fit)
    print_text(
        f"{model} has an atlas now: {len(fit.tasks)} tasks, window {fit.window}, from step {fit.step} "
        f"on; {fit.episodes} episodes fitted, {fit.held_out} held out; alarm beyond {fit.threshold:.2f} standard "
        f"deviations, calibrated for false alarms in {fit.false_alarm_rate:.0%} of episodes (--check measures)"
    )


def _print(alarms: list[Alarms], recovery: Recovery | None, recoveries: Recoveries | None) -> None:
    if JSON.get():
        rows: list[Any] = [row._asdict() for row in alarms]
        if recovery is not None and recoveries is not None:
            rows.append({"time_to_adapt": recovery.model_dump(), **recoveries.judge(recovery.steps)})
        print(json.dumps(rows, indent=2, default=dict))
        return
    from rich.table import Table

    from sami_runtime.model.atlas import label

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
    print_table(table)
    if recovery is not None and recoveries is not None:
        verdict = recoveries.judge(recovery.steps)
        print_text(
            f"time to adapt, {recovery.steps} steps: over in time after {verdict['in_time']} of {verdict['detected']} "
            f"detected changes ({verdict['undetected']} not detected)\n"
            f"false fallbacks when it is over: {verdict['false_fallbacks']} of {verdict['unchanged']} episodes without "
            f"a change; of a monitor that stops at once: {verdict['at_once']}, and after {verdict['detected']} changes"
        )
