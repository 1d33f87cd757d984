"""A session that follows what another one did: a shadow while it happens, or a replay of its recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import SamiError
from sami_runtime.loop.tick import StepRecord
from sami_runtime.model.contract import ACTION, Contract
from sami_runtime.recording.format import describe
from sami_runtime.recording.reader import Recording, values_of
from sami_runtime.session.session import Session, Step
from sami_runtime.signals import Signal

Array = NDArray[np.float32]
EMPTY: Array = np.zeros(0, np.float32)
"""Answer of a policy that lacks an output."""


class Difference(NamedTuple):
    """Where the follower would have answered otherwise."""

    episode: int
    step: int
    """Index of the tick in the episode."""
    name: str
    """What differs: `"action dx"`, `"context 3"`, `"state"`."""
    actual: str
    """What the follower has there."""
    expected: str
    """What the one that it follows had there."""
    size: float | None
    """|actual - expected|; None where that has no meaning."""

    def within(self, size: float | None) -> bool:
        """Return whether it is no larger than a size; one without a size is larger than any."""
        return size is None or (self.size is not None and self.size <= size)

    def plain(self) -> dict[str, Any]:
        """Return the difference for JSON, where `found` is the follower's value."""
        return {"found" if key == "actual" else key: value for key, value in self._asdict().items()}

    def __str__(self) -> str:
        return f"episode {self.episode}, step {self.step}: {self.name} is {self.actual}, was {self.expected}"


@dataclass
class ReplayComparison:
    """What came of following."""

    steps: int = 0
    """Steps of the policy that were compared."""
    differing: int = 0
    """Ticks at which anything differs by more than was allowed."""
    failed: int = 0
    """Steps at which the follower could not answer."""
    first: Difference | None = None
    largest: dict[str, Difference] = field(default_factory=dict)
    """The largest difference of each element."""
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def same(self) -> bool:
        """Whether every step was answered and none differs."""
        return not self.differing and not self.failed

    def count(self, new_differences: list[Difference], stepped: bool = True) -> None:
        """Count a tick, with what differs at it, and whether the policy made a step."""
        self.steps += stepped
        self.differing += bool(new_differences)
        for difference in new_differences:
            self.first = self.first or difference
            worst = self.largest.get(difference.name)
            if worst is None or not difference.within(worst.size):
                self.largest[difference.name] = difference

    def fail(self, error: SamiError) -> None:
        """Count a step at which the follower could not answer."""
        self.failed += 1
        self.failures[str(error)] += 1

    def summary(self) -> dict[str, Any]:
        """Return the same for JSON."""
        return {
            "steps": self.steps,
            "differing": self.differing,
            "failed": self.failed,
            "first": self.first and self.first.plain(),
            "largest": {name: difference.plain() for name, difference in self.largest.items()},
            "failures": dict(self.failures),
        }

    def __str__(self) -> str:
        if not (self.steps or self.differing or self.failed):
            return "there is no step to compare"
        if self.same:
            return f"{self.steps} steps compared, none differs"
        lines = [f"{self.steps} steps compared, {self.differing} ticks differ"]
        if self.first:
            lines.append(f"first at {self.first}")
        lines += [
            f"largest {difference.size:.3g} at {difference}"
            for difference in self.largest.values()
            if difference.size is not None
        ]
        lines += [f"{count} times no answer: {message}" for message, count in self.failures.most_common(3)]
        return "\n".join(lines)


def differences(
    episode: int, step: int, name: str, elements: tuple[str, ...], actual: Array, expected: Array | None
) -> Iterator[Difference]:
    """Return each element that has other bits."""
    if expected is None or actual.shape != expected.shape:
        shape = None if expected is None else expected.shape
        yield Difference(episode, step, name, f"of shape {actual.shape}", f"of shape {shape}", None)
        return
    for at in np.flatnonzero(actual.view(np.uint32) != expected.view(np.uint32)):
        size = abs(float(actual[at]) - float(expected[at]))
        yield Difference(episode, step, f"{name} {elements[at]}", f"{actual[at]:.9g}", f"{expected[at]:.9g}", size)


