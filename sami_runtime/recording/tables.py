"""Converts recordings for other tools: to one table, in CSV or Parquet, or to a LeRobot dataset.

A table has a row for each tick and a column for each number. LeRobot's trainers, viewers and hub read a dataset of
version 3.0:

    data/chunk-000/file-000.parquet            a row for each step: `observation.state`, `action`, `next.reward`, ...
    meta/info.json                             features with the names of their elements, rate, counts
    meta/stats.json                            minimum, maximum, mean, deviation of each feature
    meta/tasks.parquet                         the tasks in words
    meta/episodes/chunk-000/file-000.parquet   where each episode begins and ends, and its statistics

A step is a tick at which the policy acted, a person drove, or the policy was late; the dataset's action is the executed
one. Steps are equally far apart in time, so an episode is split where the loop held, refused, paused or missed ticks.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.distribution import install_hint
from sami_runtime.errors import RecordingError
from sami_runtime.files import output, require_output
from sami_runtime.loop.tick import StepRecord
from sami_runtime.model.contract import Contract
from sami_runtime.recording.format import RecordedStep, signal_values, signals_of, tick_values
from sami_runtime.recording.reader import Recording, values_of
from sami_runtime.signals import Signal, number_in

Row = dict[str, Any]
VERSION = "v3.0"
PLACE = "chunk-000/file-000.parquet"
PATTERN = "chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
STATE, ACTION, REWARD, DONE, SUCCESS = "observation.state", "action", "next.reward", "next.done", "next.success"
COUNTERS = ("frame_index", "episode_index", "index", "task_index")


def rows(recording: Recording) -> list[Row]:
    """Return a row for each tick of a recording: its values by the name of the column.

    `observation.SIGNAL.ELEMENT`, `proposed.ELEMENT`, `executed.ELEMENT`, `context.NUMBER`, `answer.SIGNAL.ELEMENT`,
    `telemetry.NAME`, `times.SECTION` [s], `info.NAME` of the adapter's numbers and words, and of the tick itself, see
    `TICK`. Values that a tick lacks are left out.
    """
    contract, table_rows = recording.contract, []
    for step in recording.steps:
        contract = step.record.swapped.contract if step.record.swapped else contract
        table_rows.append(_row(recording, contract, step))
    return table_rows


def columns(table_rows: Iterable[Row]) -> list[str]:
    """Return the names of all columns, in the order of their first appearance."""
    return list(dict.fromkeys(name for row in table_rows for name in row))


def write_csv(recording: Recording, path: Path, force: bool = False) -> int:
    """Write a recording as CSV, with all digits of its numbers, and return the number of rows.

    Raises:
        SamiError: The file exists and `force` is False, or it cannot be written; or the recording's values are invalid.
    """
    with values_of(recording.path), output(path, force, [recording.path]) as temporary:
        table_rows = rows(recording)
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns(table_rows), restval="")
            writer.writeheader()
            writer.writerows(table_rows)
    return len(table_rows)


def write_parquet(recording: Recording, path: Path, force: bool = False) -> int:
    """Write a recording as Parquet, and return the number of rows.

    Raises:
        RecordingError: The package pyarrow is missing, or the recording's values are invalid.
        SamiError: The file exists and `force` is False, or it cannot be written.
    """
    arrow, parquet = arrow_parts()
    with values_of(recording.path), output(path, force, [recording.path]) as temporary:
        table_rows = rows(recording)
        table = arrow.table({name: _column(table_rows, name) for name in columns(table_rows)})
        parquet.write_table(table, temporary, compression="zstd")
    return len(table_rows)


def arrow_parts() -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet; RecordingError if pyarrow is not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise RecordingError(f"Parquet needs the package {error.name}: {install_hint('convert')}") from None
    return pyarrow, parquet


def _column(table_rows: list[Row], name: str) -> list[Any]:
    values = [row.get(name) for row in table_rows]
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float}:
        return [None if value is None else float(value) for value in values] if float in kinds else values
    return values if len(kinds) == 1 else [None if value is None else str(value) for value in values]


def _row(recording: Recording, contract: Contract, step: RecordedStep) -> Row:
    row, signals = tick_values(*step), signals_of(contract)
    for name, value in signal_values(step.record).items():
        row |= _elements(name, signals.get(name), value)
    if step.record.telemetry is not None:
        row |= _flat("telemetry.nearest", step.record.telemetry.nearest or {})
    row |= _flat("info", step.record.info)
    outcome = recording.episodes.get(step.episode)
    if outcome is not None:
        row["ended"] = outcome.ended.value
        if outcome.success is not None:
            row["success"] = outcome.success
    return row


def _elements(prefix: str, signal: Signal | None, value: Any) -> Row:
    numbers = np.asarray(value).ravel().tolist()
    if signal is not None and signal.size == len(numbers):
        elements = signal.elements
    else:
        elements = tuple(map(str, range(len(numbers))))
    return {f"{prefix}.{element}": float(number) for element, number in zip(elements, numbers, strict=True)}


def _flat(prefix: str, value: Mapping[str, Any]) -> Row:
    """Return the numbers, texts and booleans of a nested table by dotted name; elements of a list by their index."""
    row: Row = {}
    for name, item in value.items():
        if isinstance(item, Mapping):
            row |= _flat(f"{prefix}.{name}", item)
        elif isinstance(item, list | tuple | np.ndarray):
            row |= _flat(f"{prefix}.{name}", {str(at): part for at, part in enumerate(item)})
        elif item is not None:
            row[f"{prefix}.{name}"] = float(item) if item in ("nan", "inf", "-inf") else item
    return row


def write_lerobot(recording: Recording, folder: Path) -> int:
    """Write a recording as a LeRobot dataset, and return the number of episodes.

    Raises:
        RecordingError: pyarrow is missing, the recording has no step, a model took over that reads other signals,
            values do not fit the contract, or the rate [Hz] is not a whole number, which the format requires.
        SamiError: The folder exists or cannot be written.
    """
    with values_of(recording.path):
        return _write(recording, folder)


def _write(recording: Recording, folder: Path) -> int:
    arrow, parquet = arrow_parts()
    contract, rate_hz = recording.contract, recording.rate_hz
    if rate_hz != round(rate_hz):
        raise RecordingError(
            f"{recording.path} was recorded at {rate_hz:g} Hz; a LeRobot dataset has a whole number of frames "
            "a second. Convert it to NAME.csv or NAME.parquet."
        )
    stretches = list(_stretches(recording))
    if not stretches:
        raise RecordingError(f"{recording.path} holds no step at which an action was executed, so nothing was written.")
    require_output(folder)
    features, tasks = _features(recording, stretches), dict[str, int]()
    tables: list[dict[str, NDArray[Any]]] = []
    start = 0
    for number, (episode, stretch, is_whole) in enumerate(stretches):
        task = tasks.setdefault(_task(recording, stretch[0]), len(tasks))
        tables.append(_steps(recording, features, number, episode, stretch, is_whole, start, task))
        start += len(stretch)
    with output(folder) as temporary:
        for name in ("data/chunk-000", "meta/episodes/chunk-000"):
            (temporary / name).mkdir(parents=True)
        whole = {name: np.concatenate([table[name] for table in tables]) for name in features}
        data = {name: _arrow(arrow, features[name], value) for name, value in whole.items()}
        parquet.write_table(arrow.table(data), temporary / "data" / PLACE)
        episodes = _episodes(arrow, tables, list(tasks))
        parquet.write_table(episodes, temporary / "meta/episodes" / PLACE)
        parquet.write_table(_task_table(arrow, list(tasks)), temporary / "meta/tasks.parquet")
        stats = {name: {key: number.tolist() for key, number in _stats(value).items()} for name, value in whole.items()}
        (temporary / "meta/stats.json").write_text(json.dumps(stats, indent=4))
        info = {
            "codebase_version": VERSION,
            "robot_type": recording.about.get("env") or contract.name,
            "total_episodes": len(tables),
            "total_frames": len(whole["index"]),
            "total_tasks": len(tasks),
            **{"chunks_size": 1000, "data_files_size_in_mb": 100, "video_files_size_in_mb": 200},
            "fps": round(rate_hz),
            "splits": {"train": f"0:{len(tables)}"},
            **{"data_path": f"data/{PATTERN}", "video_path": None},
            "features": features,
        }
        (temporary / "meta/info.json").write_text(json.dumps(info, indent=4))
    return len(tables)


def _stretches(recording: Recording) -> Iterator[tuple[int, list[StepRecord], bool]]:
    """Yield the uninterrupted stretches of steps, see `Recording.stretches`; raise if other signals are read."""
    names = {signal.name for signal in recording.contract.observation}
    swaps = (step.record.swapped for step in recording.steps)
    if any(swap and swap.contract.observation != recording.contract.observation for swap in swaps):
        raise RecordingError(f"in {recording.path} a model took over that reads other signals; use NAME.parquet.")
    return recording.stretches(lambda observation, _: names <= observation.values.keys())


def _features(recording: Recording, stretches: list[tuple[int, list[StepRecord], bool]]) -> dict[str, Any]:
    contract = recording.contract
    names = [f"{signal.name}.{element}" for signal in contract.observation for element in signal.elements]
    features: dict[str, Any] = {
        STATE: {"dtype": "float32", "shape": [len(names)], "names": names},
        ACTION: {"dtype": "float32", "shape": [contract.action.size], "names": list(contract.action.elements)},
    }
    records = [record for _, stretch, _ in stretches for record in stretch]
    scalar = {"shape": [1], "names": None}
    if all(number_in(record.info, "reward") is not None for record in records):
        features[REWARD] = {"dtype": "float32", **scalar}
    features[DONE] = {"dtype": "bool", **scalar}
    if all(recording.episodes.get(number, (None, None))[1] is not None for number, _, _ in stretches):
        features[SUCCESS] = {"dtype": "bool", **scalar}
    features["timestamp"] = {"dtype": "float32", **scalar}
    return features | {name: {"dtype": "int64", **scalar} for name in COUNTERS}


def _steps(
    recording: Recording,
    features: dict[str, Any],
    number: int,
    episode: int,
    stretch: list[StepRecord],
    is_whole: bool,
    start: int,
    task: int,
) -> dict[str, NDArray[Any]]:
    """Return the columns of a stretch of T steps by the feature's name, (T,) or (T, size)."""
    contract, count = recording.contract, len(stretch)
    order = [signal.name for signal in contract.observation]
    observations = [record.observation.values for record in stretch if record.observation is not None]
    last = np.arange(count) == count - 1
    columns = {
        STATE: [np.concatenate([np.ravel(values[name]) for name in order]) for values in observations],
        ACTION: [record.executed for record in stretch],
        DONE: last & is_whole,
        "timestamp": np.arange(count) / recording.rate_hz,
        "frame_index": np.arange(count),
        "episode_index": np.full(count, number),
        "index": start + np.arange(count),
        "task_index": np.full(count, task),
    }
    if REWARD in features:
        columns[REWARD] = [number_in(record.info, "reward") for record in stretch]
    if SUCCESS in features:
        columns[SUCCESS] = last & is_whole & bool(recording.episodes[episode].success)
    return {
        name: np.asarray(columns[name], feature["dtype"]).reshape(count, *([] if feature["shape"] == [1] else [-1]))
        for name, feature in features.items()
    }


