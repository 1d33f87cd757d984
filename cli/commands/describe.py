"""`sami describe`: measure the ranges of training, and store them with frame and home pose in the model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..measuring import progress
from ..model_file import environment_of
from ..options import FORCE, Key, ModelEnvironment, set_option, set_values
from ..output import in_shell, print_text

if TYPE_CHECKING:
    from sami_runtime.model.contract import Contract

SETTINGS = {
    "episodes": Key(int, "in all training tasks together (120)", 2),
    "starts": Key(int, "from which each element of the action is moved a little, to see what answers (24)", 2),
}


def describe(
    model: Annotated[Path, typer.Argument(help="Model file; the training ranges are added to it.")],
    env: ModelEnvironment = None,
    rollout: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Take training ranges from a recording (NAME.mcap) or a rollout (NAME.npz); may be given often.",
        ),
    ] = None,
    set_: Annotated[list[str] | None, set_option(SETTINGS)] = None,
) -> None:
    """Store training ranges in a model file, for `sami check-adapter`; also frame, home pose and meanings.

    Graph, weights and golden steps stay as they are.
    """
    from sami_runtime.errors import SamiError
    from sami_runtime.model.artifact import read_artifact
    from sami_train.export.training_ranges import describe as put
    from sami_train.export.training_ranges import measure_ranges

    if rollout:
        _describe_by_rollouts(model, rollout)
        return
    settings = {"episodes": 120, "starts": 24} | set_values(SETTINGS, set_)
    contract = read_artifact(model).contract
    _require_new(model, contract)
    if "adopted" in contract.training:
        raise SamiError(
            f"{model} was adopted, and its training's environment is not here. Give what it saw: --rollout NAME.npz of "
            "its framework, or --rollout NAME.mcap, a recording of `sami play` or of the robot."
        )
    spec = environment_of(contract, env)
    with progress("measuring what training saw", settings["episodes"]) as advance:
        ranges = measure_ranges(model, spec, settings["episodes"], settings["starts"], on_round=advance)
    described = put(model, spec, ranges)
    sheet = "its frame and home pose" if described.sheet else "no frame and home pose, as nobody wrote them down"
    print_text(
        f"{model} has training ranges now, from {ranges.steps:,} steps of {ranges.episodes} episodes, and {sheet}"
    )


def _describe_by_rollouts(model: Path, paths: list[Path]) -> None:
    """Store in a model file the ranges that its signals had in recordings and rollouts."""
    from sami_runtime.adoption.ranges import ranges_in
    from sami_runtime.model.artifact import read_artifact
    from sami_train.export.model_file import recompose, write

    artifact = read_artifact(model)
    _require_new(model, artifact.contract)
    ranges = ranges_in(artifact.contract, paths)
    write(recompose(artifact, {"training_ranges": ranges}))
    print_text(f"{model} has training ranges now, from {ranges.steps:,} steps of {ranges.episodes} episodes")


def _require_new(model: Path, contract: Contract) -> None:
    """Raise SamiError if a model file has training ranges already, unless --force is given."""
    from sami_runtime.errors import SamiError

    if contract.training_ranges is not None and not FORCE.get():
        raise SamiError(
            f"{model} has training ranges; `sami inspect {in_shell(model)}` prints them, --force measures them anew."
        )
