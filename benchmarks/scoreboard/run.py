"""Makes one run, or all missing runs, prints the tables, and draws the curves.

    python -m benchmarks.scoreboard run --task gravity-half-cheetah --method sami-tesac --seed 0
    python -m benchmarks.scoreboard run --task gravity-hopper --method sami-sac --seed 2 --steps 1001000
    python -m benchmarks.scoreboard all --tasks gravity-half-cheetah --seeds 3
    python -m benchmarks.scoreboard table
    python -m benchmarks.scoreboard curves

A run that is finished is left out; one that was cut leaves nothing, and begins anew.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.scoreboard.methods import METHODS
from benchmarks.scoreboard.table import RESULTS, read_runs, tables
from benchmarks.scoreboard.tasks import TASKS

MINUTES = 30.0
SEEDS = 3
PACKAGES = ("torch", "stable-baselines3", "sb3-contrib", "skrl", "gymnasium", "mujoco", "dm_control", "numpy")


def file_of(task: str, method: str, seed: int, minutes: float, out: Path) -> Path:
    """Return the path of a run's results."""
    return out / task / f"{method}-seed{seed}-{minutes:g}min.jsonl"


def run(
    task: str, method: str, seed: int, minutes: float, out: Path = RESULTS, budget_steps: int | None = None
) -> Path:
    """Make one run unless its file exists; write a line of facts and a line for each evaluation; return the path."""
    path = file_of(task, method, seed, minutes, out)
    if path.exists():
        print(f"{path} is there already", flush=True)
        return path
    import torch

    from benchmarks.scoreboard.budget import Clock
    from sami_train.runs.folder import git_state

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    learner = METHODS[method]
    clock = Clock(TASKS[task], minutes, learner.reads_task, steps=budget_steps)
    extent = f"{minutes:g} minutes of one core" if budget_steps is None else f"{budget_steps:,} steps"
    print(f"{task} {method} seed {seed}: {extent}", flush=True)
    settings = learner.learn(clock, seed)
    facts = {
        "task": task,
        "method": method,
        "seed": seed,
        "minutes": minutes,
        "budget_steps": budget_steps,
        "settings": settings,
        "commit": git_state().get("commit") or os.environ.get("SCOREBOARD_COMMIT", "unknown"),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "processor": _cpu_field("model name") or platform.machine(),
        "avx512": "avx512f" in _cpu_field("flags").split(),
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_text("".join(f"{json.dumps(line)}\n" for line in [facts, *clock.curve]), encoding="utf-8")
    partial.rename(path)
    print(f"wrote {path}", flush=True)
    return path


def missing(tasks: Sequence[str], seeds: int, minutes: float, out: Path) -> Iterator[tuple[str, str, int]]:
    """Yield task, method and seed of missing runs, by seed and task, so that methods have equally many seeds."""
    for seed, task, method in itertools.product(range(seeds), tasks, METHODS):
        if not file_of(task, method, seed, minutes, out).exists():
            yield task, method, seed


def run_missing(tasks: Sequence[str], seeds: int, minutes: float, out: Path) -> None:
    """Make every missing run, each in its own process; exit with an error if some failed."""
    failed: set[tuple[str, str, int]] = set()
    while remaining := [cell for cell in missing(tasks, seeds, minutes, out) if cell not in failed]:
        task, method, seed = remaining[0]
        print(f"{len(remaining)} runs are missing", flush=True)
        arguments = ["--task", task, "--method", method, "--seed", str(seed), "--minutes", f"{minutes:g}"]
        command = [sys.executable, "-m", "benchmarks.scoreboard", "run", *arguments, "--out", str(out)]
        if subprocess.run(command).returncode:
            failed.add(remaining[0])
    if failed:
        sys.exit(f"{len(failed)} runs failed: {', '.join(' '.join(map(str, cell)) for cell in sorted(failed))}")


def _count(text: str) -> int:
    """Return a positive number of steps; argparse reports the ValueError."""
    if (count := int(text)) < 1:
        raise ValueError
    return count


def _cpu_field(name: str) -> str:
    """Return a field of the first core in Linux's `/proc/cpuinfo`; empty where it is missing."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.split(":")[1].strip() for line in lines if line.startswith(name)), "")


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, and run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scoreboard", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    single = commands.add_parser("run", help="make one run")
    single.add_argument("--task", choices=TASKS, required=True)
    single.add_argument("--method", choices=METHODS, required=True)
    single.add_argument("--seed", type=int, default=0)
    single.add_argument("--steps", type=_count, help="end after these steps, which stand for the minutes")
    every = commands.add_parser("all", help="make every run that is missing")
    every.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    every.add_argument("--seeds", type=int, default=SEEDS)
    table = commands.add_parser("table", help="print the tables of the runs that are there")
    curves = commands.add_parser("curves", help="draw the learning curves of each task")
    for command in (single, every):
        command.add_argument("--minutes", type=float, default=MINUTES, help="of processor time for each run")
    for command in (single, every, table, curves):
        command.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options: Any = parser.parse_args(arguments)
    if options.command == "run":
        run(options.task, options.method, options.seed, options.minutes, options.out, options.steps)
    elif options.command == "all":
        run_missing(options.tasks, options.seeds, options.minutes, options.out)
    elif options.command == "curves":
        from benchmarks.scoreboard.curves import write_curves

        print("\n".join(map(str, write_curves(read_runs(options.out), options.out))))
    else:
        print("\n".join(tables(read_runs(options.out))))