class Shadow:
    """A second model on the same stream, fed with what was executed; it is a loop's `on_step`, and writes nothing.

    Its state is at every tick what it would be if it had read all this and the executed actions had been its own. An
    error of the shadow is counted and disturbs nobody.

    Args:
        session: The second model, with a batch of 1.
        contract: Of the model that drives.
        tolerance: Largest difference between the two actions that counts as acting alike, in the action's unit.

    Raises:
        SamiError: The second model reads, writes or paces otherwise.
    """

    def __init__(self, session: Session, contract: Contract, tolerance: float = 0.0) -> None:
        require_alike(session, contract)
        self.comparison = ReplayComparison()
        """Of all episodes."""
        self.episode = ReplayComparison()
        """Of the last episode alone."""
        self._session, self._tolerance = session, tolerance
        self._episode = -1

    def require_fit(self, contract: Contract) -> None:
        """Refuse a model that takes over and that this one cannot follow.

        Raises:
            SamiError: With every difference.
        """
        require_alike(self._session, contract)

    def __call__(self, record: StepRecord) -> None:
        """Follows one tick."""
        if record.step == 0:
            self._episode, self.episode = self._episode + 1, ReplayComparison()
        both = (self.comparison, self.episode)
        try:
            answer = follow(self._session, record)
        except SamiError as error:
            for comparison in both:
                comparison.fail(error)
            return
        if answer is not None and record.action is not None:
            elements = self._session.contract.action.elements
            action_differences = list(
                differences(self._episode, record.step, ACTION, elements, answer.action, record.action)
            )
            beyond = [difference for difference in action_differences if not difference.within(self._tolerance)]
            for comparison in both:
                comparison.count(beyond)


def replay(recording: Recording, session: Session, *swapped: Session) -> ReplayComparison:
    """Step a model over a recording, every tick of every episode, and compares to the last bit.

    All that the policy answers is compared at each of its steps, and the digest of the state at every tick, where the
    weights are those of the recording.

    Args:
        recording: What was recorded.
        session: Of the model.
        swapped: Of those that took over from it, one for each swap of the recording. They follow before, too, so that
            their state is what it was. Without any, the first model is compared throughout.

    Raises:
        SamiError: A model reads, writes or paces otherwise than the recorded one, or they are too few or too many.
    """
    drivers = _drivers(recording, (session, *swapped))
    comparison = ReplayComparison()
    at, steps = 0, 0
    for episode, record in recording.steps:
        steps = 0 if record.step == 0 else steps
        at += bool(swapped and record.swapped)
        session, contract, weights = drivers[at].session, drivers[at].contract, drivers[at].weights_sha256
        same_weights = weights == session.artifact.graph_sha256
        both, skipped = contract.answers | session.contract.answers, _only_one(contract, session)
        answers = {name: signal for name, signal in both.items() if name not in skipped}
        for later in drivers[at + 1 :]:
            if (episode, steps) == (later.episode, later.fed_from):
                later.session.reset()
            if episode == later.episode and steps >= later.fed_from:
                follow(later.session, record)
        steps += record.stepped
        step_differences: list[Difference] = []
        try:
            with values_of(recording.path):
                answer = follow(session, record)
                if answer is not None:
                    for name, signal in answers.items():
                        now, then = answer.answers.get(name, EMPTY), record.answers.get(name)
                        step_differences += differences(episode, record.step, name, signal.elements, now, then)
        except SamiError as error:
            comparison.fail(error)
            continue
        if same_weights and (state := session.digest) != record.state:
            step_differences.append(Difference(episode, record.step, "state", state, record.state, None))
        comparison.count(step_differences, stepped=answer is not None)
    return comparison


class _Driver(NamedTuple):
    """A model that drove a recording."""

    session: Session
    contract: Contract
    weights_sha256: str
    episode: int
    """In which it took over."""
    fed_from: int
    """From which step of the policy in that episode on it was fed."""


