"""Seeds bugs into the observations of eight policies, drives them and runs `sami audit` on the logs.

    python benchmarks/seeded_bugs.py FOLDER [--fresh] [--noisy]

FOLDER has the files that `legged_logs.py` names. The policy runs in closed loop with the bug, so that the log is like a
user's. A bug counts as named if the audit blames exactly its terms, with exactly its kind. `--fresh` uses seeds that
the audit's authors did not look at. With `--noisy`, policy and log read the sensors separately, with the noise and the
jitter of `legged_logs.py`. `--logs LOGS` stores the logs, and an index of them for `seeded_bugs_efferent.py`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from math import comb
from pathlib import Path
from typing import NamedTuple

import numpy as np
from legged_logs import Policy, drive, policies

from sami_runtime.adoption.audit import audit
from sami_runtime.adoption.log import read_arrays
from sami_runtime.adoption.raw_signals import rotate
from sami_runtime.adoption.recipe import Recipe

SECONDS = 4.0
FRESH = 200_000
"""First seed of `--fresh`. Seeds from 100,000 on tested an earlier version of the audit, and are no longer unseen."""
Row = dict[str, np.ndarray]
Change = Callable[[dict[str, np.ndarray], Row, list[Row]], None]
POSITIONS, VELOCITIES, GYRO = "joint_positions", "joint_velocities", "angular_velocity"
DEGREES = 180 / np.pi


class SeededBug:
    """A kind of bug with random parameters, for one policy."""

    def __init__(self, kind: str, answers: dict[str, str], change: Change, newest_first: bool = False) -> None:
        self.kind, self.answers, self.change, self.newest_first = kind, answers, change, newest_first


def _bugs(policy: Policy, rng: np.random.Generator) -> list[SeededBug]:
    """Return one bug of each kind that the policy can have."""
    term_names = {name for name, _, _ in policy.terms}
    scales = {name: scale for name, _, scale in policy.terms}
    size = len(policy.joints)
    bugs: list[SeededBug] = []

    def add(kind: str, answers: dict[str, str], change: Change) -> None:
        answers = {term: name for term, name in answers.items() if term in term_names}
        if answers:
            bugs.append(SeededBug(kind, answers, change))

    def setter(term: str, value: Callable[[np.ndarray, Row, list[Row]], np.ndarray]) -> Change:
        def change(values: dict[str, np.ndarray], row: Row, rows: list[Row]) -> None:
            if term in values:
                values[term] = value(values[term], row, rows)

        return change

    def pair(first: Change, second: Change) -> Change:
        def change(values: dict[str, np.ndarray], row: Row, rows: list[Row]) -> None:
            first(values, row, rows)
            second(values, row, rows)

        return change

    def reordered(order: np.ndarray) -> Change:
        return pair(setter(POSITIONS, lambda v, *_: v[order]), setter(VELOCITIES, lambda v, *_: v[order]))

    def joints(kind: str) -> dict[str, str]:
        return {POSITIONS: kind, VELOCITIES: kind}

    def late(term: str) -> Change:
        return setter(term, lambda v, row, rows: rows[-1][term] if rows else v)

    def misread(v: np.ndarray, row: Row, rows: list[Row]) -> np.ndarray:
        wrong = row["quaternion"][[3, 0, 1, 2] if order_of_w else [1, 2, 3, 0]]
        return rotate(wrong[None], np.array([[0, 0, -1.0]]), inverse=True)[0]

    def to_world(v: np.ndarray, row: Row, rows: list[Row]) -> np.ndarray:
        return rotate(row["quaternion"][None], v[None])[0]

    def difference(v: np.ndarray, row: Row, rows: list[Row]) -> np.ndarray:
        return (row[POSITIONS] - rows[-1][POSITIONS]) * 50.0 if rows else 0 * v

    def applied(v: np.ndarray, row: Row, rows: list[Row]) -> np.ndarray:
        return (rows[-1]["targets"] - policy.default) / policy.action_scale if rows else v

    def earlier(v: np.ndarray, row: Row, rows: list[Row]) -> np.ndarray:
        return rows[-2]["actions"] if len(rows) > 1 else 0 * v

    order_of_w = rng.random() < 0.5
    permutation = rng.permutation(size)
    mirror = np.array([policy.joints.index(_other_side(name, policy.joints)) for name in policy.joints])
    grouped = np.array(sorted(range(size), key=lambda i: policy.joints[i].split("_", 1)[-1]))
    elements = rng.choice(size, int(rng.integers(1, 4)), replace=False)
    flip = np.ones(size)
    flip[elements] = -1
    shift = np.zeros(size)
    shift[elements] = rng.uniform(0.05, 0.3, len(elements)) * rng.choice([-1, 1], len(elements))
    factor = float(rng.choice([rng.uniform(0.3, 0.8), rng.uniform(1.25, 3)]))
    velocity = str(rng.choice([POSITIONS, VELOCITIES, GYRO]))

    add("gyro in the world's frame", {GYRO: "frame"}, setter(GYRO, to_world))
    add("gravity's sign", {"gravity": "sign"}, setter("gravity", lambda v, *_: -v))
    add("gravity by the inverse rotation", {"gravity": "frame"}, setter("gravity", lambda v, row, _: _inverse(row)))
    add("quaternion order", {"gravity": "quaternion order"}, setter("gravity", misread))
    add("joint order, at random", joints("permutation"), reordered(permutation))
    if (grouped != np.arange(size)).any():
        add("joint order, by joint type", joints("permutation"), reordered(grouped))
    add("left and right swapped", joints("swapped sides"), reordered(mirror))
    add(
        "sign of some joints",
        joints("sign"),
        pair(setter(POSITIONS, lambda v, *_: v * flip), setter(VELOCITIES, lambda v, *_: v * flip)),
    )
    add("joint angles in degrees", {POSITIONS: "degrees"}, setter(POSITIONS, lambda v, *_: v * DEGREES))
    add("gyro in degrees", {GYRO: "degrees"}, setter(GYRO, lambda v, *_: v * DEGREES))
    if scales[VELOCITIES] != 1:
        add("velocity scale missing", {VELOCITIES: "scale"}, setter(VELOCITIES, lambda v, *_: v / scales[VELOCITIES]))
    add("gyro scaled wrong", {GYRO: "scale"}, setter(GYRO, lambda v, *_: v * factor))
    if policy.default.any():
        add("default pose missing", {POSITIONS: "default pose"}, setter(POSITIONS, lambda v, *_: v + policy.default))
    add("offset of some joints", {POSITIONS: "offset"}, setter(POSITIONS, lambda v, *_: v + shift))
    if velocity in term_names:
        add("one step late", {velocity: "lag"}, late(velocity))
    add("last action late", {"last_action": "lag"}, setter("last_action", earlier))
    add("last action applied, not raw", {"last_action": "last action"}, setter("last_action", applied))
    add("last action never set", {"last_action": "ignored"}, setter("last_action", lambda v, *_: 0 * v))
    add("velocities by difference", {VELOCITIES: "difference"}, setter(VELOCITIES, difference))
    if "command" in term_names:
        add("command in another order", {"command": "permutation"}, setter("command", lambda v, *_: v[[1, 0, 2]]))
    command = "command" if "command" in term_names else "command_lin_vel"
    add("command ignored", {command: "ignored"}, setter(command, lambda v, *_: 0 * v))
    if policy.history > 1:
        stacked = dict.fromkeys(term_names, "history order")
        bugs.append(SeededBug("history newest first", stacked, lambda *_: None, newest_first=True))
    return bugs


def _inverse(row: Row) -> np.ndarray:
    return rotate(row["quaternion"][None], np.array([[0, 0, -1.0]]))[0]


def _other_side(name: str, joints: tuple[str, ...]) -> str:
    for a, b in (("FL", "FR"), ("RL", "RR"), ("left", "right"), ("Left", "Right")):
        for side, opposite in ((a, b), (b, a)):
            if name.replace(side, opposite, 1) in joints and side in name:
                return name.replace(side, opposite, 1)
    return name


def _builder(policy: Policy, bug: SeededBug | None) -> Callable[[Row, list[Row]], np.ndarray]:
    def build(row: Row, rows: list[Row]) -> np.ndarray:
        values = {name: policy.value(name, row, rows) for name, _, _ in policy.terms}
        if bug is not None:
            bug.change(values, row, rows)
        return policy.join(values)

    return build


class Case(NamedTuple):
    """A log to make and audit, of a policy with a bug, or, for an index past the last bug, without one."""

    folder: Path
    logs: Path
    policy: int
    seed: int
    index: int
    noisy: bool


class Outcome(NamedTuple):
    """The true bug of a log, and the audit's verdict."""

    log: str
    policy: str
    kind: str | None
    answers: dict[str, str]
    blamed: dict[str, tuple[str, ...]]
    alternatives: list[str]


