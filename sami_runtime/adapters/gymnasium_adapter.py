"""Drives any Gymnasium environment that the caller has made."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Executed, Observation, require_action
from sami_runtime.adapters.mujoco_scene import MujocoScene
from sami_runtime.adapters.scene import Scene
from sami_runtime.clock import Clock, MonotonicClock
from sami_runtime.errors import AdapterError
from sami_runtime.signals import Signal, SignalSource

if TYPE_CHECKING:
    import gymnasium


class GymnasiumAdapter:
    """Drives a Gymnasium environment by named signals.

    An action beyond the action space is clipped, and the clipped action is reported as executed. The episode is
    done when the environment terminates or truncates it; `info` contains the environment's own entries, and `reward`,
    `terminated` and `truncated`.

    Args:
        env: The environment, with a Dict or Box observation space and a Box action space.
        observation: Position of each signal in the environment's observation.
        action: The signal of the environment's action.
        clock: Stamps the observations; the machine's clock if None.

    Raises:
        AdapterError: A signal is outside the observation space, or the action space has another size.
    """

    waits = True
    """The world stands still while nothing is written."""

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        observation: Iterable[SignalSource],
        action: Signal,
        clock: Clock | None = None,
    ) -> None:
        self.env = env
        self.action = action
        self._sources = tuple(observation)
        self.observation: tuple[Signal, ...] = tuple(source.signal for source in self._sources)
        self._clock: Clock = clock or MonotonicClock()
        self._values: dict[str, NDArray[np.float32]] | None = None
        self._measured = 0.0
        self._done = False
        self._is_closed = False
        for source in self._sources:
            self._require_within(source)
        space: Any = env.action_space
        if getattr(space, "shape", None) != (action.size,) or not hasattr(space, "low"):
            raise AdapterError(
                f"the environment's action space is {space}, expected a Box of shape ({action.size},) for "
                f"{action.name!r} ({', '.join(action.elements)}). Give the action signal of this environment."
            )
        self._low, self._high = np.asarray(space.low), np.asarray(space.high)

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode."""
        self._require_open()
        observation, _ = self.env.reset(seed=seed)
        self._done = False
        self._keep(observation)

    def read(self) -> Observation:
        """Return what the environment returned last."""
        self._require_open()
        if self._values is None:
            raise AdapterError("the environment has no observation yet. Call reset() first.")
        return Observation({name: value.copy() for name, value in self._values.items()}, self._measured)

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Step the environment with the action (A,), clipped to the action space."""
        self._require_open()
        if self._values is None or self._done:
            state = "is over" if self._done else "has not begun"
            raise AdapterError(f"the episode {state}; an action cannot be executed. Call reset() first.")
        command = require_action(action, self.action)
        clipped = np.clip(command, self._low, self._high).astype(np.float32)
        observation, reward, terminated, truncated, info = self.env.step(clipped.copy())
        self._done = bool(terminated or truncated)
        self._keep(observation)
        outcome = {"reward": float(reward), "terminated": bool(terminated), "truncated": bool(truncated)}
        return Executed(clipped, self._done, {**info, **outcome})

    def stop(self) -> None:
        """Do nothing: a simulator rests whenever it is not stepped."""

    def close(self) -> None:
        """Close the environment."""
        if not self._is_closed:
            self._is_closed = True
            self.env.close()

    @cached_property
    def scene(self) -> Scene | None:
        """Shapes for viewers; None if the environment has no MuJoCo `model` and `data`."""
        model, data = (getattr(self.env.unwrapped, name, None) for name in ("model", "data"))
        return MujocoScene(model, data) if hasattr(model, "ngeom") and hasattr(data, "xquat") else None

    def render(self) -> Any:
        """Return what the environment renders: an image, for `render_mode="rgb_array"`."""
        return self.env.render()

    def _keep(self, observation: Any) -> None:
        """Store the signals of an environment's observation, and the time."""
        self._values = {}
        for source in self._sources:
            part = observation if source.key is None else observation[source.key]
            end = source.start + source.signal.size
            self._values[source.signal.name] = np.array(part[source.start : end], np.float32)
        self._measured = self._clock.now()

    def _require_open(self) -> None:
        if self._is_closed:
            raise AdapterError("the environment was closed. Make a new one, and a new adapter.")

    def _require_within(self, source: SignalSource) -> None:
        """Raise AdapterError if a signal is outside the environment's observation space."""
        space: Any = self.env.observation_space
        entries = getattr(space, "spaces", None)
        if source.key is not None:
            if not isinstance(entries, dict) or source.key not in entries:
                keys = ", ".join(entries) if isinstance(entries, dict) else "no entries"
                raise AdapterError(
                    f"signal {source.signal.name!r} lies in {source.key!r}; the environment observes "
                    f"{keys}. Correct the key of its SignalSource."
                )
            space = entries[source.key]
        shape, end = getattr(space, "shape", None), source.start + source.signal.size
        if shape is None or len(shape) != 1 or source.start < 0 or end > shape[0]:
            raise AdapterError(
                f"signal {source.signal.name!r} is numbers {source.start} to {end - 1} of "
                f"{source.key or 'the observation'}, whose shape is {shape}. Correct the SignalSource."
            )
