"""`sami eval`."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from ..advancing import advancing
from ..engines import JobsOption, RayOption, RaySetting, SlurmOption, SlurmSetting, engine_for, settings_of
from ..model_file import MODEL_HELP, model_file


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
            min=1, help="Episodes per task; where returns count, per set, whose tasks come in turn, as in the paper."
        ),
    ] = 100,
    workers: Annotated[
        int,
        typer.Option(min=0, help="Cores: processes, or threads of a simulation that has them; 0 takes all."),
    ] = 0,
    gap: Annotated[str, typer.Option(metavar="FILE", help="Measure behind this gap to reality.")] = "",
    out: Annotated[Path | None, typer.Option(help="Folder for evaluation.json, for a --model.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier one in --out.")] = False,
    jobs: JobsOption = None,
    slurm: SlurmOption = False,
    slurm_set: SlurmSetting = None,
    ray: RayOption = "",
    ray_set: RaySetting = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Measure success by task, or returns by set; with --run also write evaluation.json into the run folder.

    Where it is written, finished tasks are kept meanwhile: the same command goes on after a cut. With --slurm or
    --ray the tasks are shared by jobs of a cluster, which sees that folder, too.
    """
    settings = settings_of(slurm, slurm_set, ray, ray_set)
    if (run is None) == (model is None):
        raise typer.BadParameter("give either --run or --model")
    if run is not None and env is not None:
        from sami_train.envs.catalog import is_code

        if not is_code(env):  # a run's own code is imported only if it is named here, too
            raise typer.BadParameter("--env goes with --model; a run is evaluated in the environment it was trained in")
    if run is not None and out is not None:
        raise typer.BadParameter("--out goes with --model; a run keeps its evaluation in its own folder")
    from rich.console import Console

    from sami_runtime.errors import SamiError
    from sami_runtime.gap.profile import GapProfile
    from sami_train.cores import usable_cores
    from sami_train.envs.catalog import environment
    from sami_train.evaluation.evaluate import count_results
    from sami_train.evaluation.evaluate import evaluate as measure
    from sami_train.evaluation.kept import keeping
    from sami_train.evaluation.model_policy import Source
    from sami_train.evaluation.results import Evaluation
    from sami_train.files import write_json

    from ..model_and_env import engine_line, model_and_environment, task_set_names
    from ..out_folder import findings

    source: Source
    if run is not None:
        from sami_train.runs.folder import RunFolder
        from sami_train.runs.train import load_agent

        folder = RunFolder.open(run)
        if env not in (None, trained := folder.config().env):
            raise SamiError(f"{run} was trained in {trained!r} and is evaluated there; leave out --env {env}.")
        agent = load_agent(folder)
        source, spec = agent.policy.numpy_weights(), environment(agent.config.env)
    else:
        assert model is not None
        # Refuses here what a worker process would refuse with less grace.
        source, spec = model_and_environment(model_file(model), env)
    names = task_set_names(tasks, spec)
    profile = GapProfile.load(gap) if gap else None
    if profile is not None:
        profile.require_fit(spec.signals, spec.action.elements)
    files = findings(out, "evaluation", force, plot=False)
    keep = folder.evaluation if run is not None else files[0] if files else None
    total = count_results(spec, names, episodes)
    cluster = engine_for(keep, jobs, slurm, ray, settings)
    with keeping(keep):
        with advancing("evaluating", total, quiet=json) as arrived:
            if cluster is not None:
                from sami_train.studies.sweep.spread import spread

                assert keep is not None
                policy = {"model": str(model_file(model))} if run is None else {"run": str(run)}
                spread(cluster, policy, source, spec.name, names, [profile], episodes, keep, arrived)
            result: Evaluation = measure(
                source,
                spec.name,
                names,
                episodes,
                workers or usable_cores(),
                arrived if cluster is None else None,
                profile,
                keep,
            )
        # The run's own evaluation is that of the world as it is.
        if run is not None and profile is None and names == list(spec.tasks.sets):
            folder.keep_evaluation(result.to_dict(), agent.num_timesteps)
        if files is not None:
            write_json(files[0], result.to_dict())
    if json:
        print(json_module.dumps(result.to_dict(), indent=2))
        return
    from ..tables import evaluation_table

    console = Console()
    if line := engine_line(spec.name, spec.engine):
        print(line)
    for name in result.sets:
        console.print(evaluation_table(result, name))
