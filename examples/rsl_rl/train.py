"""Train the example's policy with rsl_rl, and export it as rsl_rl does: `python train.py`, in its own environment.

    pip install rsl-rl-lib==5.5.1 torch

Writes policy.onnx and rollout.npz in about a minute. This file does not use SaMI.
"""

from pathlib import Path

import numpy as np
import onnx
import torch
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

FOLDER = Path(__file__).parent
LENGTHS, POSE = (0.3, 0.25), (0.4, 0.8)
KP, KD, INERTIA, TIMESTEP = 40.0, 4.0, 0.1, 0.005
"""Copies of those in arm.py, because this file runs without SaMI."""
SCALE = 0.8
"""Joint displacement [rad] for a network output of 1."""
SUBSTEPS = 4
"""Simulation steps per action, which gives 50 Hz."""


class Reach:
    """Many arms at once, with the interface of rsl_rl's VecEnv: the hand moves to a goal and stays there."""

    num_actions, max_episode_length, device, cfg = 2, 100, "cpu", {}

    def __init__(self, num_envs=256):
        self.num_envs = num_envs
        self.pose = torch.tensor(POSE)
        self.episode_length_buf = torch.randint(0, self.max_episode_length, (num_envs,))
        self.angles, self.velocities = self.pose.repeat(num_envs, 1), torch.zeros(num_envs, 2)
        self.last, self.goal = torch.zeros(num_envs, 2), torch.zeros(num_envs, 2)
        self._begin(torch.ones(num_envs, dtype=torch.bool))

    def _begin(self, rows):
        count = int(rows.sum())
        pose = self.pose + (torch.rand(count, 2) * 2 - 1) * torch.tensor([1.0, 0.8])
        self.goal[rows] = self._hand(pose)
        self.angles[rows] = self.pose + 0.1 * torch.randn(count, 2)
        self.velocities[rows] = 0.0
        self.last[rows] = 0.0

    @staticmethod
    def _hand(angles):
        total = angles[:, 0] + angles[:, 1]
        x = LENGTHS[0] * angles[:, 0].cos() + LENGTHS[1] * total.cos()
        return torch.stack([x, LENGTHS[0] * angles[:, 0].sin() + LENGTHS[1] * total.sin()], dim=1)

    def get_observations(self):
        terms = [self.angles - self.pose, 0.1 * self.velocities, self.goal, self.last]
        return TensorDict({"policy": torch.cat(terms, 1)}, batch_size=[self.num_envs])

    def step(self, actions):
        target, change = self.pose + SCALE * actions, actions - self.last
        for _ in range(SUBSTEPS):
            self.velocities += (KP * (target - self.angles) - KD * self.velocities) / INERTIA * TIMESTEP
            self.angles += self.velocities * TIMESTEP
        self.last = actions.clone()
        distance = (self._hand(self.angles) - self.goal).norm(dim=1)
        reward = torch.exp(-distance / 0.05) - distance - 0.02 * change.square().sum(1)
        self.episode_length_buf += 1
        done = self.episode_length_buf >= self.max_episode_length
        self.episode_length_buf[done] = 0
        self._begin(done)
        return self.get_observations(), reward, done.long(), {"time_outs": done}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = {"class_name": "MLPModel", "hidden_dims": [32, 32], "activation": "elu", "obs_normalization": True}
    noise = {"class_name": "GaussianDistribution", "init_std": 0.5}
    ppo = {"class_name": "PPO", "num_learning_epochs": 4, "num_mini_batches": 4, "learning_rate": 1e-3}
    config = {
        "num_steps_per_env": 24,
        "save_interval": 1000,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": network | {"distribution_cfg": noise},
        "critic": network,
        "algorithm": ppo | {"schedule": "adaptive", "desired_kl": 0.01},
    }
    runner = OnPolicyRunner(Reach(), config, log_dir=None, device="cpu")
    runner.learn(150)
    runner.export_policy_to_onnx(str(FOLDER))
    remove_traces(FOLDER / "policy.onnx")
    save_rollout(runner.alg)


def remove_traces(path):
    """Remove the source paths of this machine, which torch writes into the metadata of each node."""
    model = onnx.load(path, load_external_data=False)
    for part in [*model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info]:
        del part.metadata_props[:]
    path.write_bytes(model.SerializeToString())


def save_rollout(algorithm, arms=16, steps=100):
    """Save the network's inputs and exploring actions, (steps, arms, size), for `sami describe --rollout`."""
    env, rows = Reach(arms), {"obs": [], "actions": [], "dones": []}
    with torch.no_grad():
        for _ in range(steps):
            observations = env.get_observations()
            actions = algorithm.act(observations)
            dones = env.step(actions)[2]
            for name, values in zip(rows, (observations["policy"], actions, dones), strict=True):
                rows[name].append(values.numpy().copy())
    np.savez_compressed(FOLDER / "rollout.npz", **{name: np.stack(values) for name, values in rows.items()})


if __name__ == "__main__":
    main()
