"""Seeds bugs into the observations of seven policies, drives them and asks `sami audit` for the bug.

    python benchmarks/seeded_bugs.py WHEELS [--fresh]

WHEELS is a folder with the unpacked wheels that `legged_logs.py` names. A policy is driven in closed loop with the bug
inside, so that a log is what its user would have. A bug counts as named if the audit blames exactly its terms, with
exactly its kind. `--fresh` uses seeds that were not looked at while the audit was written.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from legged_logs import Policy, drive, policies

from sami_runtime.adoption.audit import audit
from sami_runtime.adoption.log import read_log
from sami_runtime.adoption.raw_signals import rotate
from sami_runtime.adoption.recipe import Recipe

SECONDS = 4.0
Row = dict[str, np.ndarray]
Change = Callable[[dict[str, np.ndarray], Row, list[Row]], None]
POSITIONS, VELOCITIES, GYRO = "joint_positions", "joint_velocities", "angular_velocity"
DEGREES = 180 / np.pi


class SeededBug:
    """A kind of bug with random parameters, for one policy."""

    def __init__(self, kind: str, answers: dict[str, str], change: Change, raw: dict[str, str] | None = None) -> None:
        self.kind, self.answers, self.change = kind, answers, change
        self.after = raw is not None
        """Whether the change is to the scaled term and not to the signal."""


def _bugs(policy: Policy, rng: np.random.Generator) -> list[SeededBug]:
    """Return one bug of each kind that the policy can have."""
    has = {name for name, _, _ in policy.terms}
    scales = {name: scale for name, _, scale in policy.terms}
    size = len(policy.joints)
    bugs: list[SeededBug] = []

    def add(kind: str, answers: dict[str, str], change: Change, after: bool = False) -> None:
        answers = {term: name for term, name in answers.items() if term in has}
        if answers:
            bugs.append(SeededBug(kind, answers, change, {} if after else None))

    def setter(term: str, value: Callable[[np.ndarray, Row, list[Row]], np.ndarray]) -> Change:
        def change(values: dict[str, np.ndarray], row: Row, rows: list[Row]) -> None:
            if term in values:
                values[term] = value(values[term], row, rows)

        return change

    def both(first: Change, second: Change) -> Change:
        def change(values: dict[str, np.ndarray], row: Row, rows: list[Row]) -> None:
            first(values, row, rows)
            second(values, row, rows)

        return change

    def reordered(order: np.ndarray) -> Change:
        return both(setter(POSITIONS, lambda v, *_: v[order]), setter(VELOCITIES, lambda v, *_: v[order]))

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
    moved = rng.choice(size, int(rng.integers(1, 4)), replace=False)
    flip = np.ones(size)
    flip[moved] = -1
    shift = np.zeros(size)
    shift[moved] = rng.uniform(0.05, 0.3, len(moved)) * rng.choice([-1, 1], len(moved))
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
        both(setter(POSITIONS, lambda v, *_: v * flip), setter(VELOCITIES, lambda v, *_: v * flip)),
    )
    add("joint angles in degrees", {POSITIONS: "degrees"}, setter(POSITIONS, lambda v, *_: v * DEGREES))
    add("gyro in degrees", {GYRO: "degrees"}, setter(GYRO, lambda v, *_: v * DEGREES))
    if scales[VELOCITIES] != 1:
        add("velocity scale missing", {VELOCITIES: "scale"}, setter(VELOCITIES, lambda v, *_: v / scales[VELOCITIES]))
    add("gyro scaled wrong", {GYRO: "scale"}, setter(GYRO, lambda v, *_: v * factor))
    if policy.default.any():
        add("default pose missing", {POSITIONS: "default pose"}, setter(POSITIONS, lambda v, *_: v + policy.default))
    add("offset of some joints", {POSITIONS: "offset"}, setter(POSITIONS, lambda v, *_: v + shift))
    if velocity in has:
        add("one step late", {velocity: "lag"}, late(velocity))
    add("last action late", {"last_action": "lag"}, setter("last_action", earlier))
    add("last action applied, not raw", {"last_action": "last action"}, setter("last_action", applied))
    add("last action never set", {"last_action": "ignored"}, setter("last_action", lambda v, *_: 0 * v))
    add("velocities by difference", {VELOCITIES: "difference"}, setter(VELOCITIES, difference))
    if "command" in has:
        add("command in another order", {"command": "permutation"}, setter("command", lambda v, *_: v[[1, 0, 2]]))
    command = "command" if "command" in has else "command_lin_vel"
    add("command ignored", {command: "ignored"}, setter(command, lambda v, *_: 0 * v))
    return bugs


def _inverse(row: Row) -> np.ndarray:
    return rotate(row["quaternion"][None], np.array([[0, 0, -1.0]]))[0]


def _other_side(name: str, joints: tuple[str, ...]) -> str:
    for a, b in (("FL", "FR"), ("RL", "RR"), ("left", "right"), ("Left", "Right")):
        for one, other in ((a, b), (b, a)):
            if name.replace(one, other, 1) in joints and one in name:
                return name.replace(one, other, 1)
    return name


def _builder(policy: Policy, bug: SeededBug | None) -> Callable[[Row, list[Row]], np.ndarray]:
    def build(row: Row, rows: list[Row]) -> np.ndarray:
        values = {name: policy.value(name, row, rows) for name, _, _ in policy.terms}
        if bug is not None:
            bug.change(values, row, rows)
        return policy.join(values)

    return build


def cases(wheels: Path, logs: Path, fresh: bool, draws: int) -> Iterator[tuple[Policy, SeededBug | None, Path]]:
    """Yield a log of every policy with every bug, and half as many without one; logs that exist are not made again."""
    for number, policy in enumerate(policies(wheels)):
        for draw in range(draws):
            seed = 1000 * number + draw + (100_000 if fresh else 0)
            bugs: list[SeededBug | None] = [*_bugs(policy, np.random.default_rng(seed))]
            bugs += [None] * (len(bugs) // 2)
            for index, bug in enumerate(bugs):
                path = logs / f"{policy.name}-{seed}-{index}.npz"
                if not path.exists():
                    np.savez(path, **drive(policy, 50 * seed + index, SECONDS, _builder(policy, bug)))
                yield policy, bug, path


def named(policy: Policy, path: Path) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the kinds of each term that the audit blames, and what else it cannot tell apart."""
    recipe = Recipe.model_validate(policy.recipe)
    result = audit(recipe, read_log(path, recipe.action.elements))
    blamed = {v.term: v.kinds for v in result.verdicts if v.status == "fault"}
    return blamed, [kind for v in result.verdicts for kind in v.alternatives]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("wheels", type=Path)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--logs", type=Path, help="folder that keeps the logs")
    parser.add_argument("--misses", action="store_true")
    arguments = parser.parse_args()
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    right_of: Counter[str] = Counter()
    total_of: Counter[str] = Counter()
    alarms = clean = unsure = 0
    with tempfile.TemporaryDirectory() as folder:
        logs = arguments.logs or Path(folder)
        for policy, bug, path in cases(arguments.wheels, logs, arguments.fresh, arguments.draws):
            blamed, alternatives = named(policy, path)
            if bug is None:
                clean += 1
                alarms += bool(blamed)
                if blamed and arguments.misses:
                    print(f"alarm: {policy.name}: {blamed}")
                continue
            good = blamed == {term: (kind,) for term, kind in bug.answers.items()}
            total[bug.kind] += 1
            right[bug.kind] += good
            total_of[policy.name] += 1
            right_of[policy.name] += good
            unsure += not good and bool(set(bug.answers.values()) & set(alternatives))
            if not good and arguments.misses:
                print(f"missed: {policy.name}: {bug.kind} {bug.answers}: {blamed}; cannot exclude {alternatives}")
    for table, totals in ((right, total), (right_of, total_of)):
        print("\n".join(f"{name:34}{table[name]:>4} of {totals[name]}" for name in totals))
        print()
    print(f"named {sum(right.values())} of {sum(total.values())} ({sum(right.values()) / sum(total.values()):.1%})")
    print(f"of the others, the audit says for {unsure} that the log cannot exclude it")
    print(f"false alarms {alarms} of {clean}")


if __name__ == "__main__":
    main()
