"""`sami inspect` and `sami verify`: what a model file says of itself, and whether it keeps its word."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..model_file import Model
from ..signals import signal_lines
from .studies.looking_ahead import lookahead_lines
from .studies.probe import probe_lines

if TYPE_CHECKING:
    from sami_runtime.model.contract import Contract


MOST_LISTED = 6
"""Most elements of a list that a line has room for."""


def inspect(
    model: Model,
    golden: Annotated[Path | None, typer.Option(help="Also write the golden steps, as CSV.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace --golden if it exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the contract as JSON.")] = False,
) -> None:
    """Show a model's contract: signals, bounds, what training saw, frame and home, rate, training, evaluation."""
    from sami_runtime.model.artifact import read_artifact

    contract = read_artifact(model).contract
    if golden is not None:
        _write_golden(contract, model, golden, force)
    if json:
        document = json_module.loads(contract.dumps())
        if document.get("golden"):
            document["golden"].pop("data")  # thousands of characters that nobody reads
        print(json_module.dumps(document, indent=2))
        return
    print(contract)
    print()
    print(*signal_lines(contract), sep="\n")
    print()
    print(f"weights sha256 {contract.weights_sha256}")
    for name, value in contract.training.items():
        print(f"training {name}: {_short(value)}")
    print(f"atlas: {_atlas(contract)}")
    for line in (*lookahead_lines(contract), *probe_lines(contract)):
        print(line)
    for name, numbers in (contract.evaluation or {}).get("sets", {}).items():
        if "success" in numbers:
            above = "-" if numbers["above_floor"] is None else f"{numbers['above_floor']:.3f}"
            print(f"success {name}: {numbers['success']:.3f} ({above} above the floor)")
        else:
            print(f"return {name}: {numbers['ret']:,.0f}")


def _short(value: Any) -> str:
    """Return what a line has room for; a robot may have 125 tasks, and a configuration has a hundred keys."""
    if isinstance(value, dict) and any(isinstance(part, dict) for part in value.values()):
        return "see --json"
    if isinstance(value, list) and len(value) > MOST_LISTED:
        return f"{value[0]} to {value[-1]}, {len(value)} in all, see --json"
    return str(value)


def _atlas(contract: Contract) -> str:
    if contract.context is None:
        return "none, because the policy infers no context"
    if (atlas := contract.atlas) is None:
        return "none; `sami atlas` adds one"
    return (
        f"{len(atlas.tasks)} tasks, window {atlas.window}, from step {atlas.step} on; at most "
        f"{atlas.false_alarm_rate:.0%} of episodes in them give an alarm ({atlas.episodes} episodes fitted, "
        f"{atlas.held_out} held out)"
    )


def _write_golden(contract: Contract, model: Path, path: Path, force: bool) -> None:
    """Return a row a step: 1 where an episode begins; observation, executed action, what torch answered."""
    import csv

    import numpy as np

    from sami_runtime.errors import SamiError
    from sami_runtime.files import output
    from sami_runtime.model.contract import EXECUTED
    from sami_runtime.model.lookahead import AGE, HELD

    steps = contract.golden_steps()
    if steps is None:
        raise SamiError(f"{model} carries no golden steps to write. Export the model again.")
    signals = {**contract.signal_inputs, EXECUTED: contract.action, **contract.answers}
    names = [f"{name}.{element}" for name, signal in signals.items() for element in signal.elements]
    seen = [steps.observation[signal.name] for signal in contract.signal_inputs.values()]
    late = [] if steps.age is None or steps.held is None else [steps.age, steps.held]
    if late:
        names += [f"{AGE}.{signal.name}" for signal in contract.observation] + [HELD]
    rows = np.concatenate([*seen, steps.executed, *steps.answers.values(), *late], axis=1)
    with output(path, force, [model]) as beside, beside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["reset", *names])
        for step, row in enumerate(rows):
            # 9 digits give back the same float32.
            writer.writerow([int(step in steps.resets), *(f"{number:.9g}" for number in row)])
