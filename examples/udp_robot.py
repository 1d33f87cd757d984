"""A robot behind a network: an adapter to copy, with your robot's signals and messages in the place of these.

python examples/udp_robot.py &     # a robot to try it on: a hand that goes where it is told
cd examples
sami check-adapter udp_robot:make --model ../models/panda-satesac.onnx --limits limits.toml --write
sami check-adapter udp_robot:make --model ../models/panda-satesac.onnx --limits limits.toml --probe
sami run --adapter udp_robot:make --model ../models/panda-satesac.onnx --dry-run

The robot answers for a minute, or as many seconds as it is given.
"""

from __future__ import annotations

import json
import math
import select
import socket
import sys
import time
from typing import Any

import numpy as np

from sami_runtime import AdapterError, Clock, Executed, Observation
from sami_runtime.adapters.panda_signals import PANDA_ACTION, PANDA_OBSERVATION

ROBOT, HERE = ("127.0.0.1", 47001), ("127.0.0.1", 47002)


class UdpRobot:
    """Reads JSON datagrams of a robot, the newest one, and sends it actions.

    The robot stamps with its own clock. The two clocks differ by what the quickest datagram of an episode took at most,
    so that one that waited, in the network or because nobody read, is as old as it is.

    Args:
        clock: The loop's.
    """

    observation, action = PANDA_OBSERVATION, PANDA_ACTION

    def __init__(self, clock: Clock) -> None:
        self.clock, self.newest, self.ahead = clock, None, math.inf  # type: Clock, Observation | None, float
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(HERE)
        self.socket.settimeout(1.0)

    def reset(self, seed: int | None = None) -> None:
        """Begins an episode: what was measured before does not count."""
        self._send(reset=seed)
        while select.select([self.socket], [], [], 0)[0]:
            self.socket.recv(65536)
        self.newest, self.ahead = None, math.inf

    def read(self) -> Observation:
        """Return the newest observation; wait only for the first one of an episode."""
        while self.newest is None or select.select([self.socket], [], [], 0)[0]:
            try:
                told = json.loads(self.socket.recv(65536))
            except TimeoutError:
                raise AdapterError(f"the robot at {ROBOT} sent nothing for a second. Is it running?") from None
            self.ahead = min(self.ahead, self.clock.now() - told["time"])
            values = {name: np.array(value, np.float32) for name, value in told["values"].items()}
            self.newest = Observation(values, told["time"] + self.ahead)
        return self.newest

    def write(self, action: np.ndarray) -> Executed:
        """Send an action. A robot that limits it has to say so, for the encoder learns from what was done."""
        self._send(action=action.tolist())
        return Executed(action.copy())

    def stop(self) -> None:
        """Tells it to rest; also the robot itself should, when it hears nothing for a while."""
        self._send(stop=True)

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def _send(self, **message: Any) -> None:
        if self.socket.fileno() >= 0:  # after close() there is nobody to tell
            self.socket.sendto(json.dumps(message).encode(), ROBOT)


make = UdpRobot


def robot(seconds: float, rate_hz: float = 100.0) -> None:
    """Play a hand above a cube that lies still: it moves by 5 cm times the action, and tells where it is."""
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.bind(ROBOT)
    seen = {signal.name: np.zeros(signal.size) for signal in PANDA_OBSERVATION}
    print(f"listening at {ROBOT[0]}:{ROBOT[1]} for {seconds:g} s", flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        while select.select([link], [], [], 0)[0]:
            told = json.loads(link.recv(65536))
            if "reset" in told:
                seen["ee_position"][:] = 0.0, 0.0, 0.2
            *moved, opened = told.get("action", np.zeros(4))
            seen["ee_position"] += 0.05 * np.array(moved)
            seen["gripper_width"] = np.clip(seen["gripper_width"] + 0.2 * opened, 0.0, 0.08)
        values = {name: value.tolist() for name, value in seen.items()}
        link.sendto(json.dumps({"time": time.monotonic(), "values": values}).encode(), HERE)
        time.sleep(1 / rate_hz)


if __name__ == "__main__":
    robot(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
