"""Another model for a loop that runs: prepared by another thread, and taken by the loop between two ticks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from sami_runtime.adapters.base import Adapter, require_compatible
from sami_runtime.errors import SamiError
from sami_runtime.loop.tick import Swapped
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import Limits
from sami_runtime.session.history import Array, History
from sami_runtime.session.session import Session
from sami_runtime.session.telemetry import Telemetry
from sami_runtime.signals import Signal

KEEP_STEPS = 10_000
"""Steps of an episode that are kept, from which the state of another model is rebuilt."""
FEED_AT_ONCE = 4
"""Steps that are fed without a pause: the loop's thread waits for no more than these."""
PAUSE_S = 0.0005
"""Between two portions of steps [s], so that the loop's thread has the interpreter whenever it is due."""


class Handover:
    """The session that drives a loop, and the one that is to come.

    The loop calls `begin`, `take` and `end`, and waits for nobody in between; another thread calls `give`.

    Args:
        session: Drives first.
        keep: How many steps of an episode are kept.
    """

    def __init__(self, session: Session, keep: int = KEEP_STEPS) -> None:
        self.session = session
        """The one that drives."""
        self.keep = keep
        self.history = History(session.contract, keep)
        """What it was fed in this episode."""
        self._waiting: Session | None = None
        self._successor: _Successor | None = None
        self._swapped: Swapped | None = None
        self._loop: int | None = None  # the thread of the episode that runs
        self._lock = threading.Lock()  # never waited for within an episode

    def change(self) -> bool:
        """Let the session that waits for an episode drive, between two of them; say whether there was one."""
        with self._lock:
            if self._waiting is None:
                return False
            self.session, self._waiting = self._waiting, None
            self.history = History(self.session.contract, self.keep)
            self._swapped = swapped_to(self.session)
            return True

    def begin(self) -> None:
        """Begin an episode: nothing has been fed in it."""
        with self._lock:
            self.history.begin()
            if self._swapped:  # in the last episode, too late for any of its ticks
                self._swapped = swapped_to(self.session)
            self._loop = threading.get_ident()

    def end(self) -> None:
        """End the episode, however that came: what did not take over in it waits for the next one."""
        with self._lock:
            self._loop = None
            if self._successor is not None:
                self._waiting = self._successor.session
                self._successor.finish(swapped_to(self._successor.session))
                self._successor = None

    def take(self, telemetry: Telemetry | None) -> Session | None:
        """Return a session that takes over at the next tick, up to date; None if there is none, or not yet.

        Args:
            telemetry: Reads the contexts; it becomes what it were if it had read those of the new model alone.
        """
        if self._successor is None or not self._lock.acquire(blocking=False):
            return None
        try:
            successor = self._successor
            if successor is None or self.history.count - successor.fed > FEED_AT_ONCE:
                return None
            try:
                successor.feed(self.history)
            except SamiError as error:
                self._successor = None
                successor.finish(error)
                return None
            if successor.fed < self.history.count:
                return None
            if self.history.count:
                _stand(successor.session, self.history.held)
                successor.session.executed(self.history.executed)
            self._successor = self._waiting = None
            if telemetry:
                telemetry.take(successor.telemetry)
            self.session = successor.session
            self._swapped = swapped_to(self.session, successor.fed_from, successor.fed)
            successor.finish(self._swapped)
            return self.session
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
            middle: Whether in the middle of the episode that runs, if there is one: then its state is rebuilt from
                the episode's steps, and this returns when it drives. Else the next episode begins with it.
            timeout_s: How long [s] the loop may take.

        Raises:
            SamiError: It cannot be fed what was observed; the loop did not take it in time; the loop's own thread
                asked for it; or another one drives by now.
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
            self._successor = successor = _Successor(session, self.history)
        deadline = time.monotonic() + timeout_s
        try:
            while not successor.finished.wait(PAUSE_S):
                with self._lock:
                    if self._successor is successor:
                        successor.feed(self.history)
                if time.monotonic() > deadline:
                    raise SamiError(
                        f"the loop did not take {session.contract.name!r} over within {timeout_s:g} s; the model that "
                        'drove still drives. Try again, or with when="episode".'
                    )
        finally:
            with self._lock:
                if self._successor is successor:
                    self._successor = None
        return successor.result()


