"""A workspace that is kept before it is left: the action that leads out of it is limited."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Observation
from sami_runtime.errors import SamiError
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import Limits, by_element

Array = NDArray[np.float32]
Float64 = NDArray[np.float64]


class Workspace:
    """Elements of observations stay in their ranges, as far as it is known how the actions move them.

    Where an element is, is what the last good observation said, and on from there what was executed since. An action is
    allowed to move it as far as the end of its range within one period of the policy, and where the action's rate is
    limited, no faster than it can still come to rest there. Outside, it may move back or stand still.

    Args:
        limits: What is allowed.
        contract: Of the model that proposes.
    """

    def __init__(self, limits: Limits, contract: Contract) -> None:
        elements, moved = contract.action.elements, limits.moved(contract)
        movers = [name for name in elements if name in moved and moved[name].element in limits.workspace]
        self._movers = np.array([elements.index(name) for name in movers], np.intp)
        self._elements = [moved[name].element for name in movers]
        self._scale = np.array([moved[name].scale for name in movers])
        self._range = np.array([limits.workspace[element] for element in self._elements]).reshape(-1, 2)
        self._places = [_place(contract, element) for element in self._elements]
        self._period = 1.0 / contract.rate_hz
        self._change = by_element(limits.rate, contract.action, math.inf)[self._movers] * self._period
        self._seen: Float64 | None = None
        self._since = np.zeros(len(movers))
        self._last: Float64 = np.zeros(len(movers))

    def __bool__(self) -> bool:
        """Whether there is anything to keep."""
        return len(self._movers) > 0

    def learn(self, observation: Observation) -> None:
        """Take over where the elements are; those that are missing or not finite go on as they were moved."""
        positions = np.array([_number(observation, *place) for place in self._places])
        known = self._since * self._scale + (np.nan if self._seen is None else self._seen)
        self._seen = np.where(np.isfinite(positions), positions, known)
        self._since, self._last = np.zeros_like(self._since), np.zeros_like(self._last)

    def cut(self, action: Array, elapsed: float) -> Array:
        """Limit an action (A,), `elapsed` seconds after the last write; one that leads nowhere out is not touched.

        Raises:
            SamiError: It is not known where an element is.
        """
        if self._seen is None or not np.isfinite(self._seen).all():
            raise SamiError(
                f"no good value of {', '.join(self._elements)} was seen, whose workspace is limited. Give each "
                "observation to fault() before its action to propose()."
            )
        at = self._seen + self._scale * (self._since + self._last * elapsed / self._period)
        down, up = np.maximum(at - self._range[:, 0], 0.0), np.maximum(self._range[:, 1] - at, 0.0)
        ahead = np.where(self._scale > 0, up, down) / np.abs(self._scale)
        behind = np.where(self._scale > 0, down, up) / np.abs(self._scale)
        wanted = action[self._movers].astype(np.float64)
        allowed = wanted.clip(-self._slow(behind), self._slow(ahead))
        if (allowed == wanted).all():
            return action
        cut = action.copy()
        cut[self._movers] = allowed
        return cut

    def executed(self, action: Array, elapsed: float) -> None:
        """Learn what was executed (A,), `elapsed` seconds after what was executed before it."""
        self._since = self._since + self._last * elapsed / self._period
        self._last = action[self._movers].astype(np.float64)

    def _slow(self, way: Float64) -> Float64:
        """Return the largest action from which the rate still allows coming to rest within a way.

        The way is told in actions of one period. From an action a it takes n = ceil(a / c) periods in which it falls by
        c each: a + (a - c) + ... = n a - c n (n - 1) / 2.
        """
        braked = np.isfinite(self._change) & np.isfinite(way)
        change, rest = np.where(braked, self._change, 1.0), np.where(braked, way, 0.0)
        periods = np.maximum(np.ceil((np.sqrt(1 + 8 * rest / change) - 1) / 2), 1)
        return np.where(braked, rest / periods + change * (periods - 1) / 2, way)


def _place(contract: Contract, element: str) -> tuple[str, int]:
    """Return the signal of an element, and its index in it."""
    name, _, inner = element.partition(".")
    signal = next(signal for signal in contract.observation if signal.name == name)
    return name, signal.elements.index(inner)


def _number(observation: Observation, signal: str, at: int) -> float:
    """Return a number of an observation; NaN where there is none."""
    try:
        return float(np.asarray(observation.values[signal]).reshape(-1)[at])
    except (LookupError, TypeError, ValueError):
        return math.nan
