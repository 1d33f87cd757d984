"""`sami new-adapter`: the beginning of an adapter, with all that the model says about the robot it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..model_file import MODEL_HELP, model_file


def new_adapter(
    model: Annotated[Path, typer.Option(help=f"{MODEL_HELP}, that is to drive it.", callback=model_file)],
    out: Annotated[Path, typer.Option(help="The module that is written: my_arm.py.")],
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write the skeleton of an adapter for an arm of your own: signals, units, elements, frame, bounds, home pose.

    It can be imported and checked at once. Until it is filled in it refuses to begin an episode, and says what remains.
    """
    from sami_runtime.distribution import shipped_models
    from sami_runtime.model.artifact import read_artifact
    from sami_runtime.robots.kit.skeleton import write_skeleton

    shown = next((name for name, file in shipped_models().items() if file == model), str(model))
    write_skeleton(read_artifact(model).contract, out, shown, force)
    print(
        f"{out} declares what {shown} reads and writes, and lists what remains (REMAINS). "
        "Parts to build it from: sami_runtime.robots.kit."
    )
    where = "" if out.parent == Path() else f"cd {out.parent}; "
    print(f"Next: {where}sami check-adapter {out.stem}:make --model {shown}")
