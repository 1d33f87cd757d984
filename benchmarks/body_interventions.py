"""Counts how often limits from the data sheet change the actions of a shipped Panda policy in its own simulator.

    python benchmarks/body_interventions.py [--episodes 100] [--slower 5] [--out FILE.json]

Each task set's tasks come in turn, each episode from a start of its own. The limits are Franka's for the Panda: ranges
and velocities of the joints, 1.7 m/s at the hand; and it keeps clear of itself. The simulated arm is faster than the
real one may be; `--slower 5` judges it as examples/franka drives the real one, at a fifth of the pace.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from body_cost import PANDA

from sami_runtime.adapters.around import Around
from sami_runtime.adapters.base import Adapter, Executed, Observation
from sami_runtime.clock import ManualClock
from sami_runtime.distribution import shipped_models
from sami_runtime.errors import SafetyWarning
from sami_runtime.loop.tick import StepRecord
from sami_runtime.robots.body import BodyGate, BodySettings
from sami_runtime.run import Run
from sami_runtime.session.session import Session
from sami_runtime.signals import Signal
from sami_train import seeds
from sami_train.envs.adapter import make_adapter
from sami_train.envs.catalog import environment
from sami_train.envs.make import make
from sami_train.episodes.rollout import beginning

JOINTS = tuple(PANDA["joints"])
UNBOUNDED = (None,) * len(JOINTS)
SIGNALS = tuple(
    Signal(name=name, size=len(JOINTS), unit=unit, elements=JOINTS, low=UNBOUNDED, high=UNBOUNDED)
    for name, unit in (("joint_positions", "rad"), ("joint_velocities", "rad/s"))
)
REACHED = (0.0315, 0.0425, 0.0417)
"""Displacement of the hand in a period for an action of 1 [m]: reached_displacement of the contract's data sheet."""
FASTEST = {name: 2.175 if at < 4 else 2.61 for at, name in enumerate(JOINTS)}


class WithJoints(Around):
    """PyBullet's Panda, which observes its joints as well."""

    def __init__(self, adapter: Adapter, env: Any) -> None:
        super().__init__(adapter)
        self.observation = (*adapter.observation, *SIGNALS)
        self._engine, self._arm = env.unwrapped.sim.physics_client, env.unwrapped.sim._bodies_idx["panda"]

    def read(self) -> Observation:
        """Return the observation, with the joints' positions and velocities."""
        observation, states = self.read_inner(), self._engine.getJointStates(self._arm, range(len(JOINTS)))
        joints = {signal.name: np.array([state[at] for state in states]) for at, signal in enumerate(SIGNALS)}
        return replace(observation, values={**observation.values, **joints})

    def write(self, action: np.ndarray) -> Executed:
        """Write."""
        return self.write_inner(action)


def data_sheet(slower: int) -> BodySettings:
    """Return the limits for an arm that is driven `slower` times slower than in simulation."""
    scale = {f"d{axis}": way * 25.0 / slower for axis, way in zip("xyz", REACHED, strict=True)}
    table = {"command": "hand", "hand": "panda_hand", "elements": list(scale), "scale": scale}
    velocity = {"most": FASTEST}
    shapes = {"points": {"panda_hand": {"most": 1.7}}, "collision": {"margin": 0.01}}
    return BodySettings.of(PANDA | table | {"velocity": velocity} | shapes)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=100, help="in each set")
    parser.add_argument("--slower", type=int, default=1, help="at which share of the simulated pace (1)")
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    options = parser.parse_args()
    warnings.simplefilter("ignore", SafetyWarning)
    session = Session.load(shipped_models()["panda-satesac"])
    spec, rows = environment(session.contract.training["env"]), []
    for task_set in ("training", "moderate", "extreme"):
        limits: Counter[str] = Counter()
        ticks = disturbed = successes = 0
        for number in range(options.episodes):
            tasks = spec.tasks.resolve(task_set)
            env = make(spec, tasks=[tasks[number % len(tasks)]])
            clock = ManualClock()
            adapter = WithJoints(make_adapter(spec, env, clock), env)
            names: Counter[str] = Counter()

            def count(record: StepRecord, names: Counter[str] = names) -> None:
                names.update(" ".join(name.split()[:2]) for name in record.limited_by if name.startswith("body"))

            gate = partial(BodyGate, settings=data_sheet(options.slower), slower=options.slower)
            try:
                with Run(session, adapter, clock, simulator=True, gate=gate) as run:
                    report = run.episode(beginning(seeds.EVALUATION, number)[0], on_step=count)
            finally:
                adapter.close()
            ticks, successes = ticks + report.steps, successes + bool(report.success)
            disturbed += bool(names)
            limits += names
        row = {"set": task_set, "slower": options.slower, "episodes": options.episodes, "ticks": ticks}
        row |= {"disturbed_episodes": disturbed, "successes": successes, "interventions": dict(limits)}
        rows.append(row)
        print(json.dumps(row), flush=True)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