def _drivers(recording: Recording, sessions: tuple[Session, ...]) -> list[_Driver]:
    """Return who drove, in order.

    Raises:
        SamiError: The sessions are not theirs.
    """
    swaps = [(episode, record.swapped) for episode, record in recording.steps if record.swapped]
    if len(sessions) not in (1, 1 + len(swaps)):
        raise SamiError(
            f"{len(sessions)} models were given to replay {recording.path}, in which {1 + len(swaps)} drove. Give all "
            "of them in their order, or one to compare throughout."
        )
    drivers = [_Driver(sessions[0], recording.contract, recording.about["model"]["weights_sha256"], 0, 0)]
    for session, (episode, swapped) in zip(sessions[1:], swaps, strict=False):
        drivers.append(_Driver(session, swapped.contract, swapped.weights_sha256, episode, swapped.fed_from))
    for session, contract, *_ in drivers:
        require_alike(session, contract)
    return drivers


def follow(session: Session, record: StepRecord) -> Step | None:
    """Brings a session to where one is that did what was recorded; its answer, where that one stepped.

    Raises:
        SamiError: It cannot step.
    """
    if record.step == 0:
        session.reset()
    answer = None
    try:
        if record.stepped and record.observation is not None:
            session.elapse(record.passed - 1)
            seen = record.observation.pick(signal.name for signal in session.contract.signal_inputs.values())
            answer = session.step(seen, record.age)
    finally:
        if answer is None:
            session.elapse(1 if record.stepped else record.passed)
        if record.executed is not None:
            session.executed(record.executed)
    return answer


def require_alike(session: Session, contract: Contract) -> None:
    """Refuses a model that cannot follow another one.

    Raises:
        SamiError: With every difference.
    """
    follower = session.contract
    read = {signal.name: signal for signal in contract.observation}
    faults = [
        f"reads {signal.name!r}, which the other does not" for signal in follower.observation if signal.name not in read
    ]
    pairs = [(signal, read[signal.name]) for signal in follower.observation if signal.name in read]
    for signal, recorded in [*pairs, (follower.action, contract.action)]:
        if _shape(signal) != _shape(recorded):
            faults.append(f"has {_shape(signal)} where the other has {_shape(recorded)}")
    if follower.rate_hz != contract.rate_hz:
        faults.append(f"acts at {follower.rate_hz:g} Hz, the other at {contract.rate_hz:g} Hz")
    if session.batch != 1:
        faults.append(f"has a batch of {session.batch}, where 1 is followed")
    if faults:
        raise SamiError(
            f"model {follower.name!r} cannot follow {contract.name!r}: it {'; it '.join(faults)}. Give a model for the "
            "same robot."
        )


def _only_one(contract: Contract, session: Session) -> list[str]:
    """Return the further outputs, such as a probe's readouts, that only one of the two has: nothing to compare."""
    names = [{signal.name for signal in side.extra_outputs} for side in (contract, session.contract)]
    return sorted(names[0] ^ names[1])


def conditions(recording: Recording, session: Session, *swapped: Session) -> list[str]:
    """Return what is not as it was when the recording was made, and may be why bits differ; for `replay`'s sessions."""
    about, now = recording.about, describe(session)
    notes = [] if recording.closed else ["the recording was cut off; its whole ticks are replayed"]
    for replaying, driver in zip((session, *swapped), _drivers(recording, (session, *swapped)), strict=True):
        old, new = driver.weights_sha256[:12], replaying.artifact.graph_sha256[:12]
        if old != new:
            notes.append(f"the recording was made with weights {old}, this model has {new}")
        if names := _only_one(driver.contract, replaying):
            notes.append(f"not compared, because the recording or the model lacks it: {', '.join(names)}")
    if not swapped and len(recording.models) > 1:
        notes.append(f"{len(recording.models)} models drove in the recording; this one is compared throughout")
    for name in ("versions", "providers", "machine"):
        if about[name] != now[name]:
            notes.append(f"{name} then: {about[name]}; now: {now[name]}")
    return notes


def _shape(signal: Signal) -> tuple[str, int, str, tuple[str, ...]]:
    return signal.name, signal.size, signal.unit, signal.elements
