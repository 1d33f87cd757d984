"""`sami diagnose`: check a policy and its recipe before anything moves."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..output import print_check
from .audit import Adopted, OptionalContract


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
