"""Steps a model on the observations of another run: live as a shadow, or as a replay of a recording."""

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
"""Output of a policy that lacks an output."""


class Difference(NamedTuple):
    """One difference between the following model and the model that drove."""

    episode: int
    step: int
    """Index of the tick in the episode."""
    name: str
    """Name of the element: `"action dx"`, `"context 3"`, `"state"`."""
    actual: str
    """Value of the following model."""
    expected: str
    """Value of the model that drove."""
    size: float | None
    """|actual - expected|; None if the values are not two numbers."""

    def within(self, size: float | None) -> bool:
        """Return whether the difference is at most `size`; a difference without a size is larger than any number."""
        return size is None or (self.size is not None and self.size <= size)

    def plain(self) -> dict[str, Any]:
        """Return the difference for JSON, where `found` is the follower's value."""
        return {"found" if key == "actual" else key: value for key, value in self._asdict().items()}

    def __str__(self) -> str:
        return f"episode {self.episode}, step {self.step}: {self.name} is {self.actual}, was {self.expected}"


@dataclass
class ReplayComparison:
    """Counts and differences of a shadow or replay."""

    steps: int = 0
    """Steps of the policy that were compared."""
    differing: int = 0
    """Ticks at which any value differs by more than the tolerance."""
    failed: int = 0
    """Steps at which the following model raised an error."""
    first: Difference | None = None
    largest: dict[str, Difference] = field(default_factory=dict)
    """The largest difference of each element."""
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def same(self) -> bool:
        """Whether the following model made every step and no value differs."""
        return not self.differing and not self.failed

    def count(self, new_differences: list[Difference], stepped: bool = True) -> None:
        """Count a tick with its differences, and as a step if the policy made one."""
        self.steps += stepped
        self.differing += bool(new_differences)
        for difference in new_differences:
            self.first = self.first or difference
            worst = self.largest.get(difference.name)
            if worst is None or not difference.within(worst.size):
                self.largest[difference.name] = difference

    def fail(self, error: SamiError) -> None:
        """Count a step at which the following model raised an error."""
        self.failed += 1
        self.failures[str(error)] += 1

    def summary(self) -> dict[str, Any]:
        """Return the fields as values that JSON can represent."""
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
    """Yield a difference for each element (K,) that is not bit-equal, or one if the shapes differ."""
    if expected is None or actual.shape != expected.shape:
        shape = None if expected is None else expected.shape
        yield Difference(episode, step, name, f"of shape {actual.shape}", f"of shape {shape}", None)
        return
    for at in np.flatnonzero(actual.view(np.uint32) != expected.view(np.uint32)):
        size = abs(float(actual[at]) - float(expected[at]))
        yield Difference(episode, step, f"{name} {elements[at]}", f"{actual[at]:.9g}", f"{expected[at]:.9g}", size)


class Shadow:
    """Steps a second model on the same observations and executed actions; it is a loop's `on_step`, and never writes.

    Its state at every tick is that of a model that observed the same and executed these actions itself. Errors of the
    shadow are counted and do not disturb the loop.

    Args:
        session: The second model, with a batch of 1.
        contract: Of the model that drives.
        tolerance: Largest difference between the two actions that counts as equal, in the action's unit.

    Raises:
        SamiError: The second model has other signals or another rate.
    """

    def __init__(self, session: Session, contract: Contract, tolerance: float = 0.0) -> None:
        require_same_interface(session, contract)
        self.comparison = ReplayComparison()
        """Comparison over all episodes."""
        self.episode = ReplayComparison()
        """Comparison over the last episode alone."""
        self._session, self._tolerance = session, tolerance
        self._episode = -1

    def require_fit(self, contract: Contract) -> None:
        """Check that the shadow can follow a driving model of this contract.

        Raises:
            SamiError: It cannot; the message names every difference.
        """
        require_same_interface(self._session, contract)

    def __call__(self, record: StepRecord) -> None:
        """Step the shadow at one tick, and compare its action with that of the driving model."""
        if record.step == 0:
            self._episode, self.episode = self._episode + 1, ReplayComparison()
        comparisons = (self.comparison, self.episode)
        try:
            answer = follow(self._session, record)
        except SamiError as error:
            for comparison in comparisons:
                comparison.fail(error)
            return
        if answer is not None and record.action is not None:
            elements = self._session.contract.action.elements
            action_differences = list(
                differences(self._episode, record.step, ACTION, elements, answer.action, record.action)
            )
            beyond = [difference for difference in action_differences if not difference.within(self._tolerance)]
            for comparison in comparisons:
                comparison.count(beyond)


