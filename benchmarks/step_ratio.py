"""Measures the time and allocations of a session's step beside onnxruntime's bare call, on a busy host.

    python benchmarks/step_ratio.py [--rounds 300] [models/panda-satesac.onnx ...]

Both step the same file in turns of 250 steps, in the other order each round, so that a pause of the host hits both.
The ratio is the median over the rounds of the ratio of a round's two medians. Then the session makes 10,000 steps on
one observation: `blocks` is by how much `sys.getallocatedblocks()` grew; `kept` and `at once` are bytes by tracemalloc,
which sees numpy's arrays and not onnxruntime's: what stayed, and the most that was alive within a step.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tracemalloc
from pathlib import Path

import numpy as np

from sami_runtime.checks.bench import SESSION, candidates, measure, observations
from sami_runtime.model.artifact import read_artifact
from sami_runtime.session.session import Session

STEADY = 10_000
"""Number of steps in which a session must not retain any new memory."""


def medians(pair, rounds):
    """Return the median time [us] of a step in each round, (rounds, 2), of two candidates."""
    rows = []
    for number in range(rounds):
        times = measure(pair if number % 2 else pair[::-1], 0.0)  # one turn of each
        rows.append([np.median(times[candidate.name]) for candidate in pair])
    return np.array(rows)


def allocated(session):
    """Return the blocks and bytes that a session's steady steps leave allocated, and the peak bytes within a step."""
    observation = {name: values[0].copy() for name, values in observations(session.contract).items()}

    def play(steps):
        for _ in range(steps):
            session.step(observation)

    play(1000)
    gc.collect()
    before = sys.getallocatedblocks()
    play(STEADY)
    blocks = sys.getallocatedblocks() - before
    tracemalloc.start()
    play(100)
    start, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    play(STEADY)
    end, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return blocks, end - start, peak - start


def main():
    """Print a line for each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, default=[Path("models/panda-satesac.onnx")])
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    for path in options.models:
        artifact = read_artifact(path)
        cases = candidates(artifact)
        pair = [cases[0], next(candidate for candidate in cases if candidate.name == SESSION)]
        times = medians(pair, options.rounds)
        bare, session = np.median(times, axis=0)
        ratio = np.median(times[:, 1] / times[:, 0])
        blocks, rest, most = allocated(Session(artifact))
        print(
            f"{path.stem}: bare {bare:.1f} us, Session.step {session:.1f} us, ratio {ratio:.3f}; "
            f"{STEADY} steps: {blocks:+d} blocks, {rest:+d} bytes kept, {most} bytes at once"
        )


if __name__ == "__main__":
    main()
