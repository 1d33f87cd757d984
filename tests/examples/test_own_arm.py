"""The arm of one's own: its adapter is short, and its calibration is that of its camera. `tests/real` drives it."""

import ast
import importlib
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from sami_runtime import AdapterError, ManualClock
from sami_runtime.distribution import shipped_models
from sami_runtime.files import read_document
from sami_runtime.model.artifact import read_artifact
from sami_runtime.robots.kit import Frame
from sami_runtime.safety.limits import Limits

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_arm"


def test_the_adapter_has_at_most_45_lines_of_its_own():
    """Imports, blank lines and the description are nobody's own."""
    text = (EXAMPLE / "arm.py").read_text(encoding="utf-8")
    about, *rest = ast.parse(text).body
    imports = (about, *(node for node in rest if isinstance(node, (ast.Import, ast.ImportFrom))))
    left_out = {line for node in imports for line in range(node.lineno, node.end_lineno + 1)}
    lines = [line for number, line in enumerate(text.splitlines(), 1) if line.strip() and number not in left_out]
    assert 30 < len(lines) <= 45


def test_the_camera_is_calibrated_to_a_millimetre(monkeypatch):
    pytest.importorskip("panda_gym")
    monkeypatch.syspath_prepend(str(EXAMPLE))
    truth = importlib.import_module("robot").CAMERA
    fit = Frame.fit(**read_document(EXAMPLE / "arm.toml", "settings")["camera"])
    table = np.random.default_rng(0).uniform([-0.2, -0.2, 0.0], [0.2, 0.2, 0.2], (100, 3))
    assert abs(fit.points(truth.inverse.points(table)) - table).max() < 0.001


def test_an_arm_that_a_person_pauses_is_not_moved_on_once_its_joints_fall_silent(monkeypatch):
    pytest.importorskip("mink")
    pytest.importorskip("panda_gym")
    monkeypatch.syspath_prepend(str(EXAMPLE))
    clock, contract = ManualClock(), read_artifact(shipped_models()["panda-satesac"]).contract
    config = read_document(EXAMPLE / "arm.toml", "settings") | {"here": ["127.0.0.1", 0]}
    home, pause = np.array(contract.sheet.numbers["home_joints"].values), np.zeros(4, np.float32)
    with closing(importlib.import_module("arm").OwnArm(clock, contract, config)) as arm:
        monkeypatch.setattr(arm.link, "send", lambda **message: None)
        state = {"from": "arm", "time": 1.0, "velocities": [0.0] * 7, "gripper": 0.0}
        arm.hear({**state, "positions": (home + 0.2).tolist()}, clock.now())
        arm.values = {name: np.zeros(3, np.float32) for name in ("ee_position", "achieved_goal", "desired_goal")}
        arm.values["gripper_width"] = np.zeros(1, np.float32)
        assert arm.write(pause).done
        clock.sleep_until(clock.now() + 0.31)
        with pytest.raises(AdapterError, match="the joints fell silent"):
            arm.write(pause)


def test_its_limits_fit_the_model():
    Limits.load(EXAMPLE / "limits.toml").require_fit(read_artifact(shipped_models()["panda-satesac"]).contract)
