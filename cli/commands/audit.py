"""`sami audit`: compare a log of a deployed policy with its recipe, one observation term at a time."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..output import print_check

Adopted = Annotated[
    Path,
    typer.Argument(metavar="POLICY", help="File that sami adopt wrote, or what sami adopt takes, with --contract."),
]
OptionalContract = Annotated[Path | None, typer.Option(help="TOML contract of a policy that is not adopted yet.")]


def audit(
    policy: Adopted,
    log: Annotated[Path, typer.Option(help="Raw signals and what the network read, .npz; or a recording, .mcap.")],
    contract: OptionalContract = None,
) -> None:
    """Rebuild what a policy read from the raw signals of a log, and name the bug. Exit code 4 if there is one."""
    from sami_runtime.adoption.audit import audit_log
    from sami_runtime.adoption.network import adopted_policy

    result = audit_log(adopted_policy(policy, contract), log)
    rows = [asdict(verdict) for verdict in result.verdicts]
    print_check(result, {"steps": result.samples, "terms": rows})
