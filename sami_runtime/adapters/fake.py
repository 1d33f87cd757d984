"""A fake robot with known dynamics, for tests, examples and a first try."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Executed, Observation, require_action
from sami_runtime.clock import Clock, MonotonicClock
from sami_runtime.errors import AdapterError
from sami_runtime.signals import Signal


class FakeAdapter:
    """A mass on frictionless axes that a force moves; the mass [kg] is not observed.

    v' = v + F / m dt, x' = x + v' dt. Faults can be scripted; actions and calls are counted and stored.

    >>> robot = FakeAdapter(axes=1, mass=2.0, period=0.1)
    >>> robot.reset(seed=0)
    >>> robot.write(np.array([5.0])).action  # limited to 1 N
    array([1.], dtype=float32)
    >>> robot.read().values["velocity"]
    array([0.05], dtype=float32)

    Args:
        axes: Number of axes.
        mass: The mass [kg].
        period: Time between two writes [s].
        limit: Largest force [N] on each axis; more is cut off.
        episode_steps: Writes after which the world ends the episode; never if None.
        raise_at_reads: Indices of reads, from 0, that raise.
        nan_at_reads: Indices of reads that give a NaN position.
        raise_at_writes: Indices of writes that raise.
        clock: Stamps the observations.
    """

    waits = True
    """The mass stands still while nothing is written."""

    def __init__(
        self,
        axes: int = 1,
        mass: float = 1.0,
        period: float = 0.04,
        limit: float = 1.0,
        episode_steps: int | None = None,
        raise_at_reads: Collection[int] = (),
        nan_at_reads: Collection[int] = (),
        raise_at_writes: Collection[int] = (),
        clock: Clock | None = None,
    ) -> None:
        names = ("x", "y", "z")[:axes] if axes <= 3 else tuple(f"x{axis}" for axis in range(axes))
        free, limits = (None,) * axes, (limit,) * axes
        self.observation: tuple[Signal, ...] = (
            Signal(name="position", size=axes, unit="m", elements=names, low=free, high=free),
            Signal(name="velocity", size=axes, unit="m/s", elements=names, low=free, high=free),
        )
        forces = tuple(f"f{name}" for name in names)
        low = tuple(-force for force in limits)
        self.action = Signal(name="force", size=axes, unit="N", elements=forces, low=low, high=limits)
        self.mass = mass
        self.period = period
        self.episode_steps = episode_steps
        self.raise_at_reads, self.nan_at_reads = raise_at_reads, nan_at_reads
        self.raise_at_writes = raise_at_writes
        self.written: list[NDArray[np.float32]] = []
        """Every action that was asked for, before the limit."""
        self.reads = self.writes = self.resets = self.stops = self.closes = 0
        self._limit = limit
        self._clock: Clock = clock or MonotonicClock()
        self._position = np.zeros(axes)
        self._velocity = np.zeros(axes)
        self._steps: int | None = None
        self._measured = 0.0

    def reset(self, seed: int | None = None) -> None:
        """Put the mass at rest, anywhere within 1 m of the origin on each axis."""
        self._require_open()
        self.resets += 1
        self._position = np.random.default_rng(seed).uniform(-1, 1, self.action.size)
        self._velocity = np.zeros(self.action.size)
        self._steps = 0
        self._measured = self._clock.now()

    def read(self) -> Observation:
        """Return the current position [m] and velocity [m/s], each (axes,)."""
        self._require_running()
        read, self.reads = self.reads, self.reads + 1
        if read in self.raise_at_reads:
            raise AdapterError(f"FakeAdapter: read {read} fails, as scripted by raise_at_reads.")
        position = self._position.astype(np.float32)
        if read in self.nan_at_reads:
            position[0] = np.nan
        values = {"position": position, "velocity": self._velocity.astype(np.float32)}
        return Observation(values, self._measured)

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Apply a force (A,) [N], clipped to the limit, for one period."""
        self._require_running()
        write, self.writes = self.writes, self.writes + 1
        if write in self.raise_at_writes:
            raise AdapterError(f"FakeAdapter: write {write} fails, as scripted by raise_at_writes.")
        command = require_action(action, self.action)
        self.written.append(command)
        force = np.clip(command, -self._limit, self._limit)
        self._velocity = self._velocity + force / self.mass * self.period
        self._position = self._position + self._velocity * self.period
        self._steps = (self._steps or 0) + 1
        self._measured = self._clock.now()
        return Executed(force, done=self._steps == self.episode_steps)

    def stop(self) -> None:
        """Bring the mass to rest."""
        self.stops += 1
        self._velocity = np.zeros(self.action.size)

    def close(self) -> None:
        """End the use of the fake."""
        self.closes += 1

    def _require_open(self) -> None:
        if self.closes:
            raise AdapterError("FakeAdapter is closed. Make a new one.")

    def _require_running(self) -> None:
        self._require_open()
        if self._steps is None:
            raise AdapterError("FakeAdapter has no episode yet. Call reset() first.")
