"""What the safety gate costs at a tick: one ruling and its write, for limits from none to all, p50 and p99.

    python benchmarks/gate_cost.py [--ticks N] [--against FOLDER]

`--against FOLDER` is another checkout of this repository: both gates are timed in turn, a thousand ticks each, so that
whatever else the machine does meets both alike. Times are of the processor: other programs do not count.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

CASES = {
    "none": "",
    "rate": "rest=0.0, rate=5.0",
    "rate, never reached": "rest=0.0, rate=1000.0",
    "rate, acceleration": "rest=0.0, rate=5.0, acceleration=200.0",
    "acceleration, never reached": "rest=0.0, rate=1000.0, acceleration=2e5",
}
ROUND = 1000

WORKER = """
import sys, time
import numpy as np
from sami_runtime import Contract, FakeAdapter, Limits, SafetyGate
from sami_runtime.signals import Signal
n = 7
names = tuple(f"j{i}" for i in range(n))
signal = Signal(name="joints", size=n, unit="rad", elements=names, low=(-1.0,) * n, high=(1.0,) * n)
contract = Contract(name="cost", episode_steps=100, training={}, weights_sha256="0" * 64, rate_hz=100.0,
                    observation=(signal,), action=signal)
class Robot:
    observation, action = (signal,), signal
    def write(self, action): return sent(action)
from sami_runtime.adapters import Executed as sent
targets = np.random.default_rng(0).uniform(-1, 1, (997, n)).astype(np.float32)
for line in sys.stdin:
    gate = SafetyGate(Robot(), contract, eval(f"Limits({line})"))
    gate.begin(0.01)
    took = []
    for tick in range(1000):
        began = time.thread_time_ns()
        gate.write(gate.propose(targets[tick // 7 % 997], tick * 0.01))
        took.append(time.thread_time_ns() - began)
    print(*took, flush=True)
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ticks", type=int, default=40_000, help="ticks for each case (40000)")
    parser.add_argument("--against", type=Path, help="another checkout")
    arguments = parser.parse_args()
    here = Path(__file__).resolve().parents[1]
    folders = [here, *([arguments.against.resolve()] if arguments.against else [])]
    pipe = subprocess.PIPE
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER], cwd=folder, stdin=pipe, stdout=pipe, text=True)
        for folder in folders
    ]
    print(f"{'limits':<30} {'p50, p99 [us]':>16}" + f" {'against':>14} {'times':>12}" * (len(folders) - 1))
    for name, limits in CASES.items():
        took: list[list[int]] = [[] for _ in workers]
        for turn in range(arguments.ticks // ROUND + 1):
            for of, worker in zip(took, workers, strict=True):
                assert worker.stdin
                assert worker.stdout
                print(limits, file=worker.stdin, flush=True)
                row = [int(cell) for cell in worker.stdout.readline().split()]
                of += row if turn else []  # the first one warms up
        rows = [[sorted(of)[len(of) * share // 100] / 1000 for share in (50, 99)] for of in took]
        text = f"{name:<30} {rows[0][0]:>8.1f} {rows[0][1]:>7.1f}"
        for row in rows[1:]:
            text += f" {row[0]:>7.1f} {row[1]:>6.1f} {rows[0][0] / row[0]:>6.2f} {rows[0][1] / row[1]:>5.2f}"
        print(text)
    for worker in workers:
        assert worker.stdin
        worker.stdin.close()
        worker.wait()


if __name__ == "__main__":
    main()
