"""A complete control loop around a session, to copy: replace the first three functions by those of your robot.

python examples/host_loop.py models/panda-satesac.onnx --steps 50
"""

import argparse
import signal
import sys
import time
from typing import NoReturn

import numpy as np

from sami_runtime import Contract, Session, SignalError


def read_sensors(contract: Contract, now: float) -> dict[str, np.ndarray]:
    """Return each signal of the contract, (size,), in its unit. To replace: here they are slow waves."""
    return {s.name: np.sin(now + np.arange(s.size)).astype(np.float32) for s in contract.observation}


def send(action: np.ndarray) -> np.ndarray:
    """Command the motors, and return the applied action (A,). To replace: here it is clipped to half of its range."""
    return np.clip(action, -0.5, 0.5)


def stop() -> None:
    """Bring the robot to rest. To replace. Reached from every way out of the loop."""


MOST_HELD = 10
"""Most held ticks in a row. Each repeats the last action, and a displacement or a velocity keeps the robot moving."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)  # the last two: not on Windows
"""Most of them end the process without stop(), unless it handles them."""


def interruption(number: int, _: object) -> NoReturn:
    """End the loop by a signal."""
    ignore_signals()  # a second Ctrl-C must not interrupt stop()
    sys.exit(128 + number)


def ignore_signals() -> None:
    """Ignore `SIGNALS` from now on."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def drive(session: Session, steps: int) -> tuple[int, int]:
    """Act at the policy's rate for `steps` ticks, and return the numbers of held and of skipped ticks.

    It leaves the program after more than `MOST_HELD` held ticks in a row.
    """
    period, holds, in_row, skipped, tick, acted = 1 / session.contract.rate_hz, 0, 0, 0, 0, False
    session.reset()  # a new episode, from the initial state
    start = time.perf_counter()
    for _ in range(steps):
        periods = max(0, int((time.perf_counter() - start) / period) - tick)
        skipped, tick = skipped + periods, tick + periods  # never catch up in a burst
        session.elapse(periods)  # the last action was applied meanwhile, which lookahead files use
        deadline = start + tick * period  # absolute, so that the rate does not drift
        time.sleep(max(0.0, deadline - 0.0005 - time.perf_counter()))
        session.prewarm()  # warms up caches and core, changes no state
        time.sleep(max(0.0, deadline - time.perf_counter()))
        now, tick = tick * period, tick + 1
        try:
            action = session.step(read_sensors(session.contract, now), age=0.0).action  # set its age, in periods
            in_row, acted = 0, True
        except SignalError:  # NaN or a missing signal: the state has not changed
            holds, in_row = holds + 1, in_row + 1
            if in_row > MOST_HELD:
                sys.exit(f"the observations of {in_row} ticks in a row were not valid")
            if not acted:  # no action to repeat yet
                continue
            action = session.hold().action
        session.executed(send(action))  # the encoder reads the applied action, not the proposed one
    return holds, skipped


def main() -> None:
    """Load a model, which raises if the file is invalid, and drive."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=50)
    arguments = parser.parse_args()
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup ignores SIGHUP
            signal.signal(number, interruption)
    session, start = Session.load(arguments.model), time.perf_counter()
    try:
        holds, skipped = drive(session, arguments.steps)
    finally:
        ignore_signals()  # also a first one must not interrupt stop()
        stop()
    seconds = time.perf_counter() - start
    print(
        f"{arguments.steps} steps in {seconds:.2f} s, {holds} held, {skipped} skipped; "
        f"context {np.round(session.state.context[0], 2)}"
    )


if __name__ == "__main__":
    main()
