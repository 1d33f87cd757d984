"""A host's own control loop around a session: copy it, and put your robot into the three functions on top.

python examples/host_loop.py models/panda-satesac.onnx --steps 50
"""

import argparse
import time

import numpy as np

from sami_runtime import Contract, Session, SignalError


def read_sensors(contract: Contract, now: float) -> dict[str, np.ndarray]:
    """Yours: each signal that the contract names, in its unit. Here: slow waves."""
    return {s.name: np.sin(now + np.arange(s.size)).astype(np.float32) for s in contract.observation}


def send(action: np.ndarray) -> np.ndarray:
    """Yours: command the motors, and return what they were really given. Here: at most half of the full range."""
    return np.clip(action, -0.5, 0.5)


def stop() -> None:
    """Yours: bring everything to rest. Reached from every way out of the loop."""


def drive(session: Session, steps: int) -> tuple[int, int]:
    """Acts at the policy's rate, for so many steps; how many ticks were held, and how many skipped."""
    period, held, skipped, tick, acted = 1 / session.contract.rate_hz, 0, 0, 0, False
    session.reset()  # a new episode: forget the last one
    start = time.perf_counter()
    for _ in range(steps):
        passed = max(0, int((time.perf_counter() - start) / period) - tick)
        skipped, tick = skipped + passed, tick + passed  # never made up for in a burst
        session.elapse(passed)  # what was executed last stood: of interest to files that look ahead
        deadline = start + tick * period  # absolute, so that the rate does not drift
        time.sleep(max(0.0, deadline - 0.0005 - time.perf_counter()))
        session.prewarm()  # wakes caches and core, changes nothing
        time.sleep(max(0.0, deadline - time.perf_counter()))
        now, tick = tick * period, tick + 1
        try:
            action = session.step(read_sensors(session.contract, now), age=0.0).action  # yours: its age, in periods
            acted = True
        except SignalError:  # NaN, a missing signal: the state was not advanced
            held += 1
            if not acted:  # nothing was executed yet that could stand
                continue
            action = session.hold().action
        session.executed(send(action))  # the encoder learns from what was done, not from what was asked for
    return held, skipped


def main() -> None:
    """Load a model, which refuses what can be refused, and drive."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=50)
    arguments = parser.parse_args()
    session, start = Session.load(arguments.model), time.perf_counter()
    try:
        held, skipped = drive(session, arguments.steps)
    finally:
        stop()
    seconds = time.perf_counter() - start
    print(
        f"{arguments.steps} steps in {seconds:.2f} s, {held} held, {skipped} skipped; "
        f"context {np.round(session.state.context[0], 2)}"
    )


if __name__ == "__main__":
    main()