def _stats(value: NDArray[Any]) -> dict[str, NDArray[Any]]:
    numbers = value.astype(np.float64).reshape(len(value), -1)
    return {
        "min": numbers.min(axis=0),
        "max": numbers.max(axis=0),
        "mean": numbers.mean(axis=0),
        "std": numbers.std(axis=0),
        "count": np.array([len(numbers)]),
    }


def _episodes(arrow: Any, tables: list[dict[str, NDArray[Any]]], tasks: list[str]) -> Any:
    rows: list[dict[str, Any]] = []
    for number, table in enumerate(tables):
        start, end = int(table["index"][0]), int(table["index"][-1]) + 1
        row = {"episode_index": number, "tasks": [tasks[int(table["task_index"][0])]], "length": end - start}
        row |= {"data/chunk_index": 0, "data/file_index": 0, "dataset_from_index": start, "dataset_to_index": end}
        row |= {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0}
        for name, value in table.items():
            row |= {f"stats/{name}/{key}": number.tolist() for key, number in _stats(value).items()}
        rows.append(row)
    return arrow.Table.from_pylist(rows)


def _task_table(arrow: Any, tasks: list[str]) -> Any:
    """Return the table that pandas writes for a data frame whose index is the tasks' texts."""
    table = arrow.table({"task_index": list(range(len(tasks))), "__index_level_0__": tasks})
    column = {"field_name": None, "metadata": None}
    pandas_schema = {
        "index_columns": ["__index_level_0__"],
        "column_indexes": [],
        "columns": [
            {**column, "name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64"},
            {
                **column,
                "name": None,
                "field_name": "__index_level_0__",
                "pandas_type": "unicode",
                "numpy_type": "object",
            },
        ],
        "creator": {"library": "pyarrow", "version": arrow.__version__},
        "pandas_version": "2.0.0",
    }
    return table.replace_schema_metadata({"pandas": json.dumps(pandas_schema)})


def _arrow(arrow: Any, feature: dict[str, Any], value: NDArray[Any]) -> Any:
    if value.ndim == 1:
        return arrow.array(value)
    return arrow.FixedSizeListArray.from_arrays(arrow.array(value.ravel()), feature["shape"][0])


def _task(recording: Recording, record: StepRecord) -> str:
    """Return a task in words: the environment, and the features of the task."""
    env, task = recording.about.get("env") or recording.contract.name, record.info.get("task") or {}
    task_text = ", ".join(f"{name} {value}" for name, value in task.items()) if isinstance(task, dict) else str(task)
    return f"{env}: {task_text}" if task_text else str(env)
