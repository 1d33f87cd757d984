"""`sami eval`: measure success or return in each task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..measuring import On, cluster_of, count_results, findings, place_of, task_progress
from ..model_file import engine_line, model_and_environment, model_file, task_set_names
from ..options import JSON, MODEL_HELP
from ..output import print_table, print_text

if TYPE_CHECKING:
    from rich.table import Table

    from sami_train.evaluation.results import Evaluation


MOST_COLUMNS = 4
"""Largest number of features with their own columns; with more, a table names only the changed features."""


def evaluate(
    run: Annotated[Path | None, typer.Option(help="Run folder to evaluate.")] = None,
    model: Annotated[Path | None, typer.Option(help=f"{MODEL_HELP}, instead of a run.")] = None,
    env: Annotated[str | None, typer.Option(help="Environment; the model's or the run's own if left out.")] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Task sets, comma-separated; all that the environment has if left out.")
    ] = None,
    episodes: Annotated[
        int,
        typer.Option(
            min=1, help="Episodes per task; per task set, its tasks in turn, if the environment is judged by return."
        ),
    ] = 100,
    gap: Annotated[str, typer.Option(metavar="FILE", help="Measure with this sim-to-real profile.")] = "",
    final: Annotated[
        bool, typer.Option("--final", help="Use the final seed's starts, once a release: choose nothing by the result.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="With --model, folder of result and finished tasks.")] = None,
    on: On = None,
) -> None:
    """Measure success or return by set of tasks; with --run, all sets and no --gap also write its evaluation.json.

    The folder of the result also stores finished tasks (where returns count, task sets), so the same command continues
    after an interruption. On a cluster, the jobs share the tasks and must see that folder.
    """
    place = place_of(on)
    if (run is None) == (model is None):
        raise typer.BadParameter("give either --run or --model")
    if run is not None and out is not None:
        raise typer.BadParameter("--out goes with --model; a run keeps its evaluation in its own folder")

    from sami_runtime.errors import SamiError, in_shell
    from sami_runtime.gap.profile import GapProfile
    from sami_train import seeds
    from sami_train.envs.catalog import by_name, environment
    from sami_train.evaluation.evaluate import evaluate as measure
    from sami_train.evaluation.model_policy import Source
    from sami_train.files import write_json
    from sami_train.machine import usable_cores

    source: Source
    if run is not None:
        from sami_train.runs.folder import RunFolder
        from sami_train.runs.train import load_agent

        folder = RunFolder.open(run)
        run_env = folder.config().env
        is_same = env is None or Path(env).absolute() == Path(run_env).absolute() or env == environment(run_env).id
        if not is_same:
            raise SamiError(f"{run} was trained in {run_env!r} and is evaluated there; leave out --env {env}.")
        agent = load_agent(folder)
        if not agent.finished:
            progress = f"{agent.num_timesteps:,} of {agent.config.steps:,} steps"
            print_text(f"{run} is not finished: its policy after {progress} is evaluated", error=True)
        source, spec = agent.policy.numpy_weights(), environment(agent.config.env)
    else:
        assert model is not None
        # Errors of the model file are clearer here than from a worker process.
        source, spec = model_and_environment(model_file(model), env)
    names = task_set_names(tasks, spec)
    profile = GapProfile.load(gap) if gap else None
    if profile is not None:
        profile.require_fit(spec.signals, spec.action.elements)
    seed = seeds.FINAL if final else seeds.EVALUATION
    files = findings(out, "evaluation", plot=False)
    keep = folder.evaluation if run is not None else files[0] if files else None
    total = count_results(spec, names, episodes)
    cluster = cluster_of(place, keep)
    with task_progress("evaluating", total, keep) as on_task:
        if cluster is not None:
            from sami_train.studies.sweep.spread import spread

            assert keep is not None
            policy = {"model": str(model_file(model))} if run is None else {"run": str(run)}
            spread(cluster, policy, source, spec.name, names, [profile], episodes, keep, on_task, seed)
        jobs, report = place.jobs or usable_cores(), on_task if cluster is None else None
        result: Evaluation = measure(source, spec.name, names, episodes, jobs, report, profile, keep, seed)
        # The run's own evaluation is the one without a profile.
        whole = profile is None and names == list(spec.tasks.sets)
        if run is not None and whole:
            folder.keep_evaluation(result.to_dict(), agent.num_timesteps)
        if files is not None:
            write_json(files[0], result.to_dict())
    if JSON.get():
        print(json.dumps(result.to_dict(), indent=2))
        return
    if line := engine_line(spec.name, spec.engine):
        print_text(line)
    for name in result.sets:
        print_table(evaluation_table(result, name))
    if run is not None and not whole:
        print_text(f"{folder.evaluation} is not written: it is of all task sets, without a profile")
    if run is not None and not agent.method.reads_task:
        file = in_shell(f"{run.resolve().name}.onnx")
        print_text(f"Next: sami export --run {in_shell(run)} --out {file}{by_name(spec.name)}")


def evaluation_table(result: Evaluation, task_set: str) -> Table:
    """Return a table of one task set: a row for each task, and the mean."""
    import numpy as np
    from rich.markup import escape
    from rich.table import Table

    from sami_runtime.model.atlas import label, text_of
    from sami_train.envs.catalog import environment
    from sami_train.envs.layout import UNIT
    from sami_train.envs.measure import SUCCESS
    from sami_train.evaluation.intervals import interval_of

    rows, measure = result.of(task_set), result.measure
    spec = environment(result.env)
    many = len(rows[0].task) > MOST_COLUMNS
    features = ["change"] if many else list(rows[0].task)
    if measure is SUCCESS:
        title = f"{rows[0].episodes} episodes per task, {result.seed_name}"
        columns = ["success", "above baseline", *rows[0].shares, "steps"]
        scores = [(row.success, row.nontrivial_success, *row.shares.values()) for row in rows]
        cells = [[measure.show(score, coarse=True) for score in of_task] for of_task in scores]
        means = [measure.show(result.success(task_set)), measure.show(result.nontrivial_success(task_set))]
    else:
        total = sum(row.episodes for row in rows)
        title, columns = f"{total} episodes, tasks in turn, {result.seed_name}", ["episodes", "return", "steps"]
        cells = [[str(row.episodes), measure.show(row.ret)] for row in rows]
        error = measure.show(result.ret_error(task_set))
        means = [str(total), f"{measure.show(result.ret(task_set))} ± {error}"]
    if task_set in spec.tasks.drawn:
        title += f"; these {len(spec.tasks.sets[task_set])} tasks stand for all that may be drawn"
    metrics = spec.metrics if rows[0].metrics else ()
    table = Table(title=f"{task_set} ({title})", title_justify="left")
    for name in (*(features or ["task"]), *columns):
        table.add_column(name, justify="left" if name in ("task", "change") else "right")
    for metric in metrics:
        unit = "" if metric.unit == UNIT else f" [{metric.unit}]"
        table.add_column(f"{metric.name.replace('_', ' ')}{escape(unit)}", justify="right")
    for row, numbers in zip(rows, cells, strict=True):
        task = [label(spec.tasks.changes(row.task), "none")] if many else [text_of(row.task[name]) for name in features]
        measured = [f"{np.mean(row.metrics[metric.name]):.{metric.digits}f}" for metric in metrics]
        table.add_row(*(task or ["the one"]), *numbers, f"{row.steps:.1f}", *measured)
    table.add_section()
    means += ["", *(f"{result.metrics(task_set)[metric.name]:.{metric.digits}f}" for metric in metrics)]
    table.add_row("mean", *[""] * (len(features) - 1), *means, style="bold")
    table.caption = "above baseline: among episodes that doing nothing would not have solved."
    if interval := interval_of(result, task_set):
        low, high = map(measure.show, interval)
        table.caption += f" 95 % over starts: {low} to {high}; other seeds of training differ by more."
    if measure is not SUCCESS:
        table.caption = "±: standard error over the starts of this policy; other seeds of training differ by more."
    return table
