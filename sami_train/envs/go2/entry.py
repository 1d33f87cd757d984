"""The catalogue's entry of the Go2: signals, hidden features, tasks and metrics, without a simulator."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sami_runtime.model.contract import DataSheet, Quantity
from sami_train import seeds
from sami_train.envs.layout import Layout, signal
from sami_train.envs.measure import RETURN, Metric
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Crippled, Feature, Range, Task, TaskSpace

LEGS = ("FR", "FL", "RR", "RL")
"""Front right, front left, rear right, rear left: the order of Unitree's low-level interface."""
MOTORS = tuple(f"{leg}_{part}" for leg in LEGS for part in ("hip", "thigh", "calf"))
STANCE = (0.0, 0.8, -1.5) * 4
"""Target joint angles for an action of 0 [rad]."""
REACH = (0.6, 1.2, 1.2) * 4
"""Change of the target angles for an action of 1 [rad]."""
LOWEST = (-1.0472, -1.5708, -2.7227) * 2 + (-1.0472, -0.5236, -2.7227) * 2
"""Smallest target angles [rad], the joints' lower limits; smaller targets are clipped."""
HIGHEST = (1.0472, 3.4907, -0.83776) * 2 + (1.0472, 4.5379, -0.83776) * 2
"""Largest target angles [rad], the joints' upper limits; the calves reach theirs at an action of 0.55."""
FASTEST = {"velocity": ((-0.5, -0.3), (1.0, 0.3)), "yaw_rate": ((-0.8,), (0.8,))}
"""Smallest and largest commands: velocity forward and to the left [m/s], yaw rate to the left [rad/s]."""

_XYZ = ("x", "y", "z")
LAYOUT = Layout.of(
    [
        signal("angular_velocity", "rad/s", _XYZ, meaning="of the trunk, in its frame: the gyroscope"),
        signal("gravity", "1", _XYZ, (-1.0, 1.0), meaning="unit vector down, in the trunk's frame"),
        signal("commanded_velocity", "m/s", ("x", "y"), (-1.0, 1.0), meaning="forward and to the left", command=True),
        signal("commanded_yaw_rate", "rad/s", ("yaw",), (-0.8, 0.8), meaning="turn to the left", command=True),
        signal("joint_angles", "rad", MOTORS),
        signal("joint_velocities", "rad/s", MOTORS),
        signal("last_action", "1", MOTORS, (-1.0, 1.0), meaning="the action that was applied last", command=True),
    ]
)
_ENDS = ", ".join(
    f"{low:g} to {high:g} for {part}"
    for part, low, high in (
        (part, STANCE[i] - REACH[i], STANCE[i] + REACH[i]) for i, part in enumerate(("hips", "thighs", "calves"))
    )
)
ACTION = signal(
    "joint_targets", "1", MOTORS, (-1.0, 1.0), meaning=f"-1 to 1 is a target angle in rad from {_ENDS}; kp 20, kd 0.5"
)

SHEET = DataSheet(
    frame="the trunk's: x forward, y to the left, z up; angles are those of Unitree's low level",
    home="standing in the stance, at rest",
    gains="PD position control of each motor; target = stance + reach * action, cut off at "
    "lowest and highest; it stands for a period",
    numbers={
        "stance": Quantity(unit="rad", values=STANCE),
        "reach": Quantity(unit="rad", values=REACH),
        "lowest": Quantity(unit="rad", values=LOWEST),
        "highest": Quantity(unit="rad", values=HIGHEST),
        "kp": Quantity(unit="N m/rad", values=(20.0,)),
        "kd": Quantity(unit="N m s/rad", values=(0.5,)),
    },
)

FEATURES = (
    Feature("payload", "kg", 0.0, default=0.0),
    Feature("payload_x", "m", -0.2, default=0.0, high=0.2),
    Feature("payload_y", "m", -0.1, default=0.0, high=0.1),
    Feature("friction", "", 0.0, low_open=True, default=0.8),
    Feature("strength", "(times the motors' own)", 0.0, default=1.0),
    Feature("damping", "N m s/rad", 0.0, default=0.1),
    Feature("delay", "s", 0.0, default=0.0, high=0.04),
    Crippled("motor", MOTORS, most=1),
    Feature("crippled_strength", "(times the motor's own)", 0.0, default=0.0, high=1.0),
)
_GROUPS = (("payload", "payload_x", "payload_y"), ("friction",), ("strength",), ("damping",), ("delay",), ("crippled",))
"""Groups of features that `DrawnChanges` changes together."""


