"""Results that a long measurement has so far, in a file: one that was cut off goes on from them."""

from __future__ import annotations

import copy
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
    """What is measured as a whole, and kept so."""

    gap: GapProfile | None
    task_set: str
    task: Task | None = None
    """None for all tasks of the set, where episodes are counted by set."""
    seed: int = seeds.EVALUATION
    """Of the starts."""

    @property
    def key(self) -> str:
        """What it is in a file."""
        gap, task = self.gap and self.gap.dumps(), self.task and dict(self.task)
        return json.dumps([gap, self.task_set, task, self.seed])


class KeptResults:
    """A file with a line for each piece of work that is done; it goes once `keeping` has ended well.

    Its name tells what is measured, so that a measurement never goes on from what another one left: the policy's
    weights, the environment and its engine, how many episodes, and this version of sami. Code of an own environment is
    not among them.

    Args:
        beside: of the result that the measurement is for; the file's name begins with its stem. None keeps nothing.
        source: the policy.
        spec: the environment.
        episodes: as `evaluate` takes it.
    """

    def __init__(self, beside: Path | None, source: Source, spec: EnvironmentSpec, episodes: int) -> None:
        self.spec = spec
        self.path: Path | None = None
        self._ending = ""
        self._rows: dict[str, list[TaskResult]] = {}
        self._as_read: list[dict[str, Any]] | None = []
        """What the file held, until it is written to: who only reads it changes nothing."""
        if beside is None:
            return
        identity = json.dumps([installed_version("sami"), _digest(source), spec.name, spec.engine, episodes])
        self._ending = f".{hashlib.sha256(identity.encode()).hexdigest()[:12]}{ENDING}"
        self._read(beside)

    def at(self, beside: Path) -> KeptResults:
        """Return what is kept of the same measurement beside another result; the policy is not read again."""
        other = copy.copy(self)
        other._read(beside)
        return other

    def _read(self, beside: Path) -> None:
        self.path = beside.with_name(beside.stem + self._ending)
        self._as_read = whole = read_json_lines(self.path)
        try:
            self._rows = {
                row["of"]: [TaskResult.from_row(result, self.spec) for result in row["results"]] for row in whole
            }
        except (KeyError, TypeError, ValueError) as error:
            raise SamiError(f"{self.path} is damaged: {error!r}. Remove it, and all is measured anew.") from error

    def results_of(self, piece: Piece) -> list[TaskResult] | None:
        """Return what was measured of a piece; None where nothing was yet."""
        return self._rows.get(piece.key)

    def take(self, other: KeptResults) -> list[TaskResult]:
        """Keep what another file has of the same measurement, and return what is new of it."""
        new = {key: results for key, results in other._rows.items() if key not in self._rows}
        for key, results in new.items():
            self._keep(key, results)
        return [result for results in new.values() for result in results]

    def add(self, piece: Piece, results: Sequence[TaskResult]) -> None:
        """Keep what was measured of a piece; raises a `SamiError` where the disk is full or must not be written to."""
        self._keep(piece.key, results)

    def _keep(self, key: str, results: Sequence[TaskResult]) -> None:
        self._rows[key] = list(results)
        if self.path is not None:
            if self._as_read is not None:  # a last line that was cut off would swallow the next one
                write_json_lines(self.path, self._as_read)
                self._as_read = None
            row = {"of": key, "results": [result.row(self.spec.measure) for result in results]}
            with writing(self.path), self.path.open("ab", buffering=0) as file:
                append(file, (json.dumps(row) + "\n").encode())


@contextmanager
def keeping(beside: Path | None) -> Iterator[None]:
    """Keep other processes from measuring for the same result within; what was kept goes once that ended well.

    Args:
        beside: the result, which is written within; None keeps nothing, and nobody out.

    Raises:
        SamiError: another process measures for it.
    """
    if beside is None:
        yield
        return

    def busy(by: str) -> SamiError:
        return SamiError(f"{beside} is being measured by {by}; wait for it to end, or stop it.")

    with locked(beside.with_suffix(".lock"), busy, leave=False):
        yield
        discard_all(beside)


def discard_all(beside: Path) -> None:
    """Remove what any measurement has left for a result."""
    for path in beside.parent.glob(f"{beside.stem}.*{ENDING}"):
        path.unlink(missing_ok=True)


def _digest(source: Source) -> str:
    digest = hashlib.sha256()
    if isinstance(source, Path):
        digest.update(source.read_bytes())
    else:
        for name, array in sorted(source.arrays.items()):
            digest.update(name.encode() + str(array.shape).encode() + array.tobytes())
    return digest.hexdigest()
