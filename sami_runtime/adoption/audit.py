"""Audits a policy's log: rebuilds the network's inputs from the raw signals, term by term, and names the bugs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill

import numpy as np

from sami_runtime.adoption.hypotheses import EXPLAINED, LATEST, MATTERS, Array, Explanation, LoggedTerm, explain
from sami_runtime.adoption.log import PolicyLog, read_log
from sami_runtime.adoption.network import PolicyNetwork
from sami_runtime.adoption.raw_signals import Sources, difference, sources
from sami_runtime.adoption.recipe import LAST_ACTION, History, InputTerm, Recipe, SignalTerm, row
from sami_runtime.errors import SignalError
from sami_runtime.files import printable
from sami_runtime.model.artifact import Artifact

QUANTITIES = {
    "command": r"command|cmd",
    "joint_velocities": r"(joint|dof|motor)\w*_vel|^dq$",
    "joint_positions": r"(joint|dof|motor)\w*_(pos|angle)|^q$",
    "angular_velocity": r"ang\w*_vel|gyro",
    "linear_velocity": r"lin\w*_vel",
    "gravity": r"gravity",
}
"""Patterns of the names of terms, by the quantity that the terms measure; the first match counts."""
NOISE = {
    "joint_positions": 0.015,
    "joint_velocities": 0.5,
    "angular_velocity": 0.15,
    "linear_velocity": 0.15,
    "gravity": 0.03,
}
"""By quantity, how far two readings of a sensor may differ [rad, rad/s, m/s]: three standard deviations, for readings a
few milliseconds apart of a walking robot. A log usually contains another reading than the policy used."""
ACTION = "action"
NETWORK_TOLERANCE, LIMITED = 1e-3, 0.1
"""Shares of the spread: tolerance of the network's outputs; resemblance of targets, which limits may have changed."""


@dataclass(frozen=True)
class TermVerdict:
    """The audit's verdict on one term."""

    term: str
    status: str
    """`ok`, `fault`, or `skipped` if the log does not suffice to judge the term."""
    kinds: tuple[str, ...]
    """Kinds of the term's bugs."""
    fact: str
    advice: str = ""
    before: float | None = None
    """Root mean square difference from the recipe, as a share of the signal's spread; None if it was not computed."""
    after: float | None = None
    """Difference that remains if the bugs are taken into account."""
    alternatives: tuple[str, ...] = ()
    """Bugs that would look the same in this log."""

    def __str__(self) -> str:
        lines = [f"{self.term}: {self.fact}"]
        if self.alternatives:
            also = "this log cannot tell apart" if self.status == "fault" else "this log cannot exclude"
            lines.append(f"{also}: {', '.join(self.alternatives)}")
        return paragraph(self.status, [*lines, *([f"-> {self.advice}"] if self.advice else [])])


def paragraph(status: str, lines: Sequence[str]) -> str:
    """Format lines for a terminal, with the status in front of the first one."""
    indent = " " * 9
    first = [f"{status:<9}", *[indent] * (len(lines) - 1)]
    return "\n".join(
        fill(printable(line), 79, initial_indent=start, subsequent_indent=indent)
        for line, start in zip(lines, first, strict=True)
    )


@dataclass(frozen=True)
class Audit:
    """An audit's verdicts on all terms."""

    path: Path
    samples: int
    verdicts: tuple[TermVerdict, ...]

    @property
    def passed(self) -> bool:
        """Whether no term has a fault."""
        return all(verdict.status != "fault" for verdict in self.verdicts)

    def __str__(self) -> str:
        faults = sum(verdict.status == "fault" for verdict in self.verdicts)
        skipped = sum(verdict.status == "skipped" for verdict in self.verdicts)
        head = f"{self.path}: {self.samples} steps"
        end = f"{faults} of {len(self.verdicts)} terms have a fault, {skipped} could not be judged"
        return "\n".join([head, *map(str, self.verdicts), end])


def audit_log(policy: Artifact, path: str | Path) -> Audit:
    """Audit a log of an adopted policy.

    Raises:
        SignalError: The log cannot be read, or does not fit the policy.
        ContractError: The policy was not adopted.
    """
    recipe = Recipe.of(policy)
    log = read_log(path, policy.contract)
    answered = None
    if log.observation is not None and log.observation.shape[1] == _width(recipe) and len(recipe.inputs) == 1:
        answered = PolicyNetwork(policy).follow({recipe.input: log.observation}, log.step)
    return audit(recipe, log, answered)


