"""Measures how policies of the Go2 walk with hidden loads, floors, motors and delays, and prints the tables.

    python benchmarks/go2_walks.py measure models/go2-student.onnx --out results/go2/live.json
    python benchmarks/go2_walks.py measure models/go2-student.onnx --context constant --out results/go2/constant.json
    python benchmarks/go2_walks.py measure runs/teacher --out results/go2/teacher.json
    python benchmarks/go2_walks.py measure go2-walk.onnx --gains 2 --out results/go2/public-doubled.json
    python benchmarks/go2_walks.py table results/go2

A policy is a model file (also one that `sami adopt` made with examples/go2.toml) or the folder of a teacher. The k-th
episode of a set has the same task, start and commands for every policy, so that they are compared in pairs. Beside the
environment's sets there are `nominal`, `delayed` (20 ms, else nominal) and `dies` (nominal, until one motor dies after
4 s). The files hold the metrics of each episode. Intervals are 95 %: of shares and means over episodes, of ratios of
falls by a bootstrap of pairs.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sami_runtime.model.artifact import read_artifact
from sami_runtime.session.session import Session
from sami_train.envs.go2.batch import Go2Batch
from sami_train.envs.go2.entry import DEAD, GO2, REACH, STANCE
from sami_train.envs.go2.robot import Go2Robot
from sami_train.envs.tasks import Task
from sami_train.evaluation.intervals import REPLICATES, interval_over_starts

EPISODES = 200
"""Smallest number of episodes in a set; the number is rounded up so that all tasks have equally many."""
SEED = 8_000_009
"""Seed of the first episode of a set."""
DEATH_STEP = 200
"""Step at which a motor dies in `dies`."""
FROZEN = 50
"""Step whose context a frozen policy keeps; in `dies` it is the step at which the motor dies."""
CONSTANT_SEED = 9_000_011
"""First seed of the nominal episodes whose mean context is the constant context."""
NOMINAL = GO2.tasks.check({})
SETS: dict[str, Sequence[Task]] = {
    "nominal": (NOMINAL,),
    **GO2.tasks.sets,
    "delayed": (GO2.tasks.check({"delay": 0.02}),),
    "dies": DEAD,
}
"""Tasks by the name of their set; a task of `dies` applies from the step at which the motor dies."""
_STANCE, _REACH = np.array(STANCE), np.array(REACH)

Walk = Callable[[np.ndarray, Go2Batch, int, int], np.ndarray]
"""A policy: actions (n, 12) from observations (n, 45), the batch, the step, and the step of a frozen context."""


class Robots(Go2Batch):
    """Robots whose controller gains kp and kd are multiplied by `gains`; the motors' limits do not change."""

    def __init__(self, rows: int, gains: float) -> None:
        self.gains = gains
        super().__init__(rows, NOMINAL)

    def _set_task(self, i: int, task: Task) -> None:
        super()._set_task(i, task)
        self._fields["actuator_gainprm"][i] *= self.gains
        self._fields["actuator_biasprm"][i] *= self.gains


def deployed(path: Path, context: str) -> Callable[[int], Walk]:
    """Return a function that makes the policy of a model file for n rows, with a live, constant or frozen context."""
    artifact = read_artifact(path)
    names = [signal.name for signal in artifact.contract.observation]
    if "command" in names:
        return lambda rows: _adopted(Session(artifact, batch=rows))
    head, constant = None, np.zeros(0, np.float32)
    if context != "live":
        from sami_train.studies.contexts.changed_episodes import PolicyHead

        head = PolicyHead(artifact)
    if context == "constant":
        constant = _mean_context(Session(artifact, batch=100))

    def make(rows: int) -> Walk:
        session, rest = Session(artifact, batch=rows), np.zeros(0, np.float32)

        def act(observation: np.ndarray, batch: Go2Batch, step: int, keep: int) -> np.ndarray:
            nonlocal rest
            signals = GO2.layout.by_name(observation, names)
            answer = session.step(signals)
            if step == keep:
                rest = answer.context
            if head is None or (context == "frozen" and step < keep):
                return answer.action
            replaced = rest if context == "frozen" else np.tile(constant, (rows, 1))
            actions = head(signals, replaced, answer.extra)
            session.executed(actions)
            return actions

        return act

    return make