cached_policies = cache(policies)


def cases(logs: Path, options: argparse.Namespace) -> Iterator[Case]:
    """Yield a case of every policy with every bug, and some without one."""
    for number, policy in enumerate(cached_policies(options.folder)):
        for draw in range(options.draws):
            seed = 1000 * number + draw + (FRESH if options.fresh else 0)
            count = len(_bugs(policy, np.random.default_rng(seed)))
            for index in range(count + (options.clean or count // 2)):
                yield Case(options.folder, logs, number, seed, index, options.noisy)


def judge(case: Case) -> Outcome:
    """Make the log of a case, unless it exists, and audit it."""
    policy = cached_policies(case.folder)[case.policy]
    bugs = _bugs(policy, np.random.default_rng(case.seed))
    bug = bugs[case.index] if case.index < len(bugs) else None
    path = case.logs / f"{policy.name}-{case.seed}-{case.index}{'-noisy' if case.noisy else ''}.npz"
    if not path.exists():
        last = bug is not None and bug.newest_first
        run = drive(policy, 50 * case.seed + case.index, SECONDS, _builder(policy, bug), case.noisy, last)
        np.savez(path, **run)
    recipe = Recipe.model_validate(policy.recipe)
    result = audit(recipe, read_arrays(path, recipe.action.elements))
    blamed = {v.term: v.kinds for v in result.verdicts if v.status == "fault"}
    alternatives = [kind for v in result.verdicts for kind in v.alternatives]
    kind, answers = (bug.kind, bug.answers) if bug else (None, {})
    return Outcome(path.name, policy.name, kind, answers, blamed, alternatives)


class Tally:
    """Counts of correctly named bugs, by kind and by policy, and of false alarms."""

    def __init__(self) -> None:
        self.right: Counter[str] = Counter()
        self.total: Counter[str] = Counter()
        self.blamed = self.alarms = self.clean = 0

    def add(self, outcome: Outcome) -> bool:
        """Count one log; return whether the audit judged it correctly."""
        if outcome.kind is None:
            self.clean += 1
            self.alarms += bool(outcome.blamed)
            return not outcome.blamed
        good = outcome.blamed == {term: (name,) for term, name in outcome.answers.items()}
        for row in (outcome.kind, outcome.policy):
            self.total[row] += 1
            self.right[row] += good
        self.blamed += outcome.blamed.keys() == outcome.answers.keys()
        return good

    def __str__(self) -> str:
        rows = [f"{name:34}{self.right[name]:>4} of {self.total[name]}" for name in self.total]
        right, total = sum(self.right.values()) // 2, sum(self.total.values()) // 2  # each by kind and by policy
        low, high = interval(right, total)
        rows += [f"named {right} of {total}: {right / max(total, 1):.1%} (95 %: {low:.1%} to {high:.1%})"]
        rows += [f"exactly the right terms blamed {self.blamed} of {total}"]
        low, high = interval(self.alarms, self.clean)
        return "\n".join([*rows, f"false alarms {self.alarms} of {self.clean} (95 %: {low:.1%} to {high:.1%})"])


def interval(hits: int, total: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a fraction of hits; one-sided for no hits, and for only hits."""
    if total == 0:
        return 0.0, 1.0
    sure = 0.05 if hits in (0, total) else 0.025
    low, high = ((0.0, hits / total), (hits / total, 1.0))

    def tail(share: float, upper: bool) -> float:
        span = range(hits, total + 1) if upper else range(hits + 1)
        return sum(comb(total, n) * share**n * (1 - share) ** (total - n) for n in span)

    def bisected(ends: tuple[float, float], upper: bool) -> float:
        below, above = ends
        for _ in range(60):
            middle = (below + above) / 2
            if (tail(middle, upper) < sure) == upper:
                below = middle
            else:
                above = middle
        return below

    return 0.0 if hits == 0 else bisected(low, True), 1.0 if hits == total else bisected(high, False)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--noisy", action="store_true")
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--clean", type=int, default=0, help="correct logs of each policy and draw")
    parser.add_argument("--logs", type=Path, help="folder that keeps the logs")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    tally, unsure = Tally(), 0
    index = []
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(options.jobs) as pool:
        for outcome in pool.map(judge, cases(options.logs or Path(folder), options)):
            index.append(outcome._asdict())
            if tally.add(outcome):
                continue
            unsure += bool({*outcome.answers.values()} & {*outcome.alternatives})
            if options.misses:
                print(outcome, flush=True)
    if options.logs:
        recipes = {policy.name: policy.recipe for policy in cached_policies(options.folder)}
        (options.logs / "index.json").write_text(json.dumps({"cases": index, "recipes": recipes}))
    print(tally)
    print(f"of the others, the audit says for {unsure} that the log cannot exclude it")


if __name__ == "__main__":
    main()
