"""Counts how often a robot's default guards hold or stop a policy in its own simulator.

    python benchmarks/guard_rates.py panda-satesac panda-satesac-camera --gap examples/camera.toml --out camera.json
    python benchmarks/guard_rates.py panda-satesac --flip dy           # a wrong robot, for comparison

Each set's tasks come in turn, each episode from a start of its own. Ages and bounds are not judged, so that every hold
and every stop is a guard's. The intervals are 95 %, over episodes.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sami_runtime.adapters.around import Around, Gapped
from sami_runtime.adapters.base import Adapter, Executed, Observation
from sami_runtime.clock import ManualClock
from sami_runtime.distribution import shipped_models
from sami_runtime.errors import SafetyStop, SafetyWarning, UnknownName
from sami_runtime.gap.profile import GapProfile
from sami_runtime.loop.tick import StepRecord
from sami_runtime.run import Run
from sami_runtime.safety.limits import GUARDS, Limits
from sami_runtime.safety.watch import active_guards
from sami_runtime.session.session import Session
from sami_train import seeds
from sami_train.envs.adapter import make_adapter
from sami_train.envs.catalog import environment
from sami_train.envs.make import make
from sami_train.envs.tasks import Task
from sami_train.episodes.rollout import beginning
from sami_train.evaluation.intervals import interval_over_starts

ONLY_GUARDS = Limits(max_age_s=math.inf, max_pause_s=math.inf, out_of_bounds="act", rest=None)
KINDS = {"ranges": "ranges", "alarm": "ood", "frozen": "frozen"}
"""Guards by the beginning of a held tick's reason."""


class Flipped(Around):
    """A robot with the sign of one element of the action reversed."""

    def __init__(self, adapter: Adapter, element: str) -> None:
        super().__init__(adapter)
        if element not in adapter.action.elements:
            raise UnknownName("element of the action", element, adapter.action.elements)
        self._sign = np.where(np.array(adapter.action.elements) == element, -1.0, 1.0).astype(np.float32)

    def read(self) -> Observation:
        """Return the robot's observation."""
        return self.inner.read()

    def write(self, action: np.ndarray) -> Executed:
        """Write the action with the reversed sign, but report the given action as applied."""
        return replace(self.inner.write(action * self._sign), action=action)


def episode(session: Session, adapter: Adapter, clock: ManualClock, seed: int) -> dict[str, int]:
    """Return the ticks that each guard held, as NAME, and the guard that stopped the robot, as NAME stop."""
    result: Counter[str] = Counter()

    def count(record: StepRecord) -> None:
        if record.reason:
            name = KINDS[record.reason.partition(":")[0]]
            result[name] += 1
            result[f"{name} stop"] += "stop" in record.limited_by

    with Run(session, adapter, clock, limits=ONLY_GUARDS) as run:
        try:
            run.episode(seed, on_step=count)
        except SafetyStop:
            assert result, "something else than a guard stopped it"
    return dict(result)


def rates(model: str, task_set: str, episodes: int, gap: GapProfile | None, flip: str | None) -> dict[str, Any]:
    """Return, by guard, in how many episodes of a set it held, and in how many it stopped the robot."""
    session = Session.load(shipped_models()[model])
    spec = environment(session.contract.training["env"])
    tasks: Sequence[Task] = spec.tasks.resolve(task_set)
    rows = []
    for number in range(episodes):
        clock = ManualClock()
        adapter: Adapter = make_adapter(spec, make(spec, tasks=[tasks[number % len(tasks)]]), clock)
        adapter = Flipped(adapter, flip) if flip else adapter
        adapter = Gapped(adapter, gap, session.contract.rate_hz) if gap else adapter
        try:
            rows.append(episode(session, adapter, clock, beginning(seeds.EVALUATION, number)[0]))
        finally:
            adapter.close()
    result: dict[str, Any] = {"model": model, "set": task_set, "episodes": episodes}
    for name in GUARDS:
        if name not in active_guards(session.contract, GUARDS):
            result[name] = None
            continue
        holds, stopped = (np.array([row.get(key, 0) > 0 for row in rows], float) for key in (name, f"{name} stop"))
        result[name] = {
            "held": int(holds.sum()),
            "stopped": int(stopped.sum()),
            "stopped_95": np.round(interval_over_starts(stopped, (0.0, 1.0)) or (), 4).tolist(),
        }
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="names of shipped models")
    parser.add_argument("--episodes", type=int, default=100, help="in each set")
    parser.add_argument("--gap", help="sim-to-real profile between policy and simulator")
    parser.add_argument("--flip", metavar="ELEMENT", help="turn the sign of an element of the action")
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SafetyWarning)
    gap, rows = GapProfile.load(arguments.gap) if arguments.gap else None, []
    for model in arguments.models:
        for task_set in ("training", "moderate", "extreme"):
            row = rates(model, task_set, arguments.episodes, gap, arguments.flip)
            rows.append(row)
            cells = [
                f"{name} off"
                if row[name] is None
                else f"{name} held {row[name]['held']}, stopped {row[name]['stopped']} {row[name]['stopped_95']}"
                for name in GUARDS
            ]
            print(f"{model:32} {task_set:9} {arguments.episodes:4} episodes: {'; '.join(cells)}", flush=True)
    if arguments.out:
        table = {"gap": arguments.gap, "flip": arguments.flip, "rows": rows}
        arguments.out.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
