"""Defines published tasks with hidden physics, and the observations of every method, without a learner.

`gravity-half-cheetah` and `gravity-hopper`: Gymnasium's models with gravity times 1.5^U(-3, 3), drawn for each episode
of 1,000 steps, as in RESeL (github.com/FanmingL/Recurrent-Offpolicy-RL, envs/meta/dynamics_meta_env_wrapper.py).
RESeL draws 100 such tasks once, in MuJoCo 2's models; here each episode draws one, in Gymnasium's v5 models.

`carl-walker`: dm_control's walker (walk) with gravity and actuator strength, the ranges and grids of DALI
(github.com/frankroeder/DALI, contextual_mbrl/dreamer/envs.py). carl-bench 1.1.1 itself needs gymnasium below 1.0, which
today's learners do not support; this module makes its two changes on dm_control's walker itself: it sets the gravity of
the model's options, and multiplies the gear of every actuator by the strength.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

Physics = Mapping[str, float]
"""Values of the hidden features, by name."""
EPISODE_STEPS = 1000


@dataclass(frozen=True)
class Hidden:
    """The training range of a hidden feature."""

    low: float
    high: float
    log: bool = False
    """Whether to draw uniformly in the logarithm, instead of linearly."""

    def draw(self, rng: np.random.Generator) -> float:
        """Draw a value."""
        return self.at(rng.uniform())

    def at(self, share: float) -> float:
        """Return the quantile of the draws for a share from 0 to 1."""
        low, high = (np.log(self.low), np.log(self.high)) if self.log else (self.low, self.high)
        value = low + share * (high - low)
        return float(np.exp(value) if self.log else value)

    def coded(self, value: float) -> float:
        """Return the value scaled to -1 to 1 over the training range, as methods that observe the physics read it."""
        low, high, value = np.log([self.low, self.high, value]) if self.log else (self.low, self.high, value)
        return float(2.0 * (value - low) / (high - low) - 1.0)


@dataclass(frozen=True)
class Task:
    """A robot, its hidden features, and the physics of its evaluation."""

    name: str
    make: Callable[[], gym.Env]
    """Creates the published environment, with or without a time limit."""
    hidden: Mapping[str, Hidden]
    apply: Callable[[gym.Env, Physics], None]
    """Applies the physics to the environment, before a reset."""
    read: Callable[[gym.Env], dict[str, float]]
    """Reads the physics back from the simulator."""
    sets: Mapping[str, Sequence[Physics]]
    """Physics of the evaluation by set; the first set is that of the learning curves."""
    ends_early: bool
    rate_hz: float
    """Actions per second."""

    @property
    def curve(self) -> str:
        """Name of the set of the learning curves."""
        return next(iter(self.sets))


class HiddenPhysics(gym.Wrapper):
    """A task with episodes of 1,000 steps, in hidden physics that each reset draws.

    Args:
        task: the task.
        reads_task: whether to append the physics to the observation, each from -1 to 1 over its training range.

    `reset(options={"physics": ...})` sets the physics instead of drawing them.
    """

    def __init__(self, task: Task, reads_task: bool = False) -> None:
        super().__init__(task.make())
        self.task, self.reads_task = task, reads_task
        self.physics: dict[str, float] = {}
        self._steps = 0
        size = int(np.prod(self.env.observation_space.shape)) + (len(task.hidden) if reads_task else 0)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        low, high = self.env.action_space.low, self.env.action_space.high
        if not (np.all(low == -1.0) and np.all(high == 1.0)):
            raise ValueError(f"{task.name} acts from {low} to {high}; peers and ours are compared on actions -1 to 1.")
        self.action_space = gym.spaces.Box(-1.0, 1.0, low.shape, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Begin an episode; the same seed gives the same physics and start."""
        if seed is not None:
            self.np_random = np.random.default_rng(seed)
        physics = (options or {}).get("physics")
        self.physics = dict(physics or {name: hidden.draw(self.np_random) for name, hidden in self.task.hidden.items()})
        self.task.apply(self.env, self.physics)
        observation, _ = self.env.reset(seed=int(self.np_random.integers(2**31)))
        self._steps = 0
        return self._observed(observation), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Step the robot; `info` is empty, so that no method can read the physics there."""
        action = np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        observation, reward, terminated, truncated, _ = self.env.step(action)
        self._steps += 1
        truncated = truncated or self._steps >= EPISODE_STEPS
        return self._observed(observation), float(reward), bool(terminated), bool(truncated and not terminated), {}

    def _observed(self, observation: np.ndarray) -> np.ndarray:
        numbers = (
            [self.task.hidden[name].coded(value) for name, value in self.physics.items()] if self.reads_task else []
        )
        return np.concatenate([np.ravel(observation), numbers]).astype(np.float32)


class Walker(gym.Env):
    """dm_control's walker (walk) as a Gymnasium environment: flat observation (24,), action (6,) from -1 to 1."""

    metadata = {"render_modes": []}  # noqa: RUF012 (declared so by the base class)

    def __init__(self) -> None:
        from dm_control import suite

        self.suite = suite.load("walker", "walk", environment_kwargs={"flat_observation": True})
        self.gear = self.model.actuator_gear.copy()
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, self._flat(self.suite.reset()).shape, np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, self.suite.action_spec().shape, np.float32)

    @property
    def model(self) -> Any:
        """MuJoCo's model."""
        return self.suite.physics.model

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Begin an episode, by the seed if one is given."""
        if seed is not None:
            self.suite.task.random.seed(seed)
        return self._flat(self.suite.reset()), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Step the robot by 25 ms; the episode never terminates early."""
        step = self.suite.step(action)
        return self._flat(step), float(step.reward), False, step.last(), {}

    @staticmethod
    def _flat(step: Any) -> np.ndarray:
        return np.asarray(step.observation["observations"], np.float32)


