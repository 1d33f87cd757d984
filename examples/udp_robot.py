"""An adapter for a robot behind a network, to copy: replace signals and messages by those of your robot.

python examples/udp_robot.py &     # a simulated hand to test it on
cd examples
sami check-adapter udp_robot:make --model ../models/panda-satesac.onnx --limits limits.toml --write
sami check-adapter udp_robot:make --model ../models/panda-satesac.onnx --limits limits.toml --excite
sami drive udp_robot.toml --check
sami drive udp_robot.toml

The robot runs for a minute, or for the seconds of its argument, and prints when it begins to move and comes to rest.
Like an arm under velocity control, it continues with the last command, so it has a deadman: after 0.25 s without an
action it stops. `--deadman inf` disables the deadman, to test the watchdog alone. UDP_ROBOT_PORT is the first of its
two ports.
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
ROBOT, LOOP = ("127.0.0.1", PORT), ("127.0.0.1", PORT + 1)
REACH = (-0.5, -0.5, 0.0), (0.5, 0.5, 0.5)  # lowest and highest x, y, z of the hand [m]: the table is at 0


class UdpRobot:
    """Reads the newest of a robot's JSON datagrams, and sends actions.

    The robot stamps with its own clock. The fastest datagram of an episode defines the offset of the two clocks, so
    the age of a datagram includes its time in the network and in the socket's buffer.

    Args:
        clock: The loop's clock.
    """

    observation, action = PANDA_OBSERVATION, PANDA_ACTION

    def __init__(self, clock: Clock) -> None:
        self.clock, self.newest, self.ahead = clock, None, math.inf  # type: Clock, Observation | None, float
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(LOOP)
        self.socket.settimeout(1.0)
        self.emergency_stop = emergency_stop()

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode, and drop earlier measurements."""
        self._send(reset=seed)
        while select.select([self.socket], [], [], 0)[0]:
            self.socket.recv(65536)
        self.newest, self.ahead = None, math.inf

    def read(self) -> Observation:
        """Return the newest observation; wait only for an episode's first, and raise AdapterError after a second."""
        while self.newest is None or select.select([self.socket], [], [], 0)[0]:
            try:
                message, sender = self.socket.recvfrom(65536)
            except TimeoutError:
                raise AdapterError(f"the robot at {ROBOT} sent nothing for a second. Is it running?") from None
            if sender != ROBOT:  # anybody can send to this port
                continue
            document = json.loads(message)
            self.ahead = min(self.ahead, self.clock.now() - document["time"])
            values = {name: np.array(value, np.float32) for name, value in document["values"].items()}
            self.newest = Observation(values, document["time"] + self.ahead)
        return self.newest

    def write(self, action: np.ndarray) -> Executed:
        """Send an action. A robot that limits it must return the applied action, which the encoder reads."""
        self._send(action=action.tolist())
        return Executed(action.copy())

    def stop(self) -> None:
        """Stop the robot; its deadman also does, after a time without actions."""
        self._send(stop=True)

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def _send(self, **message: Any) -> None:
        if self.socket.fileno() >= 0:  # nothing can be sent after close()
            self.socket.sendto(json.dumps(message).encode(), ROBOT)


make = UdpRobot


def emergency_stop() -> Callable[[], object]:
    """Return a function that stops the robot, from any thread and process, until the next episode begins."""
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    return lambda: link.sendto(b'{"emergency_stop": true}', ROBOT)


class Hand:
    """A hand above a cube at rest. An action of 1 is a velocity of 5 cm per 40 ms, which it keeps until the next one.

    Args:
        deadman_s: Longest time [s] without an action before the hand stops.
    """

    def __init__(self, deadman_s: float) -> None:
        self.values = {signal.name: np.zeros(signal.size) for signal in PANDA_OBSERVATION}
        self.deadman_s, self.velocity, self.stopped = deadman_s, np.zeros(3), False
        self.moved_at = self.commanded_at = time.monotonic()
        self.ignored = 0  # number of actions received after an emergency stop

    def obey(self, message: dict[str, Any]) -> None:
        """Execute a message. After an emergency stop, ignore actions until the next episode begins."""
        self.move()
        if "reset" in message:
            self.values["ee_position"][:], self.stopped = (0.0, 0.0, 0.2), False
            self.go(np.zeros(3), "reset")
        elif "action" in message:
            self.commanded_at = time.monotonic()
            self.ignored += self.stopped
            if not self.stopped:
                *displacement, opening = message["action"]
                self.go(0.05 / 0.04 * np.array(displacement), "action")
                self.values["gripper_width"] = np.clip(self.values["gripper_width"] + 0.2 * opening, 0.0, 0.08)
        else:
            self.stopped |= "emergency_stop" in message
            self.go(np.zeros(3), "emergency stop" if "emergency_stop" in message else "stop")

    def go(self, velocity: np.ndarray, reason: str) -> None:
        """Set the velocity (3,) [m/s], and print when a motion begins or ends."""
        if velocity.any() != self.velocity.any():
            event = "moves" if velocity.any() else "rests"
            print(json.dumps({"time": time.monotonic(), event: reason, "ignored": self.ignored}), flush=True)
        self.velocity = velocity

    def move(self) -> None:
        """Advance the position to the current time, and stop if the deadman's time has passed."""
        now = time.monotonic()
        position = self.values["ee_position"]
        np.clip(position + self.velocity * (now - self.moved_at), *REACH, out=position)
        self.moved_at = now
        if now - self.commanded_at > self.deadman_s and self.velocity.any():
            self.go(np.zeros(3), "deadman")


def robot(seconds: float, deadman_s: float, period: float = 0.01) -> None:
    """Simulate the hand for `seconds`, and send its state every `period` [s]."""
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
        link.sendto(json.dumps({"time": hand.moved_at, "values": values}).encode(), LOOP)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A robot to try the adapter on.")
    parser.add_argument("seconds", type=float, nargs="?", default=60.0, help="how long it answers [s] (60)")
    parser.add_argument(
        "--deadman", type=float, default=0.25, help="how long after the last action it stops [s] (0.25)"
    )
    arguments = parser.parse_args()
    robot(arguments.seconds, arguments.deadman)
