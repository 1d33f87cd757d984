"""Measures how high a humanoid's torso is in the last second of its episodes, on the starts of the final seed.

Prints a table for docs/results/humanoid.md: `python -m benchmarks.humanoid_heights FILE.onnx`.
"""

import dataclasses
import sys
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.humanoid_stand_ups import KNEES
from sami_train import seeds
from sami_train.envs.catalog import environment
from sami_train.envs.mujoco.batch import MujocoBatch
from sami_train.evaluation.evaluate import in_turn
from sami_train.evaluation.model_policy import SessionPolicy
from sami_train.evaluation.play import playing

EPISODES = 100
"""Episodes in each set of tasks."""
STANDING = 1.0
"""Height of the torso [m] above which a robot is on its feet."""


class HumanoidBatch(MujocoBatch):
    """Humanoids whose metric is the torso's lowest height in the last second [m]."""

    def __init__(self, name: str, rows: int, episode_steps: int | None = None, threads: int = 0) -> None:
        super().__init__(name, rows, episode_steps=episode_steps, threads=threads)
        self._heights = np.full((round(1.0 / self.robot.step_s), rows), np.inf)

    @property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """The torso's lowest height in the last second [m], (n,)."""
        return {"height": self._heights.min(axis=0)}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, NDArray[np.float64]]:
        """Step as `MujocoBatch` does, and keep the torso's height."""
        result = super().step(actions)
        self._heights[self.steps[0] % len(self._heights)] = self._qpos[:, 2]
        return result


SPEC = dataclasses.replace(
    environment("humanoid-standup"), id="sami/humanoid-heights-v0", batch_entry_point=f"{__name__}:HumanoidBatch"
)


def main() -> None:
    """Print the shares of the episodes that end kneeling and standing, and the tasks of the others."""
    columns = (
        "set | episodes | on the knees or higher | on the feet | median height [m] | mass and damping of the others"
    )
    print(f"| {columns} |")
    print("|---|---|---|---|---|---|")
    with playing(SPEC, partial(SessionPolicy, Path(sys.argv[1]), SPEC), EPISODES) as (play, _):
        for name in SPEC.tasks.sets:
            tasks = SPEC.tasks.resolve(name)
            turns = [tasks[turn] for turn in in_turn(len(tasks), EPISODES, seeds.FINAL)]
            heights = np.array([metrics["height"] for metrics in play(turns, seeds.FINAL)[2]])
            low = sorted({(turns[k]["mass"], turns[k]["damping"]) for k in np.flatnonzero(heights < KNEES)})
            shares = [f"{(heights > bound).mean():.2f}" for bound in (KNEES, STANDING)]
            low_tasks = ", ".join(f"{mass:g} and {damping:g}" for mass, damping in low) or "none"
            cells = [name, f"{EPISODES}", *shares, f"{np.median(heights):.2f}", low_tasks]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
