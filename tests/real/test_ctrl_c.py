"""Ctrl-C at a training with rollout workers beside it, and a terminal that is closed."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.conftest import garbage_collected, sami, settings

__all__ = ["garbage_collected", "sami"]


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_or_a_closed_terminal_stops_training_where_resume_goes_on(garbage_collected, sami, tmp_path, number):
    run = tmp_path / "run"
    # The tests may run under nohup, whose ignored SIGHUP a training respects.
    script = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); from sami_cli.app import main; main()"
    options = ["--steps", "2000", *settings(checkpoint_every=300, collection__workers=1)]
    command = [sys.executable, "-c", script, "train", *options, "--out", str(run), "-q"]
    # A session of its own, and the signal to all of it: it reaches the rollout workers, too.
    training = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 60
        while not list(run.glob("checkpoints/*/buffer.npz")) and training.poll() is None:
            assert time.monotonic() < deadline, "no checkpoint appeared"
            time.sleep(0.02)
        os.killpg(training.pid, number)
        out, err = training.communicate(timeout=60)
    finally:
        training.kill()
    assert training.returncode == 130
    assert not err or number == signal.SIGHUP, "which also ends multiprocessing's resource tracker; it complains"
    assert f"Go on with:\n  sami train --resume {run}\n" in out.replace(" \\\n      ", " "), "as a shell reads it"
    stopped = json.loads((run / "run.json").read_text())
    assert stopped["state"] == "stopped"
    assert stopped["steps"] < 2000
    assert not (run / "agent.zip").exists()
    result = sami("train", "--resume", run, "-q")
    assert (result.code, result.err) == (0, "")
    facts = json.loads((run / "run.json").read_text())
    assert facts["state"] == "finished"
    assert facts["steps"] >= 2000
    assert facts["seconds"] > stopped["seconds"]
