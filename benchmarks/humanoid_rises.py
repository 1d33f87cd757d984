"""Brings lying humanoids to their feet by two policies in turn, and writes the states on the way.

    python -m benchmarks.humanoid_rises KNEELING.onnx TEACHER results/humanoid-stand-ups/rises.npz

A policy that gets to its knees acts for a number of steps that is drawn; then a teacher that balances acts. In
benchmarks/humanoid_stand_ups.py, episodes begin in the states of those that stand in the end.
"""

import sys
from pathlib import Path

import numpy as np

from benchmarks import humanoid_stand_ups
from benchmarks.humanoid_stand_ups import EPISODE_STEPS, FEET, SPEC, StandUpBatch
from sami_train.evaluation.model_policy import SessionPolicy
from sami_train.studies.teacher.teacher import load_teacher

ROWS, FIRST, LAST = 256, 16, 40
"""Robots, and the first and last step at which the teacher may take over."""
STEPS_ON_FEET = 30
"""How many states of a robot are stored once it is on its feet."""


class LyingBatch(StandUpBatch):
    """Robots that all begin lying."""

    def _weights(self) -> np.ndarray:
        return np.eye(len(self.classes) + 2)[0]


def main() -> None:
    """Write the states, and print how many robots stand in the end."""
    file, folder, out = map(Path, sys.argv[1:])
    humanoid_stand_ups.LONGEST_LOW = EPISODE_STEPS  # the batch shall end no episode because a robot is low
    teacher, policy = load_teacher(folder), SessionPolicy(file, SPEC, ROWS)
    batch, rng = LyingBatch("humanoid-standup", ROWS), np.random.default_rng(0)
    observation = batch.reset(range(ROWS))
    policy.reset()
    switch_steps, path = rng.integers(FIRST, LAST, ROWS), []
    for step in range(EPISODE_STEPS):
        path.append(batch.pose())
        kneeling = policy.step(observation)[0] if step < LAST else np.zeros_like(policy.previous_action)
        policy.previous_action = kneeling
        balancing = batch.command(teacher.act(observation, batch.privileged()))
        observation, _ = batch.step(np.where((step < switch_steps)[:, None], kneeling, balancing))
    qpos, qvel = (np.array(part) for part in zip(*path, strict=True))
    on_feet = qpos[:, :, 2] > FEET
    standing = np.flatnonzero(on_feet[-1])
    ends = on_feet.argmax(axis=0) + STEPS_ON_FEET
    positions, velocities = (np.concatenate([part[: ends[row], row] for row in standing]) for part in (qpos, qvel))
    positions[:, :2] = 0.0  # where on the ground does not matter
    np.savez_compressed(out, qpos=positions.astype(np.float32), qvel=velocities.astype(np.float32))
    steps, count = np.median(ends[standing]) - STEPS_ON_FEET, len(standing)
    print(f"{out}: {len(positions):,} states of {count} of {ROWS} robots, on their feet after {steps:.0f} steps")


if __name__ == "__main__":
    main()
