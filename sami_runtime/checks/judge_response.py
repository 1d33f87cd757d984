"""Whether a robot answers to small moves of each element of the action as the simulation did: the way, and how far."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import require_observation
from sami_runtime.adapters.probe import probe
from sami_runtime.checks.trial import Array, Trial
from sami_runtime.clock import Pace
from sami_runtime.errors import AdapterError
from sami_runtime.model.contract import Contract
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.signals import Signal

Matrix = NDArray[np.float64]

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
"""Episodes that are begun for one element, where the world ends them before it was moved."""


def responds(trial: Trial) -> str | None:
    """Refuse a robot whose observations answer otherwise than in simulation; return which elements nobody can judge."""
    contract, faults = trial.contract, []
    signs, sizes = clear_responses(contract, WEAK), clear_responses(contract, STRONG)
    for element, name in enumerate(contract.action.elements):
        if not signs[element].any():
            continue
        try:
            found = _measure(trial, element)
        except AdapterError as error:
            faults.append(f"{name}: {error}")
            continue
        faults += judge(contract, signs[element], sizes[element], element, found)
    if faults:
        raise AdapterError("; ".join(faults))
    vague = [name for name, row in zip(contract.action.elements, signs, strict=True) if not row.any()]
    return f"nothing answered clearly in simulation, so not judged: {', '.join(vague)}" if vague else None


def clear_responses(contract: Contract, share: float = WEAK) -> NDArray[np.bool_]:
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
        response, spread = responses.signals[signal.name], seen.signals[signal.name]
        mean, deviation = np.abs(response.mean), np.array(response.deviation)
        largest = mean.max(axis=1, keepdims=True)  # (A, 1)
        expected.append((mean > CLEAR * deviation) & (mean >= MAIN * largest) & (largest > 0))
        strengths.append(largest[:, 0] / max(max(spread.deviation), 1e-12))
    strong = np.stack(strengths, axis=1)  # (A, signals)
    strong = strong >= share * strong.max(axis=1, keepdims=True)
    return np.concatenate([part & strong[:, [at]] for at, part in enumerate(expected)], axis=1)


def judge(
    contract: Contract, signs: NDArray[np.bool_], sizes: NDArray[np.bool_], element: int, found: Matrix
) -> list[str]:
    """Return what is wrong with the responses to one element of the action, a phrase for each.

    Args:
        contract: With the responses in simulation.
        signs: Which are judged by their sign, (D,).
        sizes: Which are judged by their size as well, (D,).
        element: Index of the element.
        found: The robot's responses, (D,).
    """
    assert contract.seen is not None
    assert contract.seen.responses is not None
    name, unit = contract.action.elements[element], contract.action.unit
    ends = [0, *accumulate(signal.size for signal in contract.observation)]
    faults = []
    for signal, start, end in zip(contract.observation, ends, ends[1:], strict=False):
        wanted = np.array(contract.seen.responses.signals[signal.name].mean[element])
        for at in np.flatnonzero(signs[start:end]):
            ratio = found[start + at] / wanted[at]
            if 1 / FACTOR <= ratio <= FACTOR or (not sizes[start + at] and ratio > -1 / FACTOR):
                continue
            faults.append(
                f"{name} moved {signal.name}.{signal.elements[at]} by {found[start + at]:.3g} {signal.unit} for each "
                f"{unit}, in simulation by {wanted[at]:.3g}: {_probably(signal, wanted, found[start:end], int(at))}"
            )
    return faults


def _probably(signal: Signal, wanted: Matrix, found: Matrix, at: int) -> str:
    """Return what is probably wrong with a signal's responses (size,), of which one is not as expected."""
    ratio, other = found[at] / wanted[at], int(np.abs(found).argmax())
    if 1 / FACTOR <= -ratio <= FACTOR:
        return "its sign is flipped"
    if abs(ratio) < 1 / FACTOR and other != at and 1 / FACTOR <= abs(found[other] / wanted[at]) <= FACTOR:
        return f"it moved {signal.elements[other]} instead, so axes are swapped or turned"
    if abs(ratio) < 1 / FACTOR:
        return "it hardly moves; is the action's scale another one, or are drives or sensor off?"
    return "it moves too far; is the action's scale or the signal's unit another one?"


def _measure(trial: Trial, element: int) -> Matrix:
    """Return the responses (D,) to one element of the action, from the beginning of an episode."""
    assert trial.contract.seen is not None
    assert trial.contract.seen.responses is not None
    moves = trial.contract.seen.responses
    for attempt in range(TRIES):
        hand = _Hand(trial, seed=attempt)
        answer = probe(hand.act, hand.rest, element, moves.size[element], moves.ticks, moves.settle)
        if not hand.over:
            return answer
    raise AdapterError(f"{TRIES} episodes were over before it was moved")


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
        self._now = self._read()
        self.rest = trial.still()

    def act(self, action: Array) -> tuple[Array, Matrix]:
        """Write an action (A,), and return what was executed (A,) and the observation (D,) a tick later."""
        if self.over:
            return action, self._now
        sent = self._gate.write(self._gate.propose(action, self._trial.clock.now()))
        executed = action if sent is None else np.asarray(sent.action, np.float32)
        self.over = sent is not None and sent.done
        self._pace.wait()
        self._now = self._read()
        return executed, self._now

    def _read(self) -> Matrix:
        seen = require_observation(self._trial.adapter.read(), self._trial.adapter)
        self._gate.fault(seen, self._trial.clock.now())  # it learns where the robot rests
        values = [np.asarray(seen.values[signal.name], np.float64) for signal in self._trial.contract.observation]
        return np.concatenate(values)
