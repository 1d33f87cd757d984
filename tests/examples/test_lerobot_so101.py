"""The example of an SO-101 behind LeRobot's interface: its settings fit the policy, and it moves by the clock."""

import importlib
import math
import sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("mujoco")

from benchmarks import lerobot_so101 as measured
from sami_runtime.clock import MonotonicClock
from sami_runtime.files import read_document
from sami_runtime.robots.lerobot.adapter import LeRobotAdapter
from sami_runtime.robots.lerobot.library import robot_of
from sami_runtime.robots.lerobot.settings import LeRobotSettings
from sami_train.envs.so101.entry import SO101
from sami_train.envs.so101.kinematics import HOME, STEP
from tests.making.lerobot import forget_double, install_double

EXAMPLE = Path(__file__).parents[2] / "examples" / "lerobot"


@pytest.fixture
def arm(monkeypatch):
    """The adapter of the example's robot, whose time is `arm.now[0]` [s]."""
    install_double(monkeypatch)
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.delitem(sys.modules, "so101_sim", raising=False)
    now = [100.0]
    monkeypatch.setattr(importlib.import_module("so101_sim"), "time", SimpleNamespace(monotonic=lambda: now[0]))
    settings = LeRobotSettings.of(read_document(EXAMPLE / "so101.toml", "robots")["settings"])
    contract = SimpleNamespace(observation=SO101.signals, action=SO101.action)
    adapter = LeRobotAdapter(MonotonicClock(), contract, settings, robot_of(settings))
    adapter.now = now
    yield adapter
    adapter.close()
    forget_double()


def test_it_reads_what_the_policy_was_trained_on(arm):
    arm.reset()
    values = arm.read().values
    assert values["joint_angles"] == pytest.approx(HOME, abs=0.02)
    assert values["cube_position"] == pytest.approx([0.22, 0.06], abs=0.005)
    assert values["cube_direction"] == pytest.approx([math.cos(0.3), math.sin(0.3)], abs=1e-3)
    assert values["goal"] == pytest.approx([0.22, -0.06])


def test_an_action_moves_the_joints_by_steps_of_the_training_as_time_goes_on(arm):
    arm.reset()
    data, before = arm.robot.data, arm.read().values["joint_angles"]
    action = np.float32([1.0, -1.0, 0.5, 0.0])
    assert arm.write(action).action.tolist() == action.tolist()
    assert data.ctrl[:4] == pytest.approx(before + STEP * action, abs=1e-6)
    assert data.ctrl[4:] == pytest.approx([0.0, -0.174533], abs=1e-6)
    assert data.time == 0.0
    arm.now[0] += 1 / 30
    after = arm.read().values["joint_angles"]
    assert data.time == pytest.approx(1 / 30, abs=0.004)
    assert 0.0 < after[0] - before[0] < STEP
    assert after[1] < before[1]
    arm.now[0] += 60.0
    arm.read()
    assert data.time < 0.2, "after a long pause it goes on by a tenth of a second"


def test_its_cube_and_joints_are_what_the_settings_say(arm):
    model = arm.robot.model
    assert model.body("cube").mass[0] == pytest.approx(0.1)
    assert model.geom("cube").friction[0] == pytest.approx(0.5)
    assert model.joint("wrist_flex_play").range == pytest.approx([-0.00875, 0.00875])


def test_the_benchmark_drives_in_the_tasks_of_the_environment():
    for name, values in measured.TASKS.items():
        grid = [dict(zip(("mass", "friction", "play"), task, strict=True)) for task in product(*values)]
        assert [*SO101.tasks.sets[name]] == grid
        ticks = [measured.settings_of(name, number)["config"] for number in range(8)]
        tasks = {tuple(config[key] for key in ("mass", "friction", "play")) for config in ticks}
        assert tasks == set(product(*values))
