"""Measures the speed of MuJoCo environments stepped in native threads, and in stable-baselines3's two ways.

    python benchmarks/mujoco_stepping.py [--env NAME ...] [--envs 16] [--rounds 5] [--seconds 1] [--json]

Each environment is stepped in three ways through stable-baselines3's interface, with the same tasks and the same
uniformly random actions:

    dummy       DummyVecEnv: one after another in this process
    subproc     SubprocVecEnv: a process for each environment
    batch       MujocoVecEnv: MujocoBatch, a thread for each core

The three take turns, for some seconds each and several rounds, so that other load on the machine affects all alike.
The results are medians over the rounds: of the steps per second, and of the ratio, within a round, of the batch to the
faster of the other two.

The last column is the fraction of the batch's time that MuJoCo itself takes to advance the same robots (mj_step by the
same threads, without observations, rewards and resets): near 1, only a faster MuJoCo would help.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np

POOL = 64
"""Number of prepared actions, which a run repeats."""


def steps_per_s(step: Callable[[int], Any], rows: int, seconds: float) -> float:
    """Return the environment steps per second, if `step(k)` advances `rows` environments."""
    count, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        step(count)
        count += 1
    return count * rows / elapsed


def measure(name: str, rows: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Return the steps per second of one environment in each way."""
    from mujoco_vec_env import MujocoVecEnv
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    from sami_train.envs import environment
    from sami_train.envs.make import make
    from sami_train.envs.mujoco.batch import MujocoBatch

    spec = environment(name)
    makers = [functools.partial(make, spec)] * rows
    # Make this first: a fork would lose threads.
    subproc = SubprocVecEnv(makers, start_method="fork")
    batch = MujocoBatch(name, rows)
    ways = {"dummy": DummyVecEnv(makers), "subproc": subproc, "batch": MujocoVecEnv(batch)}
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (POOL, rows, *batch.action_space.shape)).astype(np.float32)
    for way in ways.values():
        way.seed(0)
        way.reset()
    physics = MujocoBatch(name, rows)
    physics.reset(seeds=range(rows))

    def advance(k: int) -> None:
        physics._ctrl[:] = actions[k % POOL] * physics.robot.body.limit
        physics._batch.step(nstep=physics.robot.body.frame_skip)

    speeds: dict[str, list[float]] = {name: [] for name in (*ways, "physics")}
    for turn in range(rounds + 1):
        for kind, way in ways.items():
            speeds[kind].append(steps_per_s(lambda k, way=way: way.step(actions[k % POOL]), rows, seconds))
        speeds["physics"].append(steps_per_s(advance, rows, seconds))
        if turn == 0:  # warm-up
            for speed in speeds.values():
                speed.clear()
    for way in ways.values():
        way.close()
    table = {kind: np.array(speed) for kind, speed in speeds.items()}
    ratios = table["batch"] / np.maximum(table["dummy"], table["subproc"])
    return {
        "env": name,
        **{f"{kind}_steps_per_s": float(np.median(table[kind])) for kind in ways},
        "ratio": float(np.median(ratios)),
        "lowest_ratio": float(ratios.min()),
        "physics_share": float(np.median(table["batch"] / table["physics"])),
    }


def main() -> None:
    """Measure and print."""
    from sami_train.envs.mujoco.table import ROWS

    paper = [row.name for row in ROWS if not row.name.endswith("-cadm")]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--env", nargs="+", choices=paper, default=paper, metavar="NAME", help="environments (all ten)")
    parser.add_argument("--envs", type=int, default=16, help="environments stepped together (16)")
    parser.add_argument("--rounds", type=int, default=5, help="turns that each way takes (5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn (1)")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    arguments = parser.parse_args()
    import mujoco

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine = f"{platform.processor() or platform.machine()}, {cores} cores, Python {platform.python_version()}"
    facts = {"machine": machine, "mujoco": mujoco.__version__, "envs": arguments.envs, "load": os.getloadavg()[0]}
    if not arguments.json:
        print(f"{machine}, MuJoCo {mujoco.__version__}; {arguments.envs} environments; load {facts['load']:.1f} before")
        print(f"\n{'steps/s':<24}{'dummy':>8}{'subproc':>9}{'batch':>8}   {'ratio':>5} (lowest)   MuJoCo's share")
    results = []
    for name in arguments.env:
        measured = measure(name, arguments.envs, arguments.rounds, arguments.seconds)
        results.append(measured)
        if not arguments.json:
            print(
                f"{name:<24}{measured['dummy_steps_per_s']:>8,.0f}{measured['subproc_steps_per_s']:>9,.0f}"
                f"{measured['batch_steps_per_s']:>8,.0f}   {measured['ratio']:>5.2f} ({measured['lowest_ratio']:.2f})"
                f"{measured['physics_share']:>15.2f}",
                flush=True,
            )
    if arguments.json:
        print(json.dumps(facts | {"results": results}, indent=2))


if __name__ == "__main__":
    main()
