"""Random commands through the limits of three robots, the own arm in PyBullet among them."""

import os

import pytest

from tests.making.body_limits import drive

pytest.importorskip("mujoco")
COMMANDS = int(os.environ.get("SAMI_COMMANDS", "3000"))
"""How many, to all of them; a million take a quarter of an hour of a core."""
TOLERANCES = {
    "panda": {"position": 0.01, "velocity": 0.15, "torque": 0.0, "point": 0.2, "overlap": 0.0},
    "go2": {"position": 0.1, "velocity": 0.15, "torque": 0.05, "point": 0.2, "overlap": 0.03},
    "own arm": {"position": 0.01, "velocity": 0.15, "torque": 0.0, "point": 0.2, "overlap": 0.0},
}
"""By robot [rad, shares of the limits, m]; docs/reference/body.md states them."""


@pytest.mark.parametrize("robot", TOLERANCES)
def test_random_commands_bring_no_robot_beyond_its_tolerance(robot, capsys):
    if robot == "own arm":
        pytest.importorskip("pybullet")
    worst = drive(robot, COMMANDS // 3, seed=0)
    with capsys.disabled():
        print(f"\n{robot}: {worst}")
    assert {key: worst[key] for key, most in TOLERANCES[robot].items() if worst[key] > most} == {}
    assert worst["limited"] > 0.9 * worst["commands"], "else nothing was tried"
