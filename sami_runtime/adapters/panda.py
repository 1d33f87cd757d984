"""The Franka arm of panda-gym: the layout of its observation, and what its action means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sami_runtime.adapters.gymnasium_adapter import GymnasiumAdapter, SignalSource
from sami_runtime.clock import Clock

if TYPE_CHECKING:
    import gymnasium
from sami_runtime.adapters.panda_signals import PANDA_ACTION, PANDA_OBSERVATION

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
