"""Compares a robot's responses to moves of each element of the action with those in simulation: sign, size, signal.

Each element is moved to both sides of the neutral action and back in two episodes, which differ in the first side. The
response is the difference between the sides, in which the weight of an arm cancels out. The first move is a tenth of
that in simulation, so that a robot whose scale is wrong does not go far. Moves are repeated until the verdict is
certain, and made larger if it is not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import require_observation
from sami_runtime.checks.rules import Array, Trial
from sami_runtime.clock import Pace
from sami_runtime.errors import AdapterError, SafetyStop
from sami_runtime.model.contract import Contract
from sami_runtime.model.response import LEAST_EXECUTED, TooLittleError, probe
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits, by_element

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]

CLEAR = 8.0
"""A robot must show a response if its mean in simulation is larger than this many standard deviations."""
MAIN = 0.5
"""It must also be at least this share of the signal's largest response to the same element of the action."""
STRONG = 0.5
"""Its size is judged if the signal's response, in deviations of training, is at least this share of the strongest."""
WEAK = 0.05
"""The same share for judging its sign: the speed of a hand depends on its drives, but its direction does not."""
FACTOR = 3.0
"""How many times larger or smaller than in simulation a response may be."""
TRIES = 10
"""Most attempts at one pair of moves, if the world ends their episodes too early."""
FIRST = 0.1
"""Size of the first move, as a share of that in simulation."""
LARGEST = 4.0
"""Size of the largest move, as a multiple of that in simulation."""
FEW, MANY, MOST = 2, 6, 10
"""Pairs of moves of one size: the fewest to pass, the fewest to fail, and the most at the last size."""
CERTAIN = 4.0
"""Half the width of a response's interval, in standard errors."""
PRIOR, PRIOR_PAIRS = 0.1, 3
"""Prior standard deviation of a pair, as a share of the expected response, and its weight in pairs."""
SIMILAR_COSINE = 0.8
"""Least cosine with another element's expected response from which that element is taken to have moved."""
UNITS = {
    180 / np.pi: "degrees for radians",
    1000.0: "mm for m",
    100.0: "cm for m",
    2 * np.pi: "turns for radians",
    30 / np.pi: "rpm for rad/s",
}
"""Factors that result from a mistaken unit."""
UNIT_WITHIN = 1.25
"""Largest ratio, either way, between a factor and that of a unit for the unit to be suspected."""


