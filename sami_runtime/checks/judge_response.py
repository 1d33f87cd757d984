"""Whether a robot answers to moves of each element of the action as the simulation did: which way, how far, and what.

Each element is moved to both sides of rest and back, in two episodes, each side first in one of them, and the
difference between the sides is judged: the weight of an arm is in both and falls out. It begins with a tenth of the
move, so that a robot whose scale is wrong does not go far. The move is repeated until the answer is certain, and made
larger where it is not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import require_observation
from sami_runtime.checks.laws import Array, Trial
from sami_runtime.clock import Pace
from sami_runtime.errors import AdapterError, SafetyStop
from sami_runtime.model.contract import Contract
from sami_runtime.model.response import LEAST_EXECUTED, TooLittleError, probe
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits, by_element

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]

CLEAR = 8.0
"""Times its deviation that a response must have been in simulation to be expected of a robot."""
MAIN = 0.5
"""Least share of a signal's largest response to an element of the action that a response is expected from."""
STRONG = 0.5
"""Least share of the strongest signal's response, each by what training saw, from which its size is judged."""
WEAK = 0.05
"""The same, from which its sign is: how fast a hand moves depends on its drives, which way does not."""
FACTOR = 3.0
"""How many times larger or smaller than in simulation a response may be."""
TRIES = 10
"""Episodes that are begun for one move, where the world ends them before it was done."""
FIRST = 0.1
"""Share of the move in simulation that the first move is."""
LARGEST = 4.0
"""Times the move in simulation that a move is at most."""
FEW, MANY, MOST = 2, 6, 10
"""Pairs of moves after which an answer may pass, after which it may be refused, and at most, of one size."""
CERTAIN = 4.0
"""Standard errors on each side of a response, within which it is judged."""
PRIOR, PRIOR_PAIRS = 0.1, 3
"""Deviation of a pair as a share of the expected response, and how many pairs that is worth beside the measured one."""
ALIKE = 0.8
"""Least cosine between the answer and another element's, from which it is that element that moved."""
UNITS = {
    180 / np.pi: "degrees for radians",
    1000.0: "mm for m",
    100.0: "cm for m",
    2 * np.pi: "turns for radians",
    30 / np.pi: "rpm for rad/s",
}
"""Factors that a mistaken unit makes."""
UNIT_WITHIN = 1.25
"""How many times larger or smaller than a unit's factor a factor may be for the unit to be suspected."""


def plan(contract: Contract, limits: Limits) -> list[str]:
    """Return what a check of the responses moves, and how far at most: a line for each element of the action."""
    moves = contract.seen.responses if contract.seen else None
    assert moves is not None
    middle = limits.rest if isinstance(limits.rest, str) else None
    rest = None if middle else by_element(limits.rest, contract.action, 0.0)  # type: ignore[arg-type]
    lines, unit = [], "" if contract.action.unit == "1" else f" {contract.action.unit}"
    for at, name in enumerate(contract.action.elements):
        most = min(LARGEST * moves.size[at], _room(contract, limits, rest, at))
        around = middle or f"{rest[at]:g}"  # type: ignore[index]
        lines.append(
            f"{name}: to {min(moves.size[at], most):.3g}{unit}, at most {most:.3g}{unit}, to either side of {around}, "
            f"for {moves.ticks / contract.rate_hz:.2g} s each time and back; the first move is a tenth of it"
        )
    return lines


