"""`sami verify`: is a model file what it says, and does it compute what its training computed?"""

from __future__ import annotations

import json as json_module
from typing import Annotated

import typer

from ..model_file import Expected, Model, Trusted


def verify(
    model: Model,
    tolerance: Annotated[float, typer.Option(min=0.0, max=1.0, help="Largest difference that passes.")] = 1e-5,
    provider: Annotated[
        str, typer.Option(help="What runs the graph: cpu, cuda, ... Each rounds in its own way.")
    ] = "cpu",
    expect_sha256: Expected = None,
    trusted: Trusted = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Check a model file: is it safe to load, and does it compute its golden steps? Exit code 4 if anything differs."""
    from sami_runtime.checks.verify import verify as check
    from sami_runtime.errors import SamiError
    from sami_runtime.session.admission import Admission

    if not model.is_file():
        raise SamiError(f"{model} is no file; give a model that `sami export` wrote.")
    result = check(model, tolerance, provider, Admission(expect_sha256, trusted))
    if json:
        checks = [{"name": c.name, "passed": c.passed, "detail": c.detail} for c in result.checks]
        print(json_module.dumps({"passed": result.passed, "provider": provider, "checks": checks}, indent=2))
    else:
        print(result)
    if not result.passed:
        raise typer.Exit(4)