def plan(contract: Contract, limits: Limits) -> list[str]:
    """Return a line for each element of the action: how far `response_fault` moves it, and for how long."""
    moves = contract.training_ranges.responses if contract.training_ranges else None
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
    """Move each element of the action and judge the responses; write what could not be judged to `trial.unproven`.

    Raises:
        AdapterError: Elements respond differently than in simulation; the message names each, and what to do.
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
        remaining = ", ".join(contract.action.elements[element:])
        unproven.append(f"{remaining}: {error}")
    trial.unproven = "; ".join(unproven)
    if faults := judge.explain(answers):
        raise AdapterError("; ".join(faults))
    return None


def clear_responses(contract: Contract, share: float = WEAK) -> Mask:
    """Return the mask (A, D) of the responses that a robot must show, see `CLEAR` and `MAIN`.

    Args:
        contract: With the responses in simulation; without them, the mask is False.
        share: Least strength of a signal as a share of the strongest signal's: `WEAK` or `STRONG`.
    """
    ranges = contract.training_ranges
    if ranges is None or ranges.responses is None:
        return np.zeros((contract.action.size, sum(signal.size for signal in contract.observation)), bool)
    expected, strengths = [], []
    for signal in contract.observation:
        answer, spread = ranges.responses.signals[signal.name], ranges.signals[signal.name]
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
        """(A, D): mean responses in simulation, for one unit of the action."""
        self._columns = self.signs.any(axis=0)  # (D,): columns that must respond to some element
        self._scale = np.abs(np.where(self.signs, self.expected, 0.0)).max(axis=0)  # (D,)
        self._numbers = [(signal, name) for signal in contract.observation for name in signal.elements]

    def interval(self, element: int, samples: Matrix) -> tuple[Matrix, Matrix]:
        """Return the lower and upper ends, each (D,), of the response's interval, from its samples (n, D)."""
        count = len(samples)
        prior = PRIOR * np.where(self.signs[element], np.abs(self.expected[element]), self._scale)
        spread = PRIOR_PAIRS * prior**2 + ((samples - samples.mean(axis=0)) ** 2).sum(axis=0)
        error = CERTAIN * np.sqrt(spread / (PRIOR_PAIRS + count - 1) / count)
        return samples.mean(axis=0) - error, samples.mean(axis=0) + error

    def verdict(self, element: int, samples: Matrix) -> bool | None:
        """Return whether the samples (n, D) of a response agree with simulation; None if that is not certain yet."""
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
        """Return whether at least one column is wrong in the same way in all of these mean responses, each (D,)."""
        at = self.signs[element]
        ratios = np.stack(means)[:, at] / self.expected[element][at]
        kinds = np.stack([np.abs(ratios) < 1 / FACTOR, ratios > FACTOR, ratios < 0])  # too small, too large, flipped
        return bool(kinds.all(axis=1).any())

    def too_far(self, pair: Matrix) -> bool:
        """Return whether in some column both responses (2, D) are far larger than any expected one, with one sign."""
        least = np.abs(pair).min(axis=0) * (pair[0] * pair[1] > 0)
        return bool((least > FACTOR * self._scale)[self._columns].any())

    def low(self, element: int, samples: Matrix) -> bool:
        """Return whether all columns that the element must move certainly move too little, and none moves clearly."""
        at, ends = self.signs[element], np.abs(np.stack(self.interval(element, samples))).max(axis=0)
        far = np.abs(samples.mean(axis=0)) > self._scale / FACTOR
        little = ends[at] < np.abs(self.expected[element][at])
        return bool(little.all()) and not ((far | self._displaced(samples)) & self._columns).any()

    def explain(self, answers: dict[int, Matrix]) -> list[str]:
        """Return a line for each element that responds wrongly: what is wrong, the measured number, and what to do.

        Args:
            answers: By element, the samples (n, D).
        """
        swaps = {element: self._other(element, samples) for element, samples in answers.items()}
        return [self._explained(element, samples, swaps) for element, samples in answers.items()]

    def _displaced(self, samples: Matrix) -> Mask:
        """Return the mask (D,) of the columns that certainly moved, among those that must respond to some element."""
        far = np.abs(samples.mean(axis=0))
        return self._columns & (far > self._error(samples)) & (far > 1e-9 * np.maximum(self._scale, 1e-9))

    def _error(self, samples: Matrix) -> Matrix:
        """Return the error (D,) of the samples' mean, with a margin: few samples often deviate little by chance."""
        count = len(samples)
        return np.asarray((CERTAIN + 24 / count) * samples.std(axis=0, ddof=1) / np.sqrt(count))

    def _other(self, element: int, samples: Matrix) -> int | None:
        """Return the other element whose expected response the samples (n, D) resemble; None if there is none."""
        at = self._columns
        mean_response = samples.mean(axis=0)[at] / self._scale[at]
        length = float(np.linalg.norm(mean_response))
        if length < 1 / FACTOR:
            return None
        shapes = np.where(self.signs, self.expected, 0.0)[:, at] / self._scale[at]
        cosines = np.abs(shapes @ mean_response) / np.maximum(np.linalg.norm(shapes, axis=1), 1e-12) / length
        best = int(cosines.argmax())
        return best if best != element and cosines[best] > max(SIMILAR_COSINE, 1.5 * cosines[element]) else None

    def _explained(self, element: int, samples: Matrix, swaps: dict[int, int | None]) -> str:
        names, expected, mean_response = self._contract.action.elements, self.expected[element], samples.mean(axis=0)
        name, other = names[element], swaps[element]
        if other is not None:
            at = int(np.argmax(self.signs[other] * np.abs(self.expected[other]) / np.maximum(self._scale, 1e-12)))
            ratio = mean_response[at] / self.expected[other][at]
            turned = ", and with its sign flipped" if ratio < 0 else ""
            is_mutual = swaps.get(other) == element
            text = f"{name} and {names[other]} are swapped" if is_mutual else f"it moves {names[other]} instead"
            return f"{self._diff(element, at, mean_response)}: {text}{turned}. Correct their order in write() or read()"
        ratios = mean_response / np.where(expected == 0, np.inf, expected)
        mask = self._sizes[element] if self._sizes[element].any() else self.signs[element]
        wrong = self.signs[element] & (
            (ratios < -1 / FACTOR) | (mask & ((np.abs(ratios) < 1 / FACTOR) | (np.abs(ratios) > FACTOR)))
        )
        wrong = wrong if wrong.any() else mask
        at = int(np.argmax(wrong * np.abs(expected) / np.maximum(self._scale, 1e-12)))
        where = "in write()"
        if not wrong[mask].all():  # its other responses are right, so its drive is, too
            signal, number = self._numbers[at]
            where = f"of {signal.name}.{number} in read()"
        factor = float(np.median(ratios[wrong]))
        difference = self._diff(element, at, mean_response)
        if abs(factor) < 1 / FACTOR and not self._displaced(samples)[wrong].any():
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
    """Return the mistaken unit that would explain a factor, in brackets; an empty text if none would."""
    for ratio, text in UNITS.items():
        for exact, phrase in ((ratio, text), (1 / ratio, " for ".join(reversed(text.split(" for "))))):
            if 1 / UNIT_WITHIN <= factor / exact <= UNIT_WITHIN:
                return f" ({exact:.3g} is {phrase})"
    return ""