def response_fault(trial: Trial) -> str | None:
    """Move the robot, refuse one that answers otherwise than in simulation, and note what stays unproven in the trial.

    Raises:
        AdapterError: An element answers otherwise: a line for each, with what to do.
    """
    contract = trial.contract
    judge = Judge(trial)
    unproven: list[str] = []
    answers: dict[int, Matrix] = {}
    try:
        for element, name in enumerate(contract.action.elements):
            if not judge.signs[element].any():
                unproven.append(
                    f"{name}: nothing answered clearly in simulation. Measure it again, which moves each side from the "
                    "same pose, with: sami describe FILE; or compare by hand which way it moves"
                )
                continue
            try:
                verdict, answer = _excite(trial, judge, element)
            except _TooSmallError as error:
                unproven.append(f"{name}: {error}")
                continue
            if verdict is None:
                unproven.append(
                    f"{name}: {MOST} moves to either side, as far as the limits allow, did not answer clearly above "
                    "the noise. Let low and high allow more, or reduce the noise of its sensors"
                )
            elif not verdict:
                answers[element] = answer
        trial.adapter.reset(0)  # back to the start pose
    except _StoppedError as error:
        left = ", ".join(contract.action.elements[element:])
        unproven.append(f"{left}: {error}")
    trial.unproven = "; ".join(unproven)
    if faults := judge.explain(answers):
        raise AdapterError("; ".join(faults))
    return None


def clear_responses(contract: Contract, share: float = WEAK) -> Mask:
    """Return which responses (A, D) a robot is expected to show: clear in simulation, and their signal's main ones.

    Args:
        contract: With the responses; none is expected where it does not tell.
        share: Least share of the strongest signal's.
    """
    responses, seen = contract.seen.responses if contract.seen else None, contract.seen
    if responses is None or seen is None:
        return np.zeros((contract.action.size, sum(signal.size for signal in contract.observation)), bool)
    expected, strengths = [], []
    for signal in contract.observation:
        answer, spread = responses.signals[signal.name], seen.signals[signal.name]
        mean, deviation = np.abs(answer.mean), np.array(answer.deviation)
        largest = mean.max(axis=1, keepdims=True)  # (A, 1)
        expected.append((mean > CLEAR * deviation) & (mean >= MAIN * largest) & (largest > 0))
        strengths.append(largest[:, 0] / max(max(spread.deviation), 1e-12))
    strong = np.stack(strengths, axis=1)  # (A, signals)
    strong = strong >= share * strong.max(axis=1, keepdims=True)
    return np.concatenate([part & strong[:, [at]] for at, part in enumerate(expected)], axis=1)


