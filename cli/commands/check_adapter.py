"""`sami check-adapter`: does a robot's adapter keep what it owes to the loop?"""

from __future__ import annotations

import json as json_module
import sys
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
    excite: Annotated[
        bool,
        typer.Option(
            "--excite",
            help="Also MOVE each element of the action to both sides of the rest of --limits and back, within them: "
            "does the right thing answer, the right way and as far as in simulation? It begins with a tenth of the "
            "move in simulation (a tenth of half the range) and goes to 4 times that move at most, where less is not "
            "clear. Prints how far that is before it moves; resets before each move and at the end. Needs --limits "
            "with rest.",
        ),
    ] = False,
    probe: Annotated[bool, typer.Option("--probe", hidden=True)] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check an adapter law by law, before a policy drives it: signals, stamps, buffers, what it says it executed.

    Numbers are compared with those that training saw. The adapter is reset, read and stopped. Exits with 4 if it
    breaks a law, or if --excite could not judge all elements of the action: then it is not proven.
    """
    from sami_runtime.checks.check_adapter import check_adapter as check
    from sami_runtime.checks.judge_response import plan
    from sami_runtime.clock import MonotonicClock
    from sami_runtime.errors import CheckFailed
    from sami_runtime.model.artifact import read_artifact
    from sami_runtime.safety.limits import Limits

    from ..load_adapter import load_adapter, read_settings

    if probe:
        excite = True
        print("--probe is deprecated and will be removed: use --excite.", file=sys.stderr)
    contract = read_artifact(model).contract
    allowed = Limits.load(limits) if limits else Limits()
    allowed.require_fit(contract)
    clock = MonotonicClock()
    robot = load_adapter(adapter, clock, contract, read_settings(adapter_config))

    def tell(verdict: Verdict) -> None:
        word = "BROKEN" if verdict.fault else "NOT PROVEN" if verdict.unproven else "ok"
        print(f"{word:<8}{'  ' * (len(word) > 7)}{verdict.law}")
        for line in (part for text in (verdict.fault, verdict.unproven) if text for part in text.split("; ")):
            print(f"{'':<8}-> {line}")
        if verdict.note:
            print(f"{'':<8}note: {verdict.note}")

    if excite and allowed.rest is not None and contract.seen and contract.seen.responses:
        print("This MOVES the robot:", *plan(contract, allowed), sep="\n  ", file=sys.stderr if json else sys.stdout)
    verdicts = check(robot, contract, clock, allowed, ticks, write, excite, on_verdict=None if json else tell)
    broken, unproven = (
        sum(bool(part) for part in parts) for parts in zip(*((v.fault, v.unproven) for v in verdicts), strict=True)
    )
    outcome = "broken" if broken else "not proven" if unproven else "passed"
    if json:
        laws = [verdict._asdict() for verdict in verdicts]
        result = {"adapter": adapter, "verdict": outcome, "broken": broken, "unproven": unproven, "laws": laws}
        print(json_module.dumps(result))
    else:
        written = "" if write or excite else "; nothing was written, --write checks that, too"
        if contract.seen is None:
            written += f"; {model} does not tell what training saw, so frames and units were not judged "
            written += "(sami describe)"
        count = f"{broken} of {len(verdicts)} laws broken" if broken or not unproven else ""
        left = f"not proven: {unproven} of {len(verdicts)} laws could not be judged in full" if unproven else ""
        print(f"{adapter}: {', '.join(filter(None, (count, left)))}{written}")
    if outcome != "passed":
        raise typer.Exit(CheckFailed.exit_code)
