"""A robot's module for tests of watchdogs: its emergency stop appends the time to a file."""

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
    """Writes the module `my_arm` into a folder, and reads the times of its emergency stops."""

    def __init__(self, folder: Path):
        self.folder, self.path = folder, folder / "stops"
        (folder / "my_arm.py").write_text(MODULE.format(path=str(self.path)), encoding="utf-8")

    @property
    def times(self):
        """Times of the emergency stops [s], by time.monotonic()."""
        return [float(line) for line in self.path.read_text().split()] if self.path.exists() else []

    def wait(self, timeout=10.0):
        """Wait for the first emergency stop, and return its time [s]; fail the test after `timeout` [s]."""
        end = time.monotonic() + timeout
        while not self.times:
            assert time.monotonic() < end, "the robot was not stopped"
            time.sleep(0.005)
        return self.times[0]