def replay(recording: Recording, session: Session, *swapped: Session) -> ReplayComparison:
    """Step a model through every tick of a recording, and compare its outputs bit by bit with the recorded ones.

    All outputs are compared at each step of the policy. If the weights are those of the recording, the digest of the
    state is compared at every tick, too.

    Args:
        recording: The recording to replay.
        session: Of the first model.
        swapped: Sessions of the models that took over, one for each swap of the recording. They are also stepped before
            their swap, so that their state is right. Without any, the first model is compared throughout.

    Raises:
        SamiError: A model has other signals or another rate than the recorded one, or the number of models is wrong.
    """
    drivers = _drivers(recording, (session, *swapped))
    comparison = ReplayComparison()
    at, steps = 0, 0
    for episode, record in recording.steps:
        steps = 0 if record.step == 0 else steps
        at += bool(swapped and record.swapped)
        session, contract, weights = drivers[at].session, drivers[at].contract, drivers[at].weights_sha256
        same_weights = weights == session.artifact.graph_sha256
        outputs, skipped = contract.answers | session.contract.answers, _unshared_outputs(contract, session)
        answers = {name: signal for name, signal in outputs.items() if name not in skipped}
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
    """Number of the episode in which it took over."""
    fed_from: int
    """Step of that episode from which on the model's state was rebuilt; see `Swapped.fed_from`."""


def _drivers(recording: Recording, sessions: tuple[Session, ...]) -> list[_Driver]:
    """Return the models that drove, in order; only the first one if there is one session."""
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
        require_same_interface(session, contract)
    return drivers


def follow(session: Session, record: StepRecord) -> Step | None:
    """Repeat a recorded tick in a session; return its output, or None if the policy did not step at this tick.

    Raises:
        SamiError: The session cannot step.
    """
    if record.step == 0:
        session.reset()
    answer = None
    try:
        if record.stepped and record.observation is not None:
            session.elapse(record.passed - 1)
            observation = record.observation.pick(signal.name for signal in session.contract.signal_inputs.values())
            answer = session.step(observation, record.age)
    finally:
        if answer is None:
            session.elapse(1 if record.stepped else record.passed)
        if record.executed is not None:
            session.executed(record.executed)
    return answer


def require_same_interface(session: Session, contract: Contract) -> None:
    """Check that a session can follow a driving model of this contract.

    Raises:
        SamiError: It cannot; the message names every difference.
    """
    follower = session.contract
    base = {signal.name: signal for signal in contract.observation}
    faults = [
        f"reads {signal.name!r}, which the other does not" for signal in follower.observation if signal.name not in base
    ]
    pairs = [(signal, base[signal.name]) for signal in follower.observation if signal.name in base]
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


def _unshared_outputs(contract: Contract, session: Session) -> list[str]:
    """Return the names of extra outputs, such as a probe's, that only one of the two has: they are not compared."""
    names = [{signal.name for signal in side.extra_outputs} for side in (contract, session.contract)]
    return sorted(names[0] ^ names[1])


def conditions(recording: Recording, session: Session, *swapped: Session) -> list[str]:
    """Return what changed since the recording and may explain why bits differ; arguments as in `replay`."""
    about, now = recording.about, describe(session)
    notes = [] if recording.closed else ["the recording was cut off; its whole ticks are replayed"]
    for replaying, driver in zip((session, *swapped), _drivers(recording, (session, *swapped)), strict=True):
        old, new = driver.weights_sha256[:12], replaying.artifact.graph_sha256[:12]
        if old != new:
            notes.append(f"the recording was made with weights {old}, this model has {new}")
        if names := _unshared_outputs(driver.contract, replaying):
            notes.append(f"not compared, because the recording or the model lacks it: {', '.join(names)}")
    if not swapped and len(recording.models) > 1:
        notes.append(f"{len(recording.models)} models drove in the recording; this one is compared throughout")
    for name in ("versions", "providers", "machine"):
        if about[name] != now[name]:
            notes.append(f"{name} then: {about[name]}; now: {now[name]}")
    return notes


def _shape(signal: Signal) -> tuple[str, int, str, tuple[str, ...]]:
    return signal.name, signal.size, signal.unit, signal.elements
