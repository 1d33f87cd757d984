"""`sami describe`: what training saw, frame and home pose, measured and put into the model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def describe(
    model: Annotated[Path, typer.Argument(help="Model file; what training saw is added to it.")],
    env: Annotated[str | None, typer.Option(help="Environment; the model's own if left out.")] = None,
    episodes: Annotated[int, typer.Option(min=2, help="In all training tasks together.")] = 120,
    starts: Annotated[
        int, typer.Option(min=2, help="From which each element of the action is moved a little, to see what answers.")
    ] = 24,
    force: Annotated[bool, typer.Option("--force", help="Measure anew what is there.")] = False,
) -> None:
    """Measure what training saw, for `sami check-adapter` to judge robots by; also tell frame, home pose and meanings.

    Graph, weights and golden steps stay as they are.
    """
    from rich.console import Console
    from rich.progress import Progress

    from sami_runtime.errors import SamiError
    from sami_runtime.model.artifact import read_artifact
    from sami_train.export.model_file import describe as put
    from sami_train.export.seen import measure_seen

    from ..model_and_env import environment_of

    contract = read_artifact(model).contract
    spec = environment_of(contract, env)
    if contract.seen is not None and not force:
        raise SamiError(f"{model} tells what training saw; `sami inspect {model}` prints it, --force measures it anew.")
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        shown = bar.add_task("measuring what training saw", total=episodes)
        seen = measure_seen(model, spec, episodes, starts, on_round=lambda done: bar.advance(shown, done))
    described = put(model, spec, seen)
    sheet = "its frame and home pose" if described.sheet else "no frame and home pose, as nobody wrote them down"
    print(f"{model} tells what training saw, over {seen.steps:,} steps of {seen.episodes} episodes, and {sheet}")
