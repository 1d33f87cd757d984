"""Where signals lie: between flat vectors, signals by name, and the observations of an environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from sami_runtime.errors import SamiError
from sami_runtime.signals import Signal

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class SignalSlice:
    """Where a signal of the contract lies in the flat observation vector."""

    signal: Signal
    start: int

    @property
    def indices(self) -> list[int]:
        """Positions of the signal's elements in the flat observation."""
        return list(range(self.start, self.start + self.signal.size))


FLAT_KEYS = ("observation", "achieved_goal", "desired_goal")
"""Order in which the parts of a goal environment's observation are laid into one flat vector."""


def flatten(observation: Any) -> np.ndarray:
    """Lay an observation (array, or Gymnasium's goal dictionary) into one float32 vector, ``(D,)``."""
    if isinstance(observation, dict):
        return np.concatenate([observation[key] for key in FLAT_KEYS]).astype(np.float32, copy=False)
    return np.asarray(observation, dtype=np.float32)


def flat_size(space: spaces.Space) -> int:
    """Length D of a flat observation.

    Raises:
        SamiError: a dictionary that is no goal environment's.
    """
    if isinstance(space, spaces.Dict):
        missing = [key for key in FLAT_KEYS if key not in space.spaces]
        if missing or len(space.spaces) != len(FLAT_KEYS):
            raise SamiError(
                f"the observation has {sorted(space.spaces)}; a dictionary must have exactly {sorted(FLAT_KEYS)}."
            )
        return sum(int(np.prod(space[key].shape or ())) for key in FLAT_KEYS)
    assert space.shape is not None
    return int(np.prod(space.shape))
