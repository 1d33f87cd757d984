"""`sami bench`: what a step of a model file costs on this machine, beside what else could step it."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..model_file import Model, OwnEnvironment

if TYPE_CHECKING:
    from sami_runtime.checks.bench import CandidateTiming

RATES_HZ = (None, 25.0, 100.0, 1000.0)
AGREE = 1e-4
"""Largest difference between actions of what claims to be the same policy."""
FLAT_BYTES = 512 * 1024
"""Growth of the resident memory that counts as none: an allocator keeps some pages."""


def bench(
    model: Model,
    run: Annotated[Path | None, typer.Option(help="Run folder of the file, to step its own policy in torch.")] = None,
    env: OwnEnvironment = None,
    seconds: Annotated[float, typer.Option(min=0.05, help="How long each line is measured, s.")] = 3.0,
    provider: Annotated[str, typer.Option(help="What runs the graph: cpu, cuda, ...")] = "cpu",
    soak: Annotated[
        int, typer.Option(min=0, help="Instead, step this often and see whether memory grows; 4 if it does.")
    ] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Time a model's step: session, bare onnxruntime, torch and predict, back to back and at 25, 100 and 1000 Hz."""
    from sami_runtime.checks import bench as measuring
    from sami_runtime.errors import CheckFailed
    from sami_runtime.model.artifact import read_artifact
    from sami_runtime.session.session import Session

    artifact = read_artifact(model)
    if soak:
        _soak(Session(artifact, provider=provider), soak, json)
        return
    from .. import eager

    chosen = measuring.candidates(artifact, provider)
    in_torch, note = eager.candidates(artifact.contract, run)
    same = [*chosen, *(in_torch if run is not None else [])]
    difference = measuring.largest_difference(same)
    if not difference <= AGREE:
        raise CheckFailed(
            f"they do not run the same policy: actions differ by {difference:.1e}; at most {AGREE:.0e} is accepted. "
            f"Give the run that {model} was exported from."
        )
    machine = _machine(provider)
    if not json:
        print(f"{model} on {', '.join(f'{name} {value}' for name, value in machine.items())}\n\n{measuring.METHOD}")
        print(f"{note}\nLargest difference between actions of the same policy: {difference:.1e}.")
    paces = []
    for rate in RATES_HZ:
        timings = measuring.summarise(measuring.measure([*chosen, *in_torch], seconds, rate))
        title = "back to back" if rate is None else f"paced at {rate:g} Hz"
        paces.append({"pace": title, "rate_hz": rate, "us": {name: asdict(timing) for name, timing in timings.items()}})
        if not json:
            print("\n" + _table(title, timings), flush=True)
    if json:
        document = {"model": str(model), "machine": machine, "method": measuring.METHOD, "torch": note}
        print(json_module.dumps({**document, "largest_difference": difference, "paces": paces}, indent=2))


def _machine(provider: str) -> dict[str, Any]:
    import os
    import platform

    from sami_runtime.session.inference import import_onnxruntime

    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "onnxruntime": import_onnxruntime().__version__,
        "provider": provider,
    }


def _table(title: str, timings: dict[str, CandidateTiming]) -> str:
    width = max(len(name) for name in timings)
    head = f"{title:<{width}}  {'steps':>7} {'p50 us':>9} {'ratio':>6} {'p99 us':>9} {'p99.9 us':>9} {'worst us':>9}"
    lines = [
        f"{name:<{width}}  {t.steps:>7} {t.p50:>9.1f} {t.ratio:>6.2f} {t.p99:>9.1f} "
        f"{'-' if t.p99_9 is None else f'{t.p99_9:.1f}':>9} {t.worst:>9.1f}"
        for name, t in timings.items()
    ]
    return "\n".join([head, *lines])


def _soak(session: Any, steps: int, json: bool) -> None:
    from sami_runtime.checks.bench import soak

    grown = soak(session, steps)
    flat = grown is None or grown <= FLAT_BYTES
    if json:
        print(json_module.dumps({"steps": steps, "grown_bytes": grown, "flat": flat}))
    elif grown is None:
        print(f"{steps} steps; this system does not tell how much memory a process holds")
    else:
        print(
            f"{steps} steps, each with executed() and prewarm(): resident memory grew by {grown / 1024:.0f} KiB after "
            f"the first tenth; {'flat' if flat else 'NOT flat'} (up to {FLAT_BYTES // 1024} KiB counts as flat)"
        )
    if not flat:
        raise typer.Exit(4)
