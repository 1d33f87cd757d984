"""Prints how many humanoids a teacher brings to their feet, by where they begin, in the teacher's coarse simulation.

python -m benchmarks.humanoid_balance results/humanoid-stand-ups/balancing-teacher
"""

import sys
from pathlib import Path

import numpy as np

from benchmarks import humanoid_stand_ups
from sami_train.studies.teacher.teacher import load_teacher

ROWS, STEPS = 832, 300
"""Robots, each in the next class of beginnings, and steps of 0.015 s."""


def main() -> None:
    """Print the table."""
    humanoid_stand_ups.LONGEST_LOW = STEPS  # the batch shall end no episode because a robot is low
    teacher = load_teacher(Path(sys.argv[1]))
    batch = humanoid_stand_ups.StandUpBatch("humanoid-standup", ROWS, STEPS)
    observation = batch.reset(range(ROWS))
    is_over, height = np.zeros(ROWS, bool), np.zeros(ROWS)
    for _ in range(STEPS):
        observation, _ = batch.step(batch.command(teacher.act(observation, batch.privileged())))
        height = np.where(is_over, height, observation[:, 0])
        is_over |= batch.terminated
    print(f"after {teacher.steps:,} steps\n\n| begins | robots | on their feet after {STEPS} steps |\n|---|---|---|")
    planned = len(batch.classes)
    for place in range(planned + 2):
        rows = batch.beginnings == place
        before = humanoid_stand_ups.CLASS_STEPS * (planned - place)
        label = "lying" if place == 0 else "upright" if place > planned else f"at most {before} steps before its feet"
        label = "on its feet, in a plan" if place == planned else label
        print(f"| {label} | {rows.sum()} | {(~is_over & (height > humanoid_stand_ups.FEET))[rows].mean():.2f} |")


if __name__ == "__main__":
    main()
