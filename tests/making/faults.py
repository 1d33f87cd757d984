"""A robot that makes every error of a robot's driver, at random and reproducibly by its seed."""

import math
from collections import Counter

import numpy as np

from sami_runtime.adapters import Executed, Observation
from sami_runtime.errors import AdapterError
from sami_runtime.signals import Signal

NONE2, NONE1 = (None, None), (None,)
READ = (
    *("raises", "raises another error", "returns nothing", "stalls a little", "stalls for periods", "is old"),
    *("goes back in time", "is of the future", "has no time", "NaN", "infinity", "beyond float32", "wrong shape"),
    *("signal missing", "text", "list", "float64", "beyond the bounds", "trips"),
)
WRITE = (
    *("raises", "raises when done", "stalls a little", "stalls for periods", "executes less", "executes more"),
    *("tells NaN", "tells a wrong shape", "tells nothing", "writes into the action", "ends the episode", "trips"),
)
LASTING = ("is old", "goes back in time", "is of the future", "NaN", "infinity", "stalls for periods")
"""Faults of reads that may last for some ticks in a row."""


class FaultyArm:
    """An adapter with random positions and goals, and faults in a fraction of reads and writes. It reuses buffers.

    Args:
        clock: Stamps the observations.
        seed: Of all random draws.
        observer: Sees the writes and the reports of executed actions.
        stall: Called with the number of periods that a stall lasts.
        share: Fraction of reads, and of writes, with a fault.
    """

    def __init__(self, clock, seed, observer, stall, share=0.03):
        self.observation = (
            Signal(name="position", size=2, unit="m", elements=("x", "y"), low=NONE2, high=NONE2),
            Signal(name="goal", size=1, unit="m", elements=("x",), low=NONE1, high=NONE1),
        )
        self.action = Signal(name="force", size=2, unit="N", elements=("fx", "fy"), low=(-1, -1), high=(1, 1))
        self.clock, self.observer, self.stall, self.share = clock, observer, stall, share
        self.random = np.random.default_rng(seed)
        self.trip = None
        """A function that trips the gate, for a reason."""
        self.faults = Counter()
        """Number of faults by kind."""
        self.values = {}
        """Copies of the last observation's values, faults included."""
        self._buffers = {"position": np.zeros(2, np.float32), "goal": np.zeros(1, np.float32)}
        self._answer = np.zeros(2, np.float32)
        self._lasting, self._remaining = "", 0
        self._last_action = None

    def reset(self, seed=None):
        if self.random.random() < self.share / 10:
            self.faults["reset raises"] += 1
            raise AdapterError("the reset fails")
        self._remaining = 0
        self.observer.begin()

    def read(self):
        self.observer.read(self.clock.now())
        if self._last_action is not None:
            self._last_action[:] = np.nan  # the gate must not use an action after handing it over
        fault = self._next(READ, "read")
        if fault.startswith("raises"):
            raise AdapterError("no message") if fault == "raises" else OSError("the cable")
        if fault == "returns nothing":
            return None
        if fault.startswith("stalls"):
            self._stall(fault)
        if fault == "trips":
            self._trip()
        for value in self._buffers.values():
            value[:] = self.random.uniform(-1.0, 1.0, value.shape)
        values = dict(self._buffers)
        if fault in ("NaN", "infinity", "beyond float32"):
            values["position"] = np.array([0.1, {"NaN": math.nan, "infinity": -math.inf}.get(fault, 1e300)])
        elif fault == "beyond the bounds":
            values["position"] = np.float32([0.1, -1.5])
        elif fault == "wrong shape":
            values["goal"] = np.zeros(3, np.float32)
        elif fault == "signal missing":
            del values["goal"]
        elif fault == "text":
            values["goal"] = np.array(["here"])
        elif fault == "list":
            values["position"] = values["position"].tolist()
        elif fault == "float64":
            values["position"] = self.random.uniform(-1.0, 1.0, 2)
        self.values = {name: np.array(value) for name, value in values.items()}
        since = {"is old": 1.0, "goes back in time": 0.06, "is of the future": -1.0, "has no time": math.nan}
        return Observation(values, self.clock.now() - since.get(fault, 0.0))

    def write(self, action):
        self.observer.write(action, self.clock.now())
        for value in self._buffers.values():
            value[:] = np.nan  # the loop must have copied this tick's observation
        fault = self._next(WRITE, "write")
        applied = np.array(action, np.float32)
        if fault.startswith("raises"):
            raise AdapterError("the write fails")
        if fault.startswith("stalls"):
            self._stall(fault)
        if fault == "trips":
            self._trip()
        if fault.startswith("executes"):
            applied *= 0.9 if fault == "executes less" else 1.5
        if fault == "tells nothing":
            return None
        if fault in ("tells NaN", "tells a wrong shape"):
            return Executed(np.full(2 if fault == "tells NaN" else 3, np.nan, np.float32))
        if fault == "writes into the action":
            action[:] = 99.0
        self._last_action = action
        self.observer.report_executed(applied)
        self._answer[:] = applied
        return Executed(self._answer, done=fault == "ends the episode")

    def stop(self):
        self.observer.end("stops")

    def close(self):
        pass

    def _next(self, faults, where):
        if where == "read" and self._remaining:
            self._remaining -= 1
            fault = self._lasting
        elif self.random.random() < self.share:
            fault = faults[self.random.integers(len(faults))]
            if where == "read" and fault in LASTING and self.random.random() < 0.5:
                self._lasting, self._remaining = fault, int(self.random.integers(1, 15))
        else:
            return ""
        self.faults[f"{where} {fault}"] += 1
        return fault

    def _stall(self, fault):
        self.stall(self.random.uniform(0.1, 0.9) if fault == "stalls a little" else self.random.uniform(1.0, 6.0))

    def _trip(self):
        self.trip("somebody came too near")
        self.observer.end("trips")
