"""Checks whether a machine is fit for a control loop: versions, providers, kernel, limits, clocks; gives advice."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import os
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from sami_runtime.distribution import install_hint, installed_version, pip
from sami_runtime.errors import ProviderError
from sami_runtime.realtime import MEMORY_WAY, PRIORITY_WAY, highest_priority, lockable_bytes
from sami_runtime.session.inference import CUDA, TELEMETRY, import_onnxruntime, install_advice, load_libraries

GOOD_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen")
"""Linux clock sources that are read without access to a device."""
LATE_S = 500e-6
"""Largest lateness [s] that one sleep in a hundred may exceed: half a tick at 1 kHz."""

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    status: Status
    """`fail` if policies cannot run; `warn` if they run late or differently than expected."""
    measured: str
    advice: str = ""
    """What to do about it; empty if there is nothing to do."""


def examine(root: Path = Path("/")) -> Iterator[Finding]:
    """Run all checks, and yield their findings one by one.

    Args:
        root: The folder that contains `proc` and `sys`.
    """
    yield versions()
    packages = importlib.metadata.packages_distributions().get("onnxruntime", [])
    yield builds(sorted(set(packages)))
    yield from onnxruntime()
    yield cores()
    yield load(root)
    yield governor(root)
    yield kernel(root)
    yield from limits(root)
    yield from throttling(root)
    yield clock(root)
    yield sleep()


def versions() -> Finding:
    """Report the versions of Python and of the packages that matter here."""
    names = ("sami", "numpy", "pydantic", "torch", "stable-baselines3", "gymnasium", "panda-gym", "mujoco")
    texts = [f"{platform.system()} {platform.machine()}", f"Python {platform.python_version()}"]
    texts += [f"{name} {version}" for name in names if (version := installed_version(name)) is not None]
    return Finding("versions", "ok", ", ".join(texts))


def builds(distributions: Sequence[str]) -> Finding:
    """Check that exactly one installed distribution contains the package onnxruntime."""
    name = "onnxruntime build"
    if not distributions:
        return Finding(name, "fail", "none is installed", f"Install one: {install_advice()}.")
    text = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in distributions)
    if len(distributions) == 1:
        return Finding(name, "ok", text)
    remove = f"{pip()} uninstall -y {' '.join(distributions)}"
    advice = f"Remove them all and install one again: {remove}; then {install_advice()}."
    return Finding(name, "fail", f"{text} install the same files and overwrite each other", advice)


def onnxruntime() -> Iterator[Finding]:
    """Check whether onnxruntime can be imported, which providers it has, and whether its telemetry is off."""
    try:
        module = import_onnxruntime()
    except (ProviderError, ImportError) as error:
        yield Finding("onnxruntime", "fail", str(error), f"Install it again: {install_advice()}.")
        return
    providers = module.get_available_providers()
    yield Finding("onnxruntime", "ok", f"{module.__version__}, built for {', '.join(providers)}")
    if CUDA in providers:
        folder = Path(module.__path__[0])
        yield cuda(folder / "capi" / "libonnxruntime_providers_cuda.so", load_libraries(module))
    if os.environ.get(TELEMETRY, "1") == "1":
        yield Finding("telemetry", "ok", "off: nothing is sent or kept where this package imports onnxruntime")
    else:
        reading = f"{TELEMETRY} is {os.environ[TELEMETRY]!r}: onnxruntime 1.29 and later may report"
        yield Finding("telemetry", "warn", reading, f"Unset {TELEMETRY}, or set it to 1.")


def cuda(library: Path, complaints: str = "") -> Finding:
    """Check whether the CUDA provider can be loaded; onnxruntime lists it with or without a GPU.

    Args:
        library: The provider's shared object.
        complaints: Messages of onnxruntime from loading the CUDA libraries.
    """
    try:
        for name in ("libonnxruntime_providers_shared.so", library.name):
            ctypes.CDLL(str(library.with_name(name)))
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        reading = " ".join(f"onnxruntime lists it, but it does not load: {error} {complaints}".split())
        advice = f"Install NVIDIA's driver; {install_hint('gpu')} brings the libraries. Or use the provider cpu."
        return Finding("cuda", "warn", reading, advice)
    reading = "the provider and the driver load; check results with: sami verify MODEL --provider cuda"
    return Finding("cuda", "ok", reading)


def cores() -> Finding:
    """Check how many cores this process may use."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count == 1:
        advice = "Give the loop a core of its own; whatever else runs on this one delays it."
        return Finding("cores", "warn", "1 usable", advice)
    return Finding("cores", "ok", f"{count} usable")


def load(root: Path) -> Finding:
    """Check whether other work occupies the cores."""
    try:
        minute = float((root / "proc/loadavg").read_text(encoding="ascii").split()[0])
    except OSError:
        return Finding("load", "ok", "this system does not report it")
    reading = f"{minute:g} on {os.cpu_count()} cores over the last minute"
    if minute / (os.cpu_count() or 1) <= 0.5:
        return Finding("load", "ok", reading)
    advice = (
        "Stop other work before measuring. A loop beside it needs a real-time priority (priority = 50 in a robot's "
        "file) or a core kept free for it (taskset, isolcpus)."
    )
    return Finding("load", "warn", reading, advice)


