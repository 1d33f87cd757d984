"""Records responses of the Panda and its cube to scripted commands, by which two engines are compared and matched.

A script reads observations by signal and returns actions, so it works in any environment with the Panda's signals. The
seed determines the cube's position. No policy is involved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from sami_train.envs.layout import flatten
from sami_train.envs.panda.entry import PANDA
from sami_train.envs.tasks import Task

Values = Mapping[str, np.ndarray]
Script = Iterator[tuple[np.ndarray, bool]]
"""A generator that yields pairs of an action (4,) and whether to measure its result, and receives observations."""

SEED = 5
"""Seed of the measured episodes: the cube is in reach, and far from the goal."""
OPEN, SHUT, STILL = 1.0, -1.0, 0.0
_STEP = 0.05
"""Displacement for an action of 1 [m]."""


@dataclass(frozen=True)
class MeasuredCommand:
    """A scripted command, and the numbers to measure under it."""

    name: str
    task: Task
    script: Callable[[Values], Any]
    """Makes the generator of actions from the first observation."""
    measures: Mapping[str, Callable[[Values, Values], float]]
    """Functions of the present and the first observation that return a number, by its name."""

    def measure(self, env: gym.Env[Any, Any]) -> dict[str, list[float]]:
        """Run the command; return a trace of each number, with one value for each measured step."""
        observation, _ = env.reset(seed=SEED, options={"task": dict(self.task)})
        first = PANDA.layout.by_name(flatten(observation).astype(np.float64))
        traces: dict[str, list[float]] = {name: [] for name in self.measures}
        script = self.script(first)
        action, measured = next(script)
        while True:
            observation = env.step(np.asarray(action, np.float32))[0]
            values = PANDA.layout.by_name(flatten(observation).astype(np.float64))
            if measured:
                for name, number in self.measures.items():
                    traces[name].append(float(number(values, first)))
            try:
                action, measured = script.send(values)
            except StopIteration:
                return traces


def _towards(values: Values, place: np.ndarray, gripper: float) -> np.ndarray:
    return np.append(np.clip((place - values["ee_position"]) / _STEP, -1.0, 1.0), gripper)


def _approach(values: Values, places: list[np.ndarray], gripper: float) -> Any:
    """Visit places [m] one after the other, 12 steps each, since the arm approaches its targets slowly."""
    for place in places:
        for _ in range(12):
            values = yield _towards(values, place, gripper), False
    return values


def _repeat(action: list[float], steps: int) -> Any:
    for _ in range(steps):
        yield np.array(action), True


def _free(axis: int, sign: float) -> Callable[[Values], Any]:
    def script(values: Values) -> Any:
        action = [0.0, 0.0, 0.0, STILL]
        action[axis] = sign
        yield from _repeat(action, 5)
        yield from _repeat([0.0, 0.0, 0.0, STILL], 5)

    return script


def _gripper(values: Values) -> Any:
    for opening, steps in ((OPEN, 3), (-0.1, 3), (0.1, 3), (SHUT, 3)):
        yield from _repeat([0.0, 0.0, 0.0, opening], steps)


def _above(cube: np.ndarray) -> np.ndarray:
    return cube + [0.0, 0.0, 0.12]


def _grasped(values: Values) -> Any:
    cube = values["cube_position"]
    yield from _approach(values, [_above(cube), cube], OPEN)
    yield from _repeat([0.0, 0.0, 0.0, SHUT], 5)


def _lift(values: Values) -> Any:
    yield from _grasped(values)
    yield from _repeat([0.0, 0.0, 0.5, SHUT], 6)
    yield from _repeat([0.0, 0.0, 0.0, SHUT], 4)


def _carry(values: Values) -> Any:
    yield from _lift(values)
    for side in (1.0, -1.0):
        yield from _repeat([0.0, side, 0.0, SHUT], 4)


def _drop(values: Values) -> Any:
    yield from _lift(values)
    yield from _repeat([0.0, 0.0, 0.0, OPEN], 6)


def _drag(values: Values) -> Any:
    yield from _grasped(values)
    yield from _repeat([0.0, -1.0, 0.0, SHUT], 4)
    yield from _repeat([0.0, 0.0, 0.0, SHUT], 4)


def _push(axis: int) -> Callable[[Values], Any]:
    approach = np.eye(3)[axis] * 0.07

    def script(values: Values) -> Any:
        start = values["cube_position"] - approach
        yield from _approach(values, [_above(start), start], SHUT)
        action = [0.0, 0.0, 0.0, SHUT]
        action[axis] = 1.0
        yield from _repeat(action, 4)
        yield from _repeat([0.0, 0.0, 0.0, SHUT], 6)

    return script


def _press(values: Values) -> Any:
    """Press the fingers onto the table beside the cube, and drag them along the table."""
    place = values["cube_position"] * [1.0, 1.0, 0.0] + [0.0, -0.1, 0.0]
    yield from _approach(values, [_above(place), place], SHUT)
    yield from _repeat([0.0, 0.0, -1.0, SHUT], 4)
    yield from _repeat([0.0, -1.0, -1.0, SHUT], 6)


def _change(signal: str, axis: int) -> Callable[[Values, Values], float]:
    return lambda values, first: values[signal][axis] - first[signal][axis]


def _now(signal: str, axis: int) -> Callable[[Values, Values], float]:
    return lambda values, _: values[signal][axis]


_HAND = {f"hand {name} [m]": _change("ee_position", axis) for axis, name in enumerate("xyz")}
_CUBE = {f"cube {name} [m]": _change("cube_position", axis) for axis, name in enumerate("xyz")}
_WIDTH = {"fingers [m]": _now("gripper_width", 0)}
_GRASP = {**_WIDTH, "hand z [m]": _now("ee_position", 2), **_CUBE, "cube pitch [rad]": _now("cube_rotation", 1)}
_PUSHED = {**_CUBE, "cube vx [m/s]": _now("cube_velocity", 0), "cube vy [m/s]": _now("cube_velocity", 1)}
_MIDDLE = {"mass": 1.0, "friction": 1.0}


def _tasks(masses: tuple[float, ...], frictions: tuple[float, ...]) -> list[Task]:
    return [{"mass": mass, "friction": friction} for mass in masses for friction in frictions]


def _label(kind: str, task: Task) -> str:
    return f"{kind}, {task['mass']:g} kg, friction {task['friction']:g}"


RESPONSES: tuple[MeasuredCommand, ...] = (
    *(
        MeasuredCommand(f"free {'+' if sign > 0 else '-'}{'xyz'[axis]}", _MIDDLE, _free(axis, sign), _HAND)
        for axis in range(3)
        for sign in (1.0, -1.0)
    ),
    MeasuredCommand("fingers", _MIDDLE, _gripper, _WIDTH),
    *(MeasuredCommand(_label("lift", task), task, _lift, _GRASP) for task in _tasks((1.0, 5.0, 10.0, 30.0), (1.0,))),
    *(MeasuredCommand(_label("carry", task), task, _carry, _GRASP) for task in _tasks((1.0, 5.0), (1.0,))),
    *(MeasuredCommand(_label("drag", task), task, _drag, _GRASP) for task in _tasks((1.0, 10.0), (0.1, 1.0))),
    *(
        MeasuredCommand(_label(f"push {'xy'[axis]}", task), task, _push(axis), _PUSHED)
        for axis in (0, 1)
        for task in _tasks((1.0, 5.0, 10.0, 30.0), (0.1, 1.0, 10.0))
    ),
    MeasuredCommand("drop, 1 kg, friction 1", _MIDDLE, _drop, _GRASP),
    *(MeasuredCommand(_label("press", task), task, _press, _HAND) for task in _tasks((1.0,), (0.1, 1.0, 10.0))),
)
"""Free motion in each direction, the fingers' alone, lifting, carrying and dragging what is grasped, pushing, dropping,
and pressing on the table; by the cube's mass and the table's friction."""
