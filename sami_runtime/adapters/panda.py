"""The Panda arm with a cube: what it observes and takes, and the adapter of panda-gym."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sami_runtime.adapters.gymnasium_adapter import GymnasiumAdapter
from sami_runtime.clock import Clock
from sami_runtime.model.contract import DataSheet, Quantity
from sami_runtime.signals import Moves, Signal, SignalSource

if TYPE_CHECKING:
    import gymnasium

PANDA_RATE_HZ = 25.0
"""How often the policy acts [1/s]: 20 simulation steps of 2 ms for each action."""
PANDA_EPISODE_STEPS = 50
"""Actions in an episode."""


def _signal(name: str, unit: str, elements: str, meaning: str, bound: float = 10.0) -> Signal:
    """Return a signal within the bounds of the environment's observation space, or others that it keeps."""
    names = tuple(elements.split())
    low, high = (-bound,) * len(names), (bound,) * len(names)
    return Signal(name=name, size=len(names), unit=unit, elements=names, low=low, high=high, meaning=meaning)


PANDA_OBSERVATION: tuple[Signal, ...] = (
    _signal("cube_position", "m", "x y z", "centre of the cube in the table's frame; 0.02 high while it lies there"),
    _signal(
        "cube_rotation",
        "rad",
        "roll pitch yaw",
        "cube's axes in the table's frame, Euler angles about the fixed x, then y, then z (R = Rz Ry Rx)",
    ),
    _signal("cube_velocity", "m/s", "x y z", "of the cube's centre, along the table's axes"),
    # The observation space says 10, and cubes that are knocked over were seen to turn at 37 rad/s.
    _signal("cube_angular_velocity", "rad/s", "x y z", "of the cube, about the table's axes", bound=100.0),
    _signal("ee_position", "m", "x y z", "point between the fingertips, 0.105 m from the flange, in the table's frame"),
    _signal("ee_velocity", "m/s", "x y z", "of that point, along the table's axes"),
    _signal("gripper_width", "m", "width", "distance between the fingers: 0 closed, 0.08 open"),
    _signal("desired_goal", "m", "x y z", "where the cube's centre is to be, in the table's frame"),
    _signal("achieved_goal", "m", "x y z", "where the cube's centre is: cube_position once more"),
)
"""What a Panda policy reads, in the order of the contract."""
PANDA_ACTION = Signal(
    name="ee_displacement_and_gripper",
    size=4,
    unit="1",
    elements=("dx", "dy", "dz", "gripper"),
    low=(-1.0,) * 4,
    high=(1.0,) * 4,
    meaning=(
        "dx, dy, dz times 0.05 m: displacement of ee_position from where it is measured now, along the table's axes, "
        "the target's height at least 0, the hand pointing down; gripper times 0.2 m: change of gripper_width"
    ),
    moves={f"d{axis}": Moves(element=f"ee_position.{axis}", scale=0.05) for axis in "xyz"},
)
"""What a Panda policy writes."""
PANDA_SHEET = DataSheet(
    frame=(
        "table's frame: z up, its surface at z = 0, x away from the arm, whose base stands on it at x = -0.6 m "
        "(panda-gym). The position of the hand is that of the point between the fingertips (panda_grasptarget), and "
        "the hand always points down: its z axis along -z, its x axis along x"
    ),
    home=(
        "the joints at home_joints, fingers closed, at rest; the cube lies on the table within 0.15 m of the origin in "
        "x and y, not rotated, and so does the goal"
    ),
    gains=(
        "PyBullet's own position servos of the joints. Of the 0.05 m that an action of 1 asks for, the hand gets "
        "reached_displacement along x, y, z in each period that it goes on; less when fast or far from home"
    ),
    numbers={
        "arm_base": Quantity(unit="m", values=(-0.6, 0.0, 0.0)),
        "table_surface": Quantity(unit="m", values=(0.0,)),
        "flange_to_ee": Quantity(unit="m", values=(0.105,)),
        "home_joints": Quantity(unit="rad", values=(0.0, 0.41, 0.0, -1.85, 0.0, 2.26, 0.79)),
        "home_ee_position": Quantity(unit="m", values=(0.0384, 0.0, 0.1974)),
        "home_gripper_width": Quantity(unit="m", values=(0.0,)),
        "reached_displacement": Quantity(unit="m", values=(0.0315, 0.0425, 0.0417)),
        "cube_edge": Quantity(unit="m", values=(0.04,)),
    },
)
"""Where the numbers are measured, and where an episode begins; a test reads each of them back from the simulator."""


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
