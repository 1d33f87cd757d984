"""`sami probe`: fit a small network that reads the physics from the context, and store it in the model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...measuring import bars, phase
from ...model_file import environment_of
from ...options import FORCE, Model, ModelEnvironment, require_unchanged
from ...output import print_text
from ..inspect import probe_lines

if TYPE_CHECKING:
    from rich.progress import Progress

    from sami_runtime.model.artifact import Artifact
    from sami_train.envs.spec import EnvironmentSpec

EPISODES = 400
"""Default number of episodes, each in its own task."""


def probe(
    model: Model,
    out: Annotated[
        Path | None, typer.Option(help="Write this file, NAME.onnx; the probe is added to MODEL if left out.")
    ] = None,
    env: ModelEnvironment = None,
    episodes: Annotated[
        int, typer.Option(min=1, help="Each in a task that training never saw: half for the fit, the rest judges it.")
    ] = EPISODES,
) -> None:
    """Fit a readout from context to mass, friction, ...; report which of them the context identifies.

    The file then answers `probe_FEATURE`, an estimate with its interval, for those; its policy stays as it is.
    """
    from sami_runtime.errors import SamiError, in_shell
    from sami_runtime.files import require_output
    from sami_runtime.model.artifact import read_artifact
    from sami_train.export.model_file import write

    artifact = read_artifact(model)
    contract = artifact.contract
    if out is None:
        refusal = f"has a probe; `sami inspect {in_shell(model)}` prints it, --force fits another."
        require_unchanged(model, contract.probe is not None, refusal)
    elif out.suffix != ".onnx":
        raise SamiError(f"{out} does not end in .onnx; a model file is NAME.onnx.")
    else:
        require_output(out, FORCE.get(), [model])
    with bars() as bar:
        probed = model_with_probe(artifact, out or model, environment_of(contract, env), episodes, bar)
    print_text(f"wrote {out or model}", *probe_lines(write(probed)))


def model_with_probe(artifact: Artifact, out: Path, spec: EnvironmentSpec, episodes: int, bar: Progress) -> Artifact:
    """Fit a probe to a model file, and return the model file with the probe; write nothing."""
    from sami_train.studies.readout.attach import measure_probe, with_probe

    task = phase(bar, f"probing the contexts of {episodes} episodes", episodes)
    readout = measure_probe(artifact, spec, episodes, on_round=lambda count: bar.advance(task, count))
    return with_probe(artifact, out, readout)