class Judge:
    """Compares responses with those in simulation."""

    def __init__(self, trial: Trial) -> None:
        self._contract = contract = trial.contract
        responses = trial.responses.signals
        self.signs, self._sizes = clear_responses(contract, WEAK), clear_responses(contract, STRONG)
        self.expected = np.concatenate(
            [np.array(responses[signal.name].mean) for signal in contract.observation], axis=1
        )
        """(A, D)."""
        self._columns = self.signs.any(axis=0)  # (D,): what answers to anything
        self._scale = np.abs(np.where(self.signs, self.expected, 0.0)).max(axis=0)  # (D,)
        self._numbers = [(signal, name) for signal in contract.observation for name in signal.elements]

    def interval(self, element: int, samples: Matrix) -> tuple[Matrix, Matrix]:
        """Return between which (D,) and (D,) the response lies for sure, by its samples (n, D)."""
        count = len(samples)
        prior = PRIOR * np.where(self.signs[element], np.abs(self.expected[element]), self._scale)
        spread = PRIOR_PAIRS * prior**2 + ((samples - samples.mean(axis=0)) ** 2).sum(axis=0)
        error = CERTAIN * np.sqrt(spread / (PRIOR_PAIRS + count - 1) / count)
        return samples.mean(axis=0) - error, samples.mean(axis=0) + error

    def verdict(self, element: int, samples: Matrix) -> bool | None:
        """Return whether responses (n, D) are as in simulation; None where that is not certain."""
        expected = self.expected[element]
        at = self.signs[element]
        ends = np.sort(np.stack(self.interval(element, samples))[:, at] / expected[at], axis=0)
        low, high, sized = ends[0], ends[1], self._sizes[element][at]
        wrong = (high < -1 / FACTOR) | (sized & ((high < 1 / FACTOR) | (low > FACTOR)))
        right = np.where(sized, (low >= 1 / FACTOR) & (high <= FACTOR), low > -1 / FACTOR)
        if wrong.any():
            return False if len(samples) >= MANY else None
        needed = right[sized] if sized.any() else right[[int(np.argmax(low))]]
        return True if needed.all() and len(samples) >= FEW else None

    def off(self, element: int, *means: Matrix) -> bool:
        """Return whether one number at least is off in the same way in all of these mean responses (D,)."""
        at = self.signs[element]
        ratios = np.stack(means)[:, at] / self.expected[element][at]
        kinds = np.stack([np.abs(ratios) < 1 / FACTOR, ratios > FACTOR, ratios < 0])  # too small, too large, flipped
        return bool(kinds.all(axis=1).any())

    def too_far(self, pair: Matrix) -> bool:
        """Return whether two responses (2, D) both are larger than any expected one, by far and to one side."""
        least = np.abs(pair).min(axis=0) * (pair[0] * pair[1] > 0)
        return bool((least > FACTOR * self._scale)[self._columns].any())

    def low(self, element: int, samples: Matrix) -> bool:
        """Return whether what the element should move surely moves too little, and nothing else is known to move."""
        at, ends = self.signs[element], np.abs(np.stack(self.interval(element, samples))).max(axis=0)
        far = np.abs(samples.mean(axis=0)) > self._scale / FACTOR
        little = ends[at] < np.abs(self.expected[element][at])
        return bool(little.all()) and not ((far | self._moved(samples)) & self._columns).any()

    def explain(self, answers: dict[int, Matrix]) -> list[str]:
        """Return a line for each element that answers wrongly: what is wrong, by what number, and what to do.

        Args:
            answers: By element, the samples (n, D).
        """
        instead = {element: self._other(element, samples) for element, samples in answers.items()}
        return [self._explained(element, samples, instead) for element, samples in answers.items()]

    def _moved(self, samples: Matrix) -> Mask:
        """Return which numbers (D,) moved for sure, of those that answer to any element."""
        far = np.abs(samples.mean(axis=0))
        return self._columns & (far > self._error(samples)) & (far > 1e-9 * np.maximum(self._scale, 1e-9))

    def _error(self, samples: Matrix) -> Matrix:
        """Return how far (D,) a mean of samples may lie off; the deviation of few samples is often small by chance."""
        count = len(samples)
        return np.asarray((CERTAIN + 24 / count) * samples.std(axis=0, ddof=1) / np.sqrt(count))

    def _other(self, element: int, samples: Matrix) -> int | None:
        """Return the element whose response it was instead; None where it is nobody else's."""
        at = self._columns
        mean_response = samples.mean(axis=0)[at] / self._scale[at]
        length = float(np.linalg.norm(mean_response))
        if length < 1 / FACTOR:
            return None
        shapes = np.where(self.signs, self.expected, 0.0)[:, at] / self._scale[at]
        cosines = np.abs(shapes @ mean_response) / np.maximum(np.linalg.norm(shapes, axis=1), 1e-12) / length
        best = int(cosines.argmax())
        return best if best != element and cosines[best] > max(ALIKE, 1.5 * cosines[element]) else None

    def _explained(self, element: int, samples: Matrix, instead: dict[int, int | None]) -> str:
        names, expected, mean_response = self._contract.action.elements, self.expected[element], samples.mean(axis=0)
        name, other = names[element], instead[element]
        if other is not None:
            at = int(np.argmax(self.signs[other] * np.abs(self.expected[other]) / np.maximum(self._scale, 1e-12)))
            ratio = mean_response[at] / self.expected[other][at]
            turned = ", and with its sign flipped" if ratio < 0 else ""
            both = instead.get(other) == element
            text = f"{name} and {names[other]} are swapped" if both else f"it moves {names[other]} instead"
            return f"{self._diff(element, at, mean_response)}: {text}{turned}. Correct their order in write() or read()"
        ratios = mean_response / np.where(expected == 0, np.inf, expected)
        judged = self._sizes[element] if self._sizes[element].any() else self.signs[element]
        wrong = self.signs[element] & (
            (ratios < -1 / FACTOR) | (judged & ((np.abs(ratios) < 1 / FACTOR) | (np.abs(ratios) > FACTOR)))
        )
        wrong = wrong if wrong.any() else judged
        at = int(np.argmax(wrong * np.abs(expected) / np.maximum(self._scale, 1e-12)))
        where = "in write()"
        if not wrong[judged].all():  # what else it moves is right, so the drives are
            signal, number = self._numbers[at]
            where = f"of {signal.name}.{number} in read()"
        factor = float(np.median(ratios[wrong]))
        difference = self._diff(element, at, mean_response)
        if abs(factor) < 1 / FACTOR and not self._moved(samples)[wrong].any():
            largest = np.maximum(np.abs(mean_response) + self._error(samples), 1e-12)
            least = float(np.max(np.abs(expected) / largest, where=wrong, initial=FACTOR))
            unit = " (57.3 is radians where it takes degrees)" if least < 57.3 else ""
            return (
                f"{difference}: {name} is dead, or its scale is too small by a factor of {min(least, 1e6):.3g} "
                f"or more{unit}. "
                f"Look at its drive and its sensor, and at the place and unit of its number {where}"
            )
        phrases = ["its sign is flipped"] if factor < 0 else []
        size = abs(factor)
        if not 1 / FACTOR <= size <= FACTOR:
            phrases.append(f"its scale is wrong by a factor of {size:.3g}{_unit(size)}")
        divide = f"Multiply {'it' if 'read' in where else 'the action'} {where} by {1 / factor:.3g}"
        return f"{difference}: {' and '.join(phrases) or 'its size is wrong'}. {divide}"

    def _diff(self, element: int, at: int, mean_response: Matrix) -> str:
        (signal, number), action = self._numbers[at], self._contract.action
        return (
            f"{action.elements[element]} moved {signal.name}.{number} by {mean_response[at]:.3g} {signal.unit} "
            f"for each {action.unit}, in simulation by {self.expected[element][at]:.3g}"
        )