class _TooSmallError(AdapterError):
    """The limits, or the ends of episodes, leave too little of a move to judge by."""


class _StoppedError(AdapterError):
    """The safety gate forbids to move the robot any further."""


def _excite(trial: Trial, judge: Judge, element: int) -> tuple[bool | None, Matrix]:
    """Move an element until its verdict is certain; return it (None if it stays uncertain) and the samples (n, D)."""
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
            # Dead, or its scale is far too small: then the largest move shows which, and does not go far.
            dead = len(samples) >= FEW and not last and judge.low(element, np.stack(samples))
            if dead:
                verdict = None
                break
        mean = np.mean(samples, axis=0)
        if verdict is False and by != sizes[0] and not judge.off(element, base, mean):
            # The move of the size in simulation was right, so a mechanical stop or a limit cut the larger one short.
            verdict = None
        if verdict is not None:
            break
        base = mean if by == sizes[0] else base
    return verdict, np.stack(samples)


def _sizes(size: float, room: float) -> list[float]:
    """Return the sizes of moves: that in simulation, then doubled up to `LARGEST` times it, but at most the room."""
    most = min(LARGEST * size, room)
    sizes = [min(size, room)]
    while sizes[-1] < most:
        sizes.append(min(2 * sizes[-1], most))
    return sizes


def _room(contract: Contract, limits: Limits, rest: NDArray[np.floating] | None, element: int) -> float:
    """Return how far an element may move to either side of the neutral action; half its range if `rest` is None."""
    low, high = (float(side[element]) for side in limits.bounds(contract.action))
    return (high - low) / 2 if rest is None else min(high - float(rest[element]), float(rest[element]) - low)


def _sample(trial: Trial, element: int, size: float) -> tuple[Matrix, float]:
    """Return the response (D,) to a pair of moves, and the room for a move; zeros if the room is too small."""
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
        """Whether the world ended the episode; after that, nothing is written."""
        self._trial = trial
        period = 1.0 / trial.contract.rate_hz
        self._gate = SafetyGate(trial.adapter, trial.contract, trial.limits)
        self._gate.begin(period)
        trial.adapter.reset(seed)
        self._pace = Pace(trial.clock, period)
        self._now, values = self._read()
        self.start, self.rest = self._now, trial.still(values)

    def act(self, action: Array) -> tuple[Array, Matrix]:
        """Write an action (A,), and return the executed action (A,) and the observation (D,) a tick later.

        Raises:
            _StoppedError: The gate rejects the observation, or has stopped the robot.
        """
        if self.over:
            return action, self._now
        ruling = self._gate.propose(action, self._trial.clock.now())
        try:
            result = self._gate.write(ruling)
        except SafetyStop as error:
            raise _StoppedError(str(error)) from None
        if result is None:
            raise _StoppedError(f"the gate stopped: {self._gate.tripped}")
        self.over = result.done
        self._pace.wait()
        self._now, _ = self._read()
        return np.asarray(result.action, np.float32), self._now

    def _read(self) -> tuple[Matrix, dict[str, Matrix]]:
        frame = require_observation(self._trial.adapter.read(), self._trial.adapter)
        if objection := self._gate.fault(frame, self._trial.clock.now()):  # also shows the gate where the robot rests
            raise _StoppedError(f"not moved any further, because of {objection}. Correct that, and check again")
        signals = self._trial.contract.observation
        values = {signal.name: np.asarray(frame.values[signal.name], np.float64) for signal in signals}
        return np.concatenate(list(values.values())), values
