"""The safety gate: the only one that writes to an adapter. A policy proposes; the gate limits, holds, or stops.

A fallback `Controller` acts where the policy does not.
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
from sami_runtime.safety.limiter import Limiter, Workspace, named
from sami_runtime.safety.limits import Limits, Then
from sami_runtime.safety.watch import ROUNDING, Rest, Watch
from sami_runtime.session.telemetry import Reading
from sami_runtime.signals import Signal, all_finite, require_finite

Array = NDArray[np.float32]


class Controller(Protocol):
    """Drives in the policy's place: a retreat, a hover, a controller that needs fewer sensors."""

    def reset(self) -> None:
        """Begin an episode."""

    def act(self, observation: Observation, now: float) -> Array:
        """Return the action (A,), in the unit of the model's action. It must not block, and write into nothing.

        Args:
            observation: The newest one, as it is: it may be old, frozen or not finite, because that is why the policy
                is not asked. Whoever acts on it judges by itself what of it can be used.
            now: The time [s], by the loop's clock.
        """


def fallback_action(controller: Controller, observation: Observation | None, now: float, signal: Signal) -> Array:
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


class Ruling(NamedTuple):
    """What the gate lets through at one tick."""

    action: Array | None
    """(A,), or None: nothing is written, because no action has been executed yet that could stand, or to stop."""
    limited_by: tuple[str, ...]
    """Every limit that changed the proposal, as `"rate dx"`; `"blend-in"`, `"rest"`, `"stop"` concern all elements."""
    time: float
    """When it was ruled [s]."""
    reason: str = ""
    """Why nothing is to be written any more, its kind first, where the ruling itself found out; empty otherwise."""
    fallback: bool = False
    """Whether the action is that of the fallback."""


@dataclass
class GateEpisode:
    """What a gate remembers of an episode."""

    watch: Watch
    """Judges its observations."""
    rest: Rest
    """The action that moves nothing, where one is known."""
    workspace: Workspace
    """What its actions do not lead out of."""
    limiter: Limiter
    """Shapes its actions."""
    trips: int
    """How often the gate had tripped when the episode began."""
    target: Array | None = None
    """(A,): what the action is on its way to; None while the last one is held."""
    written: Array | None = None
    """(A,): written last, which stands while it is held."""
    then: Then = "hold"
    """What is to happen after the last observation, where it must not be acted on."""
    held: int = 0
    """Ticks of the policy without a new action, in a row."""
    ruled_at: float = math.inf
    """When it was ruled last [s]; before the first ruling, no time can be too long ago."""
    observation: Observation | None = None
    """What was read last, good or not."""
    taken_over: bool = False
    """Whether another one than the policy drove last."""


