"""Measures the time of body limits for each command: `nice -n -5 python benchmarks/body_cost.py [--commands N]`.

A 7-joint arm, commanded by joint positions, joint velocities and its hand, and a 12-joint quadruped whose motors pull
towards targets. States move through the middle of the joints' ranges, and one command in ten is beyond a limit. Times
are wall-clock; `cpu` is the time that the thread had a core for, which a busy machine does not change as much.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: threads do not pay for seven joints

import numpy as np

import sami_train
from sami_runtime.robots.body import BodyLimits, BodySettings

ENVS = Path(sami_train.__file__).parent / "envs"
PANDA: dict[str, Any] = {
    "model": str(ENVS / "panda_mujoco" / "panda.xml"),
    "joints": [f"panda_joint{number}" for number in range(1, 8)],
    "positions": "joint_positions",
    "velocities": "joint_velocities",
    "home": [0.0, 0.41, 0.0, -1.85, 0.0, 2.26, 0.79],
    "velocity": {"most": 2.175},
    "acceleration": 10.0,
}
LEGS = ("FR", "FL", "RR", "RL")
GO2: dict[str, Any] = {
    "command": "joint_positions",
    "model": str(ENVS / "go2" / "go2.xml"),
    "joints": [f"{leg}_{part}" for leg in LEGS for part in ("hip", "thigh", "calf")],
    "positions": "joint_angles",
    "velocities": "joint_velocities",
    "kp": 20.0,
    "kd": 0.5,
    "acceleration": 50.0,
    "velocity": {"most": 30.0},
}
HAND = {"points": {"panda_hand": {"most": 1.7}}}
FEET = {"points": {f"{leg}_calf": {"most": 5.0} for leg in LEGS}}
SHAPES = {
    "collision": {"margin": 0.02},
    "boxes": {"table": {"low": [-0.4, -0.7, -0.4], "high": [0.4, 0.7, -0.05]}},
}
BODIES: dict[str, dict[str, Any]] = {
    "arm, positions: joints": PANDA | {"command": "joint_positions"},
    "arm, positions: joints and a point": PANDA | HAND | {"command": "joint_positions"},
    "arm, positions: all": PANDA | HAND | SHAPES | {"command": "joint_positions"},
    "arm, velocities: all": PANDA | HAND | SHAPES | {"command": "joint_velocities"},
    "arm, hand: all": PANDA | HAND | SHAPES | {"command": "hand", "hand": "panda_hand"},
    "quadruped: joints": GO2,
    "quadruped: joints and feet": GO2 | FEET,
    "quadruped: all": GO2 | FEET | {"collision": {"margin": 0.06}},
}


def commands(body: BodyLimits, count: int, period: float) -> Iterator[tuple[Any, Any, Any]]:
    """Yield commands with positions and velocities of the joints."""
    rng, home = np.random.default_rng(0), np.array(body.geometry.home if body.geometry else ())
    velocities, positions = np.zeros(len(home)), home.copy()
    kind = body.settings.command
    for _ in range(count):
        velocities = 0.95 * velocities + 0.05 * rng.normal(size=len(home))
        positions = home + 0.98 * (positions - home) + period * velocities
        far = 1.0 if rng.random() >= 0.1 else 1000.0 if body.settings.kp else 20.0  # gains allow large errors
        command = velocities[:3] if kind == "hand" else far * velocities
        yield command if kind != "joint_positions" else positions + period * command, positions, velocities


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", type=int, default=20_000)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    rows = {}
    for name, table in BODIES.items():
        body, period = BodyLimits(BodySettings.of(table)), 0.02
        wall, cpu, limited = np.empty(options.commands), np.empty(options.commands), 0
        gc.disable()
        for at, moment in enumerate(commands(body, options.commands, period)):
            start, worked = time.perf_counter(), time.thread_time()
            ruling = body.limit(*moment, period)
            wall[at], cpu[at] = time.perf_counter() - start, time.thread_time() - worked
            limited += bool(ruling.limited_by)
        gc.enable()
        spans = {"p50": np.percentile(wall, 50), "p99": np.percentile(wall, 99), "cpu p99": np.percentile(cpu, 99)}
        rows[name] = {key: round(1e6 * float(value), 1) for key, value in spans.items()}
        rows[name]["limited"] = round(limited / options.commands, 3)
        if not options.json:
            times = ", ".join(f"{key} {rows[name][key]:.0f}" for key in spans)
            print(f"{name:38} µs: {times}; {100 * rows[name]['limited']:.0f} % limited", flush=True)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
