"""`sami check-adapter`: does a robot's adapter keep what it owes to the loop?"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..load_adapter import CONFIG_HELP, HELP
from ..model_file import MODEL_HELP, model_file

if TYPE_CHECKING:
    from sami_runtime.checks.check_adapter import Verdict


def check_adapter(
    adapter: Annotated[str, typer.Argument(help=HELP)],
    model: Annotated[Path, typer.Option(help=f"{MODEL_HELP}, that is to drive it.", callback=model_file)],
    limits: Annotated[
        Path | None, typer.Option(help="What will be allowed, NAME.toml or NAME.json; its rest is what --write writes.")
    ] = None,
    adapter_config: Annotated[Path | None, typer.Option(help=CONFIG_HELP)] = None,
    ticks: Annotated[int, typer.Option(min=2, help="Ticks of the policy that are read.")] = 25,
    write: Annotated[
        bool,
        typer.Option("--write", help="Also write the rest of --limits, which moves nothing."),
    ] = False,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe",
            help="Also MOVE each element of the action a little from the rest of --limits, within them, after a reset "
            "for each: does the right thing answer, the right way and as far as in simulation?",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check an adapter law by law, before a policy drives it: signals, stamps, buffers, what it says it executed.

    Numbers are compared with those that training saw. The adapter is reset, read and stopped. Exits with 4 if it
    breaks a law.
    """
    from sami_runtime.checks.check_adapter import check_adapter as check
    from sami_runtime.clock import MonotonicClock
    from sami_runtime.errors import CheckFailed
    from sami_runtime.model.artifact import read_artifact
    from sami_runtime.safety.limits import Limits

    from ..load_adapter import load_adapter, read_settings

    contract = read_artifact(model).contract
    allowed = Limits.load(limits) if limits else Limits()
    allowed.require_fit(contract)
    clock = MonotonicClock()
    robot = load_adapter(adapter, clock, contract, read_settings(adapter_config))

    def tell(verdict: Verdict) -> None:
        print(f"{'BROKEN' if verdict.fault else 'ok':<8}{verdict.law}")
        if verdict.fault:
            print(f"{'':<8}-> {verdict.fault}")
        if verdict.note:
            print(f"{'':<8}note: {verdict.note}")

    verdicts = check(robot, contract, clock, allowed, ticks, write, probe, on_verdict=None if json else tell)
    broken = sum(bool(verdict.fault) for verdict in verdicts)
    if json:
        laws = [verdict._asdict() for verdict in verdicts]
        print(json_module.dumps({"adapter": adapter, "broken": broken, "laws": laws}))
    else:
        written = "" if write or probe else "; nothing was written, --write checks that, too"
        if contract.seen is None:
            written += f"; {model} does not tell what training saw, so frames and units were not judged "
            written += "(sami describe)"
        print(f"{adapter}: {broken} of {len(verdicts)} laws broken{written}")
    if broken:
        raise typer.Exit(CheckFailed.exit_code)
