"""The evidence log: who drove a robot with which model, and every intervention, as a tamper-evident chain of lines.

Each line is a JSON object. `hash` is the SHA-256 of the line without its `hash`, and `previous` is the hash of the
line before, so a changed, removed or inserted line breaks the chain. Only the signature, which is made at the end of a
run, shows that no lines are missing at the end.
"""

from __future__ import annotations

import errno
import getpass
import hashlib
import json
import os
import platform
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

from sami_runtime.distribution import installed_version
from sami_runtime.errors import RecordingError, SafetyStop, SamiError
from sami_runtime.files import plain_strings, printable
from sami_runtime.loop.episode import EpisodeReport
from sami_runtime.loop.tick import Outcome, StepRecord
from sami_runtime.model.signature import require_signed, trusted_keys
from sami_runtime.model.signing import private_key, sign
from sami_runtime.robots.handover import StageChange

VERSION = 1
FIRST = "0" * 64
"""`previous` of the first line."""
SUMMARY_S = 1.0
"""Time between two lines that count ticks [s], by the loop's clock."""
ON_DISK = ("begin", "ended", "end")
"""Kinds of lines after which the file is synced to the disk."""
NORMAL = {Outcome.ACTED, Outcome.STANDING}


class EvidenceLog:
    """Writes the log of one run; it is a loop's `on_step`.

    An intervention gets a line at the tick where it begins, and again if it returns after a second without it. Each
    second, a line counts the ticks and interventions since the last count. Each line is passed to the operating system
    at once, so that a killed process loses none. The file is synced to the disk when the run begins, after each episode
    and at the end.

    Args:
        path: The file, NAME.jsonl; it must not exist.
        facts: Facts for the first line: model and its hash, limits, the robot's file.
        key: Private key that signs the whole file when it is closed; unsigned if None.

    Raises:
        RecordingError, SamiError: The file exists or cannot be written; or the key cannot be read.
    """

    def __init__(self, path: str | Path, facts: Mapping[str, Any], key: str | Path | None = None) -> None:
        self.path, self._key = Path(path), private_key(Path(key)) if key else None  # fail before the robot moves
        try:
            user = f"{getpass.getuser()}@{platform.node()}"
        except (KeyError, OSError):  # in a container, a user may be a number without a name
            user = f"{os.getuid()}@{platform.node()}"
        try:
            self._file = open(self.path, "xb", buffering=0)  # noqa: SIM115 - closed by close()
        except FileExistsError:
            raise RecordingError(f"{path} exists; an evidence log never replaces one. Choose another name.") from None
        except OSError as error:
            raise RecordingError(f"cannot write to {path}: {error.strerror}. Make its folder or change it.") from None
        self._previous, self._number, self._episode, self._is_running = FIRST, 0, -1, False
        self._step, self._is_armed = 0, False
        self._counted_at = self._time = 0.0
        self._counts: Counter[str] = Counter()
        self._last_seen: dict[str, float] = {}
        """When each kind of intervention was seen last [s]."""
        self._driver = "policy"
        self.explanations: Mapping[str, str] = {}
        """By limit, as named in `limited_by`, why it last began to change actions; the same mapping as `BodyGate`'s."""
        software = installed_version("sami-rl") or "unknown"
        self._write("begin", {"version": VERSION, "user": user, "software": software, **facts})

    def __call__(self, record: StepRecord) -> None:
        """Log the hand-overs, swapped models, interventions and trips of one tick.

        Raises:
            RecordingError: The file cannot be written.
        """
        self._time, self._step = record.time, record.step
        if record.step == 0:
            self._counted_at, self._last_seen = record.time, {}
            self._begin()
        driver = "person" if record.outcome is Outcome.PILOTED else "policy"
        if driver != self._driver and record.outcome is not Outcome.PAUSED:
            self._driver = driver
            self._write("hand-over", {"step": record.step, "to": driver})
        if record.swapped:
            weights = record.swapped.weights_sha256
            self._write("model", {"step": record.step, "model": record.swapped.path, "weights_sha256": weights})
        self._counts["ticks"] += 1
        for kind in interventions(record):
            self._counts[kind] += 1
            if record.time - self._last_seen.get(kind, -SUMMARY_S) >= SUMMARY_S:
                reason = self.explanations.get(kind, record.reason)
                detail = {"reason": reason} if reason else {}
                self._write("intervention", {"step": record.step, "what": kind, **detail})
            self._last_seen[kind] = record.time
        if record.executed is None and record.limited_by:
            self._trip(record.reason)
        if record.time - self._counted_at >= SUMMARY_S:
            self._summarize()

    def hand_over(self, change: StageChange) -> None:
        """Log a change from one stage of a hand-over to the next, with the reason if there is one.

        Raises:
            RecordingError: The file cannot be written.
        """
        self._time = max(self._time, change.time)
        reason = {"reason": change.reason} if change.reason else {}
        self._write("hand-over", {"from": change.before, "to": change.after, **reason})

    def conclude(self, report: EpisodeReport) -> None:
        """Log the result of an episode; RecordingError if the file cannot be written."""
        self._summarize()
        if not self._is_running:  # it ended before its first tick
            self._begin()
        self._is_running = self._is_armed = False
        outcome = {"ended": report.ended.value, "success": report.success, "steps": report.steps}
        self._write("ended", {"episode": self._episode, **outcome})

    def close(self, error: BaseException | None = None) -> None:
        """Write the last line, and sign the file. Does nothing the second time.

        Args:
            error: The exception that ended the run; None if it ended normally.

        Raises:
            RecordingError, SamiError: The file, or its signature, cannot be written.
        """
        if self._file.closed:
            return
        try:
            self._summarize()
            if isinstance(error, SafetyStop) and self._is_armed:  # it came after the record of the last tick
                self._trip(str(error))
            self._write("end", {} if error is None else {"error": f"{type(error).__name__}: {error}"})
        finally:
            self._file.close()
        if self._key is not None:
            if not (data := self.path.read_bytes()).endswith(f'{self._previous}"}}\n'.encode()):
                raise RecordingError(f"{self.path} is not the log that this run wrote; it is not signed. Who moved it?")
            sign(self.path, data, self._key)

    def _begin(self) -> None:
        self._episode, self._is_running, self._is_armed = self._episode + 1, True, True
        self._write("episode", {"episode": self._episode})

    def _trip(self, reason: str) -> None:
        self._write("trip", {"step": self._step, "reason": reason})
        self._is_armed = False

    def _summarize(self) -> None:
        if self._counts:
            self._write("counts", dict(self._counts))
        self._counts, self._counted_at = Counter(), self._time

    def _write(self, kind: str, facts: Mapping[str, Any]) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        fields = {"number": self._number, "previous": self._previous, "utc": now, "clock": round(self._time, 6)}
        text = json.dumps({**fields, "kind": kind, **facts}, separators=(",", ":"), default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()
        line = f'{text[:-1]},"hash":"{digest}"}}\n'.encode()
        try:
            if self._file.write(line) < len(line):  # the disk is full
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if kind in ON_DISK:
                os.fsync(self._file.fileno())
        except (OSError, ValueError) as error:
            raise RecordingError(f"writing {self.path} failed: {error}. Its whole lines can be read.") from error
        self._previous, self._number = digest, self._number + 1

    def __enter__(self) -> EvidenceLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with suppress(RecordingError) if error else nullcontext():  # the error that ended the run matters more
            self.close(error)


def interventions(record: StepRecord) -> list[str]:
    """Return why a tick did not execute the policy's own action: its outcome, the kind of reason, then each limit."""
    kinds = [] if record.outcome in NORMAL else [record.outcome.value]
    if record.outcome is not Outcome.PAUSED and record.reason:
        kinds.append(record.reason.partition(":")[0])
    return [*kinds, *record.limited_by]


@dataclass(frozen=True)
class LogCheck:
    """The lines of a log, and whether their chain is intact."""

    lines: tuple[Mapping[str, Any], ...]
    """Every line up to the first fault."""
    fault: str
    """Which line breaks the chain, and how; empty if none does."""
    cut: bool
    """Whether the last line is unfinished, because the process was killed while it wrote."""
    signer: str | None = None
    """Who signed the whole file; None if the check got no public keys."""

    @property
    def complete(self) -> bool:
        """Whether the chain is intact and its last line marks the end of the run."""
        return not self.fault and bool(self.lines) and self.lines[-1]["kind"] == "end"

    @property
    def counts(self) -> Counter[str]:
        """Ticks, and ticks with each kind of intervention."""
        return sum((Counter(_facts(line)) for line in self.of_kind("counts")), Counter[str]())

    def summary(self) -> dict[str, Any]:
        """Return a summary of the run as plain values for JSON."""
        first, last = (self.lines[0], self.lines[-1]) if self.lines else ({}, {})
        return {
            "lines": len(self.lines),
            "fault": self.fault or None,
            "complete": self.complete,
            "cut": self.cut,
            "signer": self.signer,
            "user": first.get("user"),
            "model": first.get("model"),
            "from": first.get("utc"),
            "to": last.get("utc"),
            "episodes": [_facts(line) for line in self.of_kind("ended")],
            "hand_overs": [_facts(line) for line in self.of_kind("hand-over")],
            "trips": [_facts(line) for line in self.of_kind("trip")],
            "counts": dict(self.counts.most_common()),
            "error": last.get("error"),
        }

    def __str__(self) -> str:
        about = self.summary()
        model, endings = about["model"] or {}, Counter(line["ended"] for line in about["episodes"])
        state = f"BROKEN: {self.fault}" if self.fault else "the chain holds"
        if not self.fault and not self.complete:
            state += "; the run did not come to its end" + (", and the last line is cut" if self.cut else "")
        rows = [
            f"{about['lines']} lines, {state}",
            f"signed by {self.signer}"
            if self.signer
            else "no signature was asked for: lines may be missing at the end",
            f"from {about['from']} to {about['to']}, by {about['user']}",
            f"model {model.get('name')}, SHA-256 {str(model.get('sha256'))[:12]}",
            f"episodes ended: {', '.join(f'{way} {count}' for way, count in endings.items()) or 'none'}",
            *(_hand_over(line) for line in about["hand_overs"]),
            *(f"STOPPED at step {line['step']}: {line['reason']}" for line in about["trips"]),
            *([f"ended by {about['error']}"] if about["error"] else []),
            "",
            f"{'what':<40}{'ticks':>10}",
            *(f"{name:<40}{count:>10}" for name, count in about["counts"].items()),
        ]
        return "\n".join(rows)

    def of_kind(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the lines of one kind, such as `trip`."""
        return [line for line in self.lines if line["kind"] == kind]


def _hand_over(line: Mapping[str, Any]) -> str:
    if "step" in line:
        return f"hand-over to the {line['to']} at step {line['step']}"
    reason = f", because {line['reason']}" if "reason" in line else ""
    return f"stage {line.get('from') or 'none'} - {line['to']}{reason}"


def _facts(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in FIELDS}


FIELDS = ("number", "previous", "utc", "clock", "kind", "hash")
"""Fields of every line."""
SUMMARY_KEYS: Mapping[str, Mapping[str, type]] = {
    "ended": {"ended": str},
    "hand-over": {"to": str},
    "trip": {"step": int, "reason": str},
}
"""Facts by kind of line that the summary needs, and their types; a log of unknown origin may lack them."""


def check_log(path: str | Path, trusted: str | Path | None = None) -> LogCheck:
    """Read a log, and check its chain; with `trusted`, a file of public keys, also that one of them signed it.

    Raises:
        SamiError: The log or the keys cannot be read, or the log has no whole line.
        ArtifactError: None of the keys signed the log, or it was changed since.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SamiError(f"{path} cannot be read: {error.strerror}; expected an evidence log, NAME.jsonl.") from None
    signer = require_signed(path, data, trusted_keys(Path(trusted))) if trusted else None
    *whole, rest = data.split(b"\n")
    lines: list[Mapping[str, Any]] = []
    previous = FIRST
    for number, text in enumerate(whole):
        try:
            line = _read_line(text, number, previous)
        except ValueError as error:
            return LogCheck(tuple(lines), f"line {number + 1} {printable(str(error))}", False, signer)
        lines.append(line)
        previous = line["hash"]
    if not lines:
        raise SamiError(f"{path} has no whole line; expected an evidence log, as `evidence` in robot.toml makes it.")
    return LogCheck(tuple(lines), "", bool(rest), signer)


_SEAL = re.compile(rb',"hash":"([0-9a-f]{64})"}')


def _read_line(text: bytes, number: int, previous: str) -> Mapping[str, Any]:
    """Return a line; raise ValueError if its hash or a fact is wrong, or it does not follow the hash `previous`."""
    seal = _SEAL.search(text, max(0, len(text) - 80))
    if seal is None or seal.end() != len(text):
        raise ValueError("has no hash at its end")
    if hashlib.sha256(text[: seal.start()] + b"}").hexdigest() != seal[1].decode():
        raise ValueError("was changed: its hash is another one")
    try:
        line: dict[str, Any] = plain_strings(json.loads(text))
        counts = _facts(line).values() if line["kind"] == "counts" else ()
        checks = [isinstance(line.get(name), kind) for name, kind in SUMMARY_KEYS.get(line["kind"], {}).items()]
        is_in_place = (number == 0) == (line["kind"] == "begin")
        checks.append(number > 0 or isinstance(line.get("model", {}), dict))
        if not (is_in_place and all(checks) and all(isinstance(count, int) for count in counts)):
            raise TypeError(f"{line['kind']!r} lacks facts, or is not in its place")
        if line["previous"] != previous or line["number"] != number:
            raise ValueError(f"does not follow the line before: it is number {line['number']}, expected {number}")
    except (LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"is no line of an evidence log: {type(error).__name__}: {error}") from None
    return line
