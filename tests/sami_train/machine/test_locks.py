"""Locks: one process at a time, and free again whatever ends it."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from sami_train.machine.locks import holder, locked

HOLD = """
import sys, time
from pathlib import Path
from sami_train.machine.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


class TakenError(Exception):
    """Raised where a lock is taken."""


def test_who_may_not_wait_is_told_that_the_lock_is_held(tmp_path):
    lock = tmp_path / "lock"
    with locked(lock, TakenError("busy")):
        with pytest.raises(TakenError, match="busy"), locked(lock, TakenError("busy")):
            pytest.fail("two hold one lock")
        assert holder(lock).startswith(f"process {os.getpid()} on ")
    with locked(lock, TakenError("busy")):
        pass


def test_who_may_wait_comes_next(tmp_path):
    order = []

    def other():
        with locked(tmp_path / "lock"):
            order.append("other")

    thread = threading.Thread(target=other)
    with locked(tmp_path / "lock"):
        thread.start()
        time.sleep(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "other"]


def test_a_free_lock_has_no_holder(tmp_path):
    assert holder(tmp_path / "lock") == ""
    with locked(tmp_path / "lock"):
        pass
    assert holder(tmp_path / "lock") == ""


def test_an_error_within_is_its_own_and_frees_the_lock(tmp_path):
    lock = tmp_path / "lock"
    with pytest.raises(BlockingIOError, match="a full pipe"), locked(lock, TakenError("busy")):
        raise BlockingIOError("a full pipe")
    assert holder(lock) == ""


def test_a_killed_process_holds_nothing(tmp_path):
    lock = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        assert holder(lock).startswith(f"process {process.pid} on ")
        process.send_signal(signal.SIGKILL)
    assert holder(lock) == ""
    with locked(lock, TakenError("busy")):
        pass
