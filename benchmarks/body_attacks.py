"""Attacks the limits of `[body]` on simulated robots, and prints by how much the robots exceed them, as Markdown.

    python -m benchmarks.body_attacks [--commands 200] [--seed 0]       # about two minutes

Each attack sends random commands at 50 Hz through a `BodyGate`, and disturbs commands, observations or times. A cell
has the worst of its attacks: how far a joint was beyond its range [mrad], how far shapes overlapped [mm], and how far a
shape was within the margin [mm]. The last cell names the worst attack. The Panda has a box, a floor and a point; its
joints reach a target within a period, or change their speeds by `acceleration` or at once ("sudden"). The Go2 hangs.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.body_cost import GO2, HAND, PANDA, SHAPES
from sami_runtime import FakeAdapter, Limits, Observation
from sami_runtime.errors import SafetyWarning, SamiError
from sami_runtime.robots.body import BodyGate, BodyLimits, BodySettings
from sami_runtime.robots.kit.motion import eased
from sami_runtime.signals import Signal
from tests.making.body_limits import Hanging, IdealArm
from tests.sami_runtime.conftest import Memoryless, contract_of

ARM = PANDA | HAND | SHAPES | {"boxes": SHAPES["boxes"] | {"floor": {"low": [-3, -3, -1.4], "high": [3, 3, -0.4]}}}
BODIES: dict[str, dict[str, Any]] = {
    "targets": ARM | {"command": "joint_positions"},
    "velocities": ARM | {"command": "joint_velocities"},
    "hand": ARM | {"command": "hand", "hand": "panda_hand"},
    "Go2": GO2 | {"collision": {"margin": 0.06}},
}
ROBOTS = ("targets", "velocities", "hand", "sudden velocities", "sudden hand", "Go2")
ROWS = {
    "a swap of policies, a pause, a person, poses, the fallback, a stop": "swap pause person pose fallback stop",
    "positions that are two periods late, NaN, or older than allowed": "late NaN old",
    "a sensor of the joints that is stuck for 20 ticks": "stuck",
    "the same with `frozen = { joints = 3 }`": "frozen",
    "a start 50 mrad outside": "outside",
    "a start in motion, with positions two periods late": "motion",
    "a tick two or three periods late": "lateness",
    "a loop suspended for 10 periods": "suspension",
    "the watchdog, after three periods": "watchdog",
    "accepted errors of 0.5 rad or 3 rad/s at one tick in ten": "outlier",
}


class Trial:
    """A simulated robot behind a `BodyGate`, and by how much it exceeded its limits."""

    def __init__(self, name: str, robot: str, seed: int) -> None:
        self.kind, self.rng = robot.removeprefix("sudden "), np.random.default_rng(seed)
        self.acceleration = PANDA["acceleration"] if robot == self.kind else 1e9
        settings = BodySettings.of(BODIES[self.kind] | {"positions": "joints", "velocities": "speeds"})
        self.body, self.targets = BodyLimits(settings), settings.command == "joint_positions"
        elements = ("x", "y", "z") if self.kind == "hand" else settings.joints
        unit = "rad" if self.targets else "m/s" if self.kind == "hand" else "rad/s"
        sizes = [("joints", settings.joints, "rad"), ("speeds", settings.joints, "rad/s"), ("cube", ("x",), "m")]
        *observation, action = (
            Signal(name=name, size=len(elements), unit=unit, elements=elements, low=free, high=free)
            for name, elements, unit in (*sizes, ("act", elements, unit))
            for free in [(None,) * len(elements)]
        )
        adapter = FakeAdapter(axes=action.size, limit=1e9)
        adapter.observation = tuple(observation)
        adapter.reset()
        self.contract = contract_of(Memoryless(), observation=adapter.observation, action=action, rate_hz=50.0)
        rules: dict[str, Any] = {"rest": "joints" if self.targets else 0.0, "stop_after": 1000, "max_pause_s": 5.0}
        allowed = Limits(**rules, inside={"cube.x": [-1.0, 1.0]}, frozen={"joints": 3} if name == "frozen" else {})
        fallback = SimpleNamespace(act=self.act, reset=lambda: None) if name == "fallback" else None
        self.gate = BodyGate(adapter, self.contract, allowed, fallback, settings=settings)
        low, high = np.maximum(self.body.low, -4.0), np.minimum(self.body.high, 4.0)
        self.middle, self.spread = (low + high) / 2, high - low
        self.excess, self.now, self.repeats, self.reversed = np.zeros(3), 0.0, 0, False
        self.place()

    def place(self) -> None:
        """Put a robot home, at rest."""
        self.robot: Any = Hanging() if self.kind == "Go2" else IdealArm(self.body, self.acceleration)
        self.past: list[tuple[float, Any, Any]] = []
        self.halt(0)

    def halt(self, periods: int = 20) -> None:
        """Stop the robot, and wait until it rests."""
        self.command = self.robot.positions.copy() if self.targets else np.zeros(self.contract.action.size)
        self.wait(periods)

    def wait(self, periods: int = 1) -> None:
        """Simulate the robot, and judge it at each step."""
        for _ in (step for _ in range(periods) for step in self.robot.steps(self.command)):
            positions, margin = self.robot.positions, self.body.settings.collision.margin
            near = self.body.geometry.clearance(positions).distance
            off = np.maximum(self.body.low - positions, positions - self.body.high).max()
            self.excess = np.maximum(self.excess, [1e3 * off, -1e3 * near, 1e3 * (margin - near)])
        self.now += periods * self.robot.period

    def begin(self, rest: bool = True) -> None:
        """Begin an episode; a robot within its margin, where none may begin, is first put home."""
        if rest:
            self.halt()
        if np.isfinite(self.body.geometry.clearance(self.robot.positions).distance):
            self.place()
        self.gate.begin(self.robot.period)

    def act(self, *observation: Any) -> Any:
        """Return a random command of up to twice the limits, the same for a random number of periods."""
        if not self.repeats:
            self.repeats = int(self.rng.choice([1, 2, 5, 20, 40]))
            share = self.rng.uniform(-1.0, 1.0, self.contract.action.size)
            share = np.sign(share) if self.rng.random() < 0.3 else share
            speeds = 1.5 * share if self.kind == "hand" else 2 * self.body.velocity[: len(share)] * share
            self.random_command = self.middle + self.spread * share if self.targets else speeds
        self.repeats -= 1
        return self.random_command

    def tick(self, late: int = 0, errors: Any = (0.0, 0.0), cube: float = 0.0, **changes: Any) -> None:
        """Observe the robot as it was `late` periods ago, rule on a `command` of a person or the policy, and wait."""
        noise = self.rng.normal(0.0, 1e-6, (2, len(self.middle)))  # so that equal numbers are those of a stuck sensor
        self.past = [*self.past[-30:], (self.now, self.robot.positions + noise[0], self.robot.velocities + noise[1])]
        stamp, *joints = changes.get("reading", self.past[max(0, len(self.past) - 1 - late)])
        joints += self.rng.uniform(-1.0, 1.0, noise.shape) * np.array(errors)[:, None]
        values = {"joints": np.float32(joints[0]), "speeds": np.float32(joints[1]), "cube": np.float32([cube])}
        fault = self.gate.fault(Observation(values, stamp), self.now)
        command = np.float32(changes.get("command", self.act()))
        rule = self.gate.command if "command" in changes else self.gate.propose
        try:
            self.write(self.gate.hold(fault, self.now) if fault else rule(command, self.now))
        except SamiError as error:
            if "the robot begins with" not in str(error):  # a shape within its margin
                raise
            self.begin()
        self.wait(changes.get("periods", 1))

    def write(self, ruling: Any) -> None:
        """Write a ruling to the robot."""
        if (result := self.gate.write(ruling)) is not None:
            self.command = result.action[:: -1 if self.reversed else 1].astype(float)


def excess(name: str, robot: str, commands: int, seed: int) -> Any:
    """Return how far an attack brought a robot beyond a range, into a shape and into its margin: (3,)."""
    warnings.simplefilter("ignore", SafetyWarning)
    trial = Trial(name, robot, seed)
    trial.begin()
    for tick in range(commands):
        disturb(trial, name, tick)
    return trial.excess


def disturb(trial: Trial, name: str, tick: int) -> None:
    """Do one tick of an attack; many begin a new episode every 20 ticks."""
    rng, first, action, changes = trial.rng, tick % 20 == 0, trial.contract.action, dict[str, Any]()
    match name:
        case "swap" if first:  # to another order of the joints, or other bounds
            trial.reversed = tick % 40 == 20 and trial.kind == "velocities"
            ends = [trial.middle + end * trial.spread if trial.targets else (end,) * action.size for end in (-0.6, 0.6)]
            bounds = {"low": tuple(ends[0]), "high": tuple(ends[1])} if tick % 40 == 20 else {}
            other = {"elements": action.elements[::-1]} if trial.reversed else bounds
            trial.gate.change_contract(trial.contract.model_copy(update={"action": action.model_copy(update=other)}))
            trial.begin()
        case "pause" if tick % 30 >= 15:
            trial.write(trial.gate.rest(trial.now))
            return trial.wait()
        case "person" if tick % 20 >= 10:
            changes["command"] = trial.act()
        case "pose" if tick % 60 < 30:  # to a pose beyond limits
            if tick % 60 == 0:
                trial.start, trial.share = trial.robot.positions.copy(), rng.choice([-0.6, 0.6], len(trial.middle))
            goal = trial.middle + trial.spread * trial.share
            path = trial.start + eased((tick % 60 + 1) / 30) * (goal - trial.start)
            changes["command"] = path if trial.targets else 3 * (goal - trial.robot.positions)[: action.size]
        case "fallback" if tick % 50 >= 20:
            changes["cube"] = 5.0
        case "stop" if first:  # the next episode begins there
            trial.gate.trip("attack")
            trial.gate.rearm()
            trial.begin()
        case "NaN" if rng.random() < 0.3:
            changes["errors"] = (np.nan, 0.0)
        case "old" if tick % 60 > 40:
            changes["late"] = tick % 60 - 40
        case "stuck" | "frozen" if tick % 40 >= 20:
            changes["reading"] = (trial.now, *trial.past[20 - tick % 40 - 1][1:])
        case "outside" if first:
            trial.place()
            at, end = rng.integers(len(trial.middle)), rng.choice([-1.0, 1.0])
            trial.robot.positions[at] = trial.middle[at] + end * (trial.spread[at] / 2 + 0.05)
            trial.halt(0)
            trial.begin(rest=False)
        case "late" | "motion":
            changes["late"] = 2
            if name == "motion" and tick % 10 == 0:
                trial.begin(rest=False)
        case "lateness":
            changes["periods"] = rng.choice([1, 1, 1, 2, 3])
        case "suspension" if tick % 20 == 19:
            changes["periods"] = 10
        case "watchdog" if first:
            trial.wait(3)
            trial.begin()
        case "outlier" if (chance := rng.random()) < 0.1:
            changes["errors"] = (0.5, 0.0) if chance < 0.05 else (0.0, 3.0)
    return trial.tick(**changes)


def row(name: str, commands: int, seed: int, robots: Sequence[str] = ROBOTS) -> list[str]:
    """Return the cells of a row."""
    attacks = ROWS[name].split()
    depths = np.array([[excess(attack, robot, commands, seed) for attack in attacks] for robot in robots])
    worst = attacks[depths.max(axis=(0, 2)).argmax()]
    return [name, *("/".join(f"{number:.0f}" for number in depth) for depth in depths.max(axis=1)), worst]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", type=int, default=200, help="of each attack on each robot")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("|", " | ".join(["on the robot", *ROBOTS, "worst attack"]), "|\n|" + "---|" * (len(ROBOTS) + 2), flush=True)
    for name in ROWS:
        print("|", " | ".join(row(name, options.commands, options.seed)), "|", flush=True)


if __name__ == "__main__":
    main()
