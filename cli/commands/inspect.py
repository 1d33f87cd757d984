"""`sami inspect`: print the contract of a model file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..options import FORCE, JSON, Model
from ..output import print_text

if TYPE_CHECKING:
    from sami_runtime.model.contract import Contract
    from sami_runtime.model.training_ranges import TrainingRanges
    from sami_runtime.signals import Signal

BOUNDS = ("element", "unit", "low", "high", "at first")
RANGES = ("element", "mean", "deviation", "lowest", "highest")
TINY = 1e-9
"""Numbers below this are printed as 0, since a simulator's zeros have rounding errors."""
MOST_LISTED = 6
"""Largest number of elements of a list that is printed in full."""


def inspect(
    model: Model, golden: Annotated[Path | None, typer.Option(help="Also write the golden steps, as CSV.")] = None
) -> None:
    """Show a model's contract: signals, bounds, what training saw, frame and home, rate, training, evaluation."""
    from sami_runtime.model.artifact import read_artifact

    contract = read_artifact(model).contract
    if golden is not None:
        _write_golden(contract, model, golden)
    if JSON.get():
        document = json.loads(contract.dumps())
        if document.get("golden"):
            document["golden"].pop("data")  # thousands of base64 characters
        print(json.dumps(document, indent=2))
        return
    print_text(signal_table(contract), *_signal_lines(contract))
    print_text(f"weights sha256 {contract.weights_sha256}")
    for name, value in contract.training.items():
        print_text(f"training {name}: {_short(value)}")
    print_text(f"atlas: {_atlas(contract)}")
    if contract.atlas is not None:
        print_text(f"time to adapt: {contract.recovery or 'not measured; `sami atlas MODEL --set changes=400` does'}")
    print_text(*lookahead_lines(contract), *probe_lines(contract))
    for name, numbers in (contract.evaluation or {}).get("sets", {}).items():
        if "success" in numbers:
            above = "-" if numbers["above_floor"] is None else f"{numbers['above_floor']:.3f}"
            print_text(f"success {name}: {numbers['success']:.3f} ({above} above the do-nothing baseline)")
        else:
            print_text(f"return {name}: {numbers['ret']:,.0f}")


def signal_table(contract: Contract) -> str:
    """Return a table of a contract's signals, state and outputs, below its name and rate."""
    rows = [("signal", "index", "size", "unit", "elements")]
    start = 0
    for signal in contract.observation:
        rows.append(_signal_row(f"observation {signal.name}", start, signal))
        start += signal.size
    rows.append(_signal_row(f"action {contract.action.name}", 0, contract.action))
    for tensor in contract.state:
        size = "x".join(map(str, tensor.shape))
        rows.append((f"state {tensor.name}", "", size, "", f"initially {tensor.initial:g}"))
    if contract.context is not None:
        rows.append((*_signal_row("context", 0, contract.context.signal)[:4], ""))
    rows += [_signal_row(f"output {signal.name}", 0, signal) for signal in contract.extra_outputs]
    rows += [(name, "", str(size), "periods", "") for name, size in contract.age_inputs.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    head = f"{contract.name}: {contract.rate_hz:g} Hz, {contract.episode_steps} steps an episode"
    return "\n".join([head, *("  ".join([*map(str.ljust, row[:4], widths), row[4]]).rstrip() for row in rows)])


def _signal_row(label: str, start: int, signal: Signal) -> tuple[str, str, str, str, str]:
    span = str(start) if signal.size == 1 else f"{start}..{start + signal.size - 1}"
    return label, span, str(signal.size), signal.unit, ", ".join(signal.elements)


def _short(value: Any) -> str:
    """Return a value as text that fits a line: a robot may have 125 tasks, and a configuration has a hundred keys."""
    if isinstance(value, dict) and any(isinstance(part, dict) for part in value.values()):
        return "see --json"
    if isinstance(value, list) and len(value) > MOST_LISTED:
        return f"{value[0]}, ..., {value[-1]}: {len(value)} in all, see --json"  # in the order of the draw
    return str(value)


def _atlas(contract: Contract) -> str:
    if contract.context is None:
        return "none, because the policy infers no context"
    if (atlas := contract.atlas) is None:
        return "none; `sami atlas` adds one"
    return (
        f"{len(atlas.tasks)} tasks, window {atlas.window}, from step {atlas.step} on; calibrated for alarms in "
        f"{atlas.false_alarm_rate:.0%} of episodes in them ({atlas.episodes} episodes fitted, {atlas.held_out} held "
        "out)"
    )


def _write_golden(contract: Contract, model: Path, path: Path) -> None:
    """Write golden steps as CSV, one row per step: reset (0 or 1), observation, executed action, torch's outputs."""
    import csv

    import numpy as np

    from sami_runtime.errors import SamiError
    from sami_runtime.files import output
    from sami_runtime.model.contract import EXECUTED
    from sami_runtime.model.lookahead import AGE, HOLDS

    steps = contract.golden_steps()
    if steps is None:
        raise SamiError(f"{model} carries no golden steps to write. Export the model again.")
    signals = {**contract.signal_inputs, EXECUTED: contract.action, **contract.answers}
    names = [f"{name}.{element}" for name, signal in signals.items() for element in signal.elements]
    observed = [steps.observation[signal.name] for signal in contract.signal_inputs.values()]
    late = [] if steps.age is None or steps.holds is None else [steps.age, steps.holds]
    if late:
        names += [f"{AGE}.{signal.name}" for signal in contract.observation] + [HOLDS]
    rows = np.concatenate([*observed, steps.executed, *steps.answers.values(), *late], axis=1)
    with output(path, FORCE.get(), [model]) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["reset", *names])
        for step, row in enumerate(rows):
            # 9 digits restore the same float32.
            writer.writerow([int(step in steps.resets), *(f"{number:.9g}" for number in row)])


