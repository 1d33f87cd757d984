"""The safety gate: nothing else writes to the adapter. The policy proposes an action; the gate limits, holds or stops.

A fallback `Controller` may act while the policy cannot.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Adapter, Executed, Observation, require_action, require_executed
from sami_runtime.errors import SafetyStop, SamiError
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limiter import Limiter, Shaped, Workspace, limit_names
from sami_runtime.safety.limits import Limits, Then
from sami_runtime.safety.watch import ROUNDING, Neutral, Watch
from sami_runtime.session.telemetry import Reading
from sami_runtime.signals import Signal, all_finite, require_finite

Array = NDArray[np.float32]


class Controller(Protocol):
    """Drives while the policy is held: a retreat, a hover, a controller that needs fewer sensors."""

    def reset(self) -> None:
        """Begin an episode."""

    def act(self, observation: Observation, now: float) -> Array:
        """Return the action (A,), in the unit of the model's action. It must not block or modify the observation.

        Args:
            observation: The newest observation, unchecked. It may be old, frozen or not finite, which is why the policy
                is held; the controller has to decide which signals it can use.
            now: The time [s], by the loop's clock.
        """


def fallback_action(controller: Controller, observation: Observation | None, now: float, signal: Signal) -> Array:
    """Return a copy of the action (A,) that a controller computes.

    Raises:
        SamiError: The controller failed or returned no valid action; the message is a sentence without its full stop.
    """
    name = f"the fallback {type(controller).__name__}"
    if observation is None:
        raise SamiError(f"{name} has nothing to act on, because no observation was given to fault()")
    try:
        action = controller.act(observation, now)
    except Exception as error:
        raise SamiError(f"{name} failed: {type(error).__name__}: {str(error).rstrip('.')}") from error
    return require_action(action, signal, f"what {name} wants")


class Ruling(NamedTuple):
    """The gate's decision at one tick."""

    action: Array | None
    """(A,): the action to write. None writes nothing: no action was executed yet that could be held, or to stop."""
    limited_by: tuple[str, ...]
    """Every limit that changed the proposal, as `"rate dx"`; `"blend-in"`, `"rest"`, `"stop"` concern all elements."""
    time: float
    """When the gate decided [s], by the loop's clock."""
    reason: str = ""
    """Why this ruling tripped the gate, as `"pause: ..."`; empty if it did not."""
    fallback: bool = False
    """Whether the fallback chose the action."""
    number: int = 0
    """Counts the gate's rulings of all episodes, because a clock may begin at 0 in each."""


@dataclass
class GateEpisode:
    """The gate's state within one episode."""

    watch: Watch
    """Judges the observations."""
    rest: Neutral
    """The neutral action, if one is known."""
    workspace: Workspace
    """Ranges of observed elements that no action may leave."""
    limiter: Limiter
    """Shapes the actions."""
    trips: int
    """How often the gate had tripped when the episode began."""
    target: Array | None = None
    """(A,): the action that limited writes approach step by step; None while the last action is held."""
    last_write: Array | None = None
    """(A,): the action written last, which is repeated while the policy is held."""
    then: Then = "hold"
    """What the next `hold` does if the last observation was refused."""
    hold_count: int = 0
    """Periods of the policy in a row without a new action."""
    ruled_at: float = math.inf
    """Time of the last ruling [s]; infinite before the first one, so that no pause can be too long."""
    observation: Observation | None = None
    """The observation read last, even if it was refused."""
    overridden: bool = False
    """Whether a person or the fallback, not the policy, chose the last action."""


