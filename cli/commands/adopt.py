"""`sami adopt`: convert a policy that another framework exported into a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import FORCE
from ..output import print_text
from .inspect import signal_table


def adopt(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="ONNX file or folder of another framework.")],
    contract: Annotated[Path | None, typer.Option(help="TOML file on the policy's inputs and outputs.")] = None,
    reader: Annotated[str | None, typer.Option(help="Framework that wrote POLICY; detected if left out.")] = None,
    out: Annotated[Path | None, typer.Option(help="Model file to write; POLICY-adopted.onnx if left out.")] = None,
    draft: Annotated[Path | None, typer.Option(help="Write a contract to complete instead, .toml.")] = None,
) -> None:
    """Make a model file of a policy that another framework exported, and compare both over 500 steps."""
    from sami_runtime.adoption.adopt import adopt_reading, read_policy
    from sami_runtime.adoption.recipe import Recipe, fields_of
    from sami_runtime.adoption.sources import draft as drafted
    from sami_runtime.errors import in_shell
    from sami_runtime.files import output, printable

    inputs = [policy, *([contract] if contract else [])]
    reading = read_policy(policy, contract, reader)
    if draft is not None:
        if draft.suffix != ".toml":
            raise typer.BadParameter(f"{draft} is no name of a contract; give NAME.toml", param_hint="'--draft'")
        with output(draft, FORCE.get(), inputs) as temporary:
            temporary.write_text(drafted(reading), encoding="utf-8")
        print_text(f"wrote {draft}: fill its gaps (???), then")
        print_text(f"  sami adopt {in_shell(policy)} --contract {in_shell(draft)}")
        return
    out = out or Path(f"{policy.stem}-adopted.onnx")
    with output(out, FORCE.get(), inputs) as temporary:
        artifact = adopt_reading(reading, policy)
        temporary.write_bytes(artifact.model_bytes)
    fields: dict[str, list[str]] = {}
    for name, _ in fields_of(reading.values):
        fields.setdefault(str(reading.source_of(name)), []).append(name)
    for source, names in {**fields, "default": ["all other fields"]}.items():
        print_text(printable(source), f"  {printable(', '.join(names))}")
    print_text(signal_table(artifact.contract))
    print_text(f"wrote {out}: over 500 steps of {Recipe.of(artifact).name} it answers as {policy} does")
