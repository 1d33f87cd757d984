"""Measures the lateness of a 100 Hz control loop, while other processes keep every core busy.

    python benchmarks/under_load.py [--model FILE] [--rate 100] [--seconds S] [--priority 50] [--json]

One process for each core only counts, at normal priority. Beside them the loop runs as in `sami run`, with warm-up and
an awake core before each tick, in turns:

    idle           nothing else is running
    busy           normal priority, memory not locked
    + memory       memory locked (--lock-memory)
    + priority     real-time priority (--priority 50)
    + both

Each turn takes 5 s, in another order each round, so that other load on the machine affects all alike; --seconds is the
total time of each of the five. The output is

    lateness       time from when a tick was due to its start
    policy         time to judge the observation, and of `Session.step`
    missed         ticks that did not run, because the one before took too long

Settings that the system does not permit are reported and left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import platform
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loop_period import Noise

from sami_runtime import Limits, LoopReport, MonotonicClock, SafetyGate, SamiError, Session, real_time, run_episode
from sami_runtime.model.artifact import read_artifact

TURN_S = 5.0
"""Length of a turn [s]."""
PREWARM_S, AWAKE_S = 0.0007, 0.0003
"""Times of `sami run` before each tick, for warming up the policy and for keeping the core awake [s]."""

BUSY = """
import os, sys
parent = os.getppid()
print(flush=True)
while os.getppid() == parent:
    sum(range(100_000))
"""
"""A program that keeps a core busy until its parent process ends."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """The conditions of a turn of the loop."""

    name: str
    busy: bool
    lock_memory: bool = False
    priority: bool = False


SETTINGS = (
    Setting("idle", busy=False),
    Setting("busy", busy=True),
    Setting("+ memory", busy=True, lock_memory=True),
    Setting("+ priority", busy=True, priority=True),
    Setting("+ both", busy=True, lock_memory=True, priority=True),
)


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Run `count` processes of normal priority during the block, each of which keeps a core busy."""
    command = [sys.executable, "-c", BUSY]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for process in processes:
            if process.stdout:
                process.stdout.readline()
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def turn(session: Session, rate_hz: float, setting: Setting, priority: int, report: LoopReport) -> None:
    """Run the loop for one turn, and add its ticks to a report."""
    clock = MonotonicClock(AWAKE_S)
    robot = Noise(session.contract, clock)
    # No limit stops the loop, since late ticks are what this measures.
    limits = Limits(stop_after=10**9, max_age_s=math.inf, deadline_s=math.inf)
    gate = SafetyGate(robot, session.contract, limits)
    steps = round(rate_hz * TURN_S)
    scheduling = real_time(priority if setting.priority else None, setting.lock_memory)
    with busy_cores((os.cpu_count() or 1) if setting.busy else 0), scheduling:
        run_episode(session, robot, max_steps=steps, clock=clock, gate=gate, on_step=report.add, prewarm_s=PREWARM_S)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, default=Path("models/panda-satesac.onnx"), help="model file")
    parser.add_argument("--rate", type=float, default=100.0, help="Hz (100)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each of the five runs (60)")
    parser.add_argument("--priority", type=int, default=50, help="real-time priority, 1 to 99 (50)")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    arguments = parser.parse_args()
    artifact = read_artifact(arguments.model)
    # Step the policy at every tick, whatever rate it was trained at: only the timing matters here.
    contract = artifact.contract.model_copy(update={"rate_hz": arguments.rate})
    session = Session(dataclasses.replace(artifact, contract=contract))
    reports = {setting.name: LoopReport() for setting in SETTINGS}
    refused: dict[str, str] = {}
    order, generator = list(SETTINGS), random.Random(0)
    for _ in range(max(1, round(arguments.seconds / TURN_S))):
        generator.shuffle(order)
        for setting in order:
            if setting.name not in refused:
                try:
                    turn(session, arguments.rate, setting, arguments.priority, reports[setting.name])
                except SamiError as error:
                    refused[setting.name] = str(error)
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {platform.release()}"
    rows = {name: row(report) for name, report in reports.items() if name not in refused}
    if arguments.json:
        print(json.dumps({"machine": machine, "rate_hz": arguments.rate, "us": rows, "refused": refused}, indent=2))
        return
    print(f"{machine}; {arguments.rate:g} Hz; us: p50, p99, p99.9, worst")
    print(f"{'':<12}{'ticks':>7}{'missed':>8}{'lateness':>36}{'policy':>36}")
    for name, reported in rows.items():
        times = "".join(f"{value:>9.0f}" for kind in ("lateness", "policy") for value in reported[kind])
        print(f"{name:<12}{reported['ticks']:>7}{reported['missed']:>8}{times}")
    for name, reason in refused.items():
        print(f"{name:<12}{reason}")


def row(report: LoopReport) -> dict[str, object]:
    """Return counts and percentiles of times [us] of one setting."""
    times = report.percentiles()
    microseconds = {name: [1e6 * value for value in times[name]] for name in ("lag", "infer")}
    counts = {"ticks": report.ticks, "missed": report.missed}
    return {**counts, "lateness": microseconds["lag"], "policy": microseconds["infer"]}


if __name__ == "__main__":
    main()
