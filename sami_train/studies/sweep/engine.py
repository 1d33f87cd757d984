"""What runs a sweep's cells, processes of this machine, Slurm or Ray: it starts jobs, and tells where they stand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from sami_runtime.errors import SamiError


class SweepError(SamiError):
    """A sweep that cannot be opened or started."""


@dataclass(frozen=True)
class Look:
    """Where a job stands."""

    state: Literal["pending", "running", "ended", "lost", "cancelled"]
    """Ended: by itself, and it may have said how (see `Outcome`). Lost: taken away with its node, by a preemption or
    by a time limit, so that it should go on elsewhere. Cancelled: somebody else did not want it any more."""
    reason: str = ""
    """Why it waits, or how it ended, in the engine's words."""

    @property
    def over(self) -> bool:
        """Whether nothing of it runs any more, or will."""
        return self.state not in ("pending", "running")


class Job(Protocol):
    """One process, now or later, that brings a cell further."""

    log: Path
    """What it prints."""

    def look(self) -> Look:
        """Return where it stands; asked for about twice a second."""

    def stop(self) -> None:
        """Ask it to stop at a safe place; may be asked again."""


class Engine(Protocol):
    """Where jobs run."""

    jobs: int
    """Most cells that run at once."""

    def submit(self, logs: Path) -> Job:
        """Start the job that a folder of logs describes, see `job`.

        Raises:
            SweepError, OSError: it cannot be started.
        """
