"""An adopted policy's robot as a Gymnasium environment: it gets commands, and succeeds if it stays upright."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
from gymnasium import spaces

from sami_runtime.adoption.recipe import Recipe
from sami_runtime.errors import SamiError
from sami_runtime.model.contract import ADOPTED, Contract
from sami_runtime.robots.kit.commands import CommandSource
from sami_runtime.robots.kit.quantities import COMMAND
from sami_runtime.signals import Signal
from sami_train.envs.layout import Layout
from sami_train.envs.measure import SUCCESS
from sami_train.envs.mujoco.camera import RENDER_MODES, Filmed
from sami_train.envs.mujoco.task_env import NO_RESET, blown_up
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Feature, Tasks, TaskSpace, draw
from sami_train.studies.play.quantities import RobotState, readings_of
from sami_train.studies.play.robot import PlayedRobot, SceneFile

SMOOTHED_S = 0.5
"""Time constant of the mean velocity that is compared with the command [s]: it averages over strides."""
COMMANDS: tuple[dict[str, float], ...] = ({"forward": 0.5}, {"forward": 0.5, "turn": 0.5}, {"left": 0.3}, {"turn": 0.8})
"""Default commands of evaluations, if the TOML file has none [m/s, m/s, rad/s]."""
ERROR = "m/s, rad/s"
"""Unit of the tracking error: the norm of the differences of forward, left [m/s] and turn [rad/s]."""


@dataclass(frozen=True)
class AdoptedRobot:
    """The data of a policy and of its robot from which every process creates a `PlayEnv`."""

    settings: SceneFile
    recipe: Recipe
    observation: tuple[Signal, ...]
    action: Signal
    rate_hz: float


class PlayEnv(Filmed, gym.Env[np.ndarray, np.ndarray]):
    """A robot whose joints track the position targets that a policy writes.

    The reward of a step is the negative tracking error, or 0 without a velocity command. `info` has the command as
    `task`, `tracking_error`, and `is_success`: whether the robot is upright. A fall ends the episode.

    Args:
        setup: the policy and the robot.
        tasks: commands to draw from at each reset: a set's name, one command, or several.
        render_mode: None, `"rgb_array"` (no display needed) or `"human"`.
        render_size: width and height of rendered images [pixels].

    Raises:
        SamiError, UnknownName: policy and robot do not match; see `PlayedRobot` and `readings_of`.
    """

    metadata = {"render_modes": list(RENDER_MODES)}  # noqa: RUF012 (declared so by the base class)

    def __init__(
        self,
        setup: AdoptedRobot,
        tasks: Tasks = "training",
        render_mode: str | None = None,
        render_size: tuple[int, int] = (480, 360),
    ) -> None:
        self.robot = PlayedRobot(setup.settings, setup.recipe, setup.rate_hz)
        self.state = RobotState(self.robot)
        self.model, self.data = self.state.model, self.state.data
        self.model.opt.disableflags |= NO_RESET
        self._readings, self.commands = readings_of(self.robot, setup.recipe, setup.observation)
        elements = [element for elements in self.commands.values() for element in elements]
        self.elements = sorted(elements, key=lambda element: [*COMMAND, element].index(element))
        """Elements of the command."""
        self.space = command_space(self.elements, setup.settings)
        self.tasks = self.space.resolve(tasks)
        self.source: CommandSource | None = None
        """Source of commands over an episode; None uses the episode's task as a constant command."""
        self.metadata = {**self.metadata, "render_fps": round(setup.rate_hz)}
        self._period = 1.0 / setup.rate_hz
        size, count = sum(signal.size for signal in setup.observation), setup.action.size
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        low, high = (
            np.array([end if bound is None else bound for bound in bounds], np.float32)
            for bounds, end in ((setup.action.low, -np.inf), (setup.action.high, np.inf))
        )
        self.action_space = spaces.Box(low, high, (count,), np.float32)
        self._film(self.model, self.data, render_mode, render_size)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode with a command drawn from the tasks, or with `options["task"]`."""
        super().reset(seed=seed)
        task = (options or {}).get("task") or draw(self.tasks, self.np_random)
        self._task = dict(self.space.check(task))
        self.robot.begin(self.data, self.np_random)
        self._time, self.state.clock_s, self._unstable = 0.0, 0.0, False
        self._smoothed = self._velocity()
        self._height = float(self.data.xpos[self.robot.base][2])
        self._command()
        self._show()
        return self._observe(), self._info()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Apply position targets (A,) [rad or m] for one period of the policy."""
        self.robot.hold(self.data, np.asarray(action, float))
        mujoco.mj_step(self.model, self.data, nstep=self.robot.substeps)
        self._unstable = bool(blown_up(self.data.qpos, self.data.qvel))
        if self._unstable:
            mujoco.mj_resetData(self.model, self.data)
        mujoco.mj_forward(self.model, self.data)  # update sensors and frames to the new state
        self._time += self._period
        self.state.clock_s += self._period
        self._smoothed += self._period / SMOOTHED_S * (self._velocity() - self._smoothed)
        info = self._info()
        self._command()
        self._show()
        return self._observe(), -info["tracking_error"], not info["is_success"], False, info

    def _command(self) -> None:
        """Set the command of the next period."""
        idle = not any(self.state.command.values())
        self.state.command = dict(self._task if self.source is None else self.source.at(self._time))
        if idle:
            self.state.clock_s = 0.0

    def _observe(self) -> np.ndarray:
        return np.concatenate([read(self.state) for read in self._readings]).astype(np.float32)

    def _velocity(self) -> np.ndarray:
        """Return the base's velocity forward and left of its heading [m/s], and its turn about the vertical [rad/s]."""
        if self.robot.base < 0:
            return np.zeros(3)
        turn, velocity = np.split(self.state.velocity(local=False), 2)
        ahead = self.state.rotation[:2, 0] / max(float(np.linalg.norm(self.state.rotation[:2, 0])), 1e-9)
        left = np.array([-ahead[1], ahead[0]])
        return np.array([velocity[:2] @ ahead, velocity[:2] @ left, turn[2]])

    def _info(self) -> dict[str, Any]:
        command = self.state.command
        tracked = [at for at, name in enumerate(COMMAND) if name in self.elements]
        target = np.array([command.get(name, 0.0) for name in COMMAND])
        error = float(np.linalg.norm((self._smoothed - target)[tracked]))
        return {"task": dict(command), "tracking_error": error, "is_success": self._upright()}

    def _upright(self) -> bool:
        settings = self.robot.settings
        if self._unstable or not self.robot.floats:
            return not self._unstable
        tilt = np.degrees(np.arccos(np.clip(self.state.rotation[2, 2], -1.0, 1.0)))
        height = float(self.data.xpos[self.robot.base][2])
        return bool(tilt < settings.fallen_tilt_deg and height > settings.fallen_height * self._height)


