"""A host's own control loop around a session: copy it, and put your sensors and motors into the two functions on top.

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


def main() -> None:
    """Act at the policy's rate; a tick whose observation is refused repeats the last action."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=50)
    arguments = parser.parse_args()

    session = Session.load(arguments.model)  # everything that can be refused, is refused here
    period = 1 / session.contract.rate_hz
    session.reset()  # a new episode: forget the last one
    held, start = 0, time.perf_counter()
    for tick in range(arguments.steps):
        deadline = start + tick * period  # absolute, so that the rate does not drift
        time.sleep(max(0.0, deadline - 0.0005 - time.perf_counter()))
        session.prewarm()  # wakes caches and core, changes nothing
        time.sleep(max(0.0, deadline - time.perf_counter()))
        try:
            step = session.step(read_sensors(session.contract, tick * period))
        except SignalError:  # NaN, a missing signal: the state was not advanced
            step = session.hold()
            held += 1
        session.executed(send(step.action))  # the encoder learns from what was done, not from what was asked for
    seconds = time.perf_counter() - start
    print(f"{arguments.steps} steps in {seconds:.2f} s, {held} held; context {np.round(step.context, 2)}")


if __name__ == "__main__":
    main()
