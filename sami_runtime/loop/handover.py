"""Replaces the model of a running loop: another thread prepares the new model, the loop takes it between two ticks."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from typing import ClassVar

from sami_runtime.adapters.base import Adapter, differences, require_compatible
from sami_runtime.errors import SamiError
from sami_runtime.loop.tick import Swapped
from sami_runtime.model.contract import Contract
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.session.session import Session
from sami_runtime.session.telemetry import Telemetry

FIELDS = ("size", "unit", "elements", "low", "high")
"""Fields of a signal that must be equal in both models for a swap in the middle of an episode."""


class Handover:
    """The session that drives a loop, and the one that shall replace it.

    The loop calls `begin`, `take` and `end`, and never waits for another thread in `take`; another thread calls `give`.

    Args:
        session: The first session to drive.
        robot: The adapter that it drives.
    """

    _lock = threading.Lock()  # of all runs; never waited for within an episode
    _running: ClassVar[list[Handover]] = []  # of all running episodes

    def __init__(self, session: Session, robot: Adapter) -> None:
        self.session = session
        """The session that drives."""
        self._robot = robot
        self._next_session: Session | None = None
        self._successor: tuple[Session, Future[Swapped], Session | None] | None = None  # in place of `_next_session`
        self._swapped: Swapped | None = None
        self.thread: int | None = None  # of the running episode

    def begin(self) -> None:
        """Begin an episode; the session that waits for it, if there is one, takes over.

        Raises:
            SamiError: Another episode of the run, or one with its session or robot, has begun and not ended.
        """
        with self._lock:
            session = self._next_session or self.session
            if any(other._robot is self._robot or other.session is session for other in self._running):
                raise SamiError("an episode of this run, session or robot is running. Wait for its end, or end it.")
            self._running.append(self)
            if self._swapped or session is not self.session:  # `_swapped`: after the last tick of the last episode
                self._swapped = swapped_to(session)
            self.session, self._next_session, self.thread = session, None, threading.get_ident()

    def end(self) -> None:
        """End the episode, for whatever reason; a session that did not take over in it waits for the next episode."""
        with self._lock:
            self._running.remove(self)
            self.thread = None
            if self._successor is not None:
                session, future, predecessor = self._successor
                self._successor = None
                self._next_session = session if self._next_session is predecessor else self._next_session
                future.set_result(swapped_to(session))

    def take(self, telemetry: Telemetry | None) -> Session | None:
        """Return a session that takes over at the next tick, with the old session's state; None if none waits.

        Args:
            telemetry: Reads the contexts; it continues with the new model's in-distribution reference.
        """
        if self._successor is None or not self._lock.acquire(blocking=False):
            return None
        try:
            if self._successor is None:
                return None
            session, future, predecessor = self._successor
            self._successor = None
            try:
                session.restore(self.session.state)
            except SamiError as error:  # the caller may have changed the new session meanwhile
                future.set_exception(error)
                return None
            self._next_session = None if self._next_session is predecessor else self._next_session
            if telemetry:
                telemetry.change_contract(session.contract)
            self._swapped = swapped_to(session, self.session.tick)
            self.session = session
            future.set_result(self._swapped)
            return session
        finally:
            self._lock.release()

    def swapped(self) -> Swapped | None:
        """Return which model took over since the last tick, and None at the next call."""
        swapped, self._swapped = self._swapped, None
        return swapped

    def give(self, session: Session, driving: Session, middle: bool, timeout_s: float) -> Swapped:
        """Hand over a session that is ready. Call it from a thread other than the loop's.

        Args:
            session: The new session.
            driving: The session that drove when the new one was checked.
            middle: Whether to take over within the running episode, if there is one; this then returns when the new
                session drives. Otherwise the next episode begins with it.
            timeout_s: How long [s] to wait for the loop.

        Raises:
            SamiError: The session cannot take over in the middle of the episode, the loop did not take it in time, the
                loop's own thread called this, or `driving` no longer drives.
        """
        with self._lock:
            if any(other.session is session for other in self._running):
                raise SamiError("the session given to swap() drives another run. Load a new session.")
            if not middle or self.thread is None:
                self._next_session = session
                return swapped_to(session)
            if self.thread == threading.get_ident():
                raise SamiError(
                    "the loop's own thread called swap() with when='now', and would wait for itself. Call swap() from "
                    'another thread, or with when="episode".'
                )
            if self.session is not driving:
                raise SamiError(f"another swap has replaced {driving.contract.name!r} meanwhile. Call swap() again.")
            _require_same_state(session, driving)
            future = Future[Swapped]()
            self._successor = successor = (session, future, self._next_session)
        try:
            wait([future], timeout_s)
        finally:
            with self._lock:
                if self._successor is successor:
                    self._successor = None
        if not future.done():
            raise SamiError(
                f"the loop did not take over {session.contract.name!r} within {timeout_s:g} s, so "
                f'{driving.contract.name!r} drives on. Call swap() again, or with when="episode".'
            )
        return future.result()


def swapped_to(session: Session, steps: int = 0) -> Swapped:
    """Describe the model of a session that took over after `steps` steps of the episode."""
    artifact = session.artifact
    return Swapped(str(artifact.path), artifact.graph_sha256, session.contract, fed=steps)


def require_swap(session: Session, driving: Session, adapter: Adapter, gate: SafetyGate) -> None:
    """Check, before anything changes, that a session can take over: it must fit adapter, gate and rate.

    Raises:
        AdapterError, SamiError, UnknownName: It cannot take over, with the reason.
    """
    new, old = session.contract, driving.contract
    if session is driving or session.batch != 1:
        fault = "is the one that drives" if session is driving else f"has a batch of {session.batch}"
        raise SamiError(f"the session given to swap() {fault}. Load a new session with a batch of 1.")
    if new.rate_hz != old.rate_hz:
        raise SamiError(
            f"model {new.name!r} cannot take over from {old.name!r}: it acts at {new.rate_hz:g} Hz, and this run at "
            f"{old.rate_hz:g} Hz. End the run, and begin another run with the new model."
        )
    require_compatible(new, adapter.observation, adapter.action, type(adapter).__name__)
    gate.require_fit(new)


def _require_same_state(session: Session, driving: Session) -> None:
    """Raise SamiError, with every difference, unless a session can continue an episode from the driving one's state.

    Only the weights that computed a state can use it, and the gate keeps using the bounds of the old contract.
    """
    new, old = session.contract, driving.contract
    if session.artifact.graph_sha256 != driving.artifact.graph_sha256:
        raise SamiError(
            f"model {new.name!r} has weights {session.artifact.graph_sha256[:12]}, but {old.name!r}, which drives, has "
            f"{driving.artifact.graph_sha256[:12]}: in the middle of an episode a model can only continue from the "
            'state of equal weights. Swap at the next episode: when="episode".'
        )
    if faults := _differences(new, old):
        raise SamiError(
            f"model {new.name!r} cannot take over from {old.name!r} in the middle of an episode: {'; '.join(faults)}. "
            'Swap at the next episode: when="episode".'
        )


def _differences(new: Contract, old: Contract) -> list[str]:
    """Return a phrase for each signal that only one of the contracts has, or that differs between them."""
    faults = []
    for kind, new_signals, old_signals in (
        ("observation", new.observation, old.observation),
        ("action", (new.action,), (old.action,)),
        ("output", new.extra_outputs, old.extra_outputs),
    ):
        after, before = ({signal.name: signal for signal in signals} for signals in (new_signals, old_signals))
        faults += [f"{kind} {name!r} is only in the new model" for name in after if name not in before]
        faults += [f"{kind} {name!r} is missing in the new model" for name in before if name not in after]
        for name in after.keys() & before.keys():
            faults += differences(kind, after[name], before[name], "the other's", FIELDS)
    return faults
