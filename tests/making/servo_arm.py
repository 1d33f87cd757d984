"""A hand that servos after commanded displacements, for the tests' tiny policies: the simulator of a fitted gap."""

import numpy as np

from sami_runtime.adapters import Executed, Observation

HOME = np.array([0.1, -0.2])
"""Where it is after a reset."""
SCALE, STIFF = 0.05, 0.7
"""How far a command of 1 moves it in a period [m], and the share of its speed that a servo makes up for in one."""


class ServoArm:
    """Moves by what it is told, not at once; stamps when it is written to, one period before it is read.

    Args:
        contract: of the model that drives it.
        clock: stamps the observations.
        late: periods by which commands reach the motors late; no simulator says so.
        real: whether it stamps what it is asked for, as a robot does, when it is asked.
    """

    def __init__(self, contract, clock, late=0, real=False):
        self.observation, self.action, self._clock = contract.observation, contract.action, clock
        self._late, self._real = late, real

    def reset(self, seed=None):
        """It is at home, and rests."""
        self._position, self._speed, self._measured = HOME.copy(), np.zeros(2), self._clock.now()
        self._under_way = [np.zeros(2)] * self._late

    def read(self):
        """Where it is."""
        values = {"position": self._position.astype(np.float32), "goal": np.float32([0.5])}
        return Observation(values, self._clock.now() if self._real else self._measured)

    def write(self, action):
        """Goes on for a period."""
        self._under_way = [*self._under_way, np.asarray(action, np.float64)]
        self._speed = self._speed + STIFF * (self._under_way.pop(0) - self._speed)
        self._position = self._position + SCALE * self._speed
        self._measured = self._clock.now()
        return Executed(np.array(action, np.float32))

    def stop(self):
        """It rests."""

    def close(self):
        """Nothing is kept."""
