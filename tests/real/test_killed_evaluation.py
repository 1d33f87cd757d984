"""An evaluation that is killed, and its next call."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np

from sami_train.evaluation.evaluate import evaluate
from tests.sami_train.evaluation.test_result_store import PANDA, left_by


def test_an_evaluation_that_is_killed_goes_on_at_its_next_call(tmp_path):
    command = [
        sys.executable,
        "-c",
        "from sami_cli.app import main; main()",
        "eval",
        "--model",
        str(PANDA),
        "--tasks",
        "training",
    ]
    command += ["--episodes", "4", "--on", "1", "--out", str(tmp_path), "--json"]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120.0
    while not left_by(tmp_path / "x") and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert left_by(tmp_path / "x")
    assert not (tmp_path / "evaluation.json").exists()
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(again.stdout) == json.loads((tmp_path / "evaluation.json").read_text())
    reports = [row["success"] for row in json.loads(again.stdout)["tasks"]]
    assert reports == [result.success for result in evaluate(PANDA, "panda", ["training"], 4).results]
    assert left_by(tmp_path / "x") == []
    assert np.mean(reports) > 0.5
