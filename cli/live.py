"""The live line of `sami run`: what the context tells, while an episode runs."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from .episodes import probed

if TYPE_CHECKING:
    from sami_runtime.loop.tick import StepRecord
    from sami_runtime.session.telemetry import Reading, Telemetry

EVERY_S = 0.1
"""Shortest time between two drawings [s]: a terminal must not slow the loop down."""
CLEAR = "\r\x1b[K"


class LiveLine:
    """Shows a telemetry's last reading on a terminal, and nothing elsewhere; it is a loop's `on_step`.

    Args:
        telemetry: told of each tick before this is.
        file: where to; standard output if None.
        status: what else to show, at the beginning; empty where there is nothing.
    """

    def __init__(
        self, telemetry: Telemetry, file: TextIO | None = None, status: Callable[[], str] = lambda: ""
    ) -> None:
        self._telemetry, self._file, self._status = telemetry, file or sys.stdout, status
        self._wanted, self._drawn, self._shown = self._file.isatty(), 0.0, False

    def __call__(self, record: StepRecord) -> None:
        """Draws the line, if the last time is long enough ago."""
        if self._wanted and (now := time.monotonic()) - self._drawn >= EVERY_S:
            self._drawn, self._shown = now, True
            known = probed(self._telemetry.probed)
            text = "  ".join(filter(None, (self._status(), shown(self._telemetry.now), known, corrected(record))))
            text = text[: shutil.get_terminal_size().columns - 1]
            print(CLEAR + text, end="", file=self._file, flush=True)

    def clear(self) -> None:
        """Take the line away, for another one to be printed there."""
        if self._shown:
            self._shown = False
            print(CLEAR, end="", file=self._file, flush=True)

    def __enter__(self) -> LiveLine:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.clear()


def corrected(record: StepRecord) -> str:
    """Return how far the estimated present is from what arrived, by signal; empty where none is estimated."""
    import numpy as np

    from sami_runtime.model.contract import PRESENT

    arrived = {} if record.observation is None else record.observation.values
    off = {
        name: float(np.linalg.norm(record.extra[PRESENT + name] - value))
        for name, value in arrived.items()
        if PRESENT + name in record.extra
    }
    return "present off by " + ", ".join(f"{name} {distance:.3g}" for name, distance in off.items()) if off else ""


def shown(reading: Reading) -> str:
    """Return a reading in one line."""
    parts = [f"step {reading.step:>3}", f"speed {reading.speed:5.2f}"]
    if reading.phase is not None:
        parts.append(f"{reading.phase.value:<11}")
    if reading.nearest is not None:
        from sami_train.envs.tasks import label

        alarm = "  OUT OF DISTRIBUTION" if reading.alarm else ""
        parts.append(f"score {reading.score:.2f}{alarm}  nearest {label(reading.nearest)} at {reading.distance:.1f}")
    return "  ".join(parts)
