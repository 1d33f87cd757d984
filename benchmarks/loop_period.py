"""Measures whether a paced control loop with a policy keeps its rate, at 25, 100 and 1000 Hz.

    python benchmarks/loop_period.py [--model FILE] [--seconds S] [--rates 25 100 1000] [--awake S] [--record] [--json]

`--awake S` keeps the core awake for S seconds before each tick. The loop is complete: read, step, gate with rate
limits, write, and with `--record` an MCAP recording. The robot takes no time, so the times are those of the loop.

For each rate:

    mean period   over all ticks, and its relative error; less than 0.1 % passes
    lag           time from when a tick was due to its start
    total         read, inference, gate and write of one tick
    missed        ticks that did not run, because the one before took too long

The period depends on the loop; lag, overruns and the worst case depend on the machine, so use an idle one. Exits with 4
if a mean period is off by 0.1 % or more.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from sami_runtime import Executed, Limits, MonotonicClock, Observation, Recorder, SafetyGate, Session, run_episode
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.contract import Contract
from sami_runtime.signals import Signal

TOLERANCE = 1e-3


class Noise:
    """A robot that costs no time: its sensors return prepared noise, and it reports each action as applied."""

    def __init__(self, contract: Contract, clock: MonotonicClock) -> None:
        self.observation: tuple[Signal, ...] = contract.observation
        self.action: Signal = contract.action
        self._clock, self._at = clock, 0
        rng = np.random.default_rng(0)
        samples = {s.name: rng.uniform(-1, 1, (997, s.size)).astype(np.float32) for s in contract.observation}
        self._observations = [{name: values[at] for name, values in samples.items()} for at in range(997)]

    def reset(self, seed: int | None = None) -> None:
        """Nothing."""

    def read(self) -> Observation:
        """Return the next prepared observation."""
        self._at += 1
        return Observation(self._observations[self._at % len(self._observations)], self._clock.now())

    def write(self, action: np.ndarray) -> Executed:
        """Nothing."""
        return Executed(action)

    def stop(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def measure(model: Path, rate_hz: float, seconds: float, recording: Path | None, awake_s: float) -> dict[str, Any]:
    """Run the loop at a rate, and return counts and times [us]."""
    artifact = read_artifact(model)
    # Step the policy at every tick, whatever rate it was trained at: only the timing matters here.
    artifact = dataclasses.replace(artifact, contract=artifact.contract.model_copy(update={"rate_hz": rate_hz}))
    session, clock = Session(artifact), MonotonicClock(awake_s)
    robot = Noise(artifact.contract, clock)
    limits = Limits(rest=0.0, rate=10 * rate_hz, acceleration=20 * rate_hz**2, stop_after=10**9)
    gate = SafetyGate(robot, artifact.contract, limits)
    recorder = Recorder(recording, session, limits) if recording else None
    try:
        steps = max(2, round(rate_hz * seconds))
        report = run_episode(session, robot, max_steps=steps, clock=clock, gate=gate, on_step=recorder)
    finally:
        if recorder:
            recorder.close()
    loop = report.loop
    mean = loop.mean_period or 0.0
    rows = {name: [1e6 * value for value in row] for name, row in loop.percentiles().items()}
    return {
        "rate_hz": rate_hz,
        "ticks": loop.ticks,
        "mean_period_us": 1e6 * mean,
        "off": mean * rate_hz - 1.0,
        "overruns": loop.overruns,
        "missed": loop.missed,
        "outcomes": {outcome.value: count for outcome, count in loop.outcomes.items()},
        "us": rows,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, default=Path("models/panda-satesac.onnx"), help="model file")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long at each rate (20)")
    parser.add_argument("--rates", type=float, nargs="+", default=[25.0, 100.0, 1000.0], help="Hz (25 100 1000)")
    parser.add_argument("--awake", type=float, default=0.0, help="stay awake so long before each tick [s] (0)")
    parser.add_argument("--record", action="store_true", help="record every tick as well")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    arguments = parser.parse_args()
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}"
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for rate in arguments.rates:
            path = Path(folder) / f"{rate:g}.mcap" if arguments.record else None
            results.append(measure(arguments.model, rate, arguments.seconds, path, arguments.awake))
    if arguments.json:
        print(json.dumps({"machine": machine, "results": results}, indent=2))
    else:
        print(
            f"{machine}\n{'Hz':>6} {'ticks':>7} {'mean period':>14} {'off':>9} {'missed':>7}  lag and total, us", end=""
        )
        print(": p50, p99, p99.9, worst")
        for row in results:
            times = "   ".join(" ".join(f"{value:.0f}" for value in row["us"][name]) for name in ("lag", "total"))
            print(
                f"{row['rate_hz']:>6g} {row['ticks']:>7} {row['mean_period_us']:>11.3f} us {row['off']:>+9.4%} "
                f"{row['missed']:>7}  {times}"
            )
    if any(abs(row["off"]) >= TOLERANCE for row in results):
        sys.exit(4)


if __name__ == "__main__":
    main()
