"""What docs/reference/guards.md says of attacks on `[body]`, by few commands of `benchmarks/body_attacks.py`."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.body_attacks import ROBOTS, ROWS, excess

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "guards.md").read_text(encoding="utf-8")
ROUNDING = 0.51


def promise(row, robot):
    """Range [mrad], overlap [mm] and depth in the margin [mm] that the page has for a row and a robot."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {row} |")]
    return np.array([float(number) for number in line.split("|")[2 + ROBOTS.index(robot)].split("/")])


@pytest.mark.parametrize(
    ("attack", "robot", "commands"),
    [("pause", "velocities", 40), ("stuck", "velocities", 40), ("frozen", "velocities", 40)]
    + [("outside", "hand", 21), ("lateness", "Go2", 30)],
)
def test_no_attack_leads_a_robot_farther_than_the_page_says(attack, robot, commands):
    (row,) = [name for name, attacks in ROWS.items() if attack in attacks.split()]
    assert (excess(attack, robot, commands, seed=0) <= promise(row, robot) + ROUNDING).all()


def test_a_stuck_sensor_leads_velocities_beyond_a_range_unless_it_is_judged_frozen():
    stuck, frozen = (excess(attack, "hand", 40, seed=0)[0] for attack in ("stuck", "frozen"))
    assert stuck > 50.0
    assert frozen < 10.0
