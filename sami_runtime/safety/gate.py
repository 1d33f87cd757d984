"""The safety gate: the only one that writes to an adapter. A policy proposes; the gate limits, holds, or stops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Adapter, Executed, Observation, require_executed
from sami_runtime.errors import SafetyStop, SamiError
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limiter import Limiter, Shaped, named
from sami_runtime.safety.limits import Limits
from sami_runtime.safety.watch import Rest, Watch
from sami_runtime.values import all_finite, require_finite

Array = NDArray[np.float32]


class Ruling(NamedTuple):
    """What the gate lets through at one tick."""

    action: Array | None
    """(A,), or None: nothing is written, because no action has been executed yet that could stand, or to stop."""
    limited_by: tuple[str, ...]
    """Every limit that changed the proposal, as `"rate dx"`; `"blend-in"`, `"rest"`, `"stop"` concern all elements."""
    time: float
    """When it was ruled [s]."""


@dataclass
class _Episode:
    """What a gate knows of an episode."""

    watch: Watch
    """Judges its observations."""
    rest: Rest
    """The action that moves nothing, where one is known."""
    limiter: Limiter
    """Shapes its actions."""
    trips: int
    """How often the gate had tripped when the episode began."""
    target: Array | None = None
    """(A,): what the action is on its way to; None while the last one is held."""
    written: Array | None = None
    """(A,): written last, which stands while it is held."""
    held: int = 0
    """Ticks of the policy without a new action, in a row."""


class SafetyGate:
    """Owns the write: judges observations by a `Watch`, shapes actions by a `Limiter`, holds, stops, and stays latched.

    At each tick a loop asks for one ruling (`propose`, `stand` or `hold`) and has it written by `write`. A gate that
    tripped stays latched over all episodes, and refuses to begin another, until somebody calls `rearm`.

    Args:
        adapter: What is written to; nothing else may write to it while the gate is in use.
        contract: Of the model that proposes.
        limits: What is allowed.

    Raises:
        SamiError: The limits do not fit the model's signals.
    """

    def __init__(self, adapter: Adapter, contract: Contract, limits: Limits | None = None) -> None:
        self.adapter = adapter
        self.limits = limits or Limits()
        self.limits.require_fit(contract)
        self.tripped: str | None = None
        """Why the gate is latched; None while it is armed."""
        self._trips, self._why = 0, ""
        self._contract, self._action = contract, contract.action
        self._episode = self._fresh(1.0 / contract.rate_hz)

    def begin(self, period: float) -> None:
        """Begin an episode: nothing has been executed in it.

        Args:
            period: Nominal time between two ticks [s].

        Raises:
            SafetyStop: The gate tripped and was not re-armed.
        """
        self._episode.trips = self._trips
        self.require_armed()
        self._episode = self._fresh(period)

    def change_contract(self, contract: Contract) -> None:
        """Take another model's signals and bounds, from the next episode on.

        Raises:
            SamiError: The limits do not fit them.
        """
        self.limits.require_fit(contract)
        self._contract, self._action = contract, contract.action

    def trip(self, reason: str) -> None:
        """Latch the gate, also from another thread: it writes nothing more, and the loop stops the robot."""
        if self.tripped is None:  # what came first is why
            self.tripped = self._why = reason
        self._trips += 1

    def require_armed(self) -> None:
        """Do nothing while the gate is armed.

        Raises:
            SafetyStop: It tripped, in this episode or before; re-armed, it waits for the next one to begin.
        """
        if self.tripped is not None or self._episode.trips != self._trips:
            raise SafetyStop(f"{self._why}. The robot is stopped; nothing is written until the gate is re-armed.")

    def rearm(self) -> None:
        """Let a tripped gate begin another episode. For a person to call, or on a person's behalf."""
        self.tripped = None

    def fault(self, observation: Observation, now: float | None) -> str | None:
        """Return why an observation must not be acted on, its kind first; None if it may be, and is learned from.

        Args:
            observation: What was read.
            now: The time [s] on the clock that stamps the observations; None if there is none in common.
        """
        reason = self._episode.watch.judge(observation, now)
        if reason is None:
            self._episode.rest.learn(observation)
        return reason

    def propose(self, action: Array, now: float) -> Ruling:
        """Rule on a new action (A,).

        Raises:
            NonFiniteError: It is not finite; hold instead. Nothing was changed.
            SamiError: Limits need a rest to start from, and no good value of its signal was seen yet.
        """
        if not all_finite(action):
            require_finite(action[None], self._action.name, self._action.elements, "action", "It is never clamped.")
        episode = self._episode
        episode.held = 0
        episode.limiter.blend_in.begin()
        episode.target = np.array(action, np.float32)
        return _ruling(episode.limiter.shape(episode.target, now), now)

    def stand(self, now: float) -> Ruling:
        """Rule on a tick between two of the policy's: its last action stands, on its way there if limits delay it."""
        if self._episode.target is None:
            return self._standing(now)
        return _ruling(self._episode.limiter.shape(self._episode.target, now), now)

    def hold(self, reason: str, now: float, ticks: int = 1) -> Ruling:
        """Rule on a tick at which there is no new action: the last one stands, then it falls back to rest.

        At the last of too many in a row the gate trips, and nothing is to be written.

        Args:
            reason: Why there is none.
            now: The time [s].
            ticks: For how many ticks of the policy there was none, those that passed without a turn included.
        """
        episode = self._episode
        episode.held += ticks
        if episode.held >= self.limits.stop_after:
            self.trip(f"no new action at {episode.held} ticks in a row (stop_after), lastly: {reason.rstrip('.')}")
            return Ruling(None, ("stop",), now)
        episode.target = None
        rest = episode.rest.value
        if episode.written is None or episode.held <= self.limits.hold_ticks or rest is None:
            return self._standing(now)
        episode.target = rest
        episode.limiter.blend_in.reset()  # from rest, it blends in anew
        action, limited_by = episode.limiter.shape(rest, now)
        return Ruling(action, ("rest", *limited_by), now)

    def write(self, ruling: Ruling) -> Executed | None:
        """Write what was ruled, and remember what was executed. None if the ruling is to write nothing.

        Raises:
            SafetyStop: The gate is latched.
            SignalError: What the adapter says it executed is not finite.
        """
        if ruling.action is None:
            return None
        self.require_armed()
        sent = require_executed(self.adapter.write(ruling.action.copy()), self.adapter)
        executed = np.array(sent.action, np.float32)
        if executed.shape != ruling.action.shape:
            raise SamiError(
                f"{type(self.adapter).__name__} says it executed an action of shape {executed.shape}, expected "
                f"{ruling.action.shape}. Correct what its write() returns."
            )
        if not all_finite(executed):
            blame = "The adapter's write() returned it as executed."
            require_finite(executed[None], self._action.name, self._action.elements, "executed", blame)
        self._episode.written = ruling.action
        self._episode.limiter.executed(executed, ruling.time)
        return sent

    def changed(self, ruling: Ruling, sent: Executed | None) -> tuple[str, ...]:
        """Name every limit between proposal and execution: the gate's, and `"adapter dx"` where the adapter had one."""
        if ruling.action is None:
            return ruling.limited_by
        if sent is None:
            return (*ruling.limited_by, "stop")
        executed = np.asarray(sent.action, np.float32)
        return (*ruling.limited_by, *named("adapter", executed != ruling.action, self._action.elements))

    def _fresh(self, period: float) -> _Episode:
        rest = Rest(self.limits, self._action)
        limiter = Limiter(self.limits, self._action, rest, period)
        return _Episode(Watch(self.limits, self._contract), rest, limiter, self._trips)

    def _standing(self, now: float) -> Ruling:
        written = self._episode.written
        if written is None:
            return Ruling(None, (), now)
        return _ruling(self._episode.limiter.brake(written, now), now)


def _ruling(shaped: Shaped, now: float) -> Ruling:
    return Ruling(shaped.action, shaped.limited_by, now)
