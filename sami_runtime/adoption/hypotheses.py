"""Explains a term of an observation: finds, among known bugs, the one that reproduces what the network read.

A hypothesis states from which raw signal a term was computed, how late, in which order of elements, and by which affine
map. Its score is a description length: half the number of independent samples times the log of the residual, plus a
cost for its assumptions. The recipe itself costs nothing, a known bug a little, a fitted number more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import enumeration, quantity

Array = NDArray[np.float64]

PER_BUG, PER_FIT, PER_SWAP = 3.0, 6.0, 1.5
"""Costs in nats: of a known bug, of a fitted number, of an element that is out of place."""
FLOOR = 1e-3
"""Residuals below this share of a signal's spread count as 0."""
CORRELATED = 10
"""Number of successive samples of a control loop that count as one independent sample."""
TIE = 1.0
"""Hypotheses whose fits differ by less [nats] cannot be told apart."""
LATEST = 2
"""Largest lag beyond that of the recipe that is tried [steps]."""
MATTERS, EXPLAINED = 0.02, 0.3
"""Shares of a signal's spread: a difference below the first is no fault; a residual above the second is unexplained."""
WITHIN, OUTLIER, RARE = 0.4, 2.0, 0.05
"""Multiples of a term's `noise`: a root mean square difference below the first is noise, and a row with a difference
above the second is an outlier. The third is the largest share of rows that may be left out as outliers."""
DEGREES = 180 / np.pi
MIRRORS = (("FL", "FR"), ("RL", "RR"), ("HL", "HR"), ("left", "right"), ("Left", "Right"), ("L_", "R_"), ("l_", "r_"))
ENDS = (("FL", "RL"), ("FR", "RR"), ("FL", "HL"), ("FR", "HR"))


@dataclass(frozen=True)
class LoggedTerm:
    """A logged part of an observation; by the recipe, it is `(raw - offset) * scale`, `lag` steps late."""

    name: str
    elements: tuple[str, ...]
    inputs: Array
    """(T, n): what the network read."""
    offset: Array
    scale: Array
    rows: NDArray[np.int64]
    """Indices of the compared samples, all of whose past is in the log."""
    lag: int = 0
    """Steps by which `inputs` is later than the raw signal, by the recipe."""
    mirror: int | None = None
    """The lag if the history were stacked in the opposite order; None if that makes no difference."""
    pose: bool = False
    """Whether the offset is a default pose."""
    resemblance: float | None = None
    """Set if the raw signals only resemble the right ones: the residual, as a share of the spread, below which a single
    known bug is accepted. Lags and fitted numbers are then not tried, since they would prove nothing."""
    clip: float | None = None
    """Largest magnitude that the network reads."""
    noise: float = 0.0
    """How far two readings of the sensor may differ, in the raw signal's unit; a smaller spread counts as this."""


@dataclass(frozen=True)
class Bug:
    """One fault of a term."""

    kind: str
    fact: str
    advice: str


Source = tuple[Array, Bug | None]
"""A raw signal (T, n) from which a term may have been computed, and the bug that this would be; None if it is right."""


class Explanation(NamedTuple):
    """The hypothesis that explains a term best."""

    bugs: tuple[Bug, ...]
    """Empty if the term agrees with the recipe."""
    before: float
    """Root mean square difference from the recipe, as a share of the signal's spread."""
    after: float
    """The same difference from the hypothesis."""
    alternatives: tuple[str, ...]
    """Kinds of bugs that explain the log equally well."""


class _Candidate(NamedTuple):
    bugs: tuple[Bug, ...]
    misfit: float
    cost: float
    after: float

    @property
    def score(self) -> float:
        return self.misfit + self.cost


class _Affine(NamedTuple):
    """The map `a * raw + b`, and the bugs that it would mean."""

    bugs: tuple[Bug, ...]
    a: Array
    b: Array


