"""Episodes as arrays, recorded or simulated: the readings at each tick, their time stamps, and applied actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sami_runtime.adapters.gymnasium_adapter import GymnasiumAdapter
from sami_runtime.clock import ManualClock
from sami_runtime.errors import SamiError
from sami_runtime.model.contract import Contract
from sami_runtime.recording.reader import Recording, are_finite, read_recordings, values_of
from sami_train.envs.adapter import make_adapter
from sami_train.envs.make import make
from sami_train.envs.spec import EnvironmentSpec

if TYPE_CHECKING:
    from sami_runtime.loop.tick import StepRecord

FIRST = 2
"""Index of the first message with a stamp of its own: a simulator gives its first two the same stamp."""


@dataclass(frozen=True)
class Trace:
    """An episode of T ticks (periods of the policy), with n observations."""

    ticks: np.ndarray
    """Tick at which each observation was read, (n,)."""
    measured_at: Mapping[str, np.ndarray]
    """By signal, the tick at which its value in each observation was measured, (n,)."""
    values: Mapping[str, np.ndarray]
    """By signal, its values in each observation, (n, size)."""
    executed: np.ndarray
    """Applied action at each tick, (T, A)."""
    times: np.ndarray
    """Time at which the tick of each observation began [s], (n,)."""
    removed_biases: Mapping[str, float]
    """By element, the bias that `BiasCalibration` had subtracted from the values; empty without such a calibration."""

    def fresh(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the ticks at which a signal's m messages were measured, ascending (m,), and their values (m, size)."""
        ticks, first = np.unique(self.measured_at[name], return_index=True)
        return ticks, self.values[name][first]


@dataclass(frozen=True)
class Log:
    """Recorded episodes of one robot."""

    contract: Contract
    traces: tuple[Trace, ...]
    known_values: Mapping[str, float]
    """By element, its true value at rest after a reset, from the limits in the recordings."""
    rest: np.ndarray
    """The neutral action, (A,), from the limits in the recordings; zeros if they have none."""
    names: tuple[str, ...]
    """File names of the recordings."""
    tasks: Mapping[str, set[float]]
    """By feature of the recorded tasks, its values; empty if the recordings state no tasks, as those of a robot."""

    @property
    def period(self) -> float:
        """Period of the policy [s]."""
        return 1.0 / self.contract.rate_hz


def read_log(paths: Sequence[str | Path]) -> Log:
    """Read the episodes of recordings of one robot.

    Raises:
        RecordingError: A recording cannot be read.
        SamiError: The recordings are of different robots, have no episode, or have stamps in the future.
    """
    recordings = list(read_recordings(paths))
    contract, known_values = recordings[0].contract, {}
    rest, traces, tasks = np.zeros(contract.action.size), list[Trace](), dict[str, set[float]]()
    robots = [(c.observation, c.action, c.rate_hz) for c in (recording.contract for recording in recordings)]
    for recording, robot in zip(recordings, robots, strict=True):
        if robot != robots[0]:
            raise SamiError(
                f"{recording.path} is of another robot or rate than {recordings[0].path}. Fit each robot by itself."
            )
        with values_of(recording.path):
            for name, entry in recording.about["limits"].get("known", {}).items():
                known_values[name] = float(entry["value"])
            neutral = recording.about["limits"].get("rest")
            if neutral is not None and not isinstance(neutral, str):
                table = neutral if isinstance(neutral, Mapping) else dict.fromkeys(contract.action.elements, neutral)
                rest = np.array([float(table[element]) for element in contract.action.elements])
            episodes = (_trace(recording, records) for records in recording.by_episode.values())
            traces += [trace for trace in episodes if trace is not None]
            for name, value in _task_numbers(recording):
                tasks.setdefault(name, set()).add(value)
    if not traces:
        raise SamiError(f"{recordings[0].path} holds no episode with observations. Record one with sami run --record.")
    names = tuple(recording.path.name for recording in recordings)
    return Log(contract, tuple(traces), known_values, rest, names, tasks)


def _task_numbers(recording: Recording) -> Iterator[tuple[str, float]]:
    """Yield feature and value of the tasks that the steps report, as often as they do."""
    for step in recording.steps:
        task = step.record.info.get("task")
        if isinstance(task, Mapping):
            yield from ((name, value) for name, value in task.items() if isinstance(value, int | float))


def _trace(recording: Recording, records: Sequence[StepRecord]) -> Trace | None:
    contract = recording.contract
    period = 1.0 / contract.rate_hz
    start_time = records[0].time
    first_due = start_time - records[0].lag
    reads = [(r.time, r.observation) for r in records if r.observation and are_finite(r.observation, np.zeros(0))]
    if len(reads) < FIRST:
        return None
    in_simulator = recording.about.get("simulator")
    if in_simulator is None:  # older recordings lack the entry
        in_simulator = any("terminated" in record.info for record in records)
    fresh_age = 1.0 if in_simulator else 0.0  # of a reading without latency: a simulator stamps when it steps
    times = np.array([time for time, _ in reads])
    ticks = np.round((times - start_time) / period).astype(int)
    executed = np.zeros((round((records[-1].time - start_time) / period) + 1, contract.action.size))
    at, standing = -1, np.zeros(contract.action.size)
    for record in records:
        tick = int((record.time - record.lag - first_due) / period + 1e-3)
        if tick > at:  # an action stays in force until the policy's next tick
            standing = standing if record.executed is None else np.asarray(record.executed, np.float64)
            executed[at + 1 :] = standing
            at = tick
    measured_at: dict[str, np.ndarray] = {}
    values: dict[str, np.ndarray] = {}
    for signal in contract.observation:
        stamps = np.array([frame.measured(signal.name) for _, frame in reads])
        ages = (times - stamps) / period - fresh_age
        late = np.floor(ages + 0.5 + 1e-3).astype(int)
        if (late[1:] < 0).any():
            raise SamiError(
                f"{recording.path}: {signal.name} is stamped {-ages[1:].min() * period:.3g} s in the future. Its clock "
                "is ahead of the loop's, so that no latency can be measured. Stamp observations by the loop's clock."
            )
        measured_at[signal.name] = np.clip(ticks - late, 0, None)
        values[signal.name] = np.array([np.ravel(frame.values[signal.name]) for _, frame in reads], np.float64)
    biases: Mapping[str, float] = next((record.info["zeroed"] for record in records if "zeroed" in record.info), {})
    return Trace(ticks, measured_at, values, executed, times, biases)


MOST = 12
"""Most episodes to simulate: more do not improve the reference."""


def simulated(spec: EnvironmentSpec, traces: Sequence[Trace]) -> list[Trace]:
    """Simulate the first `MOST` episodes with the same commands, from the simulator's own starts.

    Raises:
        AdapterError: The simulator is not installed.
    """
    with closing(make_adapter(spec, make(spec), ManualClock())) as adapter:
        return [_episode(adapter, spec, trace, seed) for seed, trace in enumerate(traces[:MOST])]


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
        measured_at=dict.fromkeys(readings, ticks),
        values={name: np.array(values) for name, values in readings.items()},
        executed=trace.executed[:count],
        times=ticks / spec.rate_hz,
        removed_biases={},
    )