def command_space(elements: Sequence[str], settings: SceneFile) -> TaskSpace:
    """Return the commands as tasks; a single task without features if the policy reads no command.

    A missing velocity is 0. Other elements, such as a height, must be in the TOML file's `commands`, else SamiError.
    """
    units = dict(zip(COMMAND, ("m/s", "m/s", "rad/s"), strict=True))
    features = tuple(
        Feature(name, units.get(name, ""), low=-np.inf, default=0.0 if name in COMMAND else None) for name in elements
    )
    if not settings.commands and (unknown := [name for name in elements if name not in COMMAND]):
        raise SamiError(
            f"the policy is commanded {', '.join(unknown)}, and nothing says what they are. Give them in the TOML file "
            f"that --robot names: commands = [{{ {unknown[0]} = 0.5 }}]"
        )
    commands = settings.commands or tuple(command for command in COMMANDS if command.keys() <= set(elements))
    space = TaskSpace(features, {"training": ({},)})
    return TaskSpace(features, {"training": tuple(space.check(command) for command in commands or ({},))})


def play_environment(contract: Contract, name: str) -> EnvironmentSpec:
    """Return the environment of an adopted policy on a robot's MJCF model.

    Args:
        contract: The contract of the policy's file.
        name: Path of NAME.xml, or of NAME.toml with the keys of `SceneFile`.

    Raises:
        SamiError, UnknownName: The policy was not adopted, or policy and robot do not match.
    """
    adopted = contract.training.get(ADOPTED)
    if not isinstance(adopted, dict):
        raise SamiError(f"{contract.name!r} was not adopted, so nothing says which joints it moves; see sami adopt.")
    recipe = Recipe.parse(adopted["recipe"], contract.name)
    setup = AdoptedRobot(SceneFile.load(Path(name)), recipe, contract.observation, contract.action, contract.rate_hz)
    env = PlayEnv(setup)
    return EnvironmentSpec(
        name=name,
        id=f"sami/play-{Path(name).stem}-v0",
        entry_point="sami_train.studies.play.env:PlayEnv",
        arguments={"setup": setup},
        tasks=env.space,
        layout=Layout.of(contract.observation),
        action=contract.action,
        rate_hz=contract.rate_hz,
        episode_steps=contract.episode_steps or 1000,
        measure=SUCCESS,
        ends_early=True,
        extra="mujoco",
        tracks=ERROR if set(COMMAND) & set(env.elements) else None,
        commands=tuple(env.commands),
        can_change=False,
    )
