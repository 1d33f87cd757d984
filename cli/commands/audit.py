"""`sami audit` and `sami diagnose`: judge a policy by a log of its deployment, and before anything moves."""

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


def diagnose(
    policy: Adopted,
    contract: OptionalContract = None,
    robot: Annotated[Path | None, typer.Option(help="MJCF of the robot: joint names, ranges, torque limits.")] = None,
) -> None:
    """Probe a policy: joint order, dead inputs, signs, saturation, extreme inputs, torques. Exit code 4 on a fault."""
    from sami_runtime.adoption.diagnosis import diagnose as examine
    from sami_runtime.adoption.network import adopted_policy

    result = examine(adopted_policy(policy, contract), robot)
    rows = [asdict(finding) for finding in result.findings]
    print_check(result, {"policy": result.policy, "findings": rows})
