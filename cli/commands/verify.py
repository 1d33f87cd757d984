"""`sami verify` and `sami sign`: check that a model file is safe and computes its golden steps, and sign it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..model_file import model_file
from ..options import MODEL_HELP, Model, Provider
from ..output import print_check, print_text


def verify(
    model: Model,
    provider: Provider = "cpu",
    expect_sha256: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="SHA-256 of the file, as sha256sum prints it; another file is refused."),
    ] = None,
    trusted: Annotated[
        Path | None,
        typer.Option(metavar="KEYS", help="File of public keys: a model that none of them signed is refused."),
    ] = None,
) -> None:
    """Check that a model file is safe to load and computes its golden steps. Exit code 4 if anything differs."""
    from sami_runtime.checks.verify import verify as check
    from sami_runtime.model.artifact import read_bytes
    from sami_runtime.session.admission import Admission

    if not model.is_file():
        read_bytes(model)  # raises an error if the path is wrong
    result = check(model, provider=provider, admission=Admission(expect_sha256, trusted))
    checks = [{"name": c.name, "passed": c.passed, "detail": c.detail} for c in result.checks]
    print_check(result, {"provider": provider, "checks": checks})


def sign(
    model: Annotated[Path | None, typer.Argument(metavar="MODEL", help=f"{MODEL_HELP}.", callback=model_file)] = None,
    key: Annotated[Path | None, typer.Option(help="Private key, NAME.key.")] = None,
    new_key: Annotated[
        Path | None, typer.Option(help="Make a key, NAME.key, and the public one beside it, NAME.pub.")
    ] = None,
    owner: Annotated[str, typer.Option(help="Name of the new key's owner, written into the public key.")] = "",
) -> None:
    """Sign a model file for `sami run --set trusted=KEYS`, which checks its author; writes MODEL.sig."""
    from sami_runtime.errors import SamiError
    from sami_runtime.model import signing
    from sami_runtime.model.artifact import judge, read_bytes

    if new_key is not None:
        public = signing.new_key(new_key, owner)
        print_text(f"wrote {new_key}, which nobody else should have, and {public}, a line of a robot's trusted keys")
    if model is None:
        if new_key is None:
            usage = "nothing to do: name a model and --key, or make a key with --new-key."
            raise SamiError(f"nothing to sign: name the model, as in sami sign MODEL --key {key}." if key else usage)
        return
    if (key_file := key or new_key) is None:
        raise SamiError(f"with which key is {model} to be signed? Name it with --key, or make one with --new-key.")
    data = read_bytes(model)
    judge(data, model)
    print_text(f"wrote {signing.sign(model, data, signing.private_key(key_file))}")
