"""Measures a Panda policy on a Franka through its own protocol: success by task, lost packets, the longest cycle.

    make franka-sim &                                     # the robot, simulated
    python benchmarks/franka_task.py --slower 5 --episodes 10 --json results/franka.json

The cube is simulated with the arm; its mass and the table's friction are those of the training tasks. Any stop of the
robot ends the episode as a failure and is reported. The robot then recovers; on a real one, a person decides that.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from sami_runtime import Limits, MonotonicClock, Run, SafetyStop, Session, real_time, shipped_models
from sami_runtime.files import read_document
from sami_runtime.robots.franka import make
from sami_train.envs.panda.tasks import PANDA_TASKS

EXAMPLE = Path(__file__).parents[1] / "examples" / "franka"
BUSY = "while True: pass"


def episodes(run, robot, task, seeds, steps):
    """Run a task's episodes, and yield a row of results for each."""
    for seed in seeds:
        before, start = robot.arm, time.monotonic()
        row = {"task": task, "seed": seed}
        robot.place_with(task)
        try:
            report = run.episode(seed=seed, max_steps=steps)
            row |= {
                "success": bool(report.success),
                "steps": report.steps,
                "outcomes": {str(name.value): count for name, count in report.loop.outcomes.items()},
                "limited": dict(report.loop.limited),
            }
        except SafetyStop as stop:
            row |= {"success": False, "stopped": str(stop)}
            robot.recover()
            run.gate.rearm()
        after = robot.arm
        row |= {"cycles": after.cycles - before.cycles, "lost": after.misses - before.misses, "worst_s": after.worst_s}
        row["seconds"] = round(time.monotonic() - start, 2)
        print(json.dumps(row), flush=True)
        yield row


def summary(rows, slower):
    """Return success by task, also within 150 of the policy's periods, and counts of lost packets."""
    tasks = {}
    for row in rows:
        tasks.setdefault(json.dumps(row["task"]), []).append(row["success"])
    cycles, misses = sum(row["cycles"] for row in rows), sum(row["lost"] for row in rows)
    return {
        "success": float(np.mean([row["success"] for row in rows])),
        "success_in_150_periods": float(np.mean([row["success"] and row["steps"] * slower <= 150 for row in rows])),
        "by_task": {task: [sum(successes), len(successes)] for task, successes in tasks.items()},
        "stopped": sum("stopped" in row for row in rows),
        "steps_of_successes": float(np.mean([row["steps"] for row in rows if row["success"]] or [0])),
        "cycles": cycles,
        "lost": misses,
        "worst_ms": 1e3 * max(row["worst_s"] for row in rows),
        "load": os.getloadavg()[0],
    }


def main():
    """Run the episodes, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="panda-satesac", help="a shipped model's name, or a file")
    parser.add_argument("--adapter-config", type=Path, default=EXAMPLE / "arm.toml")
    parser.add_argument("--episodes", type=int, default=10, help="of each task (10)")
    parser.add_argument("--tasks", default="training")
    parser.add_argument("--steps", type=int, default=150, help="most steps of an episode (150)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slower", type=int, default=1, help="periods of the policy that each of its steps takes (1)")
    parser.add_argument("--busy", type=int, default=0, help="processes that keep a core busy each (0)")
    parser.add_argument("--priority", type=int, help="of the loop in real time, as in sami run --set priority=N (none)")
    parser.add_argument("--set", action="append", default=[], help="a setting, as motion.gain=0.4")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    config = read_document(arguments.adapter_config, "settings")
    for item in arguments.set:
        key, value = item.split("=")
        *path, last = key.split(".")
        table = config
        for part in path:
            table = table.setdefault(part, {})
        table[last] = json.loads(value)
    session = Session.load(shipped_models().get(arguments.model, arguments.model))
    clock, rows = MonotonicClock(), []
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(arguments.busy)]
    with real_time(arguments.priority):  # also for the thread that receives from the camera
        robot = make(clock, session.contract, config)
    options = {"limits": Limits.load(EXAMPLE / "limits.toml"), "slower": arguments.slower}
    try:
        with real_time(arguments.priority), Run(session, robot, clock, **options) as run:
            for task in PANDA_TASKS.sets[arguments.tasks]:
                seeds = range(arguments.seed, arguments.seed + arguments.episodes)
                rows += episodes(run, robot, dict(task), seeds, arguments.steps)
    finally:
        robot.close()
        for process in busy:
            process.kill()
        if rows:
            request = {"model": arguments.model, "settings": config, "slower": arguments.slower, "busy": arguments.busy}
            report = {**request, **summary(rows, arguments.slower)}
            print(json.dumps({key: value for key, value in report.items() if key != "settings"}, indent=2))
            if arguments.json:
                arguments.json.write_text(json.dumps({**report, "episodes": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
