"""A recording as one table: a row for each tick, a column for each number, with its name."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sami_runtime.distribution import install_hint
from sami_runtime.errors import RecordingError
from sami_runtime.files import output
from sami_runtime.loop.tick import StepRecord
from sami_runtime.model.contract import Contract
from sami_runtime.recording.reader import RecordedStep, Recording, values_of
from sami_runtime.signals import Signal

Row = dict[str, Any]
READING = ("speed", "phase", "drift", "distance", "score", "alarm")
"""What telemetry tells in one column each; the nearest dynamics have one for each feature."""


def rows(recording: Recording) -> list[Row]:
    """Return every tick of a recording, by the name of its column.

    `observation.SIGNAL.ELEMENT`, `proposed.ELEMENT`, `executed.ELEMENT`, `context.NUMBER`, `answer.SIGNAL.ELEMENT`,
    `telemetry.NAME`, `times.SECTION` [s], `info.NAME` of what the adapter told in numbers and words, and of the tick
    itself. What a tick has nothing for is left out.
    """
    contract, table_rows = recording.contract, []
    for step in recording.steps:
        contract = step.record.swapped.contract if step.record.swapped else contract
        table_rows.append(_row(recording, contract, step))
    return table_rows


def columns(table_rows: Iterable[Row]) -> list[str]:
    """Return the names of all columns: those of the first rows first."""
    names: dict[str, None] = {}
    for row in table_rows:
        names.update(dict.fromkeys(row))
    return list(names)


def write_csv(recording: Recording, path: Path, force: bool = False) -> int:
    """Write a recording as CSV, every digit of every number, and return how many rows it has.

    Raises:
        SamiError: The file exists and is not to be replaced, or cannot be written.
    """
    with values_of(recording.path), output(path, force, [recording.path]) as beside:
        table_rows = rows(recording)
        with beside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns(table_rows), restval="")
            writer.writeheader()
            writer.writerows(table_rows)
    return len(table_rows)


def write_parquet(recording: Recording, path: Path, force: bool = False) -> int:
    """Write a recording as Parquet, and return how many rows it has.

    Raises:
        RecordingError: The package pyarrow is missing.
        SamiError: The file exists and is not to be replaced, or cannot be written.
    """
    arrow, parquet = arrow_parts()
    with values_of(recording.path), output(path, force, [recording.path]) as beside:
        table_rows = rows(recording)
        table = arrow.table({name: _column(table_rows, name) for name in columns(table_rows)})
        parquet.write_table(table, beside, compression="zstd")
    return len(table_rows)


def arrow_parts() -> tuple[Any, Any]:
    """Return pyarrow and its Parquet part.

    Raises:
        RecordingError: It is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise RecordingError(f"Parquet needs the package {error.name}: {install_hint('convert')}") from None
    return pyarrow, parquet


def finite(text: Any) -> Any:
    """Return a number for what a recording has as `"nan"` or `"inf"`."""
    return float(text) if text in ("nan", "inf", "-inf") else text


def _column(table_rows: list[Row], name: str) -> list[Any]:
    values = [row.get(name) for row in table_rows]
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float}:
        return [None if value is None else float(value) for value in values] if float in kinds else values
    return values if len(kinds) == 1 else [None if value is None else str(value) for value in values]


def _row(recording: Recording, contract: Contract, step: RecordedStep) -> Row:
    episode, record = step
    came = recording.episodes.get(episode)
    observed = {} if record.observation is None else record.observation.values
    signals = {signal.name: signal for signal in contract.observation}
    row: Row = {"episode": episode, "step": record.step, "time": record.time, "outcome": record.outcome.value}
    row |= {"reason": record.reason, "limited_by": "; ".join(record.limited_by)}
    for name, value in observed.items():
        row |= _elements(f"observation.{name}", signals.get(name), value)
    row |= _elements("proposed", contract.action, record.action)
    row |= _elements("executed", contract.action, record.executed)
    row |= _elements("context", None, record.context if contract.context_size else None)
    extra = {signal.name: signal for signal in contract.extra_outputs}
    for name, value in record.extra.items():
        row |= _elements(f"answer.{name}", extra.get(name), value)
    row |= _telemetry_columns(record)
    row |= {f"times.{name}": value for name, value in record.times._asdict().items()}
    row |= {"lag": record.lag, "missed": record.missed, "passed": record.passed}
    row |= _flat("info", record.info)
    if came is not None:
        row |= {"ended": came.ended.value, **({} if came.success is None else {"success": came.success})}
    return row


def _elements(prefix: str, signal: Signal | None, value: Any) -> Row:
    if value is None:
        return {}
    numbers = np.asarray(value).ravel().tolist()
    named = signal is not None and signal.size == len(numbers)
    elements = signal.elements if signal is not None and named else tuple(map(str, range(len(numbers))))
    return {f"{prefix}.{element}": float(number) for element, number in zip(elements, numbers, strict=True)}


def _telemetry_columns(record: StepRecord) -> Row:
    if record.telemetry is None:
        return {}
    telemetry = record.telemetry.plain()
    row = {f"telemetry.{name}": telemetry[name] for name in READING if telemetry[name] is not None}
    return row | _flat("telemetry.nearest", telemetry["nearest"] or {})


def _flat(prefix: str, value: Mapping[str, Any]) -> Row:
    """Return what is one number, word or truth each; lists by their index."""
    row: Row = {}
    for name, item in value.items():
        if isinstance(item, Mapping):
            row |= _flat(f"{prefix}.{name}", item)
        elif isinstance(item, list | tuple | np.ndarray):
            row |= _flat(f"{prefix}.{name}", {str(at): part for at, part in enumerate(item)})
        elif item is not None:
            row[f"{prefix}.{name}"] = finite(item)
    return row