def audit(recipe: Recipe, log: PolicyLog, answered: Array | None = None) -> Audit:
    """Compare a log with the recipe of its policy.

    Args:
        recipe: Describes what the network should read.
        log: What the network did read, and the raw signals.
        answered: (T, A), the network's outputs for the observations of the log; None if they are not known.

    Raises:
        SignalError: The log does not fit the recipe.
    """
    raw = dict(log.raw)
    verdicts: list[TermVerdict] = []
    if log.observation is not None:
        if log.observation.shape[1] != (size := _width(recipe)):
            raise SignalError(
                f"{log.path}: obs has {log.observation.shape[1]} numbers a row; the recipe of {recipe.name} gives "
                f"{size}. Is it the log of another policy?"
            )
        if answered is not None:
            if "actions" in raw:
                verdicts.append(_compare_network(answered, raw["actions"]))
            raw.setdefault("actions", answered)
    _add_actions(recipe, raw)
    for name, term in _terms(recipe, log):
        verdicts.append(_judge(recipe, name, term, log, raw))
    if "actions" in raw and "targets" in raw:
        verdicts.append(_judge_targets(recipe, log, raw))
    return Audit(log.path, len(log), tuple(verdicts))


def _width(recipe: Recipe) -> int:
    stop = max(term.slice[1] for _, term in recipe.inputs[recipe.input])
    return stop * (recipe.history.steps if recipe.history else 1)


def _terms(recipe: Recipe, log: PolicyLog) -> Iterator[tuple[str, InputTerm]]:
    if log.observation is not None:
        yield from recipe.inputs[recipe.input]
    else:
        yield from ((signal.name, signal) for signal in recipe.signals)


def _add_actions(recipe: Recipe, raw: dict[str, Array]) -> None:
    """Add candidates for the last action: `last_action`, of the kind in the recipe, and `other_action`."""
    action, size = recipe.action, len(recipe.action.elements)
    kinds: dict[str, Array] = {}
    if "actions" in raw:
        kinds["raw"] = np.clip(raw["actions"], -action.clip, action.clip) if action.clip else raw["actions"]
    if "targets" in raw:
        kinds["applied"] = (raw["targets"] - row(action.default, size)) / row(action.scale, size)
    if recipe.last_action and recipe.last_action.kind in kinds:
        raw[LAST_ACTION] = kinds.pop(recipe.last_action.kind)
        if kinds:
            raw["other_action"] = kinds.popitem()[1]


def _compare_network(answered: Array, logged: Array) -> TermVerdict:
    if answered.shape != logged.shape:
        raise SignalError(f"actions have shape {logged.shape} in the log; the network answers {answered.shape}.")
    spread = max(float(logged.std()), 1e-6)
    off = float(np.sqrt(((answered - logged) ** 2).mean())) / spread
    if off < NETWORK_TOLERANCE:
        return TermVerdict("network", "ok", (), "answers what the log says", before=off)
    fact = f"answers other actions than the log says, off by {off:.1%} of their spread"
    advice = "Is it the file that ran? Log its raw outputs, before clip and scale."
    return TermVerdict("network", "fault", ("network",), fact, advice, off)


def _judge(recipe: Recipe, name: str, term: InputTerm, log: PolicyLog, raw: dict[str, Array]) -> TermVerdict:
    quantity = quantity_of(name, term)
    if log.observation is None:
        table, resemblance = _consistent(name, quantity, raw, recipe.rate_hz), EXPLAINED
    else:
        table, resemblance = _sources(name, quantity, term, raw, recipe.rate_hz), None
    elements = recipe.action.elements if name == LAST_ACTION else getattr(term, "elements", ())
    table = {key: entry for key, entry in table.items() if entry[0].shape[1] == len(elements)}
    if not any(bug is None for _, bug in table.values()):
        return TermVerdict(name, "skipped", (), f"the log lacks its raw signal, of {len(elements)} numbers")
    slots = _slots(recipe, name, term, quantity, elements, log)
    verdicts = [_verdict(name, explain(replace(slot, resemblance=resemblance), table)) for slot in slots]
    verdict = next((verdict for verdict in verdicts if verdict.status == "fault"), verdicts[0])
    if resemblance is None or verdict.status != "ok" or verdict.before is None:
        return verdict
    if verdict.before > resemblance:
        fact = "moves too little, or too differently from the other signals, to be judged by them; give a log with obs"
        return replace(verdict, status="skipped", fact=fact)
    return replace(verdict, fact=f"agrees with the other signals, within {verdict.before:.0%} of its spread")


def quantity_of(name: str, term: InputTerm) -> str:
    """Return the quantity that a term measures, by its name; the name itself if no pattern matches."""
    if name == LAST_ACTION:
        return name
    if isinstance(term, SignalTerm) and term.command:
        return "command"
    return next((quantity for quantity, pattern in QUANTITIES.items() if re.search(pattern, name)), name)


