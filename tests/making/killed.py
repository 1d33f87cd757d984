"""Processes that SIGKILL ends at a chosen moment, without any cleanup, as the kernel's out-of-memory killer would."""

import contextlib
import json
import os
import signal
import sys
import time
import traceback
import zipfile
from pathlib import Path

import numpy as np
import torch

from sami_train.config.resolve import resolve
from sami_train.config.weights import read_weights
from sami_train.files import read_json
from sami_train.runs import train
from sami_train.runs.folder import RunFolder
from sami_train.studies.sweep.engines import Look
from sami_train.studies.sweep.grid import Grid
from sami_train.studies.sweep.job import run_job
from sami_train.studies.sweep.sweep import Sweep

EXAMPLES = Path(__file__).parents[2] / "examples" / "own_environment"
MOMENTS = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir")
"""Audit events before which a process may be killed: those that change files."""
HANG_S = 300
"""Time after which a process counts as hanging [s]."""
LINES = 600
"""Environment steps between two lines of the metrics."""
TINY = {
    "env": "pendulum:PENDULUM",
    "method": "satesac",
    "steps": 2000,
    "checkpoint_every": 200,
    "network.net_arch": [32, 32],
    "learning.train_every": 50,
    "learning.batch_transitions": 64,
    "learning.batch_episodes": 4,
    "learning.buffer_episodes": 128,
    "exploration.warmup_steps": 400,
    "contrast.every": 3,
    "contrast.trajectories": 8,
    "collection.workers": 0,
    "collection.envs": 1,
}


def moments(folder, act):
    """Call `act` before each change of a file in a folder."""

    def hear(event, arguments):
        if event in MOMENTS and any(str(folder) in str(argument) for argument in arguments[:2]):
            act()

    sys.addaudithook(hear)


def forked(work, folder, at=0, after=0.0):
    """Call `work` in a forked process with its own process group; return its exit status and its number of moments.

    Args:
        work: the function to call.
        folder: folder in which each change of a file is a moment.
        at: number of the moment at which the group is killed; 0 does not kill it.
        after: time after which the group is killed [s]; 0 does not kill it.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        signal.alarm(HANG_S)
        # A fork has none of its parent's threads: code that uses the parent's thread pool would wait for ever.
        os.environ["OMP_NUM_THREADS"] = "1"
        torch.set_num_threads(1)
        calls = 0

        def count():
            nonlocal calls
            calls += 1
            if calls == at:
                os.killpg(0, signal.SIGKILL)

        moments(folder, count)
        status = 1
        try:
            work()
            status = 0
        except SystemExit as ended:
            status = int(ended.code or 0)
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)  # pytest's own stderr is in memory, and is lost with the child
        finally:
            os.write(writer, str(calls).encode())
            os._exit(status)
    os.close(writer)
    if after:
        os.set_blocking(reader, False)
        deadline = time.monotonic() + after
        while time.monotonic() < deadline and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            time.sleep(0.005)
        with contextlib.suppress(ProcessLookupError):  # the child has ended
            os.killpg(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.set_blocking(reader, True)
    calls = os.read(reader, 20)
    os.close(reader)
    return status, int(calls or b"0")


def go_on(folder, **changes):
    """Train in a run folder: resume from its checkpoint, start if it has none, and do nothing if it is done."""
    train.LOG_EVERY = LINES
    if RunFolder(folder).agent.is_file():
        return
    if RunFolder(folder).newest_checkpoint() is None:
        train.start(resolve("fast-cpu", TINY | changes), folder, show=False)
    else:
        train.resume(folder, show=False)


def require_whole(run):
    """Require that every file of a run folder is readable, except those marked as unfinished."""
    for path in (path for path in run.rglob("*") if path.is_file() and "unfinished" not in str(path)):
        if path.suffix == ".json":
            assert read_json(path)
        elif path.suffix == ".jsonl":
            assert all(json.loads(line) for line in path.read_text().splitlines())
        elif path.suffix == ".safetensors":
            assert read_weights(path).arrays
        elif path.suffix == ".npz":
            with np.load(path) as file:
                assert all(len(file[name].shape) >= 0 for name in file.files)
        elif path.name == "agent.zip":
            with zipfile.ZipFile(path) as file:
                assert file.testzip() is None
        else:
            assert "lock" in (path.name, path.suffix[1:]) or path.parent.name == "tensorboard", path


def same(run, other):
    """Return whether two runs have bit-identical weights, and the same lines of metrics except for times."""
    first, second = (zipfile.ZipFile(item / "agent.zip").read("policy.safetensors") for item in (run, other))
    lines = [[json.loads(line) for line in (item / "metrics.jsonl").read_text().splitlines()] for item in (run, other)]
    for line in [*lines[0], *lines[1]]:
        line.pop("time/seconds")
    assert lines[0] == lines[1]
    return first == second


class Forks:
    """An engine whose jobs are forks of the sweep, which saves the seconds that Python takes to start."""

    jobs = 2

    def submit(self, logs):
        child = os.fork()
        if child == 0:
            log = os.open(logs / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            try:
                run_job(logs)
            finally:
                os._exit(0)
        return Fork(child, logs)


class Fork:
    def __init__(self, child, logs):
        self.child, self.log = child, logs / "log.txt"

    def look(self):
        return Look("running" if os.waitpid(self.child, os.WNOHANG)[0] == 0 else "ended")

    def stop(self):
        os.kill(self.child, signal.SIGTERM)


def sweep_seeds(folder):
    """Run a sweep over two seeds in a folder, or continue it."""
    axes = {key: (value,) for key, value in TINY.items()} | {"seed": (0, 1), "steps": (1200,)}
    sweep = Sweep.begin(folder, Grid(axes), 4)
    assert sweep.run(Forks(), lambda: None)
    if sweep.count("done") < 2:
        raise AssertionError([(row.state, row.reason) for row in sweep.rows])
