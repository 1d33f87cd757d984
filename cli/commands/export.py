"""`sami export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..model_file import MODEL_HELP, OwnEnvironment, model_file

AHEAD = "Looking ahead"
"""A panel of the help."""
PROBE_EPISODES = 400
"""Each in a task of its own."""


def export(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Model file to write, NAME.onnx.")],
    run: Annotated[Path | None, typer.Option(help="Run folder to export.")] = None,
    model: Annotated[
        Path | None,
        typer.Option(help=f"{MODEL_HELP}, instead of a run: for --lookahead or --refit.", callback=model_file),
    ] = None,
    env: OwnEnvironment = None,
    card: Annotated[
        bool, typer.Option(help="Also write NAME.md and NAME.png: how it was made, what it measured.")
    ] = True,
    atlas_episodes: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Episodes of each training task for the atlas of contexts; 20, or as many as it needs, if left out; 0 "
            "leaves it out.",
        ),
    ] = None,
    seen_episodes: Annotated[
        int,
        typer.Option(min=0, help="Episodes, in all training tasks, to measure what training saw; 0 leaves it out."),
    ] = 120,
    probe: Annotated[
        bool, typer.Option("--probe", help="Also read the physics from contexts, see `sami probe`.")
    ] = False,
    lookahead: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=16,
            metavar="K",
            help="See through up to K periods of latency: fits a forward model, and puts it in front of the policy.",
            rich_help_panel=AHEAD,
        ),
    ] = None,
    refit: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Fit the forward model to a recording of your robot, NAME.mcap; again for more.",
            rich_help_panel=AHEAD,
        ),
    ] = None,
    command_delay: Annotated[
        float | None,
        typer.Option(
            min=0.0, metavar="S", help="What an action took to have its effect, in --refit.", rich_help_panel=AHEAD
        ),
    ] = None,
    lookahead_episodes: Annotated[
        int,
        typer.Option(min=20, help="Episodes to fit the forward model to, without --refit.", rich_help_panel=AHEAD),
    ] = 600,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing file; export a policy that has not learned.")
    ] = False,
) -> None:
    """Write a trained run as one ONNX file, once it has agreed with torch, and the weights for `sami train --init`."""
    from sami_runtime.errors import SamiError
    from sami_runtime.files import require_output

    if (run is None) == (model is None):
        raise typer.BadParameter("give either --run or --model")
    if model is not None and lookahead is None and not refit:
        raise typer.BadParameter("--model goes with --lookahead or --refit; there is nothing else to change in a file")
    if model is not None and probe:
        raise typer.BadParameter("--probe goes with --run; a file that is there takes one by: sami probe MODEL")
    if command_delay is not None and not refit:
        raise typer.BadParameter("--command-delay goes with --refit")
    if out.suffix != ".onnx":
        raise SamiError(f"{out} does not end in .onnx; a model file is NAME.onnx.")
    weights = out.with_suffix(".safetensors")
    written = (out,) if model is not None else (out, weights)
    for path in (*written, *((out.with_suffix(".md"), out.with_suffix(".png")) if card and run else ())):
        require_output(path, force, [model] if model is not None else [])
    from rich.console import Console
    from rich.progress import Progress

    from sami_train.files import locked, writing

    from .studies.looking_ahead import look_ahead
    from .studies.probe import fitted

    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    # The model and its weights belong together: two that write both would leave one's model beside the other's weights.
    busy = "is being written by {}; wait for it to end, or stop it."
    context.with_resource(
        locked(out.with_suffix(".lock"), lambda by: SamiError(f"{out} {busy.format(by)}"), leave=False)
    )
    from .studies.looking_ahead import lookahead_lines
    from .studies.probe import probe_lines

    console = Console(stderr=True)
    if model is not None:
        from sami_runtime.model.artifact import read_artifact
        from sami_train.export.model_file import write

        from ..model_and_env import environment_of

        artifact = read_artifact(model)
        where = None if refit else environment_of(artifact.contract, None)
        with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
            ahead = look_ahead(artifact, out, lookahead, where, lookahead_episodes, refit or (), command_delay, bar)
        contract = write(ahead)
        print(f"wrote {out}: {out.stat().st_size:,} bytes", *lookahead_lines(contract), sep="\n")
        return
    assert run is not None
    from sami_train.envs.catalog import environment
    from sami_train.export.export_run import Addition, export_run
    from sami_train.runs.folder import RunFolder

    folder = RunFolder.open(run)
    spec = environment(folder.config().env)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        shown = bar.add_task("measuring contexts", visible=False)
        additions: list[Addition] = []
        if lookahead is not None or refit:
            where = None if refit else spec
            additions.append(
                lambda file: look_ahead(
                    file, out, lookahead, where, lookahead_episodes, refit or (), command_delay, bar
                )
            )
        if probe:
            additions.append(lambda file: fitted(file, out, spec, PROBE_EPISODES, bar))
        done = export_run(
            folder,
            out,
            atlas_episodes=atlas_episodes,
            seen_episodes=seen_episodes,
            additions=additions,
            card=card,
            untrained=force,
            on_round=lambda more, total: bar.update(shown, advance=more, total=total, visible=total > 0),
        )
    contract = done.contract
    print(
        f"wrote {out}: {out.stat().st_size:,} bytes, parity with torch within 1e-5 over {contract.golden.steps} steps"
        if contract.golden
        else f"wrote {out}"
    )
    print(f"wrote {done.weights}: {done.weights.stat().st_size:,} bytes, which sami train --init starts from")
    for line in (*lookahead_lines(contract), *(probe_lines(contract) if probe else ())):
        print(line)
    if contract.evaluation is None:
        print(f"it carries no evaluation: run `sami eval --run {run}` first to have them inside")
    if contract.atlas is None and contract.context is not None:
        print(f"it carries no atlas of its contexts: `sami atlas {out}` adds one")
    if contract.seen is None:
        print(f"it does not tell what training saw: `sami describe {out}` adds that")
    for path in done.card:
        print(f"wrote {path}")
