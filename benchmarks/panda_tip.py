"""Prints how often a script tips the heaviest cube to its goal: what the arm can do there, whoever drives it.

    python benchmarks/panda_tip.py        # about three minutes

The script is the one that `--env panda-heavy` explores by, with its noise. It reads observations alone. Starts are the
first 100 of the development seed, for each friction.
"""

from __future__ import annotations

import numpy as np

from sami_train import seeds
from sami_train.envs.catalog import environment
from sami_train.envs.layout import flatten
from sami_train.envs.make import make
from sami_train.envs.panda.heavy import tip_action
from sami_train.episodes.rollout import beginning

MASS, FRICTIONS = 30.0, (1.0, 5.0, 10.0, 30.0)
STARTS = 100
STEPS = (50, 200)
"""Length of the paper's episodes, and one that leaves time to tip further."""


def successes(friction: float, steps: int) -> float:
    """Return the share of episodes in which the script brings the cube to its goal."""
    env = make(environment("panda"), tasks=[{"mass": MASS, "friction": friction}], max_episode_steps=steps)
    reached = 0
    for number in range(STARTS):
        start, explore = beginning(seeds.EVALUATION, number)
        rng = np.random.default_rng(explore)
        observation, info = env.reset(seed=start)
        over = False
        while not over:
            observation, _, terminated, truncated, info = env.step(tip_action(flatten(observation), rng))
            over = terminated or truncated
        reached += bool(info["is_success"])
    env.close()
    return reached / STARTS


def main() -> None:
    """Run the script, and print the table."""
    print(f"| {MASS:g} kg at friction | {' | '.join(f'{friction:g}' for friction in FRICTIONS)} |")
    print(f"|---|{'---|' * len(FRICTIONS)}")
    for steps in STEPS:
        cells = " | ".join(f"{successes(friction, steps):.2f}" for friction in FRICTIONS)
        print(f"| a script, {steps} steps | {cells} |", flush=True)


if __name__ == "__main__":
    main()