def explain(term: LoggedTerm, sources: Mapping[str, Source]) -> Explanation | None:
    """Return the hypothesis that reproduces a term best; None if the log is too short, or `sources` is empty.

    The sources are the raw signals from which the term may have been computed, by name.
    """
    term, sources = _unclipped(term, sources)
    term = _without_outliers(term, sources)
    if len(term.rows) < 2 * CORRELATED or not sources:
        return None
    candidates: list[_Candidate] = []
    affines = list(_affines(term))
    right = next(raw for raw, bug in sources.values() if bug is None)
    spread = term.inputs[term.rows].var(0)
    if not term.resemblance:  # with it, a raw signal that hardly moves would seem to fit if a bug scales it down
        spread = (spread + term.scale**2 * right[term.rows].var(0)) / 2
    spread = np.maximum(spread, max(1e-6 * float(spread.mean()), 1e-10))
    spread = np.maximum(spread, (term.noise * term.scale) ** 2)
    lags = {*range(max(0, term.lag - 1), term.lag + LATEST + 1), *(() if term.mirror is None else (term.mirror,))}
    for raw, bug in sources.values():
        for lag in [term.lag] if term.resemblance else sorted(lags):
            late = () if lag == term.lag else (_lag(lag - term.lag, lag == term.mirror),)
            origin = (*(() if bug is None else (bug,)), *late)
            candidates += _Moments(term, spread, raw[term.rows - lag]).candidates(affines, origin)
    recipe = next(c for c in candidates if not c.bugs)
    if term.resemblance:
        most = min(term.resemblance, recipe.after / 2)
        candidates = [recipe, *(c for c in candidates if c.after < most and len(c.bugs) == 1)]
    best = min(candidates, key=lambda c: c.score)
    if recipe.after < MATTERS or (_noise_alone(term, right[term.rows - term.lag]) and not term.resemblance):
        best = recipe
    kinds = _kinds(best)
    alternatives = {
        _kinds(c): None
        for c in candidates
        if _kinds(c) != kinds and c.misfit < best.misfit + TIE and c.cost < best.cost + 2 * PER_BUG and len(c.bugs) <= 1
    }
    if best.after > EXPLAINED and term.resemblance is None:
        fact = f"differs from its raw signal by {recipe.after:.0%} of its spread, and no known bug explains it"
        best = best._replace(bugs=(Bug("unknown", fact, "Compare the code that fills it with the recipe."),))
    return Explanation(best.bugs, recipe.after, best.after, tuple(filter(None, alternatives)))


def _unclipped(term: LoggedTerm, table: Mapping[str, Source]) -> tuple[LoggedTerm, Mapping[str, Source]]:
    """Leave out clipped numbers: elements that are often clipped, then rows in which another element is clipped."""
    if term.clip is None:
        return term, table
    clipped = np.abs(term.inputs) > term.clip * (1 - 1e-6)
    often = np.asarray(clipped[term.rows].mean(0) > 0.2 if len(term.rows) else clipped.all(0))
    if not clipped.any() or often.all():
        return term, table
    rarely_clipped = ~often
    unclipped = replace(
        term,
        elements=tuple(term.elements[i] for i in np.flatnonzero(rarely_clipped)),
        rows=term.rows[~clipped[term.rows][:, rarely_clipped].any(1)],
        inputs=term.inputs[:, rarely_clipped],
        offset=term.offset[rarely_clipped],
        scale=term.scale[rarely_clipped],
    )
    return unclipped, {name: (raw[:, rarely_clipped], bug) for name, (raw, bug) in table.items()}


def _noise_alone(term: LoggedTerm, right: Array) -> bool:
    """Return whether `inputs` differs from its raw signal by no more than two readings of the sensor do."""
    off = term.inputs[term.rows] - term.scale * (right - term.offset)
    return bool((np.sqrt((off**2).mean(0)) < WITHIN * term.noise * np.abs(term.scale)).all())


def _without_outliers(term: LoggedTerm, table: Mapping[str, Source]) -> LoggedTerm:
    """Leave out rows that differ from the recipe by far more than noise, if they are few.

    Readings change within milliseconds when a foot strikes the ground, and a message gets lost now and then. A known
    bug shows in more rows.
    """
    right = next((raw for raw, bug in table.values() if bug is None), None)
    if right is None or not term.noise or term.resemblance or not len(term.rows):
        return term
    off = np.abs(term.inputs[term.rows] - term.scale * (right[term.rows - term.lag] - term.offset))
    outliers = (off > OUTLIER * term.noise * np.abs(term.scale)).any(1)
    return replace(term, rows=term.rows[~outliers]) if outliers.mean() <= RARE else term


def _kinds(candidate: _Candidate) -> str:
    return " and ".join(sorted({bug.kind for bug in candidate.bugs}))


def _lag(steps: int, mirrored: bool) -> Bug:
    if mirrored:
        return Bug("history order", "has its history stacked the other way round", "Reverse the order of the history.")
    if steps < 0:
        return Bug("lag", f"is {quantity(-steps, 'step')} early", "Feed the value of the step before.")
    return Bug("lag", f"is {quantity(steps, 'step')} late", "Read the sensors right before the policy acts.")


