"""Another model for a loop that runs: prepared by another thread, and taken by the loop between two ticks."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait

from sami_runtime.adapters.base import Adapter, differences, require_compatible
from sami_runtime.errors import SamiError
from sami_runtime.loop.tick import Swapped
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session
from sami_runtime.session.telemetry import Telemetry

FIELDS = ("size", "unit", "elements", "low", "high")
"""Of a signal, what a model that takes over in the middle of an episode must have alike."""


class Handover:
    """The session that drives a loop, and the one that is to come.

    The loop calls `begin`, `take` and `end`, and waits for nobody in between; another thread calls `give`.

    Args:
        session: Drives first.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        """The one that drives."""
        self._waiting: Session | None = None
        self._successor: tuple[Session, Future[Swapped]] | None = None  # what waits for the loop to take it
        self._swapped: Swapped | None = None
        self._loop: int | None = None  # the thread of the episode that runs
        self._lock = threading.Lock()  # never waited for within an episode

    def begin(self) -> None:
        """Begin an episode, with the session that waits for one, if there is one.

        Raises:
            SamiError: Another one has begun, and not ended.
        """
        with self._lock:
            if self._loop is not None:
                raise SamiError("an episode of this run is under way; nothing was driven. Wait for its end.")
            session, self._waiting = self._waiting or self.session, None
            if self._swapped or session is not self.session:  # the former in the last episode, too late for its ticks
                self._swapped = swapped_to(session)
            self.session, self._loop = session, threading.get_ident()

    def end(self) -> None:
        """End the episode, however that came: what did not take over in it waits for the next one."""
        with self._lock:
            self._loop = None
            if self._successor is not None:
                self._waiting, future = self._successor
                future.set_result(swapped_to(self._waiting))
                self._successor = None

    def take(self, telemetry: Telemetry | None) -> Session | None:
        """Return a session that takes over at the next tick, in the state of the one that drove; None if there is none.

        Args:
            telemetry: Reads the contexts; it goes on by the new file's reference.
        """
        if self._successor is None or not self._lock.acquire(blocking=False):
            return None
        try:
            if self._successor is None:
                return None
            session, future = self._successor
            self._successor = self._waiting = None
            steps = self.session.tick
            try:
                session.restore(self.session.state)
            except SamiError as error:  # the session is the caller's, who may have closed or changed it
                future.set_exception(error)
                return None
            self.session = session
            if telemetry:
                telemetry.change_contract(self.session.contract)
            self._swapped = swapped_to(self.session, steps)
            future.set_result(self._swapped)
            return session
        finally:
            self._lock.release()

    def swapped(self) -> Swapped | None:
        """Return, once, which model took over since the last tick."""
        swapped, self._swapped = self._swapped, None
        return swapped

    def give(self, session: Session, driving: Session, middle: bool, timeout_s: float) -> Swapped:
        """Hand over a session that is ready; for a thread other than the loop's.

        Args:
            session: The one that is to drive.
            driving: The one that drove when it was judged.
            middle: Whether in the middle of the episode that runs, if there is one; this then returns when it drives.
                Else the next episode begins with it.
            timeout_s: How long [s] the loop may take.

        Raises:
            SamiError: It cannot take over in the middle of the episode; the loop did not take it in time; the loop's
                own thread asked for it; or another one drives by now.
        """
        with self._lock:
            if not middle or self._loop is None:
                self._waiting = session
                return swapped_to(session)
            if self._loop == threading.get_ident():
                raise SamiError(
                    "a model that takes over at once was asked for by the loop's own thread, which cannot go on "
                    'meanwhile. Call swap() from another thread, or with when="episode".'
                )
            if self.session is not driving:
                raise SamiError(f"{driving.contract.name!r}, which was to be replaced, drives no more. Try again.")
            _require_same_state(session, driving)
            future = Future[Swapped]()
            self._successor = successor = (session, future)
        try:
            wait([future], timeout_s)
        finally:
            with self._lock:
                if self._successor is successor:
                    self._successor = None
        if not future.done():
            raise SamiError(
                f"the loop did not take {session.contract.name!r} over within {timeout_s:g} s; the model that "
                'drove still drives. Try again, or with when="episode".'
            )
        return future.result()


def swapped_to(session: Session, steps: int = 0) -> Swapped:
    """Say which model a session runs, and how many steps of the episode had been made when it took over."""
    artifact = session.artifact
    return Swapped(str(artifact.path), artifact.graph_sha256, session.contract, fed=steps)


def require_swap(session: Session, driving: Session, adapter: Adapter, limits: Limits) -> None:
    """Refuse a session that cannot take over, before anything changes: it must fit adapter, limits and rate.

    Raises:
        AdapterError, SamiError, UnknownName: With every difference.
    """
    new, old = session.contract, driving.contract
    if session is driving or session.batch != 1:
        fault = "is the one that drives" if session is driving else f"has a batch of {session.batch}"
        raise SamiError(f"the session given to swap() {fault}. Load another one, with a batch of 1.")
    if new.rate_hz != old.rate_hz:
        raise SamiError(
            f"model {new.name!r} cannot take over from {old.name!r}: it acts at {new.rate_hz:g} Hz, and this run at "
            f"{old.rate_hz:g} Hz. End the run, and begin one with it."
        )
    require_compatible(new, adapter.observation, adapter.action, type(adapter).__name__)
    limits.require_fit(new)


def _require_same_state(session: Session, driving: Session) -> None:
    """Refuse a session that cannot go on in the middle of an episode, where the one that drives stopped.

    A state means something to the weights alone that made it, and the gate judges by the bounds of the contract.

    Raises:
        SamiError: With every difference.
    """
    new, old = session.contract, driving.contract
    if session.artifact.graph_sha256 != driving.artifact.graph_sha256:
        raise SamiError(
            f"model {new.name!r} has weights {session.artifact.graph_sha256[:12]}, and {old.name!r}, which drives, "
            f"{driving.artifact.graph_sha256[:12]}: in the middle of an episode a model takes over only from one of "
            'equal weights, whose state it goes on with. Swap at the next episode: when="episode".'
        )
    if faults := _differences(new, old):
        raise SamiError(
            f"model {new.name!r} cannot take over from {old.name!r} in the middle of an episode: {'; '.join(faults)}. "
            'Swap at the next episode: when="episode".'
        )


def _differences(new: Contract, old: Contract) -> list[str]:
    """Each signal that one has and the other has not, or has otherwise."""
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