def _sources(name: str, quantity: str, term: InputTerm, raw: dict[str, Array], rate_hz: float) -> Sources:
    if name in raw and quantity != LAST_ACTION:
        raw = {**raw, quantity: raw[name]}
    frame = "world" if "world" in getattr(term, "frame", "") else "body"
    return sources(quantity, raw, rate_hz, frame)


def _consistent(name: str, quantity: str, raw: dict[str, Array], rate_hz: float) -> Sources:
    """Return sources that a recorded signal should resemble, computed from other signals of the recording."""
    arrays = {key: value for key, value in raw.items() if key != name}
    if quantity == "joint_velocities":
        positions = [value for key, value in arrays.items() if re.search(QUANTITIES["joint_positions"], key)]
        return {"right": (difference(positions[0], rate_hz), None)} if positions else {}
    if quantity == "joint_positions":
        return {"right": (raw["targets"], None)}
    return sources(quantity, arrays, rate_hz)


def _slots(
    recipe: Recipe, name: str, term: InputTerm, quantity: str, elements: tuple[str, ...], log: PolicyLog
) -> Iterator[LoggedTerm]:
    """Yield the term at each step of its history; only the current one if it has no history."""
    count, base = len(elements), 1 if quantity == LAST_ACTION else 0
    if log.observation is None:
        offset, scale, history = np.zeros(count), np.ones(count), None
    else:
        offset = np.asarray(row(getattr(term, "offset", 0.0), count), np.float64)
        scale = np.asarray(row(term.scale, count), np.float64)
        history = term.history or recipe.history
    stride = _width(recipe) // recipe.history.steps if recipe.history else count
    for slot in range(history.steps if history else 1):
        past = _past(history, slot)
        mirror = None if history is None or history.steps - 1 == 2 * past else base + history.steps - 1 - past
        deepest = base + (history.steps if history else 0) + LATEST
        if log.observation is None:
            inputs = log.raw[name]
        else:
            start = term.slice[0] + slot * stride
            inputs = log.observation[:, start : start + count]
        yield LoggedTerm(
            name=name,
            elements=elements,
            inputs=inputs,
            offset=offset,
            scale=scale,
            rows=np.flatnonzero(log.step >= deepest),
            lag=base + past,
            mirror=mirror,
            pose=quantity == "joint_positions",
            clip=None if log.observation is None else recipe.clip,
            noise=0.0 if log.observation is None else NOISE.get(quantity, 0.0),
        )


def _past(history: History | None, slot: int) -> int:
    if history is None:
        return 0
    return history.steps - 1 - slot if history.first == "oldest" else slot


def _judge_targets(recipe: Recipe, log: PolicyLog, raw: dict[str, Array]) -> TermVerdict:
    """Judge the sent targets by the network's outputs; limits may have changed the targets."""
    action, size = recipe.action, len(recipe.action.elements)
    scale = np.asarray(row(action.scale, size), np.float64)
    term = LoggedTerm(
        name=ACTION,
        elements=action.elements,
        inputs=raw["targets"],
        offset=-row(action.default, size) / scale,
        scale=scale,
        rows=np.flatnonzero(log.step >= LATEST),
        pose=True,
        resemblance=LIMITED,
    )
    answered = np.clip(raw["actions"], -action.clip, action.clip) if action.clip else raw["actions"]
    verdict = _verdict(ACTION, explain(term, {"right": (answered, None)}))
    if verdict.status == "ok" and verdict.before is not None and verdict.before > MATTERS:
        fact = f"differs from what was answered by {verdict.before:.0%} of its spread, as limits do"
        return replace(verdict, fact=fact)
    return verdict


def _verdict(name: str, explanation: Explanation | None) -> TermVerdict:
    if explanation is None:
        return TermVerdict(name, "skipped", (), "the log is too short")
    before, after = explanation.before, explanation.after
    if not explanation.bugs:
        fact = f"is what the recipe says, within {before:.1%} of its spread"
        return TermVerdict(name, "ok", (), fact, "", before, after, explanation.alternatives)
    fact = " and ".join(bug.fact for bug in explanation.bugs)
    fact += f"; that leaves {after:.1%} of its spread, the recipe {before:.0%}"
    advice = " ".join(dict.fromkeys(bug.advice for bug in explanation.bugs))
    kinds = tuple(bug.kind for bug in explanation.bugs)
    return TermVerdict(name, "fault", kinds, fact, advice, before, after, explanation.alternatives)
