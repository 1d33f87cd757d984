"""What a simulator does under the commands that were executed on a robot: the reference without a gap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sami_runtime.adapters.gymnasium_adapter import GymnasiumAdapter
from sami_runtime.clock import ManualClock
from sami_train.envs.make import make, make_adapter
from sami_train.envs.spec import EnvironmentSpec
from sami_train.studies.fit_gap.trace import Trace

MOST = 12
"""Episodes that are simulated; more do not tell more."""


def simulated(spec: EnvironmentSpec, traces: Sequence[Trace]) -> list[Trace]:
    """Return the episodes that a simulator makes of the same commands, from its own beginnings.

    Raises:
        AdapterError: The simulator is not installed.
    """
    adapter = make_adapter(spec, make(spec), ManualClock())
    try:
        return [_episode(adapter, spec, trace, seed) for seed, trace in enumerate(traces[:MOST])]
    finally:
        adapter.close()


def _episode(adapter: GymnasiumAdapter, spec: EnvironmentSpec, trace: Trace, seed: int) -> Trace:
    adapter.reset(seed)
    readings: dict[str, list[np.ndarray]] = {signal.name: [] for signal in spec.signals}
    for command in trace.executed:
        observation = adapter.read()
        for name, values in readings.items():
            values.append(np.asarray(observation.values[name], np.float64))
        if adapter.write(command.astype(np.float32)).done:
            break
    count = len(next(iter(readings.values())))
    ticks = np.arange(count)
    return Trace(
        ticks=ticks,
        sent=dict.fromkeys(readings, ticks),
        values={name: np.array(values) for name, values in readings.items()},
        executed=trace.executed[:count],
        times=ticks / spec.rate_hz,
        zeroed={},
    )
