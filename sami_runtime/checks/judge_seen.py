"""Whether a robot's numbers are such as training saw: found where they are not, and what is probably wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.checks.trial import Trial
from sami_runtime.errors import AdapterError
from sami_runtime.model.contract import Contract
from sami_runtime.model.seen import ALLOWED, FACTORS, LEAST
from sami_runtime.signals import Signal

When = Literal["signals", "begin"]
"""Over all steps, or over the first steps of the episodes."""
HOME = 1.0
"""Deviations beyond where training's episodes began from which an episode's beginning is worth a note."""
SHOWN = 3
"""Most elements that a fault names."""


class Stray(NamedTuple):
    """A number that training never saw, nor anything near it."""

    signal: Signal
    element: int
    step: int
    value: float
    deviations: float
    """How far beyond what training saw, in deviations."""


def strays(contract: Contract, values: Mapping[str, NDArray[np.floating]]) -> list[Stray]:
    """Return the number of each element that is farthest beyond what training saw, where that is too far; worst first.

    Args:
        contract: With what training saw; nothing is judged where it does not tell.
        values: By signal, (T, size).
    """
    outliers = []
    for signal in contract.observation if contract.seen else ():
        far = _deviations(contract, signal, "signals", np.asarray(values[signal.name], np.float64))
        for element, step in enumerate(far.argmax(axis=0)):
            if far[step, element] > ALLOWED:
                value = float(values[signal.name][step][element])
                outliers.append(Stray(signal, element, int(step), value, float(far[step, element])))
    return sorted(outliers, key=lambda stray: -stray.deviations)


def accustomed(trial: Trial) -> str | None:
    """Refuse observations that are not such as training saw; return where the episode began elsewhere than there."""
    values = {
        signal.name: np.stack([np.asarray(observation.values[signal.name], np.float64) for observation in trial.seen])
        for signal in trial.contract.observation
    }
    outliers = strays(trial.contract, values)
    if not outliers:
        return _away_from_home(trial.contract, {name: value[0] for name, value in values.items()})
    shown = [_sentence(stray, trial.contract) for stray in outliers[:SHOWN]]
    if len(outliers) > SHOWN:
        shown.append(f"and {len(outliers) - SHOWN} other elements")
    begin = trial.contract.seen.begin if trial.contract.seen else {}
    # What hardly differs from episode to episode tells best what became of it.
    surest = min(outliers, key=lambda stray: begin[stray.signal.name].deviation[stray.element])
    why = _probably(trial.contract, surest, values[surest.signal.name][surest.step])
    raise AdapterError(f"{'; '.join(shown)}. {why}")


def _deviations(contract: Contract, signal: Signal, when: When, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how many deviations values (T, size) lie beyond all that training saw, ever or at first; 0 within."""
    assert contract.seen is not None
    limits = getattr(contract.seen, when)[signal.name]
    beyond = np.maximum(np.array(limits.lowest) - values, values - np.array(limits.highest)).clip(0.0)
    deviation = np.array(contract.seen.signals[signal.name].deviation)
    deviation = np.maximum(deviation, LEAST * deviation.max())
    # What was the same in all of training says nothing about what it could have been.
    return np.divide(beyond, deviation, out=np.zeros_like(beyond), where=deviation > 0)


def _away_from_home(contract: Contract, first: Mapping[str, NDArray[np.float64]]) -> str | None:
    """Return where the first observation, (size,) by signal, lies elsewhere than the first ones of training did."""
    assert contract.seen is not None
    away = [
        f"{signal.name}.{name} = {value:.3g} {signal.unit} (there {low:.3g} to {high:.3g})"
        for signal in contract.observation
        for begin in [contract.seen.begin[signal.name]]
        for name, value, low, high, far in zip(
            signal.elements,
            first[signal.name],
            begin.lowest,
            begin.highest,
            _deviations(contract, signal, "begin", first[signal.name][None])[0],
            strict=True,
        )
        if far > HOME
    ]
    if not away:
        return None
    home = f" Home is: {contract.sheet.home}." if contract.sheet is not None else ""
    return f"the episode began elsewhere than those of training: {', '.join(away)}.{home}"


def _sentence(stray: Stray, contract: Contract) -> str:
    assert contract.seen is not None
    signal, spread, at = stray.signal, contract.seen.signals[stray.signal.name], stray.element
    return (
        f"read {stray.step} gave {signal.name}.{signal.elements[at]} = {stray.value:.4g} {signal.unit}, and training "
        f"saw {spread.lowest[at]:.3g} to {spread.highest[at]:.3g} (mean {spread.mean[at]:.3g}, deviation "
        f"{spread.deviation[at]:.2g}): {stray.deviations:.1f} deviations beyond"
    )


def _probably(contract: Contract, stray: Stray, value: NDArray[np.float64]) -> str:
    """Return what is probably wrong with a signal that strays with its value (size,)."""
    assert contract.seen is not None
    signal, at = stray.signal, stray.element
    spread, begin = contract.seen.signals[signal.name], contract.seen.begin[signal.name]

    def fits(candidate: NDArray[np.float64], when: When, allowed: float) -> bool:
        return bool((_deviations(contract, signal, when, candidate[None]) <= allowed).all())

    for unit, factor in FACTORS.get(signal.unit, {}).items():
        if abs(value[at]) > factor * max(spread.deviation) / 10 and fits(value / factor, "signals", ALLOWED):
            return f"Probably {unit} where the model reads {signal.unit}: divide {signal.name} by {factor:.4g}."
    turned = value.copy()
    turned[at] = -turned[at]
    if fits(turned, "begin", HOME):
        return f"Probably {signal.name}.{signal.elements[at]} points the other way: with its sign turned it fits."
    shift = value[at] - begin.mean[at]
    text = (
        f"Probably another frame: {signal.name}.{signal.elements[at]} lies {shift:+.2g} {signal.unit} from where "
        f"training's episodes began, at {begin.mean[at]:.3g}"
    )
    if signal.meaning:
        text += f". {signal.name}: {signal.meaning}"
    if contract.sheet is not None:
        text += f". The model's frame: {contract.sheet.frame}"
    return f"{text}."
