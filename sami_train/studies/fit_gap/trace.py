"""Episodes as arrays, recorded or simulated: what was read at each tick, when it was measured, what was executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sami_runtime.adapters.gymnasium_adapter import GymnasiumAdapter
from sami_runtime.clock import ManualClock
from sami_runtime.errors import SamiError
from sami_runtime.model.contract import Contract
from sami_runtime.recording.reader import Recording, read_each, values_of
from sami_train.envs.adapter import make_adapter
from sami_train.envs.make import make
from sami_train.envs.spec import EnvironmentSpec

if TYPE_CHECKING:
    from sami_runtime.loop.tick import StepRecord

FIRST = 2
"""First message whose stamp tells it from those before: a simulator stamps its first two alike."""


@dataclass(frozen=True)
class Trace:
    """An episode of T ticks of the policy; n of them read something."""

    ticks: np.ndarray
    """At which tick each was read, (n,)."""
    sent: Mapping[str, np.ndarray]
    """By signal, at which tick what was read had been measured, (n,)."""
    values: Mapping[str, np.ndarray]
    """By signal, what was read, (n, size)."""
    executed: np.ndarray
    """What was executed at each tick, (T, A)."""
    times: np.ndarray
    """When each tick began that read something [s], (n,)."""
    zeroed: Mapping[str, float]
    """By element, what `Zeroed` had taken out of the values; empty where nothing did."""

    def fresh(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return at which ticks a signal's messages were measured, each once and in order (m,), and their values."""
        sent, first = np.unique(self.sent[name], return_index=True)
        return sent, self.values[name][first]


@dataclass(frozen=True)
class Log:
    """Recorded episodes of one robot."""

    contract: Contract
    traces: tuple[Trace, ...]
    known: Mapping[str, float]
    """By element, its value at rest after a reset, as the limits of the recordings said."""
    rest: np.ndarray
    """The action that moves nothing, (A,), as they said; else 0."""
    names: tuple[str, ...]
    """Of the recordings."""

    @property
    def period(self) -> float:
        """Of the policy [s]."""
        return 1.0 / self.contract.rate_hz


def read_log(paths: Sequence[str | Path]) -> Log:
    """Return what recordings hold.

    Raises:
        RecordingError: One cannot be read.
        SamiError: They are of different robots, hold no episode, or their stamps are of no clock of the loop.
    """
    recordings = list(read_each(paths))
    contract, known = recordings[0].contract, {}
    rest, traces = np.zeros(contract.action.size), list[Trace]()
    robots = [(c.observation, c.action, c.rate_hz) for c in (recording.contract for recording in recordings)]
    for recording, robot in zip(recordings, robots, strict=True):
        if robot != robots[0]:
            raise SamiError(
                f"{recording.path} is of another robot or rate than {recordings[0].path}. Fit each robot by itself."
            )
        with values_of(recording.path):
            for name, entry in recording.about["limits"].get("known", {}).items():
                known[name] = float(entry["value"])
            neutral = recording.about["limits"].get("rest")
            if neutral is not None and not isinstance(neutral, str):
                table = neutral if isinstance(neutral, Mapping) else dict.fromkeys(contract.action.elements, neutral)
                rest = np.array([float(table[element]) for element in contract.action.elements])
            traces += _traces(recording)
    if not traces:
        raise SamiError(f"{recordings[0].path} holds no episode with observations. Record one with sami run --record.")
    return Log(contract, tuple(traces), known, rest, tuple(recording.path.name for recording in recordings))


def _traces(recording: Recording) -> Iterator[Trace]:
    episodes: dict[int, list[StepRecord]] = {}
    for number, record in recording.steps:
        episodes.setdefault(number, []).append(record)
    for records in episodes.values():
        if (trace := _trace(recording, records, _fresh_age(recording, records))) is not None:
            yield trace


def _fresh_age(recording: Recording, records: Sequence[StepRecord]) -> float:
    """Return how old a reading without any latency is, in periods: a simulator stamps when it steps, one before."""
    ended = recording.about.get("simulator")
    if ended is None:  # a recording of before it was kept
        ended = any("terminated" in record.info for record in records)
    return 1.0 if ended else 0.0


def _trace(recording: Recording, records: Sequence[StepRecord], fresh_age: float) -> Trace | None:
    contract = recording.contract
    period = 1.0 / contract.rate_hz
    start_time = records[0].time
    reads = [record for record in records if record.observation is not None]
    if len(reads) < FIRST:
        return None
    ticks = np.array([round((record.time - start_time) / period) for record in reads])
    executed = np.zeros((round((records[-1].time - start_time) / period) + 1, contract.action.size))
    at, standing = -1, np.zeros(contract.action.size)
    for record in records:
        tick = int((record.time - start_time) / period + 1e-3)
        if tick > at:  # between two ticks of the policy its action stands
            standing = standing if record.executed is None else np.asarray(record.executed, np.float64)
            executed[at + 1 :] = standing
            at = tick
    sent: dict[str, np.ndarray] = {}
    values: dict[str, np.ndarray] = {}
    for signal in contract.observation:
        stamps = np.array([_seen(record).measured(signal.name) for record in reads])
        ages = (np.array([record.time for record in reads]) - stamps) / period - fresh_age
        late = np.floor(ages + 0.5 + 1e-3).astype(int)
        if (late[1:] < 0).any():
            raise SamiError(
                f"{recording.path}: {signal.name} is stamped {-ages[1:].min() * period:.3g} s in the future. Its clock "
                "is ahead of the loop's, so that no latency can be told. Stamp observations by the loop's clock."
            )
        sent[signal.name] = np.clip(ticks - late, 0, None)
        values[signal.name] = np.array([np.ravel(_seen(record).values[signal.name]) for record in reads], np.float64)
    zeroed: Mapping[str, float] = next((record.info["zeroed"] for record in records if "zeroed" in record.info), {})
    return Trace(ticks, sent, values, executed, np.array([record.time for record in reads]), zeroed)


def _seen(record: StepRecord) -> Any:
    return record.observation


MOST = 12
"""Episodes that are simulated; more do not tell more."""


def simulated(spec: EnvironmentSpec, traces: Sequence[Trace]) -> list[Trace]:
    """Return the episodes that a simulator makes of the same commands, from its own beginnings.

    Raises:
        AdapterError: The simulator is not installed.
    """
    adapter = make_adapter(spec, make(spec), ManualClock())
    try:
        return [_episode(adapter, spec, trace, seed) for seed, trace in enumerate(traces[:MOST])]
    finally:
        adapter.close()


def _episode(adapter: GymnasiumAdapter, spec: EnvironmentSpec, trace: Trace, seed: int) -> Trace:
    adapter.reset(seed)
    readings: dict[str, list[np.ndarray]] = {signal.name: [] for signal in spec.signals}
    for command in trace.executed:
        observation = adapter.read()
        for name, values in readings.items():
            values.append(np.asarray(observation.values[name], np.float64))
        if adapter.write(command.astype(np.float32)).done:
            break
    count = len(next(iter(readings.values())))
    ticks = np.arange(count)
    return Trace(
        ticks=ticks,
        sent=dict.fromkeys(readings, ticks),
        values={name: np.array(values) for name, values in readings.items()},
        executed=trace.executed[:count],
        times=ticks / spec.rate_hz,
        zeroed={},
    )
