"""`sami probe`: what a context says of the physics, read by a small network and put into the model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...model_file import MODEL_HELP, model_file

if TYPE_CHECKING:
    from rich.progress import Progress

    from sami_runtime.model.artifact import Artifact
    from sami_runtime.model.contract import Contract
    from sami_train.envs.spec import EnvironmentSpec


def probe(
    model: Annotated[Path, typer.Argument(help=f"{MODEL_HELP}; the probe is added to it.", callback=model_file)],
    out: Annotated[Path | None, typer.Option(help="Write this file instead, NAME.onnx.")] = None,
    env: Annotated[str | None, typer.Option(help="Environment; the model's own if left out.")] = None,
    episodes: Annotated[
        int,
        typer.Option(min=1, help="Each in a task that training never saw: half for the fit, the rest judges it."),
    ] = 400,
    force: Annotated[bool, typer.Option("--force", help="Replace a probe, or an --out, that is there.")] = False,
) -> None:
    """Fit a readout from context to mass, friction, damping, crippled parts; say which of them contexts carry.

    The file then answers `probe_FEATURE`, an estimate with its interval, for those; its policy stays as it is.
    """
    from rich.console import Console
    from rich.progress import Progress

    from sami_runtime.errors import SamiError
    from sami_runtime.files import require_output
    from sami_runtime.model.artifact import read_artifact
    from sami_train.export.model_file import write

    from ...model_and_env import environment_of

    artifact = read_artifact(model)
    contract = artifact.contract
    if out is not None and out.suffix != ".onnx":
        raise SamiError(f"{out} does not end in .onnx; a model file is NAME.onnx.")
    if out is not None:
        require_output(out, force, [model])
    if out is None and contract.probe is not None and not force:
        raise SamiError(f"{model} has a probe; `sami inspect {model}` prints it, --force fits another.")
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        probed = fitted(artifact, out or model, environment_of(contract, env), episodes, bar)
    contract = write(probed)
    print(f"wrote {out or model}", *probe_lines(contract), sep="\n")


def fitted(artifact: Artifact, out: Path, spec: EnvironmentSpec, episodes: int, bar: Progress) -> Artifact:
    """Fit a probe to a model file, and return the file with it; nothing is written.

    Args:
        artifact: the file, which may not be written yet.
        out: where the new file will be.
        spec: where it drives.
        episodes: each in a task of its own.
        bar: shows the progress.

    Raises:
        SamiError: there is nothing to read, or too little to learn from.
    """
    from sami_train.studies.readout.attach import measure_probe, with_probe

    shown = bar.add_task("probing contexts", total=episodes)
    readout = measure_probe(artifact, spec, episodes, on_round=lambda done: bar.advance(shown, done))
    return with_probe(artifact, out, readout)


def probe_lines(contract: Contract) -> list[str]:
    """Return what a file says of its probe, a line a feature."""
    if contract.probe is not None:
        return contract.probe.lines()
    return ["probe: none; `sami probe` adds one"] if contract.context is not None else []
