"""100,000 ticks of a robot that does everything wrong, and a process that is stopped and continued meanwhile."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.making.allowed_writes import drive_all
from tests.making.faults import READ, WRITE
from tests.making.ticks_with_faults import require_laws
from tests.sami_runtime.conftest import Maker

TICKS = int(os.environ.get("SAMI_TICKS", "100000"))
"""How many; SAMI_TICKS=1000000 takes two cores ten minutes."""
WRITES = int(os.environ.get("SAMI_WRITES", "5000"))
"""How many for each combination of limits; SAMI_WRITES changes it."""
GROWTH = 4 * 2**20
"""What a process may grow by [bytes] in the last three quarters of its ticks."""


def settings(folder, root, ticks, seed, *options):
    command = [sys.executable, "-m", "tests.making.ticks_with_faults", str(ticks), str(seed), str(folder), *options]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def folder(tmp_path):
    """Two model files, and where the repository is."""
    return tmp_path


def write_models(folder, seeds=(0, 1), **changes):
    make = Maker(folder)
    for seed in seeds:
        make.write(make.recurrent(seed=seed), **changes)


def test_whatever_the_robot_does_what_is_written_is_allowed(folder, request, capsys):
    write_models(folder)
    processes = [settings(folder, request.config.rootpath, TICKS // 2, seed) for seed in (0, 1)]
    for process in processes:
        counts = json.loads(process.communicate()[0])
        with capsys.disabled():
            print(f"\n{json.dumps(counts, indent=1)}")
        require_laws(counts)
        assert {f"read {fault}" for fault in READ} | {f"write {fault}" for fault in WRITE} < counts["faults"].keys()
        assert set(counts["ended"]) >= {"SafetyStop", "AdapterError", "OSError", "SignalError"}
        assert min(counts["outcomes"][outcome] for outcome in ("acted", "held", "late", "refused")) > 10
        assert min(counts["reasons"][reason] for reason in ("age", "order", "bounds", "late", "refused")) > 10
        assert counts["swaps"] > 10
        assert counts["ticks"] >= TICKS // 2
        assert counts["grown_bytes"] < GROWTH


def test_no_write_is_beyond_its_limits_in_any_of_36_combinations(capsys):
    counts, violations = drive_all(WRITES, seed=0)
    with capsys.disabled():
        writes = sum(count["writes"] for count in counts.values())
        print(f"\n{len(counts)} combinations of limits, {writes} writes: {len(violations)} beyond")
    assert violations == []


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_a_process_that_is_stopped_and_continued(folder, request, capsys):
    """By a real clock at 100 Hz, while another thread changes the model in the middle of episodes."""
    write_models(folder, seeds=(0, 0), rate_hz=100.0)  # in the middle, a model of equal weights takes over
    chance, stops = random.Random(0), 0
    process = settings(folder, request.config.rootpath, 1200, 0, "real")
    time.sleep(2.0)
    while process.poll() is None:
        process.send_signal(signal.SIGSTOP)
        time.sleep(chance.uniform(0.01, 0.4))
        process.send_signal(signal.SIGCONT)
        stops += 1
        time.sleep(chance.uniform(0.1, 0.6))
    counts = json.loads(process.communicate()[0])
    with capsys.disabled():
        print(f"\n{stops} times stopped and continued: {json.dumps(counts, indent=1)}")
    require_laws(counts)
    assert stops > 10
    assert counts["asked"]["swap in the middle"] > 10
