"""A user's robot: its compiled model, and the contents of its TOML file."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from sami_runtime.errors import SamiError, require_known
from sami_runtime.factories import load_factory
from sami_train.envs.layout import Layout
from sami_train.envs.measure import RETURN, Metric
from sami_train.envs.mjcf.description import ByJoint, Description, Term, read_description
from sami_train.envs.mjcf.model import (
    Dynamics,
    Numbers,
    action_signal,
    control_range,
    element,
    ending_of,
    measure,
    positions,
    readings,
    reward_of,
    state_readings,
    velocities,
)
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Feature, Range, TaskError, TaskSet, TaskSpace, task_space

_WHOLE = 1e-6
"""Relative tolerance for a whole number of simulation steps per action, since users round rates to decimals."""


class MjcfRobot:
    """The TOML file and its model, checked and compiled, for the catalogue's entry and the environments.

    Raises:
        SamiError, UnknownName: the file or the model is not valid; the message says where and how to correct it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.described = described = read_description(path)
        self.name = described.name or path.stem
        self.commands = commands = tuple(described.commands)
        self.model = model = _compile(path.parent / described.model, path, len(commands))
        self.memory = len(commands) + model.nu
        """How many numbers at the end of MuJoCo's `userdata` store the commands and the last applied action."""
        self.frame_skip = _frame_skip(described, model.opt.timestep, path)
        self.rate_hz = 1.0 / (self.frame_skip * model.opt.timestep)
        self.readings = readings(model, described.observation, described.commands)
        self.privileged = state_readings(model, described.privileged, "privileged")
        self._middle, self._half = control_range(model, described.action)
        self.action = action_signal(model, self._middle, self._half)
        self.dynamics = Dynamics(model, described.features)
        self.tasks = _tasks(described.tasks, self.dynamics.features)
        terms, self.reward_function = _reward(described, path)
        self.reward = reward_of(model, terms, commands)
        self.is_over = ending_of(model, described.end, commands)
        self.metrics = {
            term.name: measure(model, term, f"metric {i + 1}", commands) for i, term in enumerate(described.metric)
        }
        self._qpos, self._qvel = _pose(model, described.reset.keyframe)
        self._qpos_noise = _spread(model, described.reset.qpos_noise, positions, "reset.qpos_noise")
        self._qvel_noise = _spread(model, described.reset.qvel_noise, velocities, "reset.qvel_noise")

    def draw_commands(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the commands of a new episode, (C,)."""
        return np.array([rng.uniform(command.low, command.high) for command in self.described.commands.values()])

    def starts(self, rngs: Sequence[np.random.Generator]) -> tuple[Numbers, Numbers]:
        """Draw the first states of k episodes, one from each generator: positions (k, nq) and velocities (k, nv)."""
        qpos, qvel = np.tile(self._qpos, (len(rngs), 1)), np.tile(self._qvel, (len(rngs), 1))
        for k, rng in enumerate(rngs):
            qpos[k] += rng.uniform(-1.0, 1.0, self.model.nq) * self._qpos_noise
            qvel[k] += rng.uniform(-1.0, 1.0, self.model.nv) * self._qvel_noise
            mujoco.mj_normalizeQuat(self.model, qpos[k])
        return qpos, qvel

    def control(self, actions: Numbers) -> Numbers:
        """Return MuJoCo's controls (n, A) for actions (n, A) from -1 to 1."""
        return self._middle + self._half * actions


def _compile(path: Path, described_in: Path, commands: int) -> mujoco.MjModel:
    """Return the compiled model, with additional `userdata` for `MjcfRobot.memory`."""
    if not path.is_file():
        raise SamiError(
            f"{described_in}: model is {str(path)!r}, which is no file. Give its path from this file's folder."
        )
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        spec.nuserdata = max(spec.nuserdata, 0) + commands + len(spec.actuators)
        return spec.compile()
    except ValueError as error:
        raise SamiError(f"MuJoCo cannot read {path}: {' '.join(str(error).split())}. Correct the model.") from None


def _frame_skip(described: Description, timestep: float, path: Path) -> int:
    if described.frame_skip is not None:
        return described.frame_skip
    assert described.rate_hz is not None
    steps = 1.0 / (described.rate_hz * timestep)
    whole = max(1, round(steps))
    if abs(steps - whole) > _WHOLE * whole:
        rates = ", ".join(
            f"{1.0 / (n * timestep):.9g}" for n in sorted({max(1, int(steps)), int(steps) + 1}, reverse=True)
        )
        raise SamiError(
            f"{path}: rate_hz is {described.rate_hz:g}, which is {steps:g} simulation steps of {timestep:g} s; they "
            f"must be a whole number. Nearest: {rates}; or change the model's timestep."
        )
    return whole


def _tasks(sets: Mapping[str, Any], features: tuple[Feature, ...]) -> TaskSpace:
    """Return the task space of the file's sets; its features have the units and bounds of the model's fields."""
    space = dataclasses.replace(task_space({name: _task_set(tasks) for name, tasks in sets.items()}), features=features)
    for tasks in space.sets.values():
        space.resolve(tasks)
    return space


def _task_set(tasks: Any) -> TaskSet:
    """Return a set of tasks in which a `Range` replaces each table of `low` and `high`."""
    if not isinstance(tasks, Mapping):
        return tasks
    return {name: _values(f"tasks: {name}", values) for name, values in tasks.items()}


def _values(where: str, values: Any) -> Any:
    if isinstance(values, list):
        return [_values(where, value) for value in values]
    if not isinstance(values, Mapping):
        return values
    keys = ["low", "high", "log"]
    require_known("key", values, keys, f"{where} has it; a range is {{ low = 0.5, high = 2.0 }}.")
    if not {"low", "high"} <= values.keys():
        raise SamiError(f"{where} is {dict(values)}; a range is {{ low = 0.5, high = 2.0 }}. Give both ends.")
    try:
        return Range(**values)
    except TaskError as error:
        raise TaskError(f"{where}: {error}") from None


def _reward(described: Description, path: Path) -> tuple[tuple[Term, ...], Callable[..., float] | None]:
    """Return the reward's terms and None, or no terms and the user's reward function."""
    if not isinstance(described.reward, str):
        return described.reward, None
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.insert(0, folder)  # so that a module beside the file can be imported from any working directory
    return (), load_factory(described.reward, "reward", "my_robot:reward")


def _pose(model: mujoco.MjModel, keyframe: str | None) -> tuple[np.ndarray, np.ndarray]:
    if keyframe is None:
        return model.qpos0.copy(), np.zeros(model.nv)
    number = element(model, "key", keyframe, "reset.keyframe")
    return model.key_qpos[number].copy(), model.key_qvel[number].copy()


def _spread(
    model: mujoco.MjModel, noise: ByJoint, where: Callable[[mujoco.MjModel, int], np.ndarray], key: str
) -> np.ndarray:
    """Return the largest noise of each position (nq,) or velocity (nv,)."""
    indices = [where(model, joint) for joint in range(model.njnt)]
    spread = np.zeros(sum(len(group) for group in indices))
    if not isinstance(noise, dict):
        return spread + noise
    for name, most in noise.items():
        spread[indices[element(model, "joint", name, key)]] = most
    return spread


def load_robot(path: Path) -> EnvironmentSpec:
    """Read a TOML file and the MJCF model that it names.

    Raises:
        SamiError, UnknownName: the file or the model is not valid; the message says where and how to correct it.
    """
    robot = MjcfRobot(path)
    safe = re.sub(r"[^A-Za-z0-9]+", "-", robot.name).strip("-")
    return EnvironmentSpec(
        name=robot.name,
        id=f"sami/{safe or 'robot'}-v0",
        entry_point="sami_train.envs.mjcf.env:MjcfEnv",
        batch_entry_point="sami_train.envs.mjcf.batch:MjcfBatch",
        hyperparameters={"fast-cpu": {"collection.workers": 1}},  # SAC steps single ones, and some take long
        arguments={"path": str(path)},
        tasks=robot.tasks,
        layout=Layout.of([reading.signal for reading in robot.readings]),
        action=robot.action,
        rate_hz=robot.rate_hz,
        episode_steps=robot.described.episode_steps,
        measure=RETURN,
        metrics=tuple(Metric(term.name, term.unit, digits=3) for term in robot.described.metric),
        privileged=tuple(reading.signal for reading in robot.privileged),
        ends_early=bool(robot.described.end),
        extra="mujoco",
    )