class SafetyGate:
    """The only writer to an adapter: judges observations (`Watch`), shapes actions (`Limiter`), holds, and stops.

    At each tick the loop asks for one ruling (`propose`, `stand` or `hold`; `command` or `rest` if a person asks for
    that), and passes it to `write`, which raises if the gate has tripped: then the loop must stop the robot. A gate
    that tripped stays latched: it begins no further episode until somebody calls `rearm`.

    Args:
        adapter: Simulator or robot. Nothing else may write to it while the gate is in use.
        contract: Of the model that proposes.
        limits: What is allowed; the default limits if None.
        fallback: Acts within the same limits once the policy has been held for longer than `hold_ticks`, until
            `stop_after`. Without a fallback, the neutral action is approached instead.
        guards: Names of `GUARDS`, which judge observations by the contract's statistics. `Run` turns all of them on
            for a robot.

    Raises:
        UnknownName, SamiError: The limits do not fit the model's signals, or leave the fallback no time.
    """

    def __init__(
        self,
        adapter: Adapter,
        contract: Contract,
        limits: Limits | None = None,
        fallback: Controller | None = None,
        guards: Collection[str] = (),
    ) -> None:
        self.adapter, self.guards, self.fallback = adapter, guards, fallback
        self._needed: tuple[str, ...] = getattr(adapter, "basis", ())
        self.limits = limits or Limits()
        self.limits.require_fit(contract)
        if fallback is not None and self.limits.stop_after <= self.limits.hold_ticks + 1:
            raise SamiError(
                f"the fallback would never act: it takes over after {self.limits.hold_ticks} ticks (hold_ticks), and "
                f"at {self.limits.stop_after} the robot is stopped (stop_after). Raise stop_after by the number of "
                "ticks for which the fallback may act."
            )
        self.tripped: str | None = None
        """Why the gate is latched; None while it is armed."""
        self._trips, self._rulings, self._reason = 0, 0, ""
        self._max_pause = self.limits.max_pause(contract)
        self._contract, self._action = contract, contract.action
        self._episode = self._fresh(1.0 / contract.rate_hz)

    def begin(self, period: float) -> None:
        """Begin an episode, in which nothing has been executed yet.

        Args:
            period: Nominal time between two ticks [s].

        Raises:
            SafetyStop: The gate tripped and was not re-armed.
        """
        episode = self._fresh(period)  # before the check, so that none begins in which another thread tripped the gate
        if self.tripped is not None:  # the episode of the trip stays over, whatever is re-armed later
            self.require_armed()
        self._episode, self._rulings = episode, self._rulings + 1
        if self.fallback is not None:
            self.fallback.reset()

    def change_contract(self, contract: Contract) -> None:
        """Use another model's signals and bounds from the next episode on; errors as of `require_fit`."""
        self.require_fit(contract)
        self._contract, self._action = contract, contract.action

    def require_fit(self, contract: Contract) -> None:
        """Raise UnknownName or SamiError if the limits do not fit a model's signals; nothing changes."""
        self.limits.require_fit(contract)

    def trip(self, reason: str) -> None:
        """Latch the gate, also from another thread: it writes nothing more, and the loop stops the robot."""
        if self.tripped is None:  # the first reason is reported
            self.tripped = self._reason = reason
        self._trips += 1

    def require_armed(self) -> None:
        """Raise unless the gate is armed.

        Raises:
            SafetyStop: The gate tripped in this episode, even if it was re-armed, or is latched from an earlier one.
        """
        if self.tripped is not None or self._episode.trips != self._trips:
            raise SafetyStop(f"{self._reason}. Nothing more is written until rearm(), or a new start of the command.")

    def rearm(self) -> None:
        """Allow a tripped gate to begin another episode. A person should decide that."""
        self.tripped = None

    def fault(self, observation: Observation, now: float | None) -> str | None:
        """Return why the policy must not act on an observation, as `"age: ..."`; None if it may.

        The next `hold` does what the limits set for this case: hold, rest or stop.

        Args:
            observation: What the adapter read.
            now: The time [s] on the clock that stamps the observations; None if loop and adapter share no clock.
        """
        episode = self._episode
        episode.observation = observation
        if objection := episode.watch.judge(observation, now):
            episode.then = objection.then
            return objection.reason
        episode.then = "hold"
        episode.rest.learn(observation)
        if episode.workspace:
            episode.workspace.learn(observation, now)
        return None

    def record_telemetry(self, reading: Reading) -> None:
        """Store the telemetry of a step; the next `fault` applies `stop_on_alarm` and `time_to_adapt` to it."""
        episode = self._episode
        episode.watch.record_telemetry(reading)
        episode.limiter.gentle = episode.watch.gentle

    def propose(self, action: Array, now: float, ticks: int = 1) -> Ruling:
        """Rule on a new action of the policy.

        If too much time passed since the last ruling, or too many periods without a new action, the gate trips.

        Args:
            action: (A,), in the action's unit.
            now: The time [s], by the loop's clock.
            ticks: Periods of the policy since the last ruling: 1, or more if some were missed.

        Raises:
            NonFiniteError: The action contains NaN or infinity; call `hold` instead. The gate's state did not change.
            SamiError: The neutral action or the workspace is a signal of which no valid value was seen yet, or the
                robot starts beyond the bounds and no rate limits its way back.
        """
        if not all_finite(action):
            require_finite(action[None], self._action.name, self._action.elements, "action", "It is never clamped.")
        stop = self._pause(now)
        if ticks > 1 and not stop and self._max_pause < math.inf:
            stop = self._count(ticks - 1, f"missed: {ticks - 1} ticks of the policy passed without a turn", now)
        if stop:
            return stop
        episode = self._episode
        episode.hold_count = 0
        episode.limiter.blend_in.begin(episode.last_write if episode.overridden else None)
        episode.overridden = False
        return self._aim(np.array(action, np.float32), now)

    def command(self, action: Array, now: float) -> Ruling:
        """Rule on an action (A,) of a person who drives in place of the policy; all limits but the blend-in apply.

        The policy's next action blends in from this action.

        Raises:
            AdapterError: The action has another size, or is not finite. The gate's state did not change.
        """
        values = require_action(action, self._action, "a person's command")
        if stop := self._pause(now):
            return stop
        self._episode.hold_count = 0
        return self._drive(values, now)

    def rest(self, now: float) -> Ruling:
        """Rule on a tick at which a person pauses the robot: approach the neutral action.

        It resets the count for `stop_after`. Before the episode's first action nothing is written.

        Raises:
            SamiError: The limits set no neutral action, or no valid value of its signal was seen yet.
        """
        if stop := self._pause(now):
            return stop
        episode = self._episode
        episode.hold_count = 0
        return Ruling(None, (), now) if episode.last_write is None else self._drive(episode.rest.require(), now)

    def stand(self, now: float) -> Ruling:
        """Rule on a tick between two of the policy's: continue towards its last action, or repeat it once reached."""
        if stop := self._pause(now):
            return stop
        target = self._episode.target
        return self._standing(now) if target is None else self._aim(target, now)

    def hold(self, reason: str, now: float, ticks: int = 1) -> Ruling:
        """Rule on a tick without a new action: repeat the last one; after `hold_ticks` use the fallback, or rest.

        After `stop_after` periods in a row without a new action the gate trips, and the ruling writes nothing.

        Args:
            reason: Why there is no new action, as `"age: ..."`.
            now: The time [s], by the loop's clock.
            ticks: Periods of the policy without a new action since the last ruling, missed ones included.
        """
        if stop := self._pause(now) or self._count(ticks, reason, now):
            return stop
        episode = self._episode
        if episode.then == "stop":
            return self._stop(reason.rstrip("."), now)
        episode.target = None
        rest = episode.rest.value
        waits = episode.hold_count <= self.limits.hold_ticks and episode.then != "rest"
        if episode.last_write is None or waits:
            return self._standing(now)
        if self.fallback is not None and episode.then != "rest":
            return self._fall_back(self.fallback, reason, now)
        if rest is None:
            return self._standing(now)
        episode.limiter.blend_in.reset()  # the policy's next action blends in from the neutral action
        ruling = self._aim(rest, now)
        return ruling._replace(limited_by=("rest", *ruling.limited_by))

    def write(self, ruling: Ruling) -> Executed | None:
        """Write a ruling's action, from which the next step is limited. None if the ruling has no action.

        Raises:
            SafetyStop: The gate is latched, as after a ruling that trips, or an action became NaN or infinite.
            AdapterError, SamiError: The ruling is not the latest, or the adapter's `write` returned no `Executed` (A,).
            NonFiniteError: The adapter reports an executed action that is not finite.
        """
        self.require_armed()
        if ruling.action is None:
            return None
        if ruling.number != self._rulings:
            raise SamiError(f"the ruling of {ruling.time:g} s is not the latest of this episode. Do not write it.")
        if not all_finite(ruling.action):  # never write NaN or infinity to a robot, whatever the cause
            self.trip(f"the limits made {ruling.action.tolist()} of an action, which is not finite")
            self.require_armed()
        # Limits measure the next step from the action handed to the adapter, not from the action it reports.
        elapsed = self._episode.limiter.record_write(ruling.action, ruling.time)
        self._episode.last_write = ruling.action
        result = require_executed(self.adapter.write(ruling.action.copy()), self.adapter)
        executed = np.array(result.action, np.float32)
        if executed.shape != ruling.action.shape:
            raise SamiError(
                f"{type(self.adapter).__name__} reports an executed action of shape {executed.shape}, expected "
                f"{ruling.action.shape}. Correct what its write() returns."
            )
        if executed.tobytes() != ruling.action.tobytes() and not all_finite(executed):
            blame = "The adapter's write() returned it as executed."
            require_finite(executed[None], self._action.name, self._action.elements, "executed", blame)
        if self._episode.workspace:
            self._episode.workspace.executed(executed, elapsed, ruling.time)
        return result

    def changed(self, ruling: Ruling, result: Executed | None) -> tuple[str, ...]:
        """Name every limit that changed the action: the gate's, and `"adapter dx"` where the adapter changed dx."""
        if ruling.action is None:
            return ruling.limited_by
        if result is None:
            return (*ruling.limited_by, "stop")
        executed = np.asarray(result.action, np.float32)
        return (*ruling.limited_by, *limit_names("adapter", executed != ruling.action, self._action.elements))

    def _pause(self, now: float) -> Ruling | None:
        """Trip and return that ruling if the last ruling was too long ago; else return None."""
        episode, self._rulings = self._episode, self._rulings + 1
        pause, episode.ruled_at = now - episode.ruled_at, now
        if pause <= self._max_pause * (1 + ROUNDING):
            return None
        allowed = f"allowed are {self._max_pause:.3g} s (max_pause_s)"
        return self._stop(f"pause: {pause:.3g} s passed between two ticks, {allowed}", now)

    def _count(self, ticks: int, reason: str, now: float) -> Ruling | None:
        """Count periods without a new action; trip and return that ruling after `stop_after` in a row, else None."""
        episode = self._episode
        episode.hold_count += ticks
        if episode.hold_count < self.limits.stop_after:
            return None
        self.trip(f"no new action at {episode.hold_count} ticks in a row (stop_after), lastly: {reason.rstrip('.')}")
        return Ruling(None, ("stop",), now, reason)

    def _stop(self, reason: str, now: float) -> Ruling:
        self.trip(reason)
        return Ruling(None, ("stop",), now, reason)

    def _fall_back(self, fallback: Controller, reason: str, now: float) -> Ruling:
        """Rule on the fallback's action; trip if the fallback fails."""
        try:
            action = fallback_action(fallback, self._episode.observation, now, self._action)
        except SamiError as error:
            return self._stop(f"fallback: {error}; it had taken over because of {reason.rstrip('.')}", now)
        ruling = self._drive(action, now)._replace(fallback=True)
        if isinstance(self.limits.rest, str):  # what was measured last is from before the fallback
            self._episode.rest.value = ruling.action
        return ruling

    def _drive(self, action: Array, now: float) -> Ruling:
        """Rule on an action (A,) that a person, a pause or the fallback chose."""
        self._episode.overridden = True
        self._episode.limiter.blend_in.reset()
        return self._aim(action, now)

    def _aim(self, target: Array, now: float) -> Ruling:
        """Rule on the next write on the way to a target (A,), which `stand` continues."""
        self._episode.target = target
        return self._ruling(self._episode.limiter.shape(target, now), now)

    def _ruling(self, shaped: Shaped, now: float) -> Ruling:
        return Ruling(*shaped, now, number=self._rulings)

    def _fresh(self, period: float) -> GateEpisode:
        rest = Neutral(self.limits, self._action)
        workspace = Workspace(self.limits, self._contract)
        limiter = Limiter(self.limits, self._action, rest, period, workspace)
        watch = Watch(self.limits, self._contract, self.adapter.observation, self.guards, self._needed)
        return GateEpisode(watch, rest, workspace, limiter, self._trips)

    def _standing(self, now: float) -> Ruling:
        action = self._episode.last_write
        return Ruling(None, (), now) if action is None else self._ruling(self._episode.limiter.brake(action, now), now)
