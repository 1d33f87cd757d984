"""Locks: one process at a time, and free again whatever ends it."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from sami_train.locks import holder, locked

HOLD = """
import sys, time
from pathlib import Path
from sami_train.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


class TakenError(Exception):
    """Raised where a lock is taken."""


def test_who_may_not_wait_is_told_who_holds_the_lock(tmp_path):
    lock = tmp_path / "lock"
    with locked(lock, TakenError):
        with pytest.raises(TakenError, match=f"process {os.getpid()} on "), locked(lock, TakenError):
            pytest.fail("two hold one lock")
        assert holder(lock).startswith(f"process {os.getpid()} on ")
    with locked(lock, TakenError):
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
    with pytest.raises(BlockingIOError, match="a full pipe"), locked(lock, TakenError):
        raise BlockingIOError("a full pipe")
    assert holder(lock) == ""


def test_a_killed_process_holds_nothing(tmp_path):
    lock = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        assert holder(lock).startswith(f"process {process.pid} on ")
        process.send_signal(signal.SIGKILL)
    assert holder(lock) == ""
    with locked(lock, TakenError):
        pass


def test_a_lock_that_goes_with_its_holder_keeps_out_who_waited_for_it_and_who_comes_later(tmp_path):
    """Who waited has the old file open, and a lock on that one would keep nobody out."""
    lock, within = tmp_path / "lock", []

    def other():
        with locked(lock, leave=False):
            within.append(holder(lock))
            time.sleep(0.2)
            within.append("out")

    threads = [threading.Thread(target=other) for _ in range(3)]
    with locked(lock, leave=False):
        for thread in threads:
            thread.start()
        time.sleep(0.2)
    for thread in threads:
        thread.join()
    assert [bool(each == "out") for each in within] == [False, True] * 3
    assert not lock.exists()
