"""`sami check-adapter --excite`: what answers to each element of the action is found by moving it a little."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import my_robot, sami

__all__ = ["my_robot", "sami"]  # fixtures of the test below


def test_a_robot_that_does_not_answer_is_found_by_moving_it_a_little(sami, my_robot):
    robot = ("check-adapter", "my_robot:make", "--model", "panda-satesac")
    refused = sami(*robot, "--excite")
    assert (refused.code, "the limits set no rest" in refused.err) == (1, True)
    room = "= { dx = SIDE1, dy = SIDE0.005, dz = SIDE0.005, gripper = SIDE0.005 }"
    sides = f"low {room.replace('SIDE', '-')}\nhigh {room.replace('SIDE', '')}"
    Path("limits.toml").write_text(f"rest = 0.0\n{sides}")
    result = sami(*robot, "--excite", "--limits", "limits.toml", "--json")
    document = json.loads(result.out)
    assert (result.code, document["broken"], len(document["laws"])) == (4, 1, 15)
    assert (document["verdict"], document["unproven"]) == ("broken", 1)
    [(fault, unproven)] = [(law["fault"], law["unproven"]) for law in document["laws"] if law["fault"]]
    assert "dy: the limits allow a move of 0.005 to either side" in unproven
    assert "dx moved ee_position.x by 0 m for each 1, in simulation by 0.12" in fault
    assert "dx is dead" in fault
    assert "dx: to 0.1, at most 0.4, to either side of 0" in result.err, "before it moves"
    assert max(abs(float(number)) for number in Path("written.txt").read_text().split()) == pytest.approx(0.4)
