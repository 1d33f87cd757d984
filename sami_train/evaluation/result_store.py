"""Intermediate results of a long measurement in a file, from which an interrupted measurement continues."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sami_runtime.distribution import installed_version
from sami_runtime.errors import SamiError
from sami_runtime.gap.profile import GapProfile
from sami_train import seeds
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.evaluation.model_policy import Source
from sami_train.evaluation.results import TaskResult
from sami_train.files import append, locked, read_json_lines, write_json_lines, writing

ENDING = ".unfinished.jsonl"


@dataclass(frozen=True)
class Piece:
    """The smallest part of a measurement that is measured and stored as a whole."""

    gap: GapProfile | None
    task_set: str
    task: Task | None = None
    """None for all tasks of the set, if episodes count by set."""
    seed: int = seeds.EVALUATION
    """Seed of the starts."""

    @property
    def key(self) -> str:
        """Its key in the file of intermediate results, as JSON."""
        gap, task = self.gap and self.gap.dumps(), self.task and dict(self.task)
        return json.dumps([gap, self.task_set, task, self.seed])


class KeptResults:
    """A file with a line for each finished piece; `keeping` removes it at the end of a successful measurement.

    Its name has a hash of the policy's weights, environment, TOML file, engine, number of episodes and version of sami,
    so that a measurement never continues from another one's results. A user's code is not part of the hash.

    Args:
        results_path: path of the measurement's result; the file's name starts with its stem. None stores nothing.
        source: the policy.
        spec: the environment.
        episodes: see `evaluate`.
    """

    def __init__(self, results_path: Path | None, source: Source, spec: EnvironmentSpec, episodes: int) -> None:
        self.spec = spec
        self.path: Path | None = None
        self._ending = ""
        self._rows: dict[str, list[TaskResult]] = {}
        self._gathered: dict[Path, tuple[int, int]] = {}
        """Size and time [ns] of each other file when it was read."""
        self._as_read: list[dict[str, Any]] | None = []
        """The lines of the file until the first write: reading alone leaves the file unchanged."""
        if results_path is None:
            return
        identity = json.dumps([installed_version("sami"), _digest(source), edited_name(spec), spec.engine, episodes])
        self._ending = f".{hashlib.sha256(identity.encode()).hexdigest()[:12]}{ENDING}"
        self.path = results_path.with_name(results_path.stem + self._ending)
        self._as_read = read_json_lines(self.path)
        self._rows = self._results(self.path, self._as_read)

    def _results(self, path: Path, lines: list[dict[str, Any]]) -> dict[str, list[TaskResult]]:
        try:
            return {row["of"]: [TaskResult.from_row(result, self.spec) for result in row["results"]] for row in lines}
        except (KeyError, TypeError, ValueError) as error:
            raise SamiError(f"{path} is damaged: {error!r}. Remove it, and run the command again.") from error

    def results_of(self, piece: Piece) -> list[TaskResult] | None:
        """Return the results of a piece; None if it is not measured yet."""
        return self._rows.get(piece.key)

    def gather(self, results_path: Path) -> list[TaskResult]:
        """Add the same measurement's results beside another result; return the new ones, none if it is unchanged."""
        path = results_path.with_name(results_path.stem + self._ending)
        state = (path.stat().st_size, path.stat().st_mtime_ns) if path.is_file() else (0, 0)
        if self._gathered.get(path) == state:
            return []
        self._gathered[path] = state
        rows = self._results(path, read_json_lines(path))
        new = {key: results for key, results in rows.items() if key not in self._rows}
        for key, results in new.items():
            self.add(key, results)
        return [result for results in new.values() for result in results]

    def add(self, key: str, results: Sequence[TaskResult]) -> None:
        """Store the results of the piece with this key; raise SamiError if the file cannot be written."""
        self._rows[key] = list(results)
        if self.path is not None:
            if self._as_read is not None:  # drop a last line that was cut off, to which the next would be appended
                write_json_lines(self.path, self._as_read)
                self._as_read = None
            row = {"of": key, "results": [result.row(self.spec.measure) for result in results]}
            with writing(self.path), self.path.open("ab", buffering=0) as file:
                append(file, (json.dumps(row) + "\n").encode())


@contextmanager
def keeping(results_path: Path | None) -> Iterator[None]:
    """Lock a result during a `with` block, and remove its intermediate results if the block succeeds.

    Args:
        results_path: path of the result, which is written in the block; None locks nothing.

    Raises:
        SamiError: another process is measuring the same result.
    """
    if results_path is None:
        yield
        return

    def busy(by: str) -> SamiError:
        return SamiError(f"{results_path} is being measured by {by}; wait for it to end, or stop it.")

    with locked(results_path.with_suffix(".lock"), busy, leave=False):
        yield
        discard_all(results_path)


def discard_all(results_path: Path) -> None:
    """Remove all intermediate results beside a result."""
    for path in results_path.parent.glob(f"{results_path.stem}.*{ENDING}"):
        path.unlink(missing_ok=True)


def edited_name(spec: EnvironmentSpec) -> str:
    """Return an environment's name, with a hash of its TOML file if it has one: a user edits that between commands."""
    path = Path(str(spec.arguments.get("path", "")))  # of a user's own environment, perhaps no file
    return f"{spec.name} {_digest(path)}" if path.is_file() else spec.name


def _digest(source: Source) -> str:
    if isinstance(source, Path):
        return hashlib.sha256(source.read_bytes()).hexdigest()
    parts = [name.encode() + str(array.shape).encode() + array.tobytes() for name, array in source.arrays.items()]
    return hashlib.sha256(b"".join(sorted(parts))).hexdigest()
