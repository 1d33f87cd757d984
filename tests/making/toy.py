"""A toy environment for the agent's tests: a mass on a line, on which a push acts with a hidden sign.

A policy without memory cannot beat chance; a policy that remembers the effect of its last push can.
"""

import sys
from typing import ClassVar

import gymnasium as gym
import numpy as np

EPISODE_STEPS = 12


class HiddenSign(gym.Env):
    """Observation: position and velocity; action: push; reward: minus the distance to the origin."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}  # make_vec_env requires a render mode
    observation_space = gym.spaces.Box(-10.0, 10.0, (3,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, fail_after=None):
        self.remaining = fail_after
        self.tasks = ({"sign": -1.0}, {"sign": 1.0})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        task = (options or {}).get("task")
        self.sign = task["sign"] if task else float(self.np_random.choice([-1.0, 1.0]))
        self.position = float(self.np_random.choice([-1.0, 1.0]))
        return self._observation(), {}

    def step(self, action):
        if self.remaining is not None:
            self.remaining -= 1
            if self.remaining < 0:
                raise RuntimeError("the toy broke")
        self.position += 0.5 * self.sign * float(action[0])
        return (
            self._observation(),
            -abs(self.position),
            False,
            False,
            {"is_success": abs(self.position) < 0.3},
        )

    def _observation(self):
        # The last number is whether torch is loaded in this process, so that tests can tell where a rollout runs.
        return np.array([self.position, 0.0, float("torch" in sys.modules)], np.float32)


def register():
    """Register the toy with Gymnasium."""
    if "sami-tests/HiddenSign-v0" not in gym.registry:
        gym.register(
            "sami-tests/HiddenSign-v0",
            "tests.making.toy:HiddenSign",
            max_episode_steps=EPISODE_STEPS,
            disable_env_checker=True,
        )
