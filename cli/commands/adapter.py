"""`sami new-adapter` and `sami check-adapter`: write the skeleton of a robot's adapter, and check an adapter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import FORCE, JSON, ModelOfRobot
from ..output import print_text

if TYPE_CHECKING:
    from sami_runtime.checks.check_adapter import Verdict


TICKS = 25
"""Number of the policy's ticks at which the check reads the adapter."""


def new_adapter(
    out: Annotated[Path, typer.Argument(help="The module to write: my_arm.py.")], model: ModelOfRobot
) -> None:
    """Write the skeleton of an adapter for an arm of your own: signals, units, elements, frame, bounds, home pose.

    It can be imported and checked at once. Until it is filled in it refuses to begin an episode, and says what remains.
    """
    from sami_runtime.distribution import shipped_models
    from sami_runtime.errors import in_shell
    from sami_runtime.model.artifact import read_artifact
    from sami_runtime.robots.kit.skeleton import write_skeleton

    path = model if out.parent == Path() else model.resolve()
    title = next((title for title, file in shipped_models().items() if file == model), str(path))
    write_skeleton(read_artifact(model).contract, out, title, FORCE.get())
    print_text(
        f"{out} declares what {title} reads and writes, and lists what remains (REMAINS). "
        "Parts to build it from: sami_runtime.robots.kit."
    )
    where = "" if out.parent == Path() else f"cd {in_shell(out.parent)}; "
    print_text(f"Next: {where}sami check-adapter {out.stem}:make --model {in_shell(title)}")


def check_adapter(
    adapter: Annotated[
        str,
        typer.Argument(
            help="Your robot, as MODULE:FACTORY; FACTORY(clock) of a module in this folder, or installed, makes its "
            "adapter."
        ),
    ],
    model: ModelOfRobot,
    limits: Annotated[
        Path | None, typer.Option(help="Limits of the robot, NAME.toml or .json; --write writes their neutral action.")
    ] = None,
    adapter_config: Annotated[
        Path | None,
        typer.Option(help="Settings for FACTORY(clock, config=...), such as address or goal: NAME.toml or NAME.json."),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Also write the neutral action of --limits (rest).")] = False,
    excite: Annotated[
        bool,
        typer.Option(
            "--excite",
            help="Also MOVE each element of the action, within --limits, to both sides of their neutral action and "
            "back, and compare the response with simulation: which element, which way, how far. Moves start at a tenth "
            "of the simulated move (a tenth of half the range) and grow to 4 times it, until the response is clear. "
            "Prints how far that is before it moves; resets before each move and at the end. Needs --limits with rest.",
        ),
    ] = False,
) -> None:
    """Check an adapter before a policy drives it: signals, time stamps, buffers, applied actions.

    Numbers are compared with those that training saw. The adapter is reset, read and stopped. Exits with 4 if a
    check fails, or if --excite could not judge all elements of the action: then it is not proven.
    """
    from sami_runtime.checks.check_adapter import check_adapter as check
    from sami_runtime.checks.judge_response import plan
    from sami_runtime.clock import MonotonicClock
    from sami_runtime.errors import CheckFailed
    from sami_runtime.files import read_document
    from sami_runtime.model.artifact import read_artifact
    from sami_runtime.safety.limits import Limits

    from ..target import load_adapter

    contract = read_artifact(model).contract
    allowed = Limits.load(limits) if limits else Limits()
    allowed.require_fit(contract)
    clock = MonotonicClock()
    settings = None if adapter_config is None else read_document(adapter_config, "settings")
    robot = load_adapter(adapter, clock, contract, settings)

    def show(verdict: Verdict) -> None:
        word = "BROKEN" if verdict.fault else "NOT PROVEN" if verdict.unproven else "ok"
        print_text(f"{word:<8}{'  ' * (len(word) > 7)}{verdict.law}")
        for line in (part for text in (verdict.fault, verdict.unproven) if text for part in text.split("; ")):
            print_text(f"{'':<8}-> {line}")
        if verdict.note:
            print_text(f"{'':<8}note: {verdict.note}")

    if excite and allowed.rest is not None and contract.training_ranges and contract.training_ranges.responses:
        print_text("This MOVES the robot:", *(f"  {line}" for line in plan(contract, allowed)), error=JSON.get())
    verdicts = check(robot, contract, clock, allowed, TICKS, write, excite, on_verdict=None if JSON.get() else show)
    broken, unproven = (
        sum(bool(part) for part in parts) for parts in zip(*((v.fault, v.unproven) for v in verdicts), strict=True)
    )
    outcome = "broken" if broken else "not proven" if unproven else "passed"
    if JSON.get():
        laws = [verdict._asdict() for verdict in verdicts]
        result = {"adapter": adapter, "verdict": outcome, "broken": broken, "unproven": unproven, "laws": laws}
        print(json.dumps(result))
    else:
        note = "" if write or excite else "; nothing was written, --write checks that, too"
        if contract.training_ranges is None:
            note += f"; {model} has no training ranges, so frames and units were not judged "
            note += "(sami describe)"
        count = f"{broken} of {len(verdicts)} checks failed" if broken or not unproven else ""
        rest = f"not proven: {unproven} of {len(verdicts)} checks could not be judged in full" if unproven else ""
        print_text(f"{adapter}: {', '.join(filter(None, (count, rest)))}{note}")
    if outcome != "passed":
        raise typer.Exit(CheckFailed.exit_code)
