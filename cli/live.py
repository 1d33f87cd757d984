"""The live line of `sami run`: what the context tells, while an episode runs."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sami_runtime.telemetry import Reading, Telemetry
    from sami_runtime.tick import StepRecord

EVERY_S = 0.1
"""Shortest time between two drawings [s]: a terminal must not slow the loop down."""


class LiveLine:
    """Shows a telemetry's last reading on a terminal, and nothing elsewhere; it is a loop's `on_step`.

    Args:
        telemetry: told of each tick before this is.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console()
        self._telemetry, self._drawn = telemetry, 0.0
        # Drawn by hand: rich's own refresh would be a thread beside the loop.
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._wanted = console.is_terminal

    def __call__(self, _: StepRecord) -> None:
        """Draws the line, if the last time is long enough ago."""
        now = time.monotonic()
        if self._wanted and now - self._drawn >= EVERY_S:
            self._drawn = now
            self._live.update(shown(self._telemetry.now), refresh=True)

    def __enter__(self) -> LiveLine:
        if self._wanted:
            self._live.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._wanted:
            self._live.stop()


def shown(reading: Reading) -> str:
    """A reading in one line."""
    parts = [f"step {reading.step:>3}", f"speed {reading.speed:5.2f}"]
    if reading.phase is not None:
        parts.append(f"{reading.phase.value:<11}")
    if reading.nearest is not None:
        from sami_train.tasks import label

        alarm = "  UNKNOWN DYNAMICS" if reading.alarm else ""
        parts.append(f"nearest {label(reading.nearest)}  at {reading.distance:.1f}  score {reading.score:.2f}{alarm}")
    return "  ".join(parts)
