"""What acts where the policy does not."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Observation
from sami_runtime.errors import SamiError
from sami_runtime.safety.limits import Limits
from sami_runtime.signals import Signal, all_finite

Array = NDArray[np.float32]


class Controller(Protocol):
    """Drives in the policy's place: a retreat, a hover, a controller that needs fewer sensors."""

    def reset(self) -> None:
        """Begin an episode."""
        ...

    def act(self, observation: Observation, now: float) -> Array:
        """Return the action (A,), in the unit of the model's action. It must not block, and write into nothing.

        Args:
            observation: The newest one, as it is: it may be old, frozen or not finite, because that is why the policy
                is not asked. Whoever acts on it judges by itself what of it can be used.
            now: The time [s], by the loop's clock.
        """
        ...


def ask(controller: Controller, observation: Observation | None, now: float, signal: Signal) -> Array:
    """Return what a controller wants, (A,): a copy.

    Raises:
        SamiError: It failed, or wants what is no action; in one sentence, without its period.
    """
    name = f"the fallback {type(controller).__name__}"
    if observation is None:
        raise SamiError(f"{name} has nothing to act on, because no observation was given to fault()")
    try:
        action = controller.act(observation, now)
    except Exception as error:
        raise SamiError(f"{name} failed: {type(error).__name__}: {str(error).rstrip('.')}") from error
    return require_action(action, signal, f"what {name} wants")


def require_action(value: object, signal: Signal, what: str) -> Array:
    """Return a copy, (A,), of what should be an action.

    Args:
        value: What should be one.
        signal: The action's.
        what: What it is, for the message.

    Raises:
        SamiError: It has another shape, or is not finite; in one sentence, without its period.
    """
    try:
        action = np.array(value, np.float32)
    except (TypeError, ValueError):
        action = np.empty(0, np.float32)
    if action.shape != (signal.size,) or not all_finite(action):
        raise SamiError(
            f"{what} is {value}, expected {signal.size} finite numbers [{signal.unit}] ({', '.join(signal.elements)})"
        )
    return action


def require_time(limits: Limits) -> None:
    """Refuse limits that leave a fallback no time.

    Raises:
        SamiError: The robot is stopped before it would take over.
    """
    if limits.stop_after <= limits.hold_ticks + 1:
        raise SamiError(
            f"the fallback would never act: it takes over after {limits.hold_ticks} ticks (hold_ticks), and at "
            f"{limits.stop_after} the robot is stopped (stop_after). Raise stop_after to how long it may act."
        )