def _unit(factor: float) -> str:
    """Return which unit is suspected of a factor, as a phrase in brackets; empty if none is."""
    for known, text in UNITS.items():
        for exact, phrase in ((known, text), (1 / known, " for ".join(reversed(text.split(" for "))))):
            if 1 / UNIT_WITHIN <= factor / exact <= UNIT_WITHIN:
                return f" ({exact:.3g} is {phrase})"
    return ""


class _TooSmallError(AdapterError):
    """Limits leave too little of a move to judge by."""


class _StoppedError(AdapterError):
    """Something forbids to go on moving the robot."""


def _excite(trial: Trial, judge: Judge, element: int) -> tuple[bool | None, Matrix]:
    """Move an element until its responses (n, D) are judged, and return whether they are right and the responses."""
    size = trial.responses.size[element]
    first, room = _sample(trial, element, FIRST * size)
    if room < LEAST_EXECUTED * size:
        raise _TooSmallError(
            f"the limits allow a move of {room:.3g} to either side, and it takes {LEAST_EXECUTED * size:.3g} to judge "
            "by. Let low and high allow more, or move rest away from them"
        )
    samples = [first]
    if judge.too_far(np.stack([first, first])):
        while len(samples) < MOST:
            samples.append(_sample(trial, element, FIRST * size)[0])
            if judge.verdict(element, np.stack(samples)) is False:
                return False, np.stack(samples)
    sizes, base, dead = _sizes(size, room), first, False
    for by in sizes:
        samples, verdict, last = [], None, by == sizes[-1]
        if not last and dead:
            continue
        while verdict is None and len(samples) < (MOST if last else MANY):
            samples.append(_sample(trial, element, by)[0])
            verdict = judge.verdict(element, np.stack(samples))
            # Dead or far too small: the largest move tells, and hardly goes anywhere.
            dead = len(samples) >= FEW and not last and judge.low(element, np.stack(samples))
            if dead:
                verdict = None
                break
        mean = np.mean(samples, axis=0)
        if verdict is False and by != sizes[0] and not judge.off(element, base, mean):
            # As far as in simulation it went well, so it was a stop or a limit that ended the larger one.
            verdict = None
        if verdict is not None:
            break
        base = mean if by == sizes[0] else base
    return verdict, np.stack(samples)