def _signal_lines(contract: Contract) -> Iterator[str]:
    """Yield lines: bounds of each element, its range in training, responses, signals' meanings, and the data sheet."""
    yield from _table(BOUNDS, _bounds(contract))
    yield ""
    ranges = contract.training_ranges
    if ranges is None:
        yield "seen: not recorded; `sami describe` measures what training saw"
    else:
        yield f"seen: {ranges.steps:,} steps of {ranges.episodes} episodes: {ranges.measured}"
        yield from _table(RANGES, _ranges(contract, ranges))
        yield ""
        yield from _responses(contract)
    for signal in (*contract.observation, contract.action):
        if signal.meaning:
            yield f"meaning {signal.name}: {signal.meaning}"
    if contract.sheet is None:
        yield "frame: not described"
        return
    yield f"frame: {contract.sheet.frame}"
    yield f"home: {contract.sheet.home}"
    if contract.sheet.gains:
        yield f"gains: {contract.sheet.gains}"
    for name, quantity in contract.sheet.numbers.items():
        yield f"{name}: {quantity}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table with a left-aligned first column and right-aligned others."""
    cells = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for name, *texts in cells:
        yield "  ".join([name.ljust(widths[0]), *map(str.rjust, texts, widths[1:])])


def _bounds(contract: Contract) -> Iterator[tuple[str, ...]]:
    for signal in (*contract.observation, contract.action):
        begin = contract.training_ranges.begin.get(signal.name) if contract.training_ranges else None
        for at, element in enumerate(signal.elements):
            bounds = ("-" if bound is None else f"{bound:g}" for bound in (signal.low[at], signal.high[at]))
            first = f"{_short_number(begin.lowest[at])} to {_short_number(begin.highest[at])}" if begin else "-"
            yield (f"{signal.name}.{element}", signal.unit, *bounds, first)


def _ranges(contract: Contract, ranges: TrainingRanges) -> Iterator[tuple[str, ...]]:
    for signal in (*contract.observation, contract.action):
        spread = ranges.signals[signal.name]
        columns = (spread.mean, spread.deviation, spread.lowest, spread.highest)
        for at, element in enumerate(signal.elements):
            yield (f"{signal.name}.{element}", *(_short_number(column[at]) for column in columns))


def _short_number(value: float) -> str:
    return "0" if abs(value) < TINY else f"{value:.3g}"


def _responses(contract: Contract) -> Iterator[str]:
    """Yield, for each element of the action, the signals that respond clearly to a unit of it."""
    from sami_runtime.checks.judge_response import clear_responses

    moves = contract.training_ranges.responses if contract.training_ranges else None
    if moves is None:
        return
    ends = [0, *accumulate(signal.size for signal in contract.observation)]
    for name, size, row, expected in zip(
        contract.action.elements, moves.size, range(len(moves.size)), clear_responses(contract), strict=True
    ):
        answers = [
            f"{signal.name}.{element} {moves.signals[signal.name].mean[row][at]:+.3g} {signal.unit}"
            for signal, start in zip(contract.observation, ends, strict=False)
            for at, element in enumerate(signal.elements)
            if expected[start + at]
        ]
        text = ", ".join(answers) or "nothing answered clearly"
        unit = "" if contract.action.unit == "1" else f" {contract.action.unit}"
        yield f"response to 1{unit} of {name}, moved by {size:g} for {moves.ticks} ticks: {text}"


def lookahead_lines(contract: Contract) -> list[str]:
    """Return lines on a file's forward model, one per signal; [] if it has no forward model."""
    ahead = contract.lookahead
    if ahead is None:
        return []
    lines = [ahead.summary(), "held-out error by period, and in brackets that of treating the observation as current:"]
    rows = ahead.rows(contract.observation)
    width = max(len(name) for name, *_ in rows)
    return lines + [f"  {name:<{width}}  {', '.join(cells)} {unit}" for name, unit, cells in rows]


def probe_lines(contract: Contract) -> list[str]:
    """Return lines on a file's probe, one per feature; [] for a policy without a context."""
    if contract.probe is not None:
        return contract.probe.lines()
    return ["probe: none; `sami probe` adds one"] if contract.context is not None else []
