"""A robot's module for watchdogs: what stops the robot is a line in a file, with its time."""

import time
from pathlib import Path

MODULE = """
import os, sys, time

def emergency_stop():
    def stop():
        with open({path!r}, "a") as file:
            file.write(f"{{time.monotonic()}}\\n")
    return stop

def refused():
    raise OSError("no route to the arm")

def forgotten():
    open({path!r}, "a").write("0\\n")

def slow():
    time.sleep(60)

def gone():
    os._exit(7)

def failing():
    stop = emergency_stop()
    def try_again():
        stop()
        raise OSError("the line is busy")
    return try_again

def chatty():
    stop = emergency_stop()
    def speak_and_stop():
        print("stopping " + 300_000 * ".", file=sys.stderr, flush=True)
        os.write(1, 300_000 * b".")
        stop()
    return speak_and_stop

def instructed():
    from sami_runtime.safety.watchdog_process import take_instructions
    armed = []
    def take(document, descriptors):
        armed.clear()
        if "topic" not in document:
            raise ValueError("no topic")
        armed.append((document["topic"], *descriptors))
    take_instructions("arm", take)
    def stop():
        (topic, descriptor), = armed
        os.write(descriptor, topic.encode())
    return stop

def noisy():
    print("connecting")
    return emergency_stop()
"""


class Stops:
    """When the robot was stopped by a watchdog; `my_arm:emergency_stop` stops it."""

    def __init__(self, folder: Path):
        self.folder, self.path = folder, folder / "stops"
        (folder / "my_arm.py").write_text(MODULE.format(path=str(self.path)), encoding="utf-8")

    @property
    def times(self):
        """Each [s], by time.monotonic()."""
        return [float(line) for line in self.path.read_text().split()] if self.path.exists() else []

    def wait(self, timeout=10.0):
        """The time of the first, once it has come."""
        end = time.monotonic() + timeout
        while not self.times:
            assert time.monotonic() < end, "the robot was not stopped"
            time.sleep(0.005)
        return self.times[0]
