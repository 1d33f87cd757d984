"""Model files as users name them: a path, or the name of a model that is shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def model_file(named: Path | None) -> Path | None:
    """Return the file that is meant: the one at this path, else the shipped model of this name.

    Raises:
        UnknownName: a bare name is neither. Other paths are refused where they are read.
    """
    if named is None or named.is_file() or named.name != str(named) or named.suffix:
        return named
    from sami_runtime.distribution import shipped_models
    from sami_runtime.errors import UnknownName

    shipped = shipped_models()
    if named.name in shipped:
        return shipped[named.name]
    if not named.exists():
        raise UnknownName("model", named.name, shipped, "Or give the path of a file, NAME.onnx.")
    return named


def named_file(name: str) -> Path:
    """Return the file of a model that a robot's file names; see `model_file`."""
    path = Path(name)
    return model_file(path) or path


MODEL_HELP = "Model file, or the name of one that `sami models` lists"
Model = Annotated[Path, typer.Argument(metavar="MODEL", help=f"{MODEL_HELP}.", callback=model_file)]
"""The argument of commands about one model."""

OwnEnvironment = Annotated[
    str | None,
    typer.Option(
        "--env",
        metavar="NAME,...",
        help="Environments of your own that these files name, MODULE:SPEC or ROBOT.toml: their code is imported only "
        "if you name them, too.",
    ),
]
"""The option of commands that run files' own environments; `app.Command` reads it."""

Expected = Annotated[
    str | None,
    typer.Option(metavar="HEX", help="SHA-256 of the model file, as sha256sum prints it; another file is refused."),
]
Trusted = Annotated[
    Path | None,
    typer.Option(metavar="KEYS", help="File of public keys: a model that none of them signed is refused; `sami sign`."),
]
"""Options that say which model files are let in."""
