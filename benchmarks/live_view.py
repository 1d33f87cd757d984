"""Measures the disturbance of a paced loop by a viewer: without `sami run --live`, with it, and watched, in turns.

    python benchmarks/live_view.py [--model FILE] [--rate 25] [--seconds 60] [--turns 4] [--priority 50] [--json]
    python benchmarks/live_view.py --at-once --seconds 3600 --priority 50 --json

Each turn runs `--seconds` of each of three kinds, or all three at once in a process each, under the same load of the
machine: `alone`; `served`, with the server's process but without a viewer; `watched`, with a browser's connection
that reads every event in a third process. For each kind, the output has how late ticks began (lag), the time of read,
inference, gate and write (total), and the loop's processor time for the viewer (told): p50, p99, p99.9 and worst in
microseconds; and ticks that did not run, because the one before took too long. The ratio of a row to `alone` is what
counts.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from loop_period import Noise

from sami_runtime import Limits, MonotonicClock, SafetyGate, Session, run_episode
from sami_runtime.model.artifact import read_artifact
from sami_runtime.realtime import real_time
from sami_runtime.recording.live import Feed

KINDS = ("alone", "served", "watched")
WATCH = """
import sys, urllib.request
rows = 0
for line in urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1] + "events"):
    rows += line.startswith(b"data: {\\"row\\"")
print(rows)
"""


def turn(kind: str, model: Path, rate_hz: float, seconds: float, priority: int | None) -> dict[str, Any]:
    """Run the loop for `seconds`, and return the times of its ticks [us]."""
    artifact = read_artifact(model)
    artifact = dataclasses.replace(artifact, contract=artifact.contract.model_copy(update={"rate_hz": rate_hz}))
    session, clock = Session(artifact), MonotonicClock(0.0003)
    robot, report = Noise(artifact.contract, clock), list[float]()
    rate_hz = artifact.contract.rate_hz
    limits = Limits(rest=0.0, rate=10 * rate_hz, acceleration=20 * rate_hz**2, stop_after=10**9)
    gate = SafetyGate(robot, artifact.contract, limits)
    lags, totals, missed, watcher = list[float](), list[float](), 0, None
    with contextlib.ExitStack() as closing:
        feed = None if kind == "alone" else closing.enter_context(contextlib.closing(Feed(artifact.contract, {}, kind)))
        if kind == "watched" and feed:
            watcher = subprocess.Popen([sys.executable, "-c", WATCH, feed.url], stdout=subprocess.PIPE, text=True)
            time.sleep(1.0)

        closing.enter_context(real_time(priority, lock_memory=False))

        def watch(record: Any) -> None:
            nonlocal missed
            lags.append(1e6 * record.lag)
            totals.append(1e6 * sum(record.times))
            missed += record.missed
            if feed:
                start = time.thread_time()
                feed(record)
                report.append(1e6 * (time.thread_time() - start))

        run_episode(
            session, robot, max_steps=round(rate_hz * seconds), clock=clock, gate=gate, on_step=watch, prewarm_s=0.0007
        )
        dropped = feed.dropped if feed else 0
    rows_read = int(watcher.communicate(timeout=30)[0]) if watcher else 0
    return {"lag": lags, "total": totals, "told": report, "missed": missed, "dropped": dropped, "seen": rows_read}


def _percentiles(values: list[float]) -> list[float]:
    return [round(float(item), 1) for item in np.percentile(values, [50, 99, 99.9, 100])] if values else []


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, default=Path("models/panda-satesac.onnx"), help="model file")
    parser.add_argument("--rate", type=float, default=25.0, help="Hz (25)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each kind in a turn (60)")
    parser.add_argument("--turns", type=int, default=4, help="how often (4)")
    parser.add_argument("--at-once", action="store_true", help="one turn, of all kinds at the same time")
    parser.add_argument("--priority", type=int, help="real-time priority of the loop, where cores are busy: 50")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    arguments = parser.parse_args()
    result: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
    settings = (arguments.model, arguments.rate, arguments.seconds, arguments.priority)
    if arguments.at_once:
        with ProcessPoolExecutor(len(KINDS), get_context("spawn")) as pool:
            result = {
                kind: future.result() for kind, future in [(kind, pool.submit(turn, kind, *settings)) for kind in KINDS]
            }
    else:
        for number in range(arguments.turns):
            for kind in (*KINDS[number % 3 :], *KINDS[: number % 3]):
                for name, value in turn(kind, *settings).items():
                    result[kind][name] = result[kind].get(name, [] if isinstance(value, list) else 0) + value
    table = {
        kind: {name: _percentiles(value) if isinstance(value, list) else value for name, value in rows.items()}
        for kind, rows in result.items()
    }
    ticks = len(result["alone"]["lag"])
    ratios = {
        kind: {name: round(table[kind][name][2] / table["alone"][name][2], 3) for name in ("lag", "total")}
        for kind in KINDS[1:]
    }
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    report = {
        "rate_hz": arguments.rate,
        "ticks_of_each": ticks,
        "machine": machine,
        "us": table,
        "p99.9_to_alone": ratios,
    }
    if arguments.json:
        print(json.dumps(report, indent=2))
        return
    print(f"{ticks} ticks of each at {arguments.rate:g} Hz, {machine}; us: p50, p99, p99.9, worst")
    for kind, rows in table.items():
        columns = "   ".join(f"{name} {' '.join(f'{v:.0f}' for v in rows[name])}" for name in ("lag", "total", "told"))
        print(f"{kind:>8}  {columns}   missed {rows['missed']}, dropped {rows['dropped']}, seen {rows['seen']}")
    print(f"p99.9 to alone: {ratios}")


if __name__ == "__main__":
    main()