def governor(root: Path) -> Finding:
    """Check whether the cores keep their clock frequency between two ticks."""
    files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    names = set()
    for file in files:
        with contextlib.suppress(OSError):  # of a core that is offline
            names.add(file.read_text(encoding="ascii").strip())
    governors = sorted(names)
    if not governors:
        return Finding("cpu governor", "ok", "none is shown here, as in a virtual machine")
    if governors == ["performance"]:
        return Finding("cpu governor", "ok", "performance")
    reading = f"{', '.join(governors)}: a core that slept wakes with a low clock"
    return Finding("cpu governor", "warn", reading, "sudo cpupower frequency-set -g performance")


def kernel(root: Path) -> Finding:
    """Check whether the kernel is a real-time kernel."""
    flag = root / "sys/kernel/realtime"
    version = root / "proc/sys/kernel/version"
    text = version.read_text(encoding="utf-8").strip() if version.is_file() else platform.version()
    if (flag.is_file() and flag.read_text(encoding="ascii").strip() == "1") or "PREEMPT_RT" in text:
        return Finding("kernel", "ok", f"real-time ({text})")
    advice = (
        "Fine for a policy of 100 Hz with a margin. Run what must not miss 1 kHz on a PREEMPT_RT kernel, or in the "
        "robot's own controller."
    )
    return Finding("kernel", "warn", f"not real-time ({text})", advice)


def limits(root: Path) -> Iterator[Finding]:
    """Check whether this user may take a real-time priority and lock memory, so that it is not swapped out."""
    if not hasattr(os, "sched_setscheduler"):
        return
    if highest := highest_priority(root):
        yield Finding("real-time priority", "ok", f"up to {highest}; priority = {min(highest, 50)} in a robot's file")
    else:
        reading = "none: RLIMIT_RTPRIO is 0, and on busy cores the loop waits for its turn like everything else"
        yield Finding("real-time priority", "warn", reading, f"{PRIORITY_WAY} Then: priority = 50 in a robot's file")
    if (locked := lockable_bytes(root)) is None:
        yield Finding("locked memory", "ok", "unlimited; lock_memory = true in a robot's file")
    else:
        reading = f"at most {locked} bytes: pages of the policy may be swapped out"
        advice = f"{MEMORY_WAY} Then: lock_memory = true in a robot's file. Or run without swap."
        yield Finding("locked memory", "warn", reading, advice)


def throttling(root: Path) -> Iterator[Finding]:
    """Check which share of a core the kernel allows for real-time priorities."""
    try:
        runtime, period = (
            int((root / f"proc/sys/kernel/sched_rt_{name}_us").read_text(encoding="ascii"))
            for name in ("runtime", "period")
        )
    except OSError:
        return
    name, advice = "real-time share", "sudo sysctl kernel.sched_rt_runtime_us=950000"
    if runtime == 0:
        yield Finding(name, "warn", "none: what has a real-time priority does not run", advice)
    elif runtime < 0:
        reading = "all of a core: a loop of such a priority that never sleeps takes it from everything else"
        yield Finding(name, "warn", reading, f"{advice}, unless that is meant.")
    else:
        yield Finding(name, "ok", f"{runtime} of {period} µs: only a loop that hardly sleeps is held up by it")


def clock(root: Path) -> Finding:
    """Check the clock by which the loop keeps its deadlines."""
    info = time.get_clock_info("perf_counter")
    file = root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
    source = file.read_text(encoding="ascii").strip() if file.is_file() else info.implementation
    reading = f"{source}, resolution {info.resolution * 1e9:g} ns"
    if info.monotonic and info.resolution <= 1e-6 and (not file.is_file() or source in GOOD_CLOCKS):
        return Finding("clock", "ok", reading)
    advice = "A slow or coarse clock makes every deadline uncertain; boot with clocksource=tsc if the processor allows."
    return Finding("clock", "warn", reading, advice)


def sleep(count: int = 200) -> Finding:
    """Measure how late `count` sleeps of 1 ms end."""
    late = np.empty(count)
    for i in range(count):
        deadline = time.perf_counter() + 1e-3
        time.sleep(1e-3)
        late[i] = time.perf_counter() - deadline
    p50, p99, worst = np.percentile(late, (50, 99, 100)) * 1e6
    lateness = f"{count} sleeps of 1 ms ended late by p50 {p50:.0f}, p99 {p99:.0f}, at worst {worst:.0f} µs"
    if p99 <= LATE_S * 1e6:
        return Finding("sleep", "ok", lateness)
    advice = (
        "Stop other work, set the governor to performance, or give the loop a real-time priority (priority = 50 in a "
        "robot's file)."
    )
    return Finding("sleep", "warn", lateness, advice)