def _adopted(session: Session) -> Walk:
    """Return an adopted policy, which outputs target angles, and reads the Go2's signals under other names."""
    layout = GO2.layout

    def act(observation: np.ndarray, batch: Go2Batch, step: int, keep: int) -> np.ndarray:
        signals = layout.by_name(observation, [signal.name for signal in GO2.signals])
        command = np.concatenate([signals["commanded_velocity"], signals["commanded_yaw_rate"]], axis=1)
        readings = {name: signals[name] for name in ("angular_velocity", "gravity", "joint_angles", "joint_velocities")}
        targets = session.step({**readings, "command": command}).action
        return np.clip((targets - _STANCE) / _REACH, -1.0, 1.0)

    return act


def _mean_context(session: Session) -> np.ndarray:
    """Return the mean context (C,) of nominal episodes, without their first second."""
    rows, names = session.batch, [signal.name for signal in session.contract.observation]
    batch = Robots(rows, 1.0)
    observation = batch.reset(range(CONSTANT_SEED, CONSTANT_SEED + rows), [NOMINAL] * rows)
    contexts = []
    for step in range(GO2.episode_steps):
        answer = session.step(GO2.layout.by_name(observation, names))
        observation, _ = batch.step(answer.action)
        if step >= FROZEN:
            contexts.append(answer.context.mean(axis=0))
    return np.mean(contexts, axis=0).astype(np.float32)


def privileged(folder: Path, context: str) -> Callable[[int], Walk]:
    """Return a function that makes a teacher's policy; with a constant context, it reads the nominal task's code."""
    from sami_train.studies.teacher.teacher import load_teacher

    teacher, code = load_teacher(folder), Go2Robot().code
    nominal = code.encode([NOMINAL])[0]

    def act(observation: np.ndarray, batch: Go2Batch, step: int, keep: int) -> np.ndarray:
        truth = batch.privileged()
        if context == "constant":
            truth[:, -code.size :] = nominal
        return teacher.act(observation, truth)

    return lambda rows: act


def measured(
    make: Callable[[int], Walk], task_set: str, episodes: int, gains: float, seed: int
) -> dict[str, list[float]]:
    """Return, for a set of tasks, each metric and the number of steps by episode."""
    tasks = SETS[task_set]
    rows = len(tasks) * math.ceil(episodes / len(tasks))
    of_rows = [tasks[row % len(tasks)] for row in range(rows)]
    with_dead_motor = task_set == "dies"
    batch, act = Robots(rows, gains), make(rows)
    observation = batch.reset(range(seed, seed + rows), [NOMINAL] * rows if with_dead_motor else of_rows)
    running, steps = np.ones(rows, bool), np.zeros(rows)
    values: dict[str, np.ndarray] = {}
    for step in range(GO2.episode_steps):
        if with_dead_motor and step == DEATH_STEP:
            for row, task in enumerate(of_rows):
                batch.set_dynamics(row, task)
        observation, _ = batch.step(act(observation, batch, step, DEATH_STEP if with_dead_motor else FROZEN))
        steps += running
        for name, of_name in batch.metrics.items():
            values.setdefault(name, np.zeros(rows))[running] = of_name[running]
        running &= ~batch.terminated
        if not running.any():
            break
    digits = {metric.name: metric.digits + 2 for metric in GO2.metrics}
    return {**{n: np.round(v, digits[n]).tolist() for n, v in values.items()}, "steps": steps.astype(int).tolist()}


def measure(options: argparse.Namespace) -> None:
    """Measure one policy in some sets, and write the metrics of each episode."""
    of_folder = options.policy.is_dir()
    make = (privileged if of_folder else deployed)(options.policy, options.context)
    document: dict[str, Any] = {
        "policy": options.name or options.policy.stem,
        "context": options.context,
        "gains": options.gains,
        "seed": options.seed,
        "sets": {},
    }
    if not of_folder:
        document["weights_sha256"] = read_artifact(options.policy).contract.weights_sha256
    for task_set in options.sets.split(",") if options.sets else SETS:
        start = time.perf_counter()
        document["sets"][task_set] = values = measured(make, task_set, options.episodes, options.gains, options.seed)
        print(
            f"{task_set:9} {len(values['falls'])} episodes, falls {np.mean(values['falls']):.3f}, tracking error "
            f"{np.mean(values['tracking_error']):.3f} m/s, {time.perf_counter() - start:.0f} s",
            flush=True,
        )
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(document) + "\n", encoding="utf-8")


