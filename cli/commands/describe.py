"""`sami describe`: measure the ranges of training, and store them with frame and home pose in the model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..measuring import progress
from ..model_file import environment_of
from ..options import Key, Model, ModelEnvironment, require_unchanged, set_option, set_values
from ..output import print_text

SETTINGS = {
    "episodes": Key(int, "in all training tasks together (120)", 2),
    "starts": Key(int, "from which each element of the action is moved a little, to see what answers (24)", 2),
}


def describe(
    model: Model,
    env: ModelEnvironment = None,
    rollout: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Take training ranges from a recording (NAME.mcap) or a rollout (NAME.npz); may be given often.",
        ),
    ] = None,
    override: Annotated[list[str] | None, set_option(SETTINGS)] = None,
) -> None:
    """Store training ranges in a model file, for `sami check-adapter`; also frame, home pose and meanings.

    Graph, weights and golden steps stay as they are.
    """
    from sami_runtime.adoption.ranges import ranges_in
    from sami_runtime.errors import SamiError, in_shell
    from sami_runtime.model.artifact import read_artifact
    from sami_train.export.model_file import recompose, write
    from sami_train.export.training_ranges import describe as put
    from sami_train.export.training_ranges import measure_ranges

    settings = {"episodes": 120, "starts": 24} | set_values(SETTINGS, override)
    artifact = read_artifact(model)
    contract = artifact.contract
    refusal = f"has training ranges; `sami inspect {in_shell(model)}` prints them, --force measures them again."
    require_unchanged(model, contract.training_ranges is not None, refusal)
    if rollout:
        ranges, more = ranges_in(contract, rollout), ""
        write(recompose(artifact, {"training_ranges": ranges}))
    elif "adopted" in contract.training:
        raise SamiError(
            f"{model} was adopted, and its training's environment is not here. Give what it saw: --rollout NAME.npz of "
            "its framework, or --rollout NAME.mcap, a recording of `sami play` or of the robot."
        )
    else:
        spec = environment_of(contract, env)
        with progress("measuring what training saw", settings["episodes"]) as advance:
            ranges = measure_ranges(model, spec, settings["episodes"], settings["starts"], on_round=advance)
        sheet = put(model, spec, ranges).sheet
        more = ", and its frame and home pose" if sheet else ", and no frame and home pose, as nobody wrote them down"
    print_text(f"{model} has training ranges now, from {ranges.steps:,} steps of {ranges.episodes} episodes{more}")
