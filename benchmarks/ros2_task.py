"""Measures a Panda policy on a robot through ROS 2 topics: success by task, message rates, and a round trip's time.

    python benchmarks/ros2_task.py --episodes 5 --json results/ros2/task.json
    python benchmarks/ros2_task.py --rounds 2000 --json results/ros2/latency.json

The robot is that of examples/ros2, in its own process, in real time and on loopback; the cube's mass and the table's
friction are those of the training tasks. A round trip is a command of seven numbers and the reply, a JointState of
seven joints, between two Python processes, including conversions and threads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from sami_runtime import Limits, MonotonicClock, Run, SamiError, Session, real_time, shipped_models
from sami_runtime.files import read_document
from sami_runtime.robots.ros2 import make
from sami_runtime.robots.ros2.messages import JointMessage, Numbers
from sami_runtime.robots.ros2.open_node import open_node
from sami_runtime.robots.ros2.settings import Qos
from sami_train.envs.panda.tasks import PANDA_TASKS

EXAMPLE = Path(__file__).parents[1] / "examples" / "ros2"
DOMAIN = 77


def episodes(run, robot, task, seeds, steps):
    """Run a task's episodes, and yield a row of results for each."""
    robot.place_with([task["mass"], task["friction"]])
    for seed in seeds:
        row, before = {"task": task, "seed": seed}, counts(robot)
        start = time.monotonic()
        try:
            report = run.episode(seed=seed, max_steps=steps)
            row |= {
                "success": bool(report.success),
                "steps": report.steps,
                "outcomes": {str(name.value): count for name, count in report.loop.outcomes.items()},
                "missed": report.loop.missed,
                "phase": run.telemetry.summary()["phase"],
            }
        except SamiError as stop:
            row |= {"success": False, "stopped": str(stop)}
            run.gate.rearm()
        seconds = time.monotonic() - start
        rates = {name: round((after - before[name]) / seconds, 1) for name, after in counts(robot).items()}
        row |= {"seconds": round(seconds, 2), "hz": rates, "load": os.getloadavg()[0]}
        print(json.dumps(row), flush=True)
        yield row


def counts(robot):
    """Return the number of accepted messages by topic."""
    return {name: topic.accepted for name, topic in robot.sources.topics.items()}


def summary(rows):
    """Return success by task, and counts of the loop."""
    tasks = {}
    for row in rows:
        tasks.setdefault(json.dumps(row["task"]), []).append(row["success"])
    outcomes = {}
    for row in rows:
        for name, count in row.get("outcomes", {}).items():
            outcomes[name] = outcomes.get(name, 0) + count
    return {
        "success": float(np.mean([row["success"] for row in rows])),
        "by_task": {task: [sum(successes), len(successes)] for task, successes in tasks.items()},
        "stopped": sum("stopped" in row for row in rows),
        "outcomes": outcomes,
        "missed": sum(row.get("missed", 0) for row in rows),
        "hz": {name: float(np.median([row["hz"][name] for row in rows])) for name in rows[0]["hz"]},
        "load": [min(row["load"] for row in rows), max(row["load"] for row in rows)],
    }


def drive(arguments):
    """Run all episodes on the simulated robot, and return their rows."""
    config = {**read_document(EXAMPLE / "arm.toml", "settings"), "domain": DOMAIN, "heard_s": 30.0}
    config["backend"] = "cyclonedds"
    session = Session.load(shipped_models().get(arguments.model, arguments.model))
    command = [sys.executable, str(EXAMPLE / "robot.py"), "--domain", str(DOMAIN), "--late", str(arguments.late)]
    simulated = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    threading.Thread(target=lambda: list(simulated.stdout), daemon=True).start()
    rows, clock = [], MonotonicClock(0.0003)
    try:
        with real_time(arguments.priority), closing(make(clock, session.contract, config)) as robot:
            allowed = Limits.load(EXAMPLE / "limits.toml")
            with Run(session, robot, clock, limits=allowed, loop_hz=arguments.loop_hz, prewarm_s=0.0007) as run:
                for task in PANDA_TASKS.sets[arguments.tasks]:
                    seeds = range(arguments.seed, arguments.seed + arguments.episodes)
                    rows += episodes(run, robot, dict(task), seeds, arguments.steps)
                sections = {
                    name: {"p50_us": round(1e6 * percentile.p50), "p99_us": round(1e6 * percentile.p99)}
                    for name, percentile in run.total.percentiles().items()
                }
    finally:
        simulated.kill()
        simulated.wait()
    return {**summary(rows), "sections": sections, "episodes": rows}


def echo():
    """Answer each command, until killed."""
    node = open_node("cyclonedds", DOMAIN, MonotonicClock())
    answer, names = node.publisher("/joint_states", JointMessage, Qos()), tuple(f"joint{at}" for at in range(7))

    def hear(message, _):
        answer.send(JointMessage(time.time(), names, message.data, message.data))

    node.subscribe("/commands", Numbers, Qos(), hear)
    threading.Event().wait()


def rounds(arguments):
    """Measure round trips of a message; return percentiles of their times [us], and the number of lost messages."""
    node, arrival = open_node("cyclonedds", DOMAIN, MonotonicClock()), threading.Event()
    node.subscribe("/joint_states", JointMessage, Qos(), lambda message, _: arrival.set())
    command = node.publisher("/commands", Numbers, Qos())
    priority = [] if arguments.priority is None else ["--priority", str(arguments.priority)]
    other = subprocess.Popen([sys.executable, __file__, "--echo", *priority])
    try:
        while not (node.subscribers("/commands") and node.publishers("/joint_states")):
            time.sleep(0.05)
        time.sleep(0.5)
        durations, timeouts = [], 0
        for number in range(arguments.rounds):
            arrival.clear()
            start = time.perf_counter()
            command.send(Numbers(np.full(7, float(number))))
            if arrival.wait(1.0):
                durations.append(1e6 * (time.perf_counter() - start))
            else:
                timeouts += 1
            time.sleep(0.002)
    finally:
        other.kill()
        other.wait()
        node.close()
    shares = {f"p{share:g}_us": round(float(np.percentile(durations, share))) for share in (0, 50, 99, 100)}
    return {"rounds": arguments.rounds, "lost": timeouts, **shares, "load": os.getloadavg()[0]}


def main():
    """Measure, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="panda-satesac", help="a shipped model's name, or a file")
    parser.add_argument("--episodes", type=int, default=5, help="of each task (5)")
    parser.add_argument("--tasks", default="training")
    parser.add_argument("--steps", type=int, default=50, help="most steps of an episode (50)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--late", type=float, default=0.03, help="of the camera [s] (0.03)")
    parser.add_argument("--loop-hz", type=float, default=100.0)
    parser.add_argument("--priority", type=int, help="of the loop in real time, as in sami run --set priority=N (none)")
    parser.add_argument("--rounds", type=int, default=0, help="measure so many round trips instead")
    parser.add_argument("--echo", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.environ.setdefault("CYCLONEDDS_URI", f"file://{EXAMPLE / 'loopback.xml'}")
    with real_time(arguments.priority if arguments.echo or arguments.rounds else None):
        if arguments.echo:
            echo()
        report = rounds(arguments) if arguments.rounds else {}
    report = report or {"model": arguments.model, "settings": vars(arguments), **drive(arguments)}
    report["settings"] = {key: value for key, value in vars(arguments).items() if key not in ("json", "echo")}
    print(json.dumps({key: value for key, value in report.items() if key != "episodes"}, indent=2))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
