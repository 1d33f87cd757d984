"""Priority and locked memory are taken within a block and given back, or refused with the way to be allowed."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sami_runtime import realtime
from sami_runtime.errors import SamiError
from sami_runtime.realtime import highest_priority, lockable_bytes, real_time

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's scheduler")
ROOT = Path(__file__).parents[2]

REPORT = """
import os, resource, threading
from sami_runtime.errors import SamiError
from sami_runtime.realtime import real_time

def now():
    lines = open("/proc/self/status").read().splitlines()
    locked = next(int(line.split()[1]) for line in lines if line.startswith("VmLck"))
    return os.sched_getscheduler(0), os.sched_getparam(0).sched_priority, locked > 0

def attempt(*arguments):
    try:
        with real_time(*arguments):
            print(*now())
    except SamiError as error:
        print(error)
    print(*now())
"""
NORMAL = "0 0 False"


def call(code, *prefix):
    """What a process prints that runs the code, after its limits were set by the command before it."""
    command = [*prefix, sys.executable, "-c", REPORT + textwrap.dedent(code)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout.splitlines()


def unprivileged(*limits):
    """A command that takes the capabilities away from what it starts, with these limits."""
    if shutil.which("prlimit") is None or shutil.which("setpriv") is None:
        pytest.skip("prlimit and setpriv (util-linux) are not installed")
    drop = ["setpriv", "--bounding-set", "-sys_nice,-ipc_lock,-sys_resource"] if os.geteuid() == 0 else []
    return ["prlimit", *limits, *drop]


@pytest.fixture
def allowed():
    if highest_priority() < 60 or lockable_bytes() is not None:
        pytest.skip("this user may take no real-time priority, or lock no memory")


@pytest.mark.usefixtures("allowed")
def test_both_are_taken_within_the_block_and_given_back():
    assert call("attempt(50, True); attempt(60); attempt(None, True); attempt()") == [
        *("1 50 True", NORMAL),
        *("1 60 False", NORMAL),
        *("0 0 True", NORMAL),
        *(NORMAL, NORMAL),
    ]


@pytest.mark.usefixtures("allowed")
def test_they_are_given_back_where_the_block_raises_and_as_they_were_outside():
    code = """
    with real_time(40, True):
        try:
            with real_time(50, True):
                print(*now())
                raise KeyError
        except KeyError:
            print(*now())
    print(*now())
    """
    assert call(code) == ["1 50 True", "1 40 True", NORMAL]


@pytest.mark.usefixtures("allowed")
def test_threads_that_are_started_in_it_inherit_the_priority_and_those_before_keep_theirs():
    code = """
    asked, answer = threading.Event(), []
    before = threading.Thread(target=lambda: (asked.wait(), answer.append(now()[1])))
    before.start()
    with real_time(50):
        asked.set()
        before.join()
        within = threading.Thread(target=lambda: answer.append(now()[1]))
        within.start()
        within.join()
    print(answer)
    """
    assert call(code) == ["[0, 50]"]


def test_without_permission_both_are_refused_with_the_way_to_get_it():
    prefix = unprivileged("--rtprio=0:0", "--memlock=65536:65536")
    priority, after, memory, last = call("attempt(50); attempt(None, True)", *prefix)
    assert (after, last) == (NORMAL, NORMAL)
    assert priority.startswith("the priority 50 is not allowed: this process may take at most 0 (RLIMIT_RTPRIO). ")
    assert memory.startswith("memory cannot be locked: this process may lock 65536 bytes (RLIMIT_MEMLOCK)")
    for text, item in ((priority, "rtprio 99"), (memory, "memlock unlimited")):
        for way in (f"'@realtime - {item}' in /etc/security/limits.d/", "systemd unit with Limit", "sudo setcap cap_"):
            assert way in text


def test_the_command_that_allows_it_names_an_interpreter_in_any_folder(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/opt/my robots/bin/python3")
    assert realtime._way_to("", "", "").endswith(" '/opt/my robots/bin/python3'.")


def test_a_limit_of_the_login_is_enough_up_to_its_number():
    prefix = unprivileged("--rtprio=30:30", "--memlock=unlimited:unlimited")
    if subprocess.run([*prefix[:3], "true"], capture_output=True).returncode != 0:
        pytest.skip("this user cannot give itself a limit")
    accepted, _, refused, _ = call("attempt(30, True); attempt(31, True)", *prefix)
    assert accepted == "1 30 True"
    assert "the priority 31 is not allowed: this process may take at most 30" in refused


@pytest.mark.parametrize("priority", [0, 100, -1])
def test_a_priority_that_is_none_is_refused(priority):
    with pytest.raises(SamiError, match=f"the priority is {priority}; it must be 1 to 99"), real_time(priority):
        pass


def test_what_may_be_taken_follows_capabilities_and_limits(tmp_path):
    import resource

    status = tmp_path / "proc" / "self" / "status"
    status.parent.mkdir(parents=True)
    status.write_text("Name:\tx\nCapEff:\t0000000000804000\n")
    assert (highest_priority(tmp_path), lockable_bytes(tmp_path)) == (99, None)
    status.write_text("Name:\tx\nCapEff:\t0000000000000000\n")
    soft = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
    assert highest_priority(tmp_path) == (99 if soft < 0 else min(soft, 99))
