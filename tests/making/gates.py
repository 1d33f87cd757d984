"""What tests of the safety gate share."""

import numpy as np

from sami_runtime.adapters import Observation

PERIOD = 0.04


def action(*values):
    return np.float32(values)


def seen(position, time):
    """An observation of the signals that the fake's model reads."""
    return Observation({"position": np.float32(position), "goal": np.float32([0.5])}, time)


def drive(gate, actions, times):
    """What is executed when each action is proposed at its time, and the limits that changed it."""
    executed, limited = [], []
    for proposed, now in zip(actions, times, strict=True):
        ruling = gate.propose(np.float32(proposed), now)
        sent = gate.write(ruling)
        executed.append(sent.action)
        limited.append(gate.changed(ruling, sent))
    return np.array(executed), limited
