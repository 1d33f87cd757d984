"""The shipped policy drives a simulated SO-101 by `sami drive`, in LeRobot's units and by the wall clock."""

import pytest

pytest.importorskip("mujoco")

from benchmarks import lerobot_so101 as measured
from tests.making.lerobot import DOUBLE


def test_the_shipped_policy_pushes_cubes_to_their_goals_through_lerobots_interface(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(DOUBLE))
    values = [
        measured.drive(tmp_path, "so101-satesac", measured.settings_of("training", number)) for number in range(6)
    ]
    assert sum(episode["reached"] for episode in values) >= 4, values