@dataclass(frozen=True)
class DrawnChanges:
    """Draws tasks in which one group of features changes, and each other group with a probability."""

    ranges: Mapping[str, tuple[Range | float, ...]]
    """Ranges or values by feature, of which one is chosen; a crippled motor has a drawn `crippled_strength`."""
    nominal: float = 0.0
    """Fraction of tasks without any change."""
    chance: float = 0.5
    """Probability that a group changes."""

    def __call__(self, rng: np.random.Generator) -> Task:
        """Draw a task."""
        changes = rng.random(len(_GROUPS)) < self.chance
        changes[int(rng.integers(len(_GROUPS)))] = True
        if rng.random() < self.nominal:
            changes[:] = False
        task: dict[str, float | list[int]] = {}
        for group in (group for group, flag in zip(_GROUPS, changes, strict=True) if flag):
            if group == ("crippled",):
                task["crippled"] = [int(rng.integers(len(MOTORS)))]
                group = ("crippled_strength",)
            for name in group:
                values = self.ranges[name]
                value = values[int(rng.integers(len(values)))]
                task[name] = value.draw(rng) if isinstance(value, Range) else value
        return {feature.name: feature.of(task) for feature in FEATURES}


_OFFSETS: dict[str, tuple[Range | float, ...]] = {
    "payload_x": (Range(-0.12, 0.12),),
    "payload_y": (Range(-0.05, 0.05),),
}
TASK_SAMPLERS = {
    "training": DrawnChanges(
        {
            **_OFFSETS,
            "payload": (Range(0.0, 5.0),),
            "friction": (Range(0.5, 1.25),),
            "strength": (Range(0.8, 1.1),),
            "damping": (Range(0.05, 0.3),),
            "delay": (Range(0.0, 0.02),),
            "crippled_strength": (Range(0.0, 1.0), 0.0),
        },
        nominal=0.1,
    ),
    "moderate": DrawnChanges(
        {
            **_OFFSETS,
            "payload": (Range(5.0, 6.5),),
            "friction": (Range(0.4, 0.5), Range(1.25, 1.4)),
            "strength": (Range(0.75, 0.8),),
            "damping": (Range(0.3, 0.4),),
            "delay": (Range(0.02, 0.03),),
            "crippled_strength": (Range(0.0, 0.2),),
        }
    ),
    "extreme": DrawnChanges(
        {
            **_OFFSETS,
            "payload": (Range(6.5, 8.0),),
            "friction": (Range(0.3, 0.4), Range(1.4, 1.5)),
            "strength": (Range(0.7, 0.75),),
            "damping": (Range(0.4, 0.5),),
            "delay": (Range(0.03, 0.04),),
            "crippled_strength": (0.0,),
        }
    ),
}
TASKS = 100
"""Number of tasks in each drawn set, where a finite list is needed."""
SINGLE: tuple[Task, ...] = (
    {},
    {"payload": 8.0},
    {"payload": 5.0, "payload_x": 0.12},
    {"friction": 0.3},
    {"friction": 1.5},
    {"strength": 0.7},
    {"damping": 0.5},
    {"delay": 0.02},
    {"delay": 0.04},
    *({"crippled": [motor], "crippled_strength": 0.2} for motor in range(3)),
)
"""The unchanged robot, and tasks with one change each."""
DEAD: tuple[Task, ...] = tuple({"crippled": [motor]} for motor in range(len(MOTORS)))
"""One dead motor per task, everything else unchanged."""


def _task_space() -> TaskSpace:
    space = TaskSpace(FEATURES, {}, hint="It is the number of one motor, e.g. crippled=2.")
    sets: dict[str, tuple[Task, ...]] = {}
    for name, sampler in TASK_SAMPLERS.items():
        rng = np.random.default_rng((seeds.TASK_RANGES, zlib.crc32(f"go2 {name}".encode())))
        sets[name] = tuple(sampler(rng) for _ in range(TASKS))
    for name, tasks in (("single", SINGLE), ("dead", DEAD)):
        sets[name] = tuple(space.check(task) for task in tasks)
    return TaskSpace(FEATURES, sets, hint=space.hint, drawn=TASK_SAMPLERS)


GO2 = EnvironmentSpec(
    name="go2",
    id="sami/Go2-v0",
    entry_point="sami_train.envs.go2.env:Go2Env",
    batch_entry_point="sami_train.envs.go2.batch:Go2Batch",
    tasks=_task_space(),
    layout=LAYOUT,
    action=ACTION,
    rate_hz=50.0,
    episode_steps=500,
    measure=RETURN,
    metrics=(
        Metric("tracking_error", "m/s", 3, "distance of the mean velocity from a command, from its first second on"),
        Metric("yaw_error", "rad/s", 3, "the same of the yaw rate"),
        Metric("falls", "1", 2, "share of episodes that ended in a fall"),
        Metric("power", "W", 0, "mean mechanical power of the motors, absolute"),
    ),
    ends_early=True,
    sheet=SHEET,
    extra="mujoco",
)
"""A Unitree Go2 that follows velocity commands."""
