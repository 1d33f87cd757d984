"""`sami inspect` and `sami verify`: what a model file says of itself, and whether it keeps its word."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[Path, typer.Argument(help="Model file.")]


def inspect(
    model: Model, json: Annotated[bool, typer.Option("--json", help="Print the contract as JSON.")] = False
) -> None:
    """Show a model's contract: signals, units, rate, training, evaluation."""
    from sami_runtime.artifact import read_artifact

    contract = read_artifact(model).contract
    if json:
        document = json_module.loads(contract.dumps())
        if document.get("golden"):
            document["golden"].pop("data")  # thousands of characters that nobody reads
        print(json_module.dumps(document, indent=2))
        return
    print(contract)
    print(f"weights sha256 {contract.weights_sha256}")
    for name, value in contract.training.items():
        print(f"training {name}: {value}")
    for name, numbers in (contract.evaluation or {}).get("sets", {}).items():
        if "success" in numbers:
            print(f"success {name}: {numbers['success']:.3f} ({numbers['above_floor']:.3f} above the floor)")
        else:
            print(f"return {name}: {numbers['ret']:.1f}")


def verify(
    model: Model,
    tolerance: Annotated[float, typer.Option(help="Largest difference that passes.")] = 1e-5,
    json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Check a model file against the golden steps inside it. Exit code 4 if anything differs."""
    from sami_runtime.verify import verify as check

    result = check(model, tolerance)
    if json:
        checks = [{"name": c.name, "passed": c.passed, "detail": c.detail} for c in result.checks]
        print(json_module.dumps({"passed": result.passed, "checks": checks}, indent=2))
    else:
        print(result)
    if not result.passed:
        raise typer.Exit(4)
