"""Measures how strongly a network's outputs respond to every element of every term, around a standing robot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adoption.audit import quantity_of
from sami_runtime.adoption.network import Array, PolicyNetwork
from sami_runtime.adoption.recipe import LAST_ACTION, History, InputTerm, Recipe, SignalTerm, row

POINTS = 16
DEVIATIONS = {
    "gravity": 0.03,
    "joint_positions": 0.1,
    "joint_velocities": 0.5,
    "angular_velocity": 0.3,
    "linear_velocity": 0.3,
    "command": 0.5,
}
"""By quantity, a small deviation of its elements while a robot stands, in SI units; 0.3 for others."""


class ProbedTerm(NamedTuple):
    """A term and its place in an input of the network."""

    name: str
    quantity: str
    input: str
    elements: tuple[str, ...]
    columns: NDArray[np.int64]
    """(n, steps): column of the input in which the network reads each element, at each step of its history."""
    centre: Array
    """(n,): what the network reads while the robot stands still."""
    deviation: Array
    """(n,): change of what the network reads for one deviation of the signal; negative if the scale is."""


class ProbedNetwork:
    """Outputs of a network around a standing robot."""

    def __init__(self, network: PolicyNetwork) -> None:
        self.network = network
        self.terms = tuple(_probed(network.recipe))
        rng = np.random.default_rng(0)
        self.points = {name: np.zeros((POINTS, width)) for name, width in network.widths.items()}
        for term in self.terms:
            value = term.centre + term.deviation * rng.normal(size=(POINTS, len(term.centre)))
            for step in term.columns.T:
                self.points[term.input][:, step] = value
        self.outputs = network.answer(self.points)
        """(POINTS, A)."""
        self.jacobian = {term.name: self._derivatives(term) for term in self.terms}
        """By term, (POINTS, A, n): change of an output per deviation of an element."""

    def outputs_at(self, term: ProbedTerm, element: int, by: float) -> Array:
        """Return outputs (POINTS, A) with one element moved by `by` times its deviation."""
        points = dict(self.points)
        points[term.input] = points[term.input].copy()
        points[term.input][:, term.columns[element]] += by * term.deviation[element]
        return self.network.answer(points)

    def of(self, quantity: str) -> list[ProbedTerm]:
        """Return the terms that measure this quantity."""
        return [term for term in self.terms if term.quantity == quantity]

    def _derivatives(self, term: ProbedTerm) -> Array:
        sides = [(self.outputs_at(term, i, 0.25), self.outputs_at(term, i, -0.25)) for i in range(len(term.elements))]
        return np.stack([(up - down) / 0.5 for up, down in sides], axis=2)


def _probed(recipe: Recipe) -> Iterator[ProbedTerm]:
    for name, terms in recipe.inputs.items():
        frame = terms[-1][1].slice[1]
        for term_name, term in terms:
            yield _probed_term(recipe, term_name, term, name, frame)


def _probed_term(recipe: Recipe, name: str, term: InputTerm, source: str, frame: int) -> ProbedTerm:
    elements = recipe.action.elements if name == LAST_ACTION else getattr(term, "elements", ())
    count, quantity = len(elements), quantity_of(name, term)
    whole: History | None = recipe.history if source == recipe.input else None
    history = term.history or whole
    stride = frame if whole and not term.history else count
    first = term.slice[0] + np.arange(count)
    columns = first[:, None] + stride * np.arange(history.steps if history else 1)
    scale = np.asarray(row(term.scale, count), np.float64)
    centre = np.array([0.0, 0.0, -1.0]) * scale if quantity == "gravity" and count == 3 else np.zeros(count)
    deviation = np.full(count, DEVIATIONS.get(quantity, 0.3))
    if isinstance(term, SignalTerm) and quantity == "command" and term.low and term.high:
        bounds = zip(term.low, term.high, strict=True)
        deviation = np.array([0.5 if low is None or high is None else (high - low) / 2 for low, high in bounds])
    return ProbedTerm(name, quantity, source, elements, columns, centre, scale * deviation)
