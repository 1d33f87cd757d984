"""The catalogue's entry of the SO-101: signals, hidden features, tasks and goal, without a simulator."""

from __future__ import annotations

from itertools import product

from sami_runtime.model.contract import DataSheet, Quantity
from sami_runtime.signals import Moves
from sami_train.envs.layout import Layout, signal
from sami_train.envs.measure import SUCCESS, Goal
from sami_train.envs.so101.kinematics import HOME, STEP, push
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Feature, Task, TaskSpace

MOTORS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex")
"""The motors that the policy moves; the wrist's roll and the closed gripper do not move."""
LAYOUT = Layout.of(
    [
        signal("joint_angles", "rad", MOTORS, meaning="of the servos' shafts; 0 is the middle of a joint's range"),
        signal("cube_position", "m", ("x", "y"), meaning="of the cube's centre on the table, in the base's frame"),
        signal("cube_direction", "1", ("cos", "sin"), (-1.0, 1.0), meaning="of the cube's yaw in the base's frame"),
        signal("goal", "m", ("x", "y"), meaning="where the cube's centre is to be"),
    ]
)
ACTION = signal(
    "joint_steps",
    "1",
    MOTORS,
    (-1.0, 1.0),
    meaning=f"times {STEP:g} rad: target angles, relative to joint_angles as they were read; within the joints' ranges",
    moves={motor: Moves(element=f"joint_angles.{motor}", scale=STEP) for motor in MOTORS},
)
SHEET = DataSheet(
    frame="the base's: x forward, y to the left, z up, the table at z = 0. Joints as LeRobot calibrates an SO-101: 0 "
    "is the middle of each range; positive turns to the right (shoulder_pan) and down (the others)",
    home="joints at home_joints, within 0.05 rad; the wrist's roll at 0, the gripper closed; the cube and its goal lie "
    "in front of the arm, 0.15 to 0.23 m from the pan axis and within 0.5 rad of straight ahead",
    gains="position servos (STS3215 with LeRobot's P gain of 16), a new target every 1/30 s",
    numbers={
        "home_joints": Quantity(unit="rad", values=HOME),
        "step": Quantity(unit="rad", values=(STEP,)),
        "cube_edge": Quantity(unit="m", values=(0.04,)),
        "goal_tolerance": Quantity(unit="m", values=(0.025,)),
    },
)


def _grid(*values: tuple[float, ...]) -> tuple[Task, ...]:
    return tuple(dict(zip(("mass", "friction", "play"), task, strict=True)) for task in product(*values))


SO101 = EnvironmentSpec(
    name="so101",
    id="sami/SO101Push-v0",
    entry_point="sami_train.envs.so101.env:SO101Env",
    tasks=TaskSpace(
        features=(
            Feature("mass", "kg", 0.0, low_open=True, default=0.1),
            Feature("friction", "", 0.0, low_open=True, default=0.5),
            Feature("play", "rad", 0.0, default=0.01, high=0.2),
        ),
        sets={
            "training": _grid((0.05, 0.3), (0.3, 0.8), (0.005, 0.03)),
            "moderate": _grid((0.15, 0.5), (0.2, 1.0), (0.015, 0.045)),
            "extreme": _grid((0.02, 0.8), (0.1, 1.3), (0.0, 0.07)),
        },
    ),
    layout=LAYOUT,
    action=ACTION,
    rate_hz=30.0,
    episode_steps=60,
    measure=SUCCESS,
    ends_early=True,
    goal=Goal(achieved=LAYOUT.columns("cube_position"), desired=LAYOUT.columns("goal"), threshold=0.025),
    reach=push,
    hyperparameters={"fast-cpu": {"exploration.reach_steps": (10, 60)}},  # the script pushes: 33 steps on average
    sheet=SHEET,
    extra="mujoco",
)
"""An SO-101 that pushes a cube to a goal."""
