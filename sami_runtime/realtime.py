"""Real-time priority and locked memory: taken within a block, or refused with the way to be allowed."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sami_runtime.errors import SamiError, in_shell

SYS_NICE, IPC_LOCK = 23, 14
"""Bits of the Linux capabilities that lift the limits on real-time priority and on locked memory."""
MCL_CURRENT, MCL_FUTURE = 1, 2
"""Of mlockall: what is mapped now, and what will be."""
HIGHEST = 99
"""Highest priority of SCHED_FIFO."""


def _way_to(item: str, unit: str, capability: str) -> str:
    """Return how a user is allowed it: by a login's limits, a service's, or a capability of the interpreter."""
    return (
        f"Allow it with the line '@realtime - {item}' in /etc/security/limits.d/99-realtime.conf, join that group (sudo"
        " groupadd -f realtime; sudo usermod -aG realtime $USER) and log in again; in a systemd unit with "
        f"{unit}; in a container with --cap-add={capability}; or for everything that this interpreter runs with sudo "
        f"setcap cap_sys_nice,cap_ipc_lock+ep {in_shell(os.path.realpath(sys.executable))}."
    )


PRIORITY_WAY = _way_to(f"rtprio {HIGHEST}", f"LimitRTPRIO={HIGHEST}", "sys_nice")
"""How to be allowed a real-time priority."""
MEMORY_WAY = _way_to("memlock unlimited", "LimitMEMLOCK=infinity", "ipc_lock")
"""How to be allowed to lock memory."""


@contextmanager
def real_time(priority: int | None = None, lock_memory: bool = False) -> Iterator[None]:
    """Within the block, let this thread go before others, and keep the process's memory from being swapped out.

    Threads and processes that are started in it inherit the priority; processes do not inherit the lock. A thread of
    such a priority that never sleeps takes a core from everything else. Afterwards both are as before.

    Args:
        priority: Of SCHED_FIFO for the calling thread, 1 to 99; None leaves it as it is. 50 is that of the kernel's
            interrupt threads; a loop has no need of more.
        lock_memory: Whether all memory, also what is allocated in the block, is locked; what is mapped is loaded first.

    Raises:
        SamiError: The system has no such thing, or this process is not allowed it. Nothing was changed.
    """
    if priority is not None and not 1 <= priority <= HIGHEST:
        raise SamiError(f"the priority is {priority}; it must be 1 to {HIGHEST}.")
    with ExitStack() as stack:
        if lock_memory:
            stack.enter_context(_locked_memory())
        if priority is not None:
            stack.enter_context(_fifo(priority))
        yield


def highest_priority(root: Path = Path("/")) -> int:
    """Return the highest real-time priority that this process may take, by `proc` in `root`; 0 where none."""
    limit = _limit("RLIMIT_RTPRIO")
    return HIGHEST if limit < 0 or _capable(SYS_NICE, root) else min(limit, HIGHEST)


def lockable_bytes(root: Path = Path("/")) -> int | None:
    """Return how much memory this process may lock [bytes], by `proc` in `root`; None where there is no limit."""
    limit = _limit("RLIMIT_MEMLOCK")
    return None if limit < 0 or _capable(IPC_LOCK, root) else limit


@contextmanager
def _fifo(priority: int) -> Iterator[None]:
    if not hasattr(os, "sched_setscheduler"):
        raise SamiError(f"{sys.platform} has no real-time priority for a loop; leave the priority out.")
    if priority > (highest := highest_priority()):
        raise SamiError(
            f"the priority {priority} is not allowed: this process may take at most {highest} (RLIMIT_RTPRIO). "
            f"{PRIORITY_WAY}"
        )
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except OSError as error:
        raise SamiError(
            f"the system refused the priority {priority}, although this process may take it: {error.strerror}. Its "
            "control group may have no share of real time (cpu.rt_runtime_us), or a sandbox forbids it."
        ) from None
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


@contextmanager
def _locked_memory() -> Iterator[None]:
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None
    if libc is None:
        raise SamiError(f"locking memory is for Linux, and this is {sys.platform}; leave it out.")
    # Below a finite limit memory could be locked now, and a later allocation would fail in the middle of a run.
    if (lockable := lockable_bytes()) is not None:
        raise SamiError(
            f"memory cannot be locked: this process may lock {lockable} bytes (RLIMIT_MEMLOCK), and what it allocates "
            f"beyond them would fail. {MEMORY_WAY}"
        )
    before = int((_status("VmLck") or "0").split()[0])  # locked by the host: not ours to unlock
    if libc.mlockall(MCL_CURRENT | MCL_FUTURE) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise SamiError(f"the system refused to lock memory: {reason}. Free some, or leave it out.")
    try:
        yield
    finally:
        if not before:
            libc.munlockall()


def _limit(name: str) -> int:
    """Return a soft limit of this process; -1 where there is none, 0 where the system knows no such limit."""
    try:
        import resource
    except ModuleNotFoundError:
        return 0
    return resource.getrlimit(getattr(resource, name))[0] if hasattr(resource, name) else 0


def _capable(bit: int, root: Path) -> bool:
    """Whether this process has a capability of Linux."""
    return bool(int(_status("CapEff", root) or "0", 16) >> bit & 1)


def _status(key: str, root: Path = Path("/")) -> str:
    """Return what Linux says of this process; empty where it says nothing."""
    try:
        lines = (root / "proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key + ":")), "")