class _Successor:
    """A session that is being brought to where it were if it had driven the episode from its beginning.

    It is touched only by who holds the handover's lock.
    """

    def __init__(self, session: Session, history: History) -> None:
        self.session, self.finished = session, threading.Event()
        self._outcome: Swapped | SamiError | None = None
        self._begin(history)

    def _begin(self, history: History) -> None:
        """Begin with the oldest step that is kept; where some are lost, later, so that it is not lost meanwhile."""
        lost = history.count - history.keep + 1
        self.fed = self.fed_from = 0 if lost <= 0 else lost + history.keep // 4
        self.session.reset()
        self.telemetry = Telemetry(self.session.contract)

    def feed(self, history: History) -> None:
        """Make some of the steps that are missing.

        Raises:
            SamiError: A step fails.
        """
        for _ in range(min(FEED_AT_ONCE, history.count - self.fed)):
            step = history.step(self.fed)
            if step is None:  # it was lost while those before it were fed
                self._begin(history)
                return
            try:
                if self.fed > self.fed_from:
                    _stand(self.session, step.held)
                    self.session.executed(step.previous)
                answer = self.session.step(step.observation, step.age)
                self.telemetry.update(answer.context, answer.extra)
            except SamiError as error:
                raise SamiError(
                    f"model {self.session.contract.name!r} cannot take over in the middle of the episode: fed with its "
                    f'step {self.fed}, {error} Let it begin with an episode: when="episode".'
                ) from error
            self.fed += 1

    def finish(self, outcome: Swapped | SamiError) -> None:
        """Tell who waits what came of it."""
        self._outcome = outcome
        self.finished.set()

    def result(self) -> Swapped:
        """Return what came of it, or raise it."""
        if isinstance(self._outcome, Swapped):
            return self._outcome
        assert self._outcome is not None
        raise self._outcome


def _stand(session: Session, held: Iterable[Array]) -> None:
    """Let a period pass for each of these actions, which were executed in them, one after the other."""
    for action in held:
        session.executed(action)
        session.elapse()


def swapped_to(session: Session, fed_from: int = 0, fed: int = 0) -> Swapped:
    """Say which model a session runs, and from which to which of the episode's steps it was fed."""
    artifact = session.artifact
    return Swapped(str(artifact.path), artifact.graph_sha256, session.contract, fed_from, fed)


def require_swap(session: Session, driving: Session, adapter: Adapter, limits: Limits, middle: bool) -> None:
    """Refuse a session that cannot take over, before anything changes.

    In the middle of an episode, what it reads, writes and answers must be what the one that drives does: the gate
    judges by these signals and bounds, and the episode's steps and the recording hold them. Weights, architecture and
    recurrent state may be others, because the state is rebuilt from the steps. At an episode's beginning it is enough
    that it fits adapter, limits and rate.

    Args:
        session: The new one.
        driving: The one that drives.
        adapter: What is driven.
        limits: Those of the gate.
        middle: Whether it is to take over in the middle of an episode.

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
    if middle and (faults := _differences(new, old)):
        raise SamiError(
            f"model {new.name!r} cannot take over from {old.name!r} in the middle of an episode: {'; '.join(faults)}. "
            'Let it begin with an episode: when="episode".'
        )


def _differences(new: Contract, old: Contract) -> list[str]:
    """Each signal that one has and the other has not, or has otherwise; and the context's size."""
    faults = []
    for kind, ours, theirs in (
        ("observation", new.observation, old.observation),
        ("action", (new.action,), (old.action,)),
        ("output", new.extra_outputs, old.extra_outputs),
    ):
        mine, its = ({signal.name: _facts(signal) for signal in signals} for signals in (ours, theirs))
        faults += [f"{kind} {name!r} is only in the new model" for name in mine if name not in its]
        faults += [f"{kind} {name!r} is missing in the new model" for name in its if name not in mine]
        for name in mine.keys() & its.keys():
            faults += [
                f"{kind} {name!r} has {field} {value}, the other's has {its[name][field]}"
                for field, value in mine[name].items()
                if value != its[name][field]
            ]
    further, ahead = (0 if each.lookahead is None else each.lookahead.steps for each in (new, old))
    if further > ahead:  # what was executed in held periods is kept for as long as the other one looks back
        faults.append(f"it looks {further} periods ahead, the other {ahead}")
    if new.context_size != old.context_size:
        faults.append(f"the context has {new.context_size} numbers, the other's has {old.context_size}")
    return faults


def _facts(signal: Signal) -> dict[str, object]:
    return {field: getattr(signal, field) for field in ("size", "unit", "elements", "low", "high")}
