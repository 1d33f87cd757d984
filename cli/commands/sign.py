"""`sami sign`: say by a signature whose a model file is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..model_file import MODEL_HELP, model_file


def sign(
    model: Annotated[Path | None, typer.Argument(metavar="MODEL", help=f"{MODEL_HELP}.", callback=model_file)] = None,
    key: Annotated[Path | None, typer.Option(help="Private key, NAME.key.")] = None,
    new_key: Annotated[
        Path | None, typer.Option(help="Make a key, NAME.key, and the public one beside it, NAME.pub.")
    ] = None,
    owner: Annotated[str, typer.Option(help="Whose the new key is, for those who will trust it.")] = "",
) -> None:
    """Sign a model file, so that `sami run --trusted KEYS` knows whose it is; writes MODEL.sig."""
    from sami_runtime.errors import SamiError
    from sami_runtime.model import signature
    from sami_runtime.model.artifact import judge, read_bytes

    if new_key is not None:
        public = signature.new_key(new_key, owner)
        print(f"wrote {new_key}, which nobody else should have, and {public}, for the KEYS of those who trust it")
    if model is None:
        if new_key is None:
            raise SamiError("nothing to do: name a model and --key, or make a key with --new-key.")
        return
    if (chosen := key or new_key) is None:
        raise SamiError(f"with which key is {model} to be signed? Name it with --key, or make one with --new-key.")
    data = read_bytes(model)
    judge(data, model)
    print(f"wrote {signature.sign(model, data, chosen)}")
