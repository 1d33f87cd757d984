"""`sami bench`: time a step of a model file on this machine, and of its alternatives."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..options import JSON, Model, Provider
from ..output import print_text

if TYPE_CHECKING:
    from sami_runtime.checks.bench import Candidate, CandidateTiming
    from sami_runtime.model.contract import Contract

RATES_HZ = (None, 25.0, 100.0, 1000.0)
EAGER, PREDICT = "torch, eager", "stable-baselines3 predict"
FLAT_BYTES = 512 * 1024
"""Largest growth of the resident memory that still counts as flat, since an allocator retains some pages."""


def bench(
    model: Model,
    seconds: Annotated[float, typer.Option(min=0.05, help="How long each line is measured, s.")] = 3.0,
    provider: Provider = "cpu",
    soak: Annotated[int, typer.Option(min=0, help="Instead, step this many times; exit with 4 if memory grew.")] = 0,
) -> None:
    """Time a model's step: session, bare onnxruntime, torch and predict, back to back and at 25, 100 and 1000 Hz."""
    from sami_runtime.checks import bench as measuring
    from sami_runtime.model.artifact import read_artifact
    from sami_runtime.session.session import Session

    artifact = read_artifact(model)
    if soak:
        _soak(Session(artifact, provider=provider), soak)
        return
    candidates = measuring.candidates(artifact, provider)
    in_torch, note = _torch_candidates(artifact.contract)
    difference = measuring.largest_difference(candidates)
    machine = _machine(provider)
    if not JSON.get():
        print_text(f"{model} on {', '.join(f'{name} {value}' for name, value in machine.items())}")
    paces = []
    for rate in RATES_HZ:
        timings = measuring.summarise(measuring.measure([*candidates, *in_torch], seconds, rate))
        title = "back to back" if rate is None else f"paced at {rate:g} Hz"
        paces.append({"pace": title, "rate_hz": rate, "us": {name: asdict(timing) for name, timing in timings.items()}})
        if not JSON.get():
            print_text("\n" + _table(title, timings))
    if JSON.get():
        document = {"model": str(model), "machine": machine, "method": measuring.METHOD, "torch": note}
        print(json.dumps({**document, "largest_difference": difference, "paces": paces}, indent=2))
    else:
        largest = f"Largest difference between actions of the same policy: {difference:.1e}."
        print_text("", measuring.METHOD, note, largest)


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
    title = f"{title} [µs]"
    width = max(map(len, (title, *timings)))
    head = f"{title:<{width}} {'steps':>6} {'p50':>8} {'ratio':>5} {'p99':>8} {'p99.9':>8} {'worst':>8}"
    lines = [
        f"{name:<{width}} {t.steps:>6} {t.p50:>8.1f} {t.ratio:>5.2f} {t.p99:>8.1f} "
        f"{'-' if t.p99_9 is None else f'{t.p99_9:.1f}':>8} {t.worst:>8.1f}"
        for name, t in timings.items()
    ]
    return "\n".join([head, *lines])


def _soak(session: Any, steps: int) -> None:
    from sami_runtime.checks.bench import soak

    grown = soak(session, steps)
    flat = grown is None or grown <= FLAT_BYTES
    if JSON.get():
        print(json.dumps({"steps": steps, "grown_bytes": grown, "flat": flat}))
    elif grown is None:
        print_text(f"{steps} steps; this system does not report how much memory a process uses")
    else:
        print_text(
            f"{steps} steps, each with executed() and prewarm(): resident memory grew by {grown / 1024:.0f} KiB after "
            f"the first tenth; {'flat' if flat else 'NOT flat'} (up to {FLAT_BYTES // 1024} KiB counts as flat)"
        )
    if not flat:
        raise typer.Exit(4)


def _torch_candidates(contract: Contract) -> tuple[list[Candidate], str]:
    """Return candidates that step a policy of the same shape in torch, and a note on them or on their absence."""
    try:
        import numpy as np
        import torch

        from sami_runtime.checks.bench import OBSERVATIONS, Candidate, observations
        from sami_runtime.errors import SamiError
        from sami_runtime.model.contract import ACTION
        from sami_train.export.graph import TorchSession
        from sami_train.studies.lookahead.forward_model import without_lookahead

        try:
            agent = _agent(contract)
        except SamiError as error:
            return [], f"torch and predict are left out: {error}"
    except ModuleNotFoundError as error:
        return [], f"torch and predict are left out: {error.name} is not installed."
    torch.set_num_threads(1)
    spec = agent.environment
    flat = np.zeros((OBSERVATIONS, spec.layout.size), np.float32)
    for name, value in observations(contract).items():
        flat[:, spec.layout.columns(name)] = value
    eager = TorchSession(agent.policy, without_lookahead(contract))
    state: Any = None

    def reset() -> None:
        nonlocal state
        state = None

    def predict(i: int) -> Any:
        nonlocal state
        action, state = agent.predict(flat[i], state, deterministic=True)
        return action

    return [
        Candidate(EAGER, eager.reset, lambda i: eager.step(flat[i])[ACTION]),
        Candidate(PREDICT, reset, predict),
    ], "torch and predict step a policy of the same shape with new weights; what a step costs does not depend on them."


def _agent(contract: Contract) -> Any:
    from sami_runtime.errors import SamiError
    from sami_train.agent.context_sac import ContextSAC
    from sami_train.config.resolve import from_dict
    from sami_train.runs.train import make_env

    settings = contract.training.get("config")
    if not isinstance(settings, dict):
        raise SamiError("the contract carries no training configuration to make a policy of the same shape by.")
    config = from_dict(settings)
    return ContextSAC("ContextPolicy", make_env(config), config, device="cpu")
