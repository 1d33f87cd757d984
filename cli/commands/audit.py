"""`sami audit`: a log of a deployed policy, term by term against its recipe."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..options import Json
from ..output import print_text

Adopted = Annotated[
    Path,
    typer.Argument(metavar="POLICY", help="File that sami adopt wrote, or what sami adopt takes, with --contract."),
]
OptionalContract = Annotated[Path | None, typer.Option(help="TOML with the recipe of a policy that is not adopted.")]


def audit(
    policy: Adopted,
    log: Annotated[Path, typer.Option(help="Raw signals and what the network read, .npz; or a recording, .mcap.")],
    contract: OptionalContract = None,
    json: Json = False,
) -> None:
    """Rebuild what a policy read from the raw signals of a log, and name the bug. Exit code 1 if there is one."""
    from sami_runtime.adoption.audit import audit_log
    from sami_runtime.adoption.network import adopted_policy

    result = audit_log(adopted_policy(policy, contract), log)
    if json:
        rows = [asdict(verdict) for verdict in result.verdicts]
        print(json_module.dumps({"passed": result.passed, "steps": result.samples, "terms": rows}, indent=2))
    else:
        print_text(result)
    if not result.passed:
        raise typer.Exit(1)
