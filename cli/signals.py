"""What a model file tells of its signals: bounds, what training saw, what answers, what they mean, frame and home."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sami_runtime.model.contract import Contract

HEAD = ("element", "unit", "low", "high", "mean", "deviation", "lowest", "highest", "at first")
TINY = 1e-9
"""What a simulator leaves of 0."""


def signal_lines(contract: Contract) -> Iterator[str]:
    """Return a line for each element, and then one for each thing that words tell."""
    rows = [HEAD, *_rows(contract)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    for row in rows:
        name, unit, *numbers = row
        cells = [name.ljust(widths[0]), unit.ljust(widths[1]), *map(str.rjust, numbers, widths[2:])]
        yield "  ".join(cells).rstrip()
    if contract.seen is None:
        yield "seen: not told; `sami describe` measures what training saw"
    else:
        yield f"seen: {contract.seen.steps:,} steps of {contract.seen.episodes} episodes: {contract.seen.measured}"
        yield from _responses(contract)
    for signal in (*contract.observation, contract.action):
        if signal.meaning:
            yield f"meaning {signal.name}: {signal.meaning}"
    if contract.sheet is None:
        yield "frame: not told"
        return
    yield f"frame: {contract.sheet.frame}"
    yield f"home: {contract.sheet.home}"
    if contract.sheet.gains:
        yield f"gains: {contract.sheet.gains}"
    for name, quantity in contract.sheet.numbers.items():
        yield f"{name}: {quantity}"


def _rows(contract: Contract) -> Iterator[tuple[str, ...]]:
    for signal in (*contract.observation, contract.action):
        seen = contract.seen.signals[signal.name] if contract.seen else None
        begin = contract.seen.begin.get(signal.name) if contract.seen else None
        for at, element in enumerate(signal.elements):
            bounds = ("-" if bound is None else f"{bound:g}" for bound in (signal.low[at], signal.high[at]))
            values = (seen.mean, seen.deviation, seen.lowest, seen.highest) if seen else ()
            numbers = [_short(value[at]) for value in values] or ["-"] * 4
            first = f"{_short(begin.lowest[at])} to {_short(begin.highest[at])}" if begin else "-"
            yield (f"{signal.name}.{element}", signal.unit, *bounds, *numbers, first)


def _short(value: float) -> str:
    return "0" if abs(value) < TINY else f"{value:.3g}"


def _responses(contract: Contract) -> Iterator[str]:
    """Return what answered clearly to each element of the action, for a unit of it."""
    from sami_runtime.checks.judge_response import clear_responses

    moves = contract.seen.responses if contract.seen else None
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
        what = ", ".join(answers) or "nothing answered clearly"
        unit = "" if contract.action.unit == "1" else f" {contract.action.unit}"
        yield f"response to 1{unit} of {name}, moved by {size:g} for {moves.ticks} ticks: {what}"
