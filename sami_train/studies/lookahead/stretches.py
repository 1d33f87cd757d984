"""The training data of a forward model: episodes from simulation or from a robot's recordings, aligned in time.

Each signal of a late observation is placed at the time of its measurement: `age` periods before its tick, on the time
line of the commands. A period's command then acts in that period, whatever the delays. Numbers between two measurements
at most a period apart are interpolated; a longer gap ends a stretch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import SamiError, SignalError
from sami_runtime.model.artifact import Artifact, artifact_of
from sami_runtime.recording.reader import read_recordings, require_interface
from sami_runtime.recording.replay import follow
from sami_runtime.session.session import Session
from sami_runtime.signals import Signal
from sami_train import seeds
from sami_train.envs.spec import EnvironmentSpec
from sami_train.evaluation.play import OnRound, playing
from sami_train.export.training_ranges import exploring, known_tasks, tasks_in_turn

if TYPE_CHECKING:
    from sami_runtime.loop.tick import StepRecord

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Stretch:
    """T + 1 consecutive observations, a period apart, without missing values: T transitions."""

    observations: Array
    """(T + 1, D), the signals concatenated in the contract's order."""
    actions: Array
    """(T + 1, A): row t + 1 acted between observations t and t + 1, row 0 before observation 0."""
    contexts: Array
    """(T + 1, C), the context inferred at each observation."""

    def __len__(self) -> int:
        return len(self.observations) - 1


def roll_out(
    model: Path | Artifact, spec: EnvironmentSpec, episodes: int, on_round: OnRound | None = None
) -> list[Stretch]:
    """Simulate `episodes` episodes of a model file in its training environment, whose training tasks come in turn.

    Every second episode has half of the actions random. The model may be one in memory that is not written yet.
    """
    artifact = artifact_of(model)
    task_of_episode = tasks_in_turn(known_tasks(artifact.contract.training, spec), episodes)
    with playing(spec, lambda rows: exploring(artifact, spec, rows), episodes, on_round=on_round) as (play, policy):
        _, lengths, _ = play(task_of_episode, seeds.LOOKAHEAD)
    stretches: list[Stretch] = []
    for (observed, acted, inferred), length in zip(policy.episodes()[:episodes], lengths, strict=True):
        before = np.concatenate([np.zeros_like(acted[:1]), acted[: length - 1]])
        stretches.append(Stretch(observed[:length][:, spec.layout.order], before, inferred[:length]))
    return stretches


LONGEST_GAP = 1.0 + 1e-3
"""Longest time between two measurements of a signal for interpolation [periods]."""
LEAST = 2
"""Fewest consecutive observations of a stretch."""


def recorded_stretches(
    paths: Sequence[Path], artifact: Artifact, command_delay_s: float | None = None
) -> list[Stretch]:
    """Return the stretches of recordings.

    Args:
        paths: paths of the recordings.
        artifact: the model for which the forward model is; another may have made the recordings, and this one follows.
        command_delay_s: delay from the write of an action to its effect [s]; None uses each recording's value.

    Raises:
        RecordingError: a recording cannot be read.
        SamiError: a recording has other signals, another rate, or no stretch.
    """
    collected: list[Stretch] = []
    session, contract = Session(artifact), artifact.contract
    for recording in read_recordings(paths):
        require_interface(
            recording, (*contract.observation, contract.action), contract.rate_hz, f"model {contract.name!r}"
        )
        followed = float(recording.about.get("command_delay_s", 0.0))
        later = 0.0 if command_delay_s is None else (command_delay_s - followed) * recording.rate_hz
        timelines = (_Timeline(records, session, later) for records in recording.by_episode.values())
        stretches = [stretch for timeline in timelines for stretch in timeline.stretches()]
        if not stretches:
            raise SamiError(f"{recording.path} has no {LEAST} observations in a row to learn from; leave it out.")
        collected += stretches
    return collected


class _Timeline:
    """One recorded episode on the time line of the policy's periods."""

    def __init__(self, records: Sequence[StepRecord], session: Session, later: float) -> None:
        self.contract = contract = session.contract
        self.readings: dict[str, tuple[list[float], list[NDArray[np.float64]]]] = {
            s.name: ([], []) for s in contract.observation
        }
        executed: dict[int, Array] = {}
        contexts: dict[int, Array] = {}
        period = -1
        for record in records:
            period += record.passed
            if record.executed is not None:
                executed[period] = record.executed
            with suppress(SignalError):  # of an observation that is older than the model can take
                if (answer := follow(session, record)) is not None:
                    contexts[period] = answer.context
            if record.observation is not None:
                self._add_readings(record.observation.values, record.age, period - later)
        self.periods = period + 1
        zeros = np.zeros(contract.action.size, np.float32)
        self.executed = np.stack([zeros, *_filled(executed, self.periods, zeros)])  # row t acted before period t
        self.contexts = np.stack(_filled(contexts, self.periods, np.zeros(contract.context_size, np.float32)))

    def _add_readings(self, values: Mapping[str, Array], age: float | Mapping[str, float], period: float) -> None:
        """Add each signal of an observation at the time of its measurement, if it is newer than the last one."""
        for name, (times, rows) in self.readings.items():
            time = period - (age if isinstance(age, float) else age[name])
            value = np.asarray(values[name], np.float64)
            if (not times or time > times[-1] + 0.5) and np.isfinite(value).all():
                times.append(time)
                rows.append(value)

    def stretches(self) -> list[Stretch]:
        """Return each run of periods in which all signals are known."""
        whole = np.ones(self.periods, bool)
        columns = []
        for signal in self.contract.observation:
            valid, values = self._at_periods(signal)
            whole &= valid
            columns.append(values)
        rows = np.concatenate(columns, axis=1).astype(np.float32)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], whole.astype(int), [0]])))
        return [
            Stretch(rows[start:end], self.executed[start:end], self.contexts[start:end])
            for start, end in zip(edges[::2], edges[1::2], strict=True)
            if end - start >= LEAST
        ]

    def _at_periods(self, signal: Signal) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return at which of T periods a signal is known, (T,) bool, and its values there, (T, size)."""
        times, rows = self.readings[signal.name]
        at = np.arange(self.periods, dtype=np.float64)
        if not times:
            return np.zeros(len(at), bool), np.zeros((len(at), signal.size))
        stamps, values = np.array(times), np.stack(rows)
        values = np.unwrap(values, axis=0) if signal.unit == "rad" else values
        # Undo rounding errors: a stamp very close to a whole period is that period.
        stamps = np.where(np.abs(stamps - np.round(stamps)) < 1e-3, np.round(stamps), stamps)
        right = np.clip(np.searchsorted(stamps, at), 0, len(stamps) - 1)
        left = np.clip(np.searchsorted(stamps, at, "right") - 1, 0, len(stamps) - 1)
        valid = (stamps[left] <= at) & (at <= stamps[right]) & (stamps[right] - stamps[left] <= LONGEST_GAP)
        return valid, np.stack([np.interp(at, stamps, column) for column in values.T], axis=1)


def _filled(values: Mapping[int, Array], count: int, first: Array) -> list[Array]:
    """Return a row for each of `count` periods; a missing row repeats the row before, the first one `first`."""
    rows = []
    for period in range(count):
        first = values.get(period, first)
        rows.append(first)
    return rows