class _Moments:
    """Second moments of a term and of a raw signal, from which the residuals of affine maps are computed."""

    def __init__(self, term: LoggedTerm, spread: Array, raw: Array) -> None:
        inputs = term.inputs[term.rows]
        self.term, self.spread, self.samples = term, spread, len(inputs) / CORRELATED
        self.inputs, self.raw = inputs.mean(0), raw.mean(0)
        y, x = inputs - self.inputs, raw - self.raw
        self.yy, self.xx, self.yx = (y**2).mean(0), (x**2).mean(0), y.T @ x / len(y)

    def residual(self, a: Array, b: Array) -> Array:
        """Return (n, n): mean squares of input i minus `a * raw j + b`, as shares of i's variance; a, b fit (n, n)."""
        rest = self.yy[:, None] - 2 * a * self.yx + a**2 * self.xx + (self.inputs[:, None] - a * self.raw - b) ** 2
        return np.maximum(rest, 0) / self.spread[:, None]

    def misfit(self, residual: Array) -> Array:
        """Return the negative log likelihood of each element."""
        return 0.5 * self.samples * np.log(residual + FLOOR**2)

    def candidate(self, bugs: Sequence[Bug], residual: Array, cost: float) -> _Candidate:
        """Return a scored hypothesis from the residual of each element."""
        after = float(np.sqrt(residual.mean()))
        return _Candidate(tuple(bugs), float(self.misfit(residual).sum()), cost, after)

    def candidates(self, affines: Sequence[_Affine], origin: tuple[Bug, ...]) -> Iterator[_Candidate]:
        """Yield every hypothesis about one raw signal at one lag."""
        base, count = PER_BUG * len(origin), len(self.term.elements)
        identity = np.arange(count)
        for affine in affines:
            bugs, cost = (*origin, *affine.bugs), base + PER_BUG * len(affine.bugs)
            before_map = self.residual(affine.a[:, None], affine.b[:, None])
            yield self.candidate(bugs, before_map.diagonal(), cost)
            for residual in (before_map, self.residual(affine.a, affine.b)):  # permuted before the map, or after it
                order = _assignment(self.misfit(residual))
                if (order != identity).any():
                    bug = _permutation(self.term.elements, order)
                    swaps = int((order != identity).sum()) if bug.kind == "permutation" else 0
                    yield self.candidate((*bugs, bug), residual[identity, order], cost + PER_BUG + PER_SWAP * swaps)
        if self.term.resemblance is None:
            yield from self._scaled(origin, base)
            yield from self._mixed(origin, base)

    def _scaled(self, origin: tuple[Bug, ...], base: float) -> Iterator[_Candidate]:
        """Yield the hypothesis of one fitted factor for all elements."""
        scale, offset = self.term.scale, self.term.offset
        mean = scale * (self.raw - offset)
        # If a signal hardly exceeds its noise, the fitted factor is too small, whatever the true one is.
        clear = (scale**2 * self.xx + mean**2 > (self.term.noise * scale) ** 2) / self.spread
        products = (scale * self.yx.diagonal() + mean * self.inputs) * clear
        squares = (scale**2 * self.xx + mean**2) * clear
        factor = float(products.sum() / max(float(squares.sum()), 1e-12))
        a = factor * scale
        bug = Bug("scale", f"is {factor:.4g} times what the recipe gives", _CHECK_SCALE)
        residual = self.residual(a[:, None], -a[:, None] * offset[:, None]).diagonal()
        if abs(factor - 1) > residual.mean():  # noise of the raw signal alone shrinks the factor by up to this
            yield self.candidate((*origin, bug), residual, base + PER_FIT)

    def _mixed(self, origin: tuple[Bug, ...], base: float) -> Iterator[_Candidate]:
        """Yield the hypotheses that only some elements have a wrong sign, offset or factor."""
        scale, offset = self.term.scale, self.term.offset
        right = self.residual(scale[:, None], -scale[:, None] * offset[:, None]).diagonal()
        slope = self.yx.diagonal() / np.maximum(self.xx, 1e-12)
        shift = self.inputs - scale * self.raw
        gain = np.where(np.abs(self.raw - offset) ** 2 > self.xx, self.inputs / _nonzero(self.raw - offset), slope)
        options = (
            ("sign", "has the wrong sign", -scale, -scale * offset, 1.0),
            ("sign", "has the wrong sign", -scale, scale * offset, 1.0),
            ("offset", "is shifted", scale, shift, PER_FIT - PER_BUG),
            ("scale", "has another scale", gain, -gain * offset, PER_FIT - PER_BUG),
        )
        for kind, words, a, b, extra in options:
            alternative = self.residual(a[:, None], b[:, None]).diagonal()
            wrong = self.misfit(alternative) + PER_BUG + extra < self.misfit(right)
            if kind == "scale":
                wrong &= self.xx + (self.raw - offset) ** 2 > self.term.noise**2
                wrong &= np.abs(gain - scale) > np.abs(scale) * alternative
            if not wrong.any():
                continue
            names = enumeration([name for name, flag in zip(self.term.elements, wrong, strict=True) if flag])
            numbers = ""
            if kind == "offset":
                numbers = " by " + enumeration([f"{v:.3g}" for v in (shift + scale * offset)[wrong]])
            elif kind == "scale":
                numbers = ", factors " + enumeration([f"{v:.3g}" for v in (gain / _nonzero(scale))[wrong]])
            advice = {"sign": _CHECK_SIGN, "offset": _CHECK_OFFSET, "scale": _CHECK_SCALE}[kind]
            bug = Bug(kind, f"{words} at {names}{numbers}", advice)
            residual = np.where(wrong, alternative, right)
            yield self.candidate((*origin, bug), residual, base + PER_BUG + (extra + 1) * int(wrong.sum()))