def _sizes(size: float, room: float) -> list[float]:
    """Return how far to move: as in simulation, and then twice as far each time, as far as there is room."""
    most = min(LARGEST * size, room)
    sizes = [min(size, room)]
    while sizes[-1] < most:
        sizes.append(min(2 * sizes[-1], most))
    return sizes


def _room(contract: Contract, limits: Limits, rest: NDArray[np.floating] | None, element: int) -> float:
    """Return how far an element may be moved to either side of rest; of half its range where rest is not known yet."""
    low, high = (float(side[element]) for side in limits.bounds(contract.action))
    return (high - low) / 2 if rest is None else min(high - float(rest[element]), float(rest[element]) - low)


def _sample(trial: Trial, element: int, size: float) -> tuple[Matrix, float]:
    """Return the response (D,) to a move to either side, and how much room there is for one; 0 where that is little."""
    moves = trial.responses
    for _ in range(TRIES):
        trial.pairs += 1
        answers: list[Matrix] = []
        for by in (size, -size):  # each side first once, and both times from the same pose
            hand = _Hand(trial, seed=trial.pairs)
            room = _room(trial.contract, trial.limits, hand.rest, element)
            if room < LEAST_EXECUTED * size:
                return np.zeros(len(hand.start)), room
            by = float(np.clip(by, -room, room))
            try:
                answers.append(probe(hand.act, hand.rest, element, by, moves.ticks, moves.settle))
            except TooLittleError as error:
                if not hand.over:
                    raise _TooSmallError(str(error)) from None
            if hand.over:
                break
        else:
            return (answers[0] + answers[1]) / 2, room
    raise _TooSmallError(f"{TRIES} episodes were over before it was moved")


class _Hand:
    """Moves a robot through a safety gate, tick by tick, from the beginning of an episode."""

    def __init__(self, trial: Trial, seed: int) -> None:
        self.over = False
        """Whether the world ended the episode; nothing is written any more."""
        self._trial = trial
        period = 1.0 / trial.contract.rate_hz
        self._gate = SafetyGate(trial.adapter, trial.contract, trial.limits)
        self._gate.begin(period)
        trial.adapter.reset(seed)
        self._pace = Pace(trial.clock, period)
        self._now, values = self._read()
        self.start, self.rest = self._now, trial.still(values)

    def act(self, action: Array) -> tuple[Array, Matrix]:
        """Write an action (A,), and return what was executed (A,) and the observation (D,) a tick later.

        Raises:
            _StoppedError: The gate objects to what was read, or stops.
        """
        if self.over:
            return action, self._now
        ruling = self._gate.propose(action, self._trial.clock.now())
        try:
            sent = self._gate.write(ruling)
        except SafetyStop as error:
            raise _StoppedError(str(error)) from None
        if sent is None:
            raise _StoppedError(f"the gate stopped: {self._gate.tripped}")
        self.over = sent.done
        self._pace.wait()
        self._now, _ = self._read()
        return np.asarray(sent.action, np.float32), self._now

    def _read(self) -> tuple[Matrix, dict[str, Matrix]]:
        seen = require_observation(self._trial.adapter.read(), self._trial.adapter)
        if objection := self._gate.fault(seen, self._trial.clock.now()):  # it also learns where the robot rests
            raise _StoppedError(f"not moved any further, because of {objection}. Correct that, and check again")
        values = {
            signal.name: np.asarray(seen.values[signal.name], np.float64) for signal in self._trial.contract.observation
        }
        return np.concatenate(list(values.values())), values
