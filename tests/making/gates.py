"""Functions that tests of the safety gate share."""

import numpy as np

from sami_runtime.adapters import Observation

PERIOD = 0.04


def action(*values):
    return np.float32(values)


def frame(position, time):
    """Return an observation of the fake robot at a position and a time [s]."""
    return Observation({"position": np.float32(position), "goal": np.float32([0.5])}, time)


def drive(gate, actions, times):
    """Propose each action at its time [s]; return the executed actions, and the limits that changed each."""
    executed, limited = [], []
    for proposed, now in zip(actions, times, strict=True):
        ruling = gate.propose(np.float32(proposed), now)
        result = gate.write(ruling)
        executed.append(result.action)
        limited.append(gate.changed(ruling, result))
    return np.array(executed), limited
