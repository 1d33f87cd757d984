"""The Franka arm of panda-gym: the layout of its observation, and what its action means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sami_runtime.adapters.gymnasium_adapter import GymnasiumAdapter, SignalSource
from sami_runtime.clock import Clock
from sami_runtime.model.contract import Signal

if TYPE_CHECKING:
    import gymnasium

PANDA_RATE_HZ = 25.0
"""How often the policy acts [1/s]: 20 simulation steps of 2 ms for each action."""

PANDA_EPISODE_STEPS = 50
"""Actions in an episode."""


def _signal(name: str, unit: str, elements: str) -> Signal:
    names = tuple(elements.split())
    size = len(names)
    # Bounds of the environment's observation space.
    return Signal(name=name, size=size, unit=unit, elements=names, low=(-10.0,) * size, high=(10.0,) * size)


PANDA_OBSERVATION: tuple[Signal, ...] = (
    _signal("cube_position", "m", "x y z"),
    _signal("cube_rotation", "rad", "roll pitch yaw"),
    _signal("cube_velocity", "m/s", "x y z"),
    _signal("cube_angular_velocity", "rad/s", "x y z"),
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
)
"""What a Panda policy writes."""

# Where panda-gym puts each signal: the robot's own numbers first, then the task's.
_PLACES: dict[str, tuple[str, int]] = {
    "ee_position": ("observation", 0),
    "ee_velocity": ("observation", 3),
    "gripper_width": ("observation", 6),
    "cube_position": ("observation", 7),
    "cube_rotation": ("observation", 10),
    "cube_velocity": ("observation", 13),
    "cube_angular_velocity": ("observation", 16),
    "achieved_goal": ("achieved_goal", 0),
    "desired_goal": ("desired_goal", 0),
}

PANDA_SOURCES: tuple[SignalSource, ...] = tuple(
    SignalSource(signal, *_PLACES[signal.name]) for signal in PANDA_OBSERVATION
)
"""Where each signal lies in the observation of a panda-gym environment with a cube."""


class PandaAdapter(GymnasiumAdapter):
    """Drives panda-gym's arm and cube.

    Args:
        env: `sami/PandaSkill-v0`, or any environment with panda-gym's Dict observation of arm and cube.
        clock: Stamps the observations.

    Raises:
        AdapterError: The environment has another layout.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], clock: Clock | None = None) -> None:
        super().__init__(env, PANDA_SOURCES, PANDA_ACTION, clock)
