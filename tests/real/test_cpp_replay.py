"""The generated C++ answers as Python does, step by step, and refuses what Python refuses."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.making.golden import golden_steps

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "models" / "panda-satesac.onnx"


def call(*command):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)


@pytest.fixture
def replay(cpp_build):
    return cpp_build / "replay"


@pytest.fixture
def golden(tmp_path):
    """The golden steps in a file that a test may change."""
    table = tmp_path / "golden.csv"
    result = golden_steps(table)
    assert result.returncode == 0, result.stderr
    return table


def with_cell(golden, column, row, text):
    lines = [line.split(",") for line in golden.read_text().splitlines()]
    lines[row + 1][lines[0].index(column)] = text
    golden.write_text("\n".join(map(",".join, lines)) + "\n")


def test_cpp_reproduces_the_golden_steps(replay, golden):
    result = call(replay, golden)
    assert result.returncode == 0, result.stderr
    assert re.match(r"64 steps, largest difference \d\.\de-0[67] at step \d+, within 1e-05", result.stdout)


def test_cpp_finds_a_difference_at_its_step(replay, golden):
    with_cell(golden, "action.dy", 40, "0.123")
    result = call(replay, golden)
    assert result.returncode == 4
    assert "at step 40, MORE THAN 1e-05" in result.stdout


def test_cpp_needs_the_executed_action_and_the_reset(replay, golden):
    """Both change what follows: a program that left one out would not agree."""
    original = golden.read_text()
    with_cell(golden, "executed.dx", 5, "0.9")
    assert call(replay, golden).returncode == 4
    golden.write_text(original)
    with_cell(golden, "reset", 31, "0")
    assert call(replay, golden).returncode == 4


def test_cpp_refuses_what_is_not_finite(replay, golden):
    with_cell(golden, "observation.gripper_width.width", 3, "nan")
    result = call(replay, golden)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "replay: an observation is not finite or too old; nothing was advanced\n"
