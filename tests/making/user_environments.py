"""Environments of a user's own, outside the packages."""

from typing import ClassVar

import gymnasium as gym
import numpy as np

from sami_train.envs import EnvironmentSpec, Range, signal


def set_pendulum(env, task):
    env.unwrapped.m, env.unwrapped.l = task["mass"], task["length"]


PENDULUM = EnvironmentSpec.from_gymnasium(
    "Pendulum-v1",
    tasks={
        "training": {"mass": Range(0.5, 2.0), "length": [0.5, 1.0]},
        "extreme": [{"mass": 3.0, "length": 1.0}],
    },
    set_task=set_pendulum,
    set_dynamics=set_pendulum,
    signals=[signal("angle", elements=["cos", "sin"]), signal("angular_velocity", "rad/s")],
    action=signal("torque", "N m"),
    episode_steps=40,
)


class Tipping(gym.Env):
    """A cart that leaves its track within a few random steps, which ends the episode; the observation is a Dict."""

    metadata: ClassVar = {"render_modes": [], "render_fps": 10}
    observation_space = gym.spaces.Dict(
        {
            "speed": gym.spaces.Box(-np.inf, np.inf, (), np.float64),
            "place": gym.spaces.Box(-1.0, 1.0, (2, 1), np.float64),
        }
    )
    action_space = gym.spaces.Box(np.array([0.0, -3.0]), np.array([4.0, 3.0]), dtype=np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.speed = self.np_random.uniform(-0.3, 0.3, 2), 0.0
        return self._observation(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.place = self.place + 0.1 * (action - [2.0, 0.0])
        self.speed = float(np.linalg.norm(action))
        return self._observation(), 1.0, bool(np.abs(self.place).max() > 0.6), False, {}

    def _observation(self):
        return {"speed": np.array(self.speed), "place": self.place[:, None].copy()}


TIPPING = EnvironmentSpec.from_gymnasium(Tipping, episode_steps=25)


class Still(Tipping):
    """A cart whose episodes never end early; `is_success` is whether its position is positive."""

    def step(self, action):
        observation, reward, _, _, info = super().step(action)
        return observation, reward, False, False, {**info, "is_success": bool(self.place[0] > 0.0)}


STILL = EnvironmentSpec.from_gymnasium(
    Still,
    tasks={"training": lambda rng: {"wind": rng.normal()}, "moderate": [{"wind": 0.0}]},
    set_task=lambda env, task: None,
    episode_steps=10,
    measure="success",
)