def ratio_interval(falls: np.ndarray, baseline: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of the ratio of two counts of falls in the same episodes, by a bootstrap of pairs."""
    rows = np.random.default_rng(0).integers(len(falls), size=(REPLICATES, len(falls)))
    sums, of_others = falls[rows].sum(axis=1), baseline[rows].sum(axis=1)
    low, high = np.percentile(sums / np.maximum(of_others, 0.5), [2.5, 97.5])
    return float(low), float(high)


def table(options: argparse.Namespace) -> None:
    """Print, in Markdown, all policies' metrics by set; then the ratio of the first one's falls to the others'."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in _in_order(options.folder)]
    if not documents:
        sys.exit(f"{options.folder} has no measurement; make one with: measure POLICY --out {options.folder}/NAME.json")
    sets = [name for name in SETS if all(name in document["sets"] for document in documents)]
    for metric, title in (
        ("falls", "falls"),
        ("tracking_error", "tracking error [m/s]"),
        ("yaw_error", "yaw error [rad/s]"),
        ("power", "power [W]"),
    ):
        print(f"| {title} | {' | '.join(sets)} |\n|---|{'---|' * len(sets)}")
        for document in documents:
            cells = [_cell(metric, np.array(document["sets"][name][metric])) for name in sets]
            print(f"| {document['policy']} | {' | '.join(cells)} |")
        print()
    first, *policies = documents
    print(f"| falls of {first['policy']}, as a share of those of | {' | '.join(sets)} |\n|---|{'---|' * len(sets)}")
    for document in policies:
        cells = []
        for name in sets:
            falls, of_other = (np.array(walks["sets"][name]["falls"]) for walks in (first, document))
            low, high = ratio_interval(falls, of_other)
            few = of_other.sum() < 10
            cells.append("-" if few else f"{falls.sum() / of_other.sum():.2f} ({low:.2f}, {high:.2f})")
        print(f"| {document['policy']} | {' | '.join(cells)} |")


def _in_order(folder: Path) -> list[Path]:
    """Return the paths of a folder's measurements, in the order of order.txt, then unlisted ones."""
    order = folder / "order.txt"
    listed = order.read_text(encoding="utf-8").split() if order.is_file() else []
    paths = sorted(folder.glob("*.json"))
    return sorted(paths, key=lambda path: listed.index(path.stem) if path.stem in listed else len(listed))


def _cell(metric: str, values: np.ndarray) -> str:
    digits = {"power": 0, "tracking_error": 3}.get(metric, 2)
    if metric in ("power", "yaw_error"):
        return f"{values.mean():.{digits}f}"
    interval = interval_over_starts(values, (0.0, 1.0) if metric == "falls" else None)
    assert interval is not None
    return f"{values.mean():.{digits}f} ({interval[0]:.{digits}f}, {interval[1]:.{digits}f})"


def main() -> None:
    """Parse the command line; measure a policy, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("measure", help="measure one policy")
    command.add_argument("policy", type=Path, help="model file, or folder of a teacher")
    command.add_argument("--context", choices=("live", "constant", "frozen"), default="live")
    command.add_argument("--gains", type=float, default=1.0, help="factor of the controllers' kp and kd")
    command.add_argument("--sets", help=f"comma-separated, of {', '.join(SETS)}; all if left out")
    command.add_argument("--episodes", type=int, default=EPISODES, help="in each set, at least")
    command.add_argument("--seed", type=int, default=SEED, help="of the first episode; another one to choose by")
    command.add_argument("--name", help="what the table calls it")
    command.add_argument("--out", type=Path, help="write JSON")
    command.set_defaults(do=measure)
    many = commands.add_parser("table", help="print the tables of a folder of measurements")
    many.add_argument("folder", type=Path)
    many.set_defaults(do=table)
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
