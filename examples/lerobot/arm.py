"""Two servo joints with hidden gain and stiffness that move to a goal: `sami train --env arm:ARM --steps 8000`.

The training environment of the policy for LeRobot's simulated arm. It models no physics of that arm, only how closely
its joints follow commands, which is hidden and differs between arms.
"""

import gymnasium
import numpy as np

from sami_train.envs import EnvironmentSpec, Range, signal

JOINTS = ["joint_1", "joint_2"]
STEP_RAD, RATE_HZ = 0.04, 30.0


class Servos(gymnasium.Env):
    """The action (2,) is the displacement of each joint [rad]; the reward is minus the mean distance to the goal."""

    metadata = {"render_modes": []}  # noqa: RUF012
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (6,), np.float32)
    action_space = gymnasium.spaces.Box(-STEP_RAD, STEP_RAD, (2,), np.float32)
    gain, stiffness = 1.0, 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.angles, self.goal = self.np_random.uniform(-0.6, 0.6, (2, 2))
        self.step_angles = np.zeros(2)
        return self._observation(), {}

    def step(self, action):
        self.step_angles += self.stiffness * (self.gain * np.asarray(action, float) - self.step_angles)
        self.angles = self.angles + self.step_angles
        return self._observation(), -float(abs(self.goal - self.angles).mean()), False, False, {}

    def _observation(self):
        return np.concatenate([self.angles, self.step_angles * RATE_HZ, self.goal]).astype(np.float32)


def set_task(env, task):
    """Set gain and stiffness of the joints to those of the task."""
    env.unwrapped.gain, env.unwrapped.stiffness = task["gain"], task["stiffness"]


ARM = EnvironmentSpec.from_gymnasium(
    Servos,
    tasks={
        "training": {"gain": Range(0.5, 1.5), "stiffness": Range(0.3, 1.0)},
        "extreme": {"gain": [0.4, 1.7], "stiffness": [0.25]},
    },
    set_task=set_task,
    set_dynamics=set_task,
    signals=[signal("angles", "rad", JOINTS), signal("velocities", "rad/s", JOINTS), signal("goal", "rad", JOINTS)],
    action=signal("move", "rad", JOINTS, meaning="from where the joint is"),
    rate_hz=RATE_HZ,
    episode_steps=60,
    ends_early=False,
    hyperparameters={  # a small task: two minutes of a busy core
        "fast-cpu": {
            "exploration.warmup_steps": 1500,
            "network.net_arch": (64, 64),
            "learning.train_every": 16,
            "learning.steps_per_draw": 8,
            "learning.batch_episodes": 8,
            "learning.discount": 0.9,
        }
    },
)
