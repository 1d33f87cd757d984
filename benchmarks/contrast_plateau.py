"""Counts the losses that InfoNCE (CCM) needs if only the response of observations to actions identifies the task.

    python benchmarks/contrast_plateau.py [--losses N] [--rate RATE]

Six tasks, 600 episodes of 12 steps; an observation is the last action times the task's gain, from 0.5 to 2, beside
noise. A few steps tell the gain, so the bound can reach log K. Prints the mean bound of each hundred losses [nats].
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sami_train.agent.contrast import Contrast
from sami_train.config.methods import INFO_NCE
from sami_train.episodes.buffer import EpisodeBuffer
from sami_train.episodes.episode import Episode
from tests.sami_train.agent.test_context_sac import agent

GAINS = np.linspace(0.5, 2.0, 6)
EPISODES, STEPS = 600, 12


def responses() -> EpisodeBuffer:
    """Return the episodes."""
    rng, buffer = np.random.default_rng(0), EpisodeBuffer(EPISODES, STEPS, 3, 1)
    for number in range(EPISODES):
        task = number % len(GAINS)
        actions = rng.uniform(-1.0, 1.0, size=(STEPS, 1)).astype(np.float32)
        observations = np.zeros((STEPS + 1, 3), np.float32)
        observations[1:, 0], observations[:, 1] = GAINS[task] * actions[:, 0], rng.normal(size=STEPS + 1)
        rewards = rng.normal(size=STEPS).astype(np.float32)
        buffer.add(Episode(number, {}, task, observations, actions, rewards, False, False, frozenset()))
    return buffer


def main() -> None:
    """Learn and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--losses", type=int, default=1500)
    parser.add_argument("--rate", type=float, default=1e-3, help="of Adam")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    learner = agent(method="ccm", contrast__trajectories=64, network__hidden_size=64)
    contrast, buffer = Contrast(learner.policy, INFO_NCE, learner.config.contrast), responses()
    optimizer = torch.optim.Adam(learner.policy.encoder.parameters(), lr=options.rate)
    rng, bounds = np.random.default_rng(0), list[float]()
    for number in range(1, options.losses + 1):
        loss = contrast.loss(buffer, rng)
        assert loss is not None
        optimizer.zero_grad()
        loss.loss.backward()
        optimizer.step()
        bounds.append(float(loss.bound))
        if number % 100 == 0:
            print(f"losses {number - 99:5} to {number:5}: {np.mean(bounds[-100:]):.2f} of {loss.log_k:.2f}", flush=True)


if __name__ == "__main__":
    main()
