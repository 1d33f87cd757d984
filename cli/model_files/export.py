"""`sami export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ATLAS_EPISODES = 20
"""Of each training task, where they are not too few for an atlas."""


def export(
    run: Annotated[Path, typer.Option(help="Run folder to export.")],
    out: Annotated[Path, typer.Option(help="Model file to write, NAME.onnx.")],
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
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing file; export a policy that has not learned.")
    ] = False,
) -> None:
    """Write a trained run as one ONNX file, once it has agreed with torch, and the weights for `sami train --init`."""
    from sami_runtime.errors import SamiError

    if out.suffix != ".onnx":
        raise SamiError(f"{out} does not end in .onnx; a model file is NAME.onnx.")
    weights = out.with_suffix(".safetensors")
    for path in (out, weights, *((out.with_suffix(".md"), out.with_suffix(".png")) if card else ())):
        if path.exists() and not force:
            raise SamiError(f"{path} exists; choose another --out, or replace it with --force.")
    from rich.console import Console
    from rich.progress import Progress

    from sami_train.contexts.fit_atlas import least_episodes
    from sami_train.contexts.make_atlas import known_tasks
    from sami_train.envs.catalog import environment
    from sami_train.evaluation.results import Evaluation
    from sami_train.export.export import export as write
    from sami_train.export.fill_contract import training_facts
    from sami_train.machine.files import read_json, unfinished
    from sami_train.report.card import write_card
    from sami_train.runs.folder import RunFolder
    from sami_train.runs.record import RunRecord
    from sami_train.runs.train import load_agent
    from sami_train.runs.weights import keep_weights

    folder = RunFolder.open(run)
    agent = load_agent(folder)
    facts = training_facts(folder, agent)
    if not facts["updates"] and not force:
        raise SamiError(
            f"the policy of {run} has not learned: {facts['steps']:,} steps, 0 updates; it acts at random. "
            "Train it for longer, or export it all the same with --force."
        )
    evaluation = None
    if folder.evaluation.is_file():
        try:
            stored = read_json(folder.evaluation)
            evaluation = Evaluation.from_dict(stored).to_dict()
        except SamiError as error:
            raise SamiError(f"{folder.evaluation}: {error}") from error
        if stored.get("agent_steps") != agent.num_timesteps:
            evaluation = None  # it measured an earlier agent of this run
    console = Console(stderr=True)
    spec = environment(folder.config().env)
    tasks = known_tasks(facts, spec)
    atlas_episodes = max(ATLAS_EPISODES, least_episodes(len(tasks))) if atlas_episodes is None else atlas_episodes
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        total = atlas_episodes * len(tasks) + seen_episodes
        shown = bar.add_task("measuring contexts", total=total, visible=total > 0)

        def on_round(done: int) -> None:
            bar.advance(shown, done)

        contract = write(agent, out, facts, evaluation, atlas_episodes, on_round, spec, seen_episodes)
    print(
        f"wrote {out}: {out.stat().st_size:,} bytes, parity with torch within 1e-5 over {contract.golden.steps} steps"
        if contract.golden
        else f"wrote {out}"
    )
    with unfinished(weights) as beside:
        keep_weights(beside, agent, contract.weights_sha256, targets=False)
    print(f"wrote {weights}: {weights.stat().st_size:,} bytes, which sami train --init starts from")
    if evaluation is None:
        print(f"it carries no evaluation: run `sami eval --run {run}` first to have them inside")
    if contract.atlas is None and contract.context is not None:
        print(f"it carries no atlas of its contexts: `sami atlas {out}` adds one")
    if contract.seen is None:
        print(f"it does not tell what training saw: `sami describe {out}` adds that")
    if card:
        for path in write_card(RunRecord.of_folder(run), contract, out):
            print(f"wrote {path}")
