"""A velocity-controlled arm in a process of its own: it goes on as it was told last, and remembers what it was told.

    python -m tests.making.velocity_arm

prints the port that it listens at. A datagram with numbers is a command [1/s], `read` asks where it is, `log` asks for
every command with its time, and `end` ends it.
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
"""After which it ends by itself, whoever forgot it [s]."""


def main():
    """Be the arm."""
    port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port.bind(("127.0.0.1", 0))
    port.settimeout(LIFE_S)
    print(port.getsockname()[1], flush=True)
    commands, position, velocity, moved = [], [0.0, 0.0], [0.0, 0.0], time.perf_counter()
    born = moved
    while time.perf_counter() - born < LIFE_S:
        request, host = port.recvfrom(65536)
        now = time.perf_counter()
        position = [x + v * (now - moved) for x, v in zip(position, velocity, strict=True)]
        moved = now
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
    """Drives the arm for the tests' tiny policies, whose forces it takes for velocities."""

    def __init__(self, contract, port):
        self.observation, self.action = contract.observation, contract.action
        self._line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._line.connect(("127.0.0.1", port))
        self._line.settimeout(5.0)

    def reset(self, seed=None):
        """It stays where it is."""

    def read(self):
        """Where it is; modulo its bounds, because nothing holds it back."""
        position, now = json.loads(self.query(b"read"))
        values = {"position": np.float32([(x + 1) % 2 - 1 for x in position]), "goal": np.float32([0.5])}
        return Observation(values, now)

    def write(self, action):
        """Tells it how fast to go."""
        self._line.send(json.dumps(action.tolist()).encode())
        return Executed(action)

    def stop(self):
        """Tells it to stand still."""
        self.write(np.zeros(2, np.float32))

    def close(self):
        """Gives the line back."""
        self._line.close()

    def query(self, question):
        """What it answers."""
        self._line.send(question)
        return self._line.recv(1 << 20)

    def commands(self):
        """(time [s], velocity) of everything that it was told."""
        return json.loads(self.query(b"log"))


@contextmanager
def velocity_arm(contract):
    """A running arm: its port, and an adapter to ask it with."""
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
