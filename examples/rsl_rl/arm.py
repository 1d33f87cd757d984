"""A simulated planar arm of two joints whose drives follow position targets, in real time: the example's robot.

`train.py` trains on the same drives. For your robot, write another `make`.
"""

import math

import numpy as np

from sami_runtime import Clock, Executed, Observation, Signal

JOINTS = ("shoulder", "elbow")
LENGTHS = (0.3, 0.25)
"""Lengths of the two links [m]."""
POSE = (0.4, 0.8)
"""Initial joint angles, and the target of an output of 0 [rad]."""
KP, KD, INERTIA = 40.0, 4.0, 0.1
TIMESTEP = 0.005
GOALS = ((0.35, 0.30), (0.10, 0.45), (0.45, 0.10))
"""Goals of the hand, x and y [m], one per episode in turn."""
UNBOUNDED = (None, None)
OBSERVATION = (
    Signal(name="joint_angles", size=2, unit="rad", elements=JOINTS, low=UNBOUNDED, high=UNBOUNDED),
    Signal(name="joint_velocities", size=2, unit="rad/s", elements=JOINTS, low=UNBOUNDED, high=UNBOUNDED),
    Signal(name="goal", size=2, unit="m", elements=("x", "y"), low=UNBOUNDED, high=UNBOUNDED),
)
ACTION = Signal(name="joint_targets", size=2, unit="rad", elements=JOINTS, low=(-2.0, -0.2), high=(2.0, 2.6))


def hand(angles):
    """Return the position of the hand (..., 2) [m] for joint angles (..., 2) [rad]."""
    first, second = angles[..., 0], angles[..., 0] + angles[..., 1]
    x = LENGTHS[0] * np.cos(first) + LENGTHS[1] * np.cos(second)
    y = LENGTHS[0] * np.sin(first) + LENGTHS[1] * np.sin(second)
    return np.stack([x, y], axis=-1)


class Arm:
    """The adapter of the arm, which moves between calls, too: each call first simulates the time since the last."""

    observation, action = OBSERVATION, ACTION

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.reset()

    def reset(self, seed: int | None = None) -> None:
        self.angles, self.velocities = np.array(POSE), np.zeros(2)
        self.target, self.time = self.angles.copy(), self.clock.now()
        self.goal = np.array(GOALS[(seed or 0) % len(GOALS)])

    def read(self) -> Observation:
        self._move()
        values = {"joint_angles": self.angles, "joint_velocities": self.velocities, "goal": self.goal}
        return Observation({name: np.float32(value) for name, value in values.items()}, self.time)

    def write(self, action: np.ndarray) -> Executed:
        self._move()
        self.target = np.asarray(action, float)
        distance = float(np.linalg.norm(hand(self.angles) - self.goal))
        return Executed(action, info={"distance": distance, "is_success": distance < 0.02})

    def stop(self) -> None:
        self._move()
        self.target = self.angles.copy()

    def close(self) -> None:
        self.stop()

    def _move(self) -> None:
        """Simulate the arm from the time of the last call to now."""
        now = self.clock.now()
        for _ in range(math.floor((now - self.time) / TIMESTEP)):
            self.velocities += (KP * (self.target - self.angles) - KD * self.velocities) / INERTIA * TIMESTEP
            self.angles += self.velocities * TIMESTEP
            self.time += TIMESTEP


def make(clock: Clock) -> Arm:
    """Return the arm; `sami drive` calls this."""
    return Arm(clock)