class SafetyGate:
    """Owns the write: judges observations by a `Watch`, shapes actions by a `Limiter`, holds, stops, and stays latched.

    At each tick a loop asks for one ruling (`propose`, `stand` or `hold`; `command` or `rest` where a person wants
    that) and has it written by `write`. A gate that tripped stays latched over all episodes, and refuses to begin
    another, until somebody calls `rearm`.

    Args:
        adapter: What is written to; nothing else may write to it while the gate is in use.
        contract: Of the model that proposes.
        limits: What is allowed.
        fallback: Acts where the policy has been held for longer than `hold_ticks`, until `stop_after`, within the same
            limits. Without one, the action falls back to rest.
        guards: Names of `GUARDS` that judge observations by the contract's own numbers. `Run` turns all of them on for
            a robot.

    Raises:
        SamiError: The limits do not fit the model's signals, or leave the fallback no time.
    """

    def __init__(
        self,
        adapter: Adapter,
        contract: Contract,
        limits: Limits | None = None,
        fallback: Controller | None = None,
        guards: Collection[str] = (),
    ) -> None:
        self.adapter, self.guards = adapter, guards
        self._needed: tuple[str, ...] = getattr(adapter, "basis", ())
        self.limits = limits or Limits()
        self.limits.require_fit(contract)
        self.fallback = fallback
        if fallback is not None and self.limits.stop_after <= self.limits.hold_ticks + 1:
            raise SamiError(
                f"the fallback would never act: it takes over after {self.limits.hold_ticks} ticks (hold_ticks), and "
                f"at {self.limits.stop_after} the robot is stopped (stop_after). Raise stop_after to how long it may "
                "act."
            )
        self.tripped: str | None = None
        """Why the gate is latched; None while it is armed."""
        self._trips, self._why = 0, ""
        self._max_pause = self.limits.max_pause(contract)
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
        if self.fallback is not None:
            self.fallback.reset()

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

        What the limits want to happen then (hold, rest or stop), the next `hold` does.

        Args:
            observation: What was read.
            now: The time [s] on the clock that stamps the observations; None if there is none in common.
        """
        episode = self._episode
        episode.observation = observation
        objection = episode.watch.judge(observation, now)
        if objection is None:
            episode.then = "hold"
            episode.rest.learn(observation)
            if episode.workspace:
                episode.workspace.learn(observation)
            return None
        episode.then = objection.then
        return objection.reason

    def heed(self, reading: Reading) -> None:
        """Learn what the context told after a step of the policy; its limits are judged by the next `fault`."""
        episode = self._episode
        episode.watch.heed(reading)
        episode.limiter.gentle = episode.watch.gentle

    def propose(self, action: Array, now: float, ticks: int = 1) -> Ruling:
        """Rule on a new action (A,).

        Where too much time has passed without one, the gate trips, and nothing is to be written.

        Args:
            action: What the policy wants.
            now: The time [s].
            ticks: After how many ticks of the policy it comes: 1, and those that passed without a turn.

        Raises:
            NonFiniteError: It is not finite; hold instead. Nothing was changed.
            SamiError: No good value was seen yet of a signal from which the limits start: rest, or a workspace. Or the
                robot starts beyond the bounds, and no rate is set that leads it back.
        """
        if not all_finite(action):
            require_finite(action[None], self._action.name, self._action.elements, "action", "It is never clamped.")
        stop = self._pause(now)
        if ticks > 1 and not stop and self._max_pause < math.inf:
            stop = self._count(ticks - 1, f"missed: {ticks - 1} ticks of the policy passed without a turn", now)
        if stop:
            return stop
        episode = self._episode
        episode.held = 0
        episode.limiter.blend_in.begin(episode.written if episode.taken_over else None)
        episode.taken_over = False
        episode.target = np.array(action, np.float32)
        return Ruling(*episode.limiter.shape(episode.target, now), now)

    def command(self, action: Array, now: float) -> Ruling:
        """Rule on an action (A,) of a person, who drives instead of the policy: all limits but the blend-in hold.

        The policy's next action blends in from there.

        Raises:
            SamiError: It is not a finite action of the model's. Nothing was changed.
        """
        values = require_action(action, self._action, "a person's command")
        if stop := self._pause(now):
            return stop
        self._episode.held = 0
        return self._drive(values, now)

    def rest(self, now: float) -> Ruling:
        """Rule on a tick at which a person wants the robot to rest; such ticks do not count towards `stop_after`.

        Before the first action nothing is written.

        Raises:
            SamiError: The limits give no rest.
        """
        if stop := self._pause(now):
            return stop
        episode = self._episode
        episode.held = 0
        return Ruling(None, (), now) if episode.written is None else self._drive(episode.rest.require(), now)

    def stand(self, now: float) -> Ruling:
        """Rule on a tick between two of the policy's: its last action stands, on its way there if limits delay it."""
        if stop := self._pause(now):
            return stop
        if self._episode.target is None:
            return self._standing(now)
        return Ruling(*self._episode.limiter.shape(self._episode.target, now), now)

    def hold(self, reason: str, now: float, ticks: int = 1) -> Ruling:
        """Rule on a tick at which there is no new action: the last one stands, then the fallback acts, or it rests.

        At the last of too many in a row the gate trips, and nothing is to be written.

        Args:
            reason: Why there is none.
            now: The time [s].
            ticks: For how many ticks of the policy there was none, those that passed without a turn included.
        """
        if stop := self._pause(now) or self._count(ticks, reason, now):
            return stop
        episode = self._episode
        if episode.then == "stop":
            return self._stop(reason.rstrip("."), now)
        episode.target = None
        rest = episode.rest.value
        waits = episode.held <= self.limits.hold_ticks and episode.then != "rest"
        if episode.written is None or waits:
            return self._standing(now)
        if self.fallback is not None and episode.then != "rest":
            return self._fall_back(self.fallback, reason, now)
        if rest is None:
            return self._standing(now)
        episode.target = rest
        episode.limiter.blend_in.reset()  # from rest, it blends in anew
        action, limited_by = episode.limiter.shape(rest, now)
        return Ruling(action, ("rest", *limited_by), now)

    def write(self, ruling: Ruling) -> Executed | None:
        """Write what was ruled, and remember it: the next step goes from there. None if the ruling is to write nothing.

        Raises:
            SafetyStop: The gate is latched.
            SignalError: What the adapter says it executed is not finite.
        """
        if ruling.action is None:
            return None
        self.require_armed()
        if not all_finite(ruling.action):  # whatever made it so, a robot does not get it
            self.trip(f"the limits made {ruling.action.tolist()} of an action, which is not finite")
            self.require_armed()
        # Whatever the adapter does with it: the next step goes from what it was handed.
        elapsed = self._episode.limiter.record_write(ruling.action, ruling.time)
        self._episode.written = ruling.action
        sent = require_executed(self.adapter.write(ruling.action.copy()), self.adapter)
        executed = np.array(sent.action, np.float32)
        if executed.shape != ruling.action.shape:
            raise SamiError(
                f"{type(self.adapter).__name__} says it executed an action of shape {executed.shape}, expected "
                f"{ruling.action.shape}. Correct what its write() returns."
            )
        if executed.tobytes() != ruling.action.tobytes() and not all_finite(executed):
            blame = "The adapter's write() returned it as executed."
            require_finite(executed[None], self._action.name, self._action.elements, "executed", blame)
        self._episode.limiter.executed(executed, elapsed)
        return sent

    def changed(self, ruling: Ruling, sent: Executed | None) -> tuple[str, ...]:
        """Name every limit between proposal and execution: the gate's, and `"adapter dx"` where the adapter had one."""
        if ruling.action is None:
            return ruling.limited_by
        if sent is None:
            return (*ruling.limited_by, "stop")
        executed = np.asarray(sent.action, np.float32)
        if executed.tobytes() == ruling.action.tobytes():
            return ruling.limited_by
        return (*ruling.limited_by, *named("adapter", executed != ruling.action, self._action.elements))

    def _pause(self, now: float) -> Ruling | None:
        """Trip, and say so, where the last ruling was too long ago; else None."""
        episode = self._episode
        pause, episode.ruled_at = now - episode.ruled_at, now
        if pause <= self._max_pause * (1 + ROUNDING):
            return None
        allowed = f"allowed are {self._max_pause:.3g} s (max_pause_s)"
        return self._stop(f"pause: {pause:.3g} s passed between two ticks, {allowed}", now)

    def _count(self, ticks: int, reason: str, now: float) -> Ruling | None:
        """Count ticks of the policy without a new action; trip, and say so, where they are too many in a row."""
        episode = self._episode
        episode.held += ticks
        if episode.held < self.limits.stop_after:
            return None
        self.trip(f"no new action at {episode.held} ticks in a row (stop_after), lastly: {reason.rstrip('.')}")
        return Ruling(None, ("stop",), now, reason)

    def _stop(self, reason: str, now: float) -> Ruling:
        self.trip(reason)
        return Ruling(None, ("stop",), now, reason)

    def _fall_back(self, fallback: Controller, reason: str, now: float) -> Ruling:
        """Let the fallback act; where it fails, trip."""
        try:
            action = fallback_action(fallback, self._episode.observation, now, self._action)
        except SamiError as error:
            return self._stop(f"fallback: {error}; it had taken over because of {reason.rstrip('.')}", now)
        return self._drive(action, now)._replace(fallback=True)

    def _drive(self, action: Array, now: float) -> Ruling:
        """Rule on an action (A,) of another one than the policy."""
        episode = self._episode
        episode.target, episode.taken_over = action, True
        episode.limiter.blend_in.reset()
        return Ruling(*episode.limiter.shape(action, now), now)

    def _fresh(self, period: float) -> GateEpisode:
        rest = Rest(self.limits, self._action)
        workspace = Workspace(self.limits, self._contract)
        limiter = Limiter(self.limits, self._action, rest, period, workspace)
        watch = Watch(self.limits, self._contract, self.adapter.observation, self.guards, self._needed)
        return GateEpisode(watch, rest, workspace, limiter, self._trips)

    def _standing(self, now: float) -> Ruling:
        written = self._episode.written
        if written is None:
            return Ruling(None, (), now)
        return Ruling(*self._episode.limiter.brake(written, now), now)
