"""A hand that follows commanded displacements with a lag, a simulator for tests that fit a sim-to-real profile."""

import numpy as np

from sami_runtime.adapters import Executed, Observation

HOME = np.array([0.1, -0.2])
"""Position after a reset [m]."""
SCALE, STIFF = 0.05, 0.7
"""Displacement per period for a command of 1 [m], and the fraction of the velocity error that a period removes."""


class ServoArm:
    """Follows commands with a lag; stamps observations at `write`, one period before `read`, as a simulator does.

    Args:
        contract: of the model that drives the arm.
        clock: stamps the observations.
        late: delay [periods] from a command to the motors, which the adapter does not report.
        real: whether to stamp observations at `read`, as a robot does.
    """

    def __init__(self, contract, clock, late=0, real=False):
        self.observation, self.action, self._clock = contract.observation, contract.action, clock
        self._late, self._real = late, real

    def reset(self, seed=None):
        """Put the arm at rest at home."""
        self._position, self._speed, self._measured = HOME.copy(), np.zeros(2), self._clock.now()
        self._under_way = [np.zeros(2)] * self._late

    def read(self):
        """Return the position and a constant goal."""
        values = {"position": self._position.astype(np.float32), "goal": np.float32([0.5])}
        return Observation(values, self._clock.now() if self._real else self._measured)

    def write(self, action):
        """Simulate one period under an action (2,)."""
        self._under_way = [*self._under_way, np.asarray(action, np.float64)]
        self._speed = self._speed + STIFF * (self._under_way.pop(0) - self._speed)
        self._position = self._position + SCALE * self._speed
        self._measured = self._clock.now()
        return Executed(np.array(action, np.float32))

    def stop(self):
        """Do nothing: the arm moves only at a write."""

    def close(self):
        """Do nothing: there is nothing to close."""