_CHECK_SCALE = "Check the scale in the code that fills the term."
_CHECK_SIGN = "Check the direction of the axis or joint."
_CHECK_OFFSET = "Check the zero of the sensor and the default pose."


def _affines(term: LoggedTerm) -> Iterator[_Affine]:
    """Yield the recipe's own map first, then the maps of known bugs, without duplicates."""
    s, o = term.scale, term.offset
    pose = "the default pose" if term.pose else "the offset"
    kind = "default pose" if term.pose else "offset"
    missing = Bug(kind, f"lacks {pose}", f"Subtract {pose} of the recipe.")
    unscaled = Bug("scale", "lacks the scale", "Multiply by the scale of the recipe.")
    degrees = Bug("degrees", "is in degrees", "Convert to radians.")
    table: tuple[tuple[tuple[Bug, ...], Array, Array], ...] = (
        ((), s, -s * o),
        ((missing,), s, 0 * o),
        ((Bug(kind, f"has {pose} subtracted twice", f"Subtract {pose} once."),), s, -2 * s * o),
        ((Bug(kind, f"has {pose} added", f"Subtract {pose} instead."),), s, s * o),
        ((unscaled,), np.ones_like(s), -o),
        ((Bug("scale", "is scaled before the offset is subtracted", "Subtract first, then scale."),), s, -o),
        ((Bug("scale", "is scaled twice", "Multiply by the scale once."),), s**2, -(s**2) * o),
        ((Bug("scale", "is divided by the scale", "Multiply by the scale of the recipe."),), 1 / s, -o / s),
        ((unscaled, missing), np.ones_like(s), 0 * o),
        ((degrees,), DEGREES * s, -s * o),
        ((degrees,), DEGREES * s, -DEGREES * s * o),
        ((degrees, unscaled), DEGREES + 0 * s, -DEGREES * o),
        ((Bug("degrees", "is multiplied by pi / 180", "Feed it as it is."),), s / DEGREES, -s * o),
        ((Bug("sign", "has the wrong sign", _CHECK_SIGN),), -s, -s * o),
        ((Bug("sign", "has the wrong sign", _CHECK_SIGN),), -s, s * o),
    )
    distinct: list[Array] = []
    for bugs, a, b in table:
        row = np.concatenate([a, b])
        if not any(np.allclose(row, other, rtol=1e-3, atol=1e-6) for other in distinct):
            distinct.append(row)
            yield _Affine(bugs, a, b)


def _assignment(misfit: Array) -> NDArray[np.int64]:
    """Return for each row the column of a greedy one-to-one assignment; of equal costs, the diagonal wins."""
    cost = misfit + 1e-6 * (1 - np.eye(len(misfit)))
    order = [-1] * len(cost)
    for index in cost.argsort(axis=None, kind="stable").tolist():
        row, column = divmod(index, len(cost))
        if order[row] < 0 and column not in order:
            order[row] = column
    return np.array(order)


def _permutation(elements: tuple[str, ...], order: NDArray[np.int64]) -> Bug:
    swaps = [(elements[i], elements[j]) for i, j in enumerate(order) if i != j]
    if all(other_side(name) == other for name, other in swaps):
        return Bug("swapped sides", f"has left and right swapped at {len(swaps)} elements", "Swap them back.")
    if all(other_end(name) == other for name, other in swaps):
        return Bug("swapped ends", f"has front and rear swapped at {len(swaps)} elements", "Swap them back.")
    pairs = enumeration([f"{name} holds {other}" for name, other in swaps])
    return Bug("permutation", f"is in another order: {pairs}", "Fill the elements by their names.")


def other_side(name: str) -> str:
    """Return the name of the joint on the other side; the same name if there is none."""
    return _swapped(name, MIRRORS)


def other_end(name: str) -> str:
    """Return the name of the joint at the other end; the same name if there is none."""
    return _swapped(name, ENDS)


def _swapped(name: str, pairs: tuple[tuple[str, str], ...]) -> str:
    for first, second in pairs:
        if first in name or second in name:
            position = min(at for at in (name.find(first), name.find(second)) if at >= 0)
            old, other = (first, second) if name.startswith(first, position) else (second, first)
            return name[:position] + other + name[position + len(old) :]
    return name


def _nonzero(value: Array) -> Array:
    return np.where(np.abs(value) < 1e-12, 1e-12, value)
