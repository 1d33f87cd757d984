"""`sami audit` on a policy and a log of it."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.making import foreign


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Writes a policy, its contract and a log; the change is to the observations."""
    monkeypatch.chdir(tmp_path)
    foreign.adopt_in_this_process(monkeypatch)
    foreign.Foreign(tmp_path).write(foreign.feed_forward(), foreign.document())

    def write(change):
        rng = np.random.default_rng(0)
        raw = {name: rng.normal(size=(300, 2)) for name in ("joint_positions", "joint_velocities", "command")}
        weights = foreign.weights_of(8)
        rows, last = [], np.zeros(2)
        for at in range(300):
            angles = raw["joint_positions"][at] - foreign.DEFAULT
            row = np.concatenate([angles, raw["joint_velocities"][at] * 0.05, raw["command"][at], last])
            rows.append(change(row))
            last = np.tanh(rows[-1] @ weights["w"] + weights["b"])
        np.savez("log.npz", obs=np.array(rows, np.float32), **raw)

    return write


def test_a_right_log_passes_and_the_network_fills_in_its_own_outputs(sami, log):
    log(lambda row: row)
    result = sami("audit", "policy.onnx", "--contract", "my.json", "--log", "log.npz", "--json")
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert report["passed"]
    assert {term["term"]: term["status"] for term in report["terms"]}["last_action"] == "ok"


def test_a_wrong_log_fails_with_the_bugs_name_also_of_an_adopted_file(sami, log):
    log(lambda row: np.concatenate([-row[:2], row[2:]]))
    assert sami("adopt", "policy.onnx", "--contract", "my.json", "--out", "my.onnx").code == 0
    result = sami("audit", "my.onnx", "--log", "log.npz")
    assert result.code == 4
    assert "fault    joint_angles: has the wrong sign" in result.out
    assert "-> Check the direction of the axis or joint." in result.out
    assert "1 of 4 terms have a fault" in result.out


def test_a_log_that_is_not_there_gets_one_line(sami, log):
    result = sami("audit", "policy.onnx", "--contract", "my.json", "--log", "none.npz")
    assert result.code == 1
    assert "none.npz cannot be read" in result.err
    assert len(result.err.splitlines()) == 1
    assert Path("policy.onnx").exists()
