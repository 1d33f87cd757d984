"""Measures how late a loop's ticks are while another thread loads models and swaps them in mid-episode.

    python benchmarks/swap_lateness.py [--model models/panda-satesac.onnx] [--hz 100] [--swaps 100]

One loop, one episode, one fake robot. Between swaps the loop is left alone for as long as a swap took, so that both
kinds of ticks come from the same minutes of the same machine. A tick counts as during a swap if a part of one lay
between the tick before and its own beginning. Every swap reads the file and builds the session, which goes on with the
state of the one before it.
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

import numpy as np

from sami_runtime import Executed, MonotonicClock, Observation, Run, Session


class Still:
    """A robot that does not move, with the signals of any contract."""

    def __init__(self, contract, clock):
        self.observation, self.action, self.clock = contract.observation, contract.action, clock

    def reset(self, seed=None):
        """Begin an episode."""

    def read(self):
        """Return the same numbers."""
        values = {signal.name: np.full(signal.size, 0.1, np.float32) for signal in self.observation}
        return Observation(values, self.clock.now())

    def write(self, action):
        """Do nothing."""
        return Executed(action)

    def stop(self):
        """Do nothing."""

    def close(self):
        """Do nothing."""


def measure(model, hz, swaps):
    """Return the run's report, the lateness [s] of ticks without and during swaps, and the times of swaps [s]."""
    session, clock = Session.load(model), MonotonicClock(awake_s=0.0003)
    spans, ticks, over = [], [], threading.Event()

    def swap():
        time.sleep(1.0)
        for _ in range(swaps):
            start = clock.now()
            run.swap(model, "now")
            spans.append((start, clock.now()))
            time.sleep(spans[-1][1] - start)
        over.set()

    def watch(record):
        ticks.append((record.time - record.lag, record.lag))
        if over.is_set():
            raise StopIteration

    with Run(session, Still(session.contract, clock), clock, loop_hz=hz) as run:
        thread = threading.Thread(target=swap)
        thread.start()
        try:
            run.episode(max_steps=10**6, on_step=watch)
        except StopIteration:
            thread.join()
    quiet, during = [], []
    for due, lag in ticks[5:]:
        busy = any(start < due + lag and end > due - 1 / hz for start, end in spans)
        (during if busy else quiet).append(lag)
    return run.total, quiet, during, [end - start for start, end in spans]


def main():
    """Print the lateness of both kinds of ticks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/panda-satesac.onnx"))
    parser.add_argument("--hz", type=float, default=100.0)
    parser.add_argument("--swaps", type=int, default=100)
    arguments = parser.parse_args()
    total, quiet, during, duration = measure(arguments.model, arguments.hz, arguments.swaps)
    print(f"{total.ticks} ticks at {arguments.hz:g} Hz, {total.swaps} swaps, {total.missed} ticks missed")
    print(f"a swap took {1e3 * np.median(duration):.0f} ms, at most {1e3 * max(duration):.0f} ms")
    for name, lags in (("left alone", quiet), ("during swaps", during)):
        p50, p99, worst = 1e3 * np.percentile(lags, [50, 99, 100])
        print(f"{name}: {len(lags)} ticks, late by {p50:.3f} ms (p50), {p99:.3f} ms (p99), {worst:.3f} ms (worst)")


if __name__ == "__main__":
    main()
