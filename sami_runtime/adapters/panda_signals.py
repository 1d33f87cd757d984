"""What a Panda arm with a cube observes and takes: signals, rate and episode, whatever drives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sami_runtime.signals import Moves, Signal

if TYPE_CHECKING:
    pass


PANDA_RATE_HZ = 25.0
"""How often the policy acts [1/s]: 20 simulation steps of 2 ms for each action."""
PANDA_EPISODE_STEPS = 50
"""Actions in an episode."""


def _signal(name: str, unit: str, elements: str, bound: float = 10.0) -> Signal:
    """Return a signal within the bounds of the environment's observation space, or others that it keeps."""
    names = tuple(elements.split())
    size = len(names)
    return Signal(name=name, size=size, unit=unit, elements=names, low=(-bound,) * size, high=(bound,) * size)


PANDA_OBSERVATION: tuple[Signal, ...] = (
    _signal("cube_position", "m", "x y z"),
    _signal("cube_rotation", "rad", "roll pitch yaw"),
    _signal("cube_velocity", "m/s", "x y z"),
    # The observation space says 10, and cubes that are knocked over were seen to turn at 37 rad/s.
    _signal("cube_angular_velocity", "rad/s", "x y z", bound=100.0),
    _signal("ee_position", "m", "x y z"),
    _signal("ee_velocity", "m/s", "x y z"),
    _signal("gripper_width", "m", "width"),
    _signal("desired_goal", "m", "x y z"),
    _signal("achieved_goal", "m", "x y z"),
)
"""What a Panda policy reads, in the order of the contract."""
PANDA_ACTION = Signal(
    name="ee_displacement_and_gripper",
    size=4,
    unit="1",
    elements=("dx", "dy", "dz", "gripper"),
    low=(-1.0,) * 4,
    high=(1.0,) * 4,
    meaning="dx, dy, dz times 0.05 m; gripper times 0.2 m",
    moves={f"d{axis}": Moves(element=f"ee_position.{axis}", scale=0.05) for axis in "xyz"},
)
"""What a Panda policy writes."""
