"""Cuts recordings into short windows, each simulated from its own initial state, so that errors do not accumulate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import SamiError
from sami_train.studies.fit_gap.trace import Log, Trace

Array = NDArray[np.float64]
Places = NDArray[np.intp]

WINDOW_S, LEAST_TICKS = 0.5, 8
"""Length of a window [s], and its fewest ticks at a low rate."""
MOST_DELAY_S = 0.1
"""Longest command delay that a fit considers [s]."""
FEWEST, MOST = 12, 150
"""Fewest windows for a fit, and most that it uses, to limit its time."""
HELD_OUT = 3
"""Every HELD_OUT-th episode is held out; with fewer episodes, every HELD_OUT-th window."""


@dataclass(frozen=True)
class RecordedWindows:
    """W windows of L ticks of a robot with n joints and A actuators."""

    readings: Array
    """(W, L + 1, C): positions of the joints, then their velocities if these were recorded; C is n or 2 n."""
    controls: Array
    """(W, H + L, A): controls of the actuators at each tick; the window begins at index H."""
    before: int
    """H, the number of ticks before a window whose controls a delay may need."""
    period: float
    """Duration of a tick [s]."""

    def __len__(self) -> int:
        return len(self.readings)

    def pick(self, windows: NDArray[np.bool_] | NDArray[np.intp]) -> RecordedWindows:
        """Return some of the windows."""
        return RecordedWindows(self.readings[windows], self.controls[windows], self.before, self.period)

    def delayed(self, delay: float, steps: int) -> Array:
        """Return the controls of each simulation step after a delay [s], (W, L * steps, A), with `steps` in a tick.

        A control holds for a tick. A step in which the control changes has the weighted mean of both, so that the delay
        need not be a multiple of a step.
        """
        sums = np.cumsum(self.controls, axis=1)
        sums = np.concatenate([np.zeros_like(sums[:, :1]), sums], axis=1)
        length = self.controls.shape[1] - self.before
        at = self.before + np.arange(length * steps + 1) / steps - delay / self.period
        low = np.clip(at.astype(int), 0, self.controls.shape[1] - 1)
        share = (at - low)[:, None]
        reached = (1.0 - share) * sums[:, low] + share * sums[:, low + 1]
        return np.diff(reached, axis=1) * steps


def windows_of(
    log: Log, columns: Mapping[str, tuple[Places, Places]], width: int, control: Callable[[Array], Array]
) -> tuple[RecordedWindows, RecordedWindows]:
    """Return the windows to fit to, and the held-out windows.

    Args:
        log: Episodes of the robot.
        columns: By signal, the elements that are readings, and their columns in the readings.
        width: Number of columns of the readings.
        control: Maps actions (T, A) to the actuators' controls (T, A).

    Raises:
        SamiError: There are too few windows with a reading at every tick.
    """
    length = max(LEAST_TICKS, round(WINDOW_S / log.period))
    before = int(np.ceil(MOST_DELAY_S / log.period)) + 1
    readings, controls, episodes = list[Array](), list[Array](), list[int]()
    for number, trace in enumerate(log.traces):
        measured, commanded = _readings(trace, columns, width), control(trace.executed)
        start = before  # controls before an episode are not recorded
        while start + length < len(measured):
            if np.isfinite(measured[start : start + length + 1]).all():
                readings.append(measured[start : start + length + 1])
                controls.append(commanded[start - before : start + length])
                episodes.append(number)
                start += length
            else:
                start += 1
    if len(readings) < FEWEST:
        raise SamiError(
            f"{', '.join(log.names)}: {len(readings)} windows of {length * log.period:.3g} s have a reading at every "
            f"tick, and {FEWEST} are the fewest that a fit needs. Record some 10 episodes: sami drive ROBOT.toml "
            "--excite --set episodes=10 --record run.mcap"
        )
    every = RecordedWindows(np.array(readings), np.array(controls), before, log.period)
    out = np.array(episodes) % HELD_OUT == HELD_OUT - 1
    if not out.any() or out.all():
        out = np.arange(len(readings)) % HELD_OUT == HELD_OUT - 1
    return _thinned(every.pick(~out)), _thinned(every.pick(out))


def _readings(trace: Trace, columns: Mapping[str, tuple[Places, Places]], width: int) -> Array:
    """Return the readings measured at each of T ticks and after the last, (T + 1, width); missing ones are NaN."""
    readings = np.full((len(trace.executed) + 1, width), np.nan)
    for name, (elements, at) in columns.items():
        # If two readings have the same stamp, the later one counts: a simulator gives its first two the same stamp.
        for tick, values in zip(trace.measured_at[name], trace.values[name], strict=True):
            if tick < len(readings):
                readings[tick, at] = values[elements]
    return readings


def _thinned(windows: RecordedWindows) -> RecordedWindows:
    """Return at most `MOST` windows, evenly spread over the recordings."""
    if len(windows) <= MOST:
        return windows
    return windows.pick(np.linspace(0, len(windows) - 1, MOST).round().astype(np.intp))
