"""`sami doctor`: check whether this machine can run policies on time."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from ..options import JSON
from ..output import print_text


def doctor() -> None:
    """Check versions, onnxruntime's builds and providers, kernel, limits and clocks. Exit code 1 if one fails."""
    from sami_runtime.checks.doctor import examine

    findings = []
    for finding in examine():
        findings.append(finding)
        if not JSON.get():
            print_text(f"{finding.status:<4}  {finding.name:<18}  {finding.measured}")
            if finding.advice:
                print_text(f"{'':<4}  {'':<18}  -> {finding.advice}")
    failed = sum(finding.status == "fail" for finding in findings)
    warned = sum(finding.status == "warn" for finding in findings)
    if JSON.get():
        rows = [{"found" if key == "measured" else key: value for key, value in asdict(f).items()} for f in findings]
        print(json.dumps({"ok": not failed, "findings": rows}, indent=2))
    else:
        print_text(f"{failed} failed, {warned} to look at, {len(findings) - failed - warned} ok")
    if failed:
        raise typer.Exit(1)
