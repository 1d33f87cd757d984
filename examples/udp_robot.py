"""A robot behind a network: an adapter to copy, with your robot's signals and messages in the place of these.

python examples/udp_robot.py &     # a robot to try it on: a hand that goes where it is told
cd examples
sami check-adapter udp_robot:make --model ../models/panda-satesac.onnx --limits limits.toml --write
sami check-adapter udp_robot:make --model ../models/panda-satesac.onnx --limits limits.toml --excite
sami drive udp_robot.toml --check
sami drive udp_robot.toml

The robot answers for a minute, or as many seconds as it is given, and prints when it begins to move and comes to rest.
It goes on as it was told last, as an arm under velocity control does, so it has a deadman of its own: after 0.25 s
without an action it stops. `--deadman inf` takes that away, to see what the watchdog does by itself. UDP_ROBOT_PORT is
the first of its two ports.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import select
import socket
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sami_runtime import AdapterError, Clock, Executed, Observation
from sami_runtime.adapters.panda import PANDA_ACTION, PANDA_OBSERVATION

PORT = int(os.environ.get("UDP_ROBOT_PORT", "47001"))
ROBOT, HERE = ("127.0.0.1", PORT), ("127.0.0.1", PORT + 1)
REACH = (-0.5, -0.5, 0.0), (0.5, 0.5, 0.5)  # lowest and highest x, y, z of the hand [m]: the table is at 0


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
        self.emergency_stop = emergency_stop()

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
                document = json.loads(self.socket.recv(65536))
            except TimeoutError:
                raise AdapterError(f"the robot at {ROBOT} sent nothing for a second. Is it running?") from None
            self.ahead = min(self.ahead, self.clock.now() - document["time"])
            values = {name: np.array(value, np.float32) for name, value in document["values"].items()}
            self.newest = Observation(values, document["time"] + self.ahead)
        return self.newest

    def write(self, action: np.ndarray) -> Executed:
        """Send an action. A robot that limits it has to say so, for the encoder learns from what was done."""
        self._send(action=action.tolist())
        return Executed(action.copy())

    def stop(self) -> None:
        """Tell it to rest; also the robot itself does, when it hears nothing for a while."""
        self._send(stop=True)

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def _send(self, **message: Any) -> None:
        if self.socket.fileno() >= 0:  # after close() there is nobody to tell
            self.socket.sendto(json.dumps(message).encode(), ROBOT)


make = UdpRobot


def emergency_stop() -> Callable[[], object]:
    """Connect to the robot, and return what stops it from any thread and any process, until an episode begins anew."""
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    return lambda: link.sendto(b'{"emergency_stop": true}', ROBOT)


class Hand:
    """A hand above a cube that lies still: by an action of 1 it moves 5 cm in a period of 40 ms, and then goes on.

    Args:
        deadman_s: How long [s] after the last action it stops by itself.
    """

    def __init__(self, deadman_s: float) -> None:
        self.values = {signal.name: np.zeros(signal.size) for signal in PANDA_OBSERVATION}
        self.deadman_s, self.velocity, self.stopped = deadman_s, np.zeros(3), False
        self.moved_at = self.told_at = time.monotonic()
        self.ignored = 0  # actions that came after an emergency stop

    def obey(self, message: dict[str, Any]) -> None:
        """Do what a message says. After an emergency stop that is nothing, until an episode begins."""
        self.move()
        if "reset" in message:
            self.values["ee_position"][:], self.stopped = (0.0, 0.0, 0.2), False
            self.go(np.zeros(3), "reset")
        elif "action" in message:
            self.told_at = time.monotonic()
            self.ignored += self.stopped
            if not self.stopped:
                *displacement, opened = message["action"]
                self.go(0.05 / 0.04 * np.array(displacement), "action")
                self.values["gripper_width"] = np.clip(self.values["gripper_width"] + 0.2 * opened, 0.0, 0.08)
        else:
            self.stopped |= "emergency_stop" in message
            self.go(np.zeros(3), "emergency stop" if "emergency_stop" in message else "stop")

    def go(self, velocity: np.ndarray, why: str) -> None:
        """Take another velocity [m/s], and say so where that begins or ends a movement."""
        if velocity.any() != self.velocity.any():
            event = "moves" if velocity.any() else "rests"
            print(json.dumps({"time": time.monotonic(), event: why, "ignored": self.ignored}), flush=True)
        self.velocity = velocity

    def move(self) -> None:
        """Move as far as it got since it last did, and stop where the host is silent."""
        now = time.monotonic()
        position = self.values["ee_position"]
        np.clip(position + self.velocity * (now - self.moved_at), *REACH, out=position)
        self.moved_at = now
        if now - self.told_at > self.deadman_s and self.velocity.any():
            self.go(np.zeros(3), "deadman")


def robot(seconds: float, deadman_s: float, period: float = 0.01) -> None:
    """Play the hand, and tell where it is."""
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.bind(ROBOT)
    print(f"listening at {ROBOT[0]}:{ROBOT[1]} for {seconds:g} s", flush=True)
    hand, end, due = Hand(deadman_s), time.monotonic() + seconds, time.monotonic()
    while due < end:
        while select.select([link], [], [], max(0.0, due - time.monotonic()))[0]:
            hand.obey(json.loads(link.recv(65536)))
        due = max(due + period, time.monotonic())
        hand.move()
        values = {name: value.tolist() for name, value in hand.values.items()}
        link.sendto(json.dumps({"time": hand.moved_at, "values": values}).encode(), HERE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A robot to try the adapter on.")
    parser.add_argument("seconds", type=float, nargs="?", default=60.0, help="how long it answers [s] (60)")
    parser.add_argument(
        "--deadman", type=float, default=0.25, help="how long after the last action it stops [s] (0.25)"
    )
    arguments = parser.parse_args()
    robot(arguments.seconds, arguments.deadman)
