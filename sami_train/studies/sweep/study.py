"""A study file: the results of many runs, a line of JSON each. It is small enough for git, unlike run folders.

runs.jsonl    {"version": 1, "run": NAME, "config": {...}, "facts": {...}, "evaluation": {...}, "metrics": [{...}, ...]}

config, facts and evaluation are the contents of the run folder's config.json, run.json and evaluation.json (evaluation
is null if the run has none), metrics are the lines of metrics.jsonl. NAME is unique in the file. The agent, checkpoints
and TensorBoard's files, which make a run folder large, are not included. `commands_before` adds a fact.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from sami_runtime.errors import enumeration, in_shell
from sami_train.envs.catalog import by_name
from sami_train.files import make_folder, read_json, write_json_lines
from sami_train.runs.folder import RunError, RunFolder, check_version, is_line
from sami_train.runs.record import RunRecord

STUDY = "runs.jsonl"
"""Name of a study's file."""
LINE_VERSION = 1
FIELDS = {"config": (dict,), "facts": (dict,), "evaluation": (dict, type(None)), "metrics": (list,)}
"""The fields of a `RunRecord` in a line, and the types of their values."""
PARTS: dict[str, tuple[type, ...]] = {"version": (int,), "run": (str,), **FIELDS}
"""All keys of a line, and the types of their values."""


def write_study(path: Path, records: Iterable[RunRecord]) -> None:
    """Write a study file, FOLDER/runs.jsonl, atomically, with the runs in this order; create a missing folder.

    Raises:
        RunError: the file is not named runs.jsonl, or two runs have the same name.
    """
    if path.name != STUDY:
        raise RunError(f"{path} is not named {STUDY}; a study is FOLDER/{STUDY}.")
    runs: dict[str, RunRecord] = {}
    for record in records:
        if record.name in runs:
            raise RunError(
                f"{runs[record.name].address} and {record.address} have the same name, which must be unique in "
                f"{path}; rename one, or leave it out."
            )
        runs[record.name] = record
    make_folder(path.parent)
    lines = (
        {"version": LINE_VERSION, "run": name, **{part: getattr(record, part) for part in FIELDS}}
        | ({"facts": record.facts | {"before": commands}} if (commands := record.commands_before()) else {})
        for name, record in runs.items()
    )
    write_json_lines(path, lines)


def read_study(path: Path) -> list[RunRecord]:
    """Read all runs of a study file.

    Raises:
        RunError: the file cannot be read, or a line is damaged, of another version, or repeats a run's name.
    """
    again = f"take the file from git again, or make it again: sami gather RUN... --out {in_shell(path)} --force"
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read as a study: {error}; {again}") from error
    records: dict[str, RunRecord] = {}
    for number, line in enumerate(lines, 1):
        try:
            value = _checked(line)
        except (ValueError, RecursionError) as error:
            raise RunError(f"{path}, line {number} is damaged: {error}; {again}") from error
        name, version = value["run"], value["version"]
        if version != LINE_VERSION:
            raise RunError(f"{path}, line {number} is of version {version}; this sami reads version {LINE_VERSION}.")
        if name in records:
            raise RunError(f"{path}, line {number} has run {name!r} a second time; remove one of the two lines.")
        record = RunRecord(path.parent / name, path, **{part: value[part] for part in FIELDS})
        check_version(record.address, record.facts)
        records[name] = record
    return list(records.values())


def find_runs(paths: Sequence[Path | str]) -> list[RunRecord]:
    """Read runs from run folders and study files.

    Args:
        paths: run folders, study files (`runs.jsonl`), or folders that contain any of them (such as a sweep). A colon
            and a pattern after a path select runs by name, e.g. `results/panda-100k-k:panda-*-k64`. A run that occurs
            twice counts once; if both its folder and its line in a study file exist, the folder is read.

    Returns:
        The runs, sorted by the paths of their folders.

    Raises:
        RunError: a path has no matching run, or a run is damaged.
    """
    latest: dict[Path, RunRecord] = {}
    for path in paths:
        for record in _runs_of(Path(path)):
            key = record.folder.resolve()
            if key not in latest or record.study is None:
                latest[key] = record
    return [latest[key] for key in sorted(latest)]


def _runs_of(path: Path) -> list[RunRecord]:
    before, _, selection = str(path).rpartition(":")
    pattern = "*"
    if before and selection and not path.exists():  # an existing path may contain a colon
        path, pattern = Path(before), selection
    if not path.exists():
        if path.name == STUDY:
            raise RunError(f"there is no {path}; `sami gather RUN... --out {in_shell(path)}` makes it of run folders.")
        RunFolder.open(path)  # raises RunError
    if path.is_file() and path.name != STUDY:
        advice = "give either, or a folder that holds some. `sami report` compares model files."
        raise RunError(f"{path} is no run folder and no {STUDY}; {advice}")
    if path.is_file():
        folders, studies = [], [path]
    elif (path / "run.json").is_file() or (path / "config.json").is_file():
        folders, studies = [path], []
    else:
        folders, studies = sorted(file.parent for file in path.rglob("run.json")), sorted(path.rglob(STUDY))
    lines = [record for study in studies for record in read_study(study)]
    names = sorted({folder.resolve().name for folder in folders} | {record.name for record in lines})
    if not names:
        advice = "`sami train` and `sami sweep` make them."
        if (file := path / "sweep.json").is_file():
            axes = read_json(file).get("axes")
            envs = axes.get("env") if isinstance(axes, dict) else None
            source = by_name(*map(str, envs)) if isinstance(envs, list) else ""
            advice = f"its sweep continues with: sami sweep --out {in_shell(path)}{source}"
        raise RunError(f"{path} is no run folder and holds none; {advice}")
    if not any(fnmatchcase(name, pattern) for name in names):
        raise RunError(f"{path} holds no run whose name is {pattern}; it holds {enumeration(names)}.")
    records = [RunRecord.of_folder(folder) for folder in folders if fnmatchcase(folder.resolve().name, pattern)]
    return records + [record for record in lines if fnmatchcase(record.name, pattern)]


def _checked(line: str) -> dict[str, Any]:
    """Return the JSON value of a line; raise ValueError if it does not describe a run."""
    value = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError(f"it holds a {type(value).__name__} instead of a JSON object")
    wrong = [part for part, kinds in PARTS.items() if part not in value or not isinstance(value[part], kinds)]
    if wrong:
        raise ValueError(f"its {wrong[0]} is missing or no {' or '.join(kind.__name__ for kind in PARTS[wrong[0]])}")
    if not all(map(is_line, value["metrics"])):
        raise ValueError("a line of its metrics is not made of numbers, with its step")
    return value
