"""A velocity-controlled arm in a child process: it keeps the last commanded velocity, and logs all commands.

    python -m tests.making.velocity_arm

prints the port that the arm listens at. A datagram with numbers is a command [1/s], `read` requests the position, `log`
requests every command with its time, and `end` ends the process.
"""

import json
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from sami_runtime.adapters import Executed, Observation

ROOT = Path(__file__).parents[2]
LIFE_S = 60.0
"""Longest life of the process [s], in case nobody ends it."""


def main():
    """Run the arm until a message `end`, or for `LIFE_S`."""
    port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port.bind(("127.0.0.1", 0))
    port.settimeout(LIFE_S)
    print(port.getsockname()[1], flush=True)
    commands, position, velocity, last_time = [], [0.0, 0.0], [0.0, 0.0], time.perf_counter()
    start_time = last_time
    while time.perf_counter() - start_time < LIFE_S:
        request, host = port.recvfrom(65536)
        now = time.perf_counter()
        position = [x + v * (now - last_time) for x, v in zip(position, velocity, strict=True)]
        last_time = now
        if request == b"read":
            port.sendto(json.dumps([position, now]).encode(), host)
        elif request == b"log":
            port.sendto(json.dumps(commands).encode(), host)
        elif request == b"end":
            return
        else:
            velocity = json.loads(request)
            commands.append([now, velocity])


class ArmAdapter:
    """An adapter that drives the arm by the tests' tiny policies, whose forces it sends as velocities."""

    def __init__(self, contract, port):
        self.observation, self.action = contract.observation, contract.action
        self._line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._line.connect(("127.0.0.1", port))
        self._line.settimeout(5.0)

    def reset(self, seed=None):
        """Do nothing: the arm stays where it is."""

    def read(self):
        """Return the position, wrapped into the signal's bounds, because the arm itself has none."""
        position, now = json.loads(self.query(b"read"))
        values = {"position": np.float32([(x + 1) % 2 - 1 for x in position]), "goal": np.float32([0.5])}
        return Observation(values, now)

    def write(self, action):
        """Send the commanded velocities (2,)."""
        self._line.send(json.dumps(action.tolist()).encode())
        return Executed(action)

    def stop(self):
        """Command a velocity of 0."""
        self.write(np.zeros(2, np.float32))

    def close(self):
        """Close the socket."""
        self._line.close()

    def query(self, question):
        """Send a question, and return the arm's answer as bytes."""
        self._line.send(question)
        return self._line.recv(1 << 20)

    def commands(self):
        """Return (time [s], velocity) of every command."""
        return json.loads(self.query(b"log"))


@contextmanager
def velocity_arm(contract):
    """Yield the port of a running arm, and an adapter to query it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.making.velocity_arm"], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        port = int(process.stdout.readline())
        witness = ArmAdapter(contract, port)
        try:
            yield port, witness
        finally:
            witness.query(b"read")
            witness._line.send(b"end")
            witness.close()
            process.wait(10)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    main()