GRAVITY = Hidden(1.5**-3, 1.5**3, log=True)
"""Factor of the model's own gravity."""
G = 9.81


def _scale_gravity(env: gym.Env, physics: Physics) -> None:
    env.unwrapped.model.opt.gravity[:] = (0.0, 0.0, -G * physics["gravity"])


def _gravity_of(env: gym.Env) -> dict[str, float]:
    return {"gravity": float(env.unwrapped.model.opt.gravity[2] / -G)}


def _gravity_task(name: str, robot: str, rate_hz: float, ends_early: bool) -> Task:
    """Return a Gymnasium robot with hidden gravity, judged at the middle quantiles of 20 equal parts of its range."""
    middles = [{"gravity": GRAVITY.at((k + 0.5) / 20)} for k in range(20)]
    return Task(
        name=name,
        make=lambda: gym.make(robot, max_episode_steps=-1, disable_env_checker=True).unwrapped,
        hidden={"gravity": GRAVITY},
        apply=_scale_gravity,
        read=_gravity_of,
        sets={"training": middles},
        ends_early=ends_early,
        rate_hz=rate_hz,
    )


WALKER_HIDDEN = {"gravity": Hidden(4.9, 14.7), "actuator_strength": Hidden(0.5, 1.5)}
"""Gravity [m/s^2], and factor of the actuators' own gear."""
WALKER_DEFAULT = {"gravity": G, "actuator_strength": 1.0}
WALKER_INSIDE = {"gravity": (4.9, 7.35, 9.81, 12.25, 14.7), "actuator_strength": (0.5, 0.75, 1.0, 1.25, 1.5)}
WALKER_OUTSIDE = {
    "gravity": (0.98, 1.715, 2.45, 3.185, 3.92, 15.68, 16.66, 17.64, 18.62, 19.6),
    "actuator_strength": (0.1, 0.2, 0.3, 0.4, 1.6, 1.7, 1.8, 1.9, 2.0),
}
WALKER_PAIRS = {
    "gravity": (4.9, 14.7, 0.98, 2.45, 3.92, 15.68, 17.64, 19.6),
    "actuator_strength": (0.5, 1.5, 0.1, 0.3, 1.6, 1.8, 2.0),
}
"""Values whose every pair the protocol evaluates."""


def _apply_to_walker(env: gym.Env, physics: Physics) -> None:
    walker = env.unwrapped
    walker.model.opt.gravity[:] = (0.0, 0.0, -physics["gravity"])
    walker.model.actuator_gear[:] = walker.gear * physics["actuator_strength"]


def _physics_of_walker(env: gym.Env) -> dict[str, float]:
    walker = env.unwrapped
    strength = walker.model.actuator_gear[0, 0] / walker.gear[0, 0]
    return {"gravity": float(-walker.model.opt.gravity[2]), "actuator_strength": float(strength)}


def _walker_sets() -> dict[str, list[Physics]]:
    """Return DALI's contexts, with one or both features changed; interpolation if both are in the training ranges."""
    contexts: list[Physics] = [WALKER_DEFAULT]
    for name in WALKER_HIDDEN:
        values = (value for value in WALKER_INSIDE[name] + WALKER_OUTSIDE[name] if value != WALKER_DEFAULT[name])
        contexts += [{**WALKER_DEFAULT, name: value} for value in values]
    pairs = itertools.product(WALKER_PAIRS["gravity"], WALKER_PAIRS["actuator_strength"])
    contexts += [{"gravity": gravity, "actuator_strength": strength} for gravity, strength in pairs]
    inside = [
        all(span.low <= context[name] <= span.high for name, span in WALKER_HIDDEN.items()) for context in contexts
    ]
    return {
        "interpolation": [context for context, is_in in zip(contexts, inside, strict=True) if is_in],
        "extrapolation": [context for context, is_in in zip(contexts, inside, strict=True) if not is_in],
    }


_ROBOTS = (
    _gravity_task("gravity-half-cheetah", "HalfCheetah-v5", rate_hz=20.0, ends_early=False),
    _gravity_task("gravity-hopper", "Hopper-v5", rate_hz=125.0, ends_early=True),
    Task(
        name="carl-walker",
        make=Walker,
        hidden=WALKER_HIDDEN,
        apply=_apply_to_walker,
        read=_physics_of_walker,
        sets=_walker_sets(),
        ends_early=False,
        rate_hz=40.0,
    ),
)
TASKS = {task.name: task for task in _ROBOTS}
