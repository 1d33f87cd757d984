"""Real-time priority and locked memory: taken while a robot is driven, and refused with the way to be allowed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sami_runtime.realtime import highest_priority, lockable_bytes

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's scheduler")
MODEL = Path(__file__).parents[2] / "models" / "panda-satesac.onnx"

ARM = """
import os, sys
import numpy as np
from sami_runtime import Executed, Observation
from sami_runtime.adapters.panda import PANDA_ACTION, PANDA_OBSERVATION

class Arm:
    observation, action = PANDA_OBSERVATION, PANDA_ACTION
    def __init__(self, clock): self.clock = clock
    def reset(self, seed=None): tell("reset")
    def read(self):
        return Observation({s.name: np.zeros(s.size, np.float32) for s in self.observation}, self.clock.now())
    def write(self, action): return Executed(action)
    def stop(self): pass
    def close(self): pass

def tell(when):
    locked = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmLck")]
    scheduler = "FIFO" if os.sched_getscheduler(0) == os.SCHED_FIFO else "other"
    print(when, scheduler, os.sched_getparam(0).sched_priority, int(locked[0]) > 0, file=sys.stderr)
"""


@pytest.fixture
def run(tmp_path):
    """Drive an arm that tells how it is driven, in a process of its own and in the arm's folder."""
    (tmp_path / "arm.py").write_text(ARM)
    robot = {"version": 1, "adapter": "arm:Arm", "model": str(MODEL), "steps": 5}
    (tmp_path / "robot.json").write_text(json.dumps(robot))
    main = "import sys; sys.path.insert(0, '.'); from sami_cli.app import main; main()"

    def call(*options, prefix=(), words=("drive", "robot.json")):
        command = [*prefix, sys.executable, "-c", main, *words, *options]
        return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120, cwd=tmp_path)

    return call


def test_a_robot_is_driven_with_priority_and_locked_memory(run):
    if highest_priority() < 50 or lockable_bytes() is not None:
        pytest.skip("this user may take no real-time priority, or lock no memory")
    result = run("--set", "priority=50", "--set", "lock_memory=true")
    assert (result.returncode, result.stderr.splitlines()[-1]) == (0, "reset FIFO 50 True")
    result = run()
    assert (result.returncode, result.stderr.splitlines()[-1]) == (0, "reset other 0 False")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("priority=50", "sami: the priority 50 is not allowed: this process may take at most 0 (RLIMIT_RTPRIO). "),
        ("lock_memory=true", "sami: memory cannot be locked: this process may lock 65536 bytes (RLIMIT_MEMLOCK)"),
    ],
)
def test_without_permission_nothing_is_driven_and_the_way_to_get_it_is_told(run, key, words):
    if shutil.which("prlimit") is None or shutil.which("setpriv") is None:
        pytest.skip("prlimit and setpriv (util-linux) are not installed")
    drop = ["setpriv", "--bounding-set", "-sys_nice,-ipc_lock"] if os.geteuid() == 0 else []
    prefix = ["prlimit", "--rtprio=0:0", "--memlock=65536:65536", *drop]
    result = run("--set", key, prefix=prefix)
    assert (result.returncode, "reset" in result.stderr) == (1, False)
    assert result.stderr.startswith(words)
    assert "/etc/security/limits.d/" in result.stderr
    assert "setcap" in result.stderr


def test_a_priority_is_for_a_loop_that_sleeps(run):
    result = run("--set", "priority=50", words=("run", "--env", "panda"))
    assert (result.returncode, result.stdout) == (1, "")
    assert "priority is for a loop that sleeps between its ticks; add --real-time." in result.stderr


def test_a_priority_beyond_the_highest_is_refused(run):
    refused = run("--set", "priority=100")
    assert refused.returncode == 1
    assert "less than or equal to 99, and it is 100" in refused.stderr
