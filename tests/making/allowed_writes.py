"""A check of a gate's writes that shares no code with the gate, and random inputs for a gate.

As a program: python -m tests.making.allowed_writes WRITES SEED prints the counts for each of 36 combinations of limits.
"""

import itertools
import json
import math
import sys
from collections import Counter

import numpy as np

from sami_runtime import Contract, Executed, Limits, Observation, SafetyGate
from sami_runtime.signals import Signal

PERIOD = 0.04
FARTHEST = 3.0
"""Largest initial position of the robot in `drive_at_random`, in the action's unit; its contract allows it."""


class AllowedWrites:
    """The law of writes: a write changes by at most rate x elapsed, and is within the bounds or no further out.

    The elapsed time counts up to two periods, and is one for the first write, which changes the initial action.

    Args:
        low: Smallest action, (A,) or one number.
        high: Largest action.
        rate: Largest rate of change [unit/s]; infinite for no limit.
        period: Between two ticks [s].
    """

    def __init__(self, low, high, rate, period):
        self.low, self.high, self.rate, self.period = low, high, rate, period
        self.begin(0.0)

    def begin(self, rest):
        """Begin an episode at this action."""
        self.last, self.at = rest, None

    def judge(self, action, now):
        """Return why a write at a time [s] is not allowed, beginning with "rate", "bounds", ...; empty if it is."""
        span = self.period if self.at is None else min(max(now - self.at, 0.0), 2 * self.period)
        longest = self.rate * span if span else np.where(np.isinf(self.rate), np.inf, 0.0)
        before, action = np.asarray(self.last, np.float64), np.asarray(action, np.float64)
        self.last, self.at = action, now
        if not np.isfinite(action).all():
            return f"not finite: {action}"
        if (np.abs(action - before) > np.asarray(longest) * (1 + 1e-12)).any():
            return f"rate: {action} was written {span} s after {before}"
        if (action < np.minimum(self.low, before)).any() or (action > np.maximum(self.high, before)).any():
            return f"bounds: {action} was written after {before}, beyond {self.low} to {self.high}"
        return ""


class LyingArm:
    """An arm under position control whose reports of executed actions sometimes deviate from the written ones."""

    def __init__(self, random, scale, deviation):
        no_bounds = {"low": (-FARTHEST * scale,) * 2, "high": (FARTHEST * scale,) * 2}
        names = {"size": 2, "unit": "rad", "elements": ("fx", "fy")}
        self.observation = (Signal(name="position", **names, low=(None,) * 2, high=(None,) * 2),)
        self.action = Signal(name="target", **names, **no_bounds)
        self.random, self.scale, self.deviation = random, scale, deviation

    def write(self, action):
        deviates = self.deviation and self.random.random() < 0.3
        return Executed(action + np.float32(self.random.normal(0, self.deviation * self.scale, 2) * deviates))


def combinations():
    """Yield name, limits and deviation of 36 combinations: acceleration x rate x bounds x the robot's deviation."""
    accelerations = {"none": None, "eased": 20.0, "harsh": 2000.0}
    bounds = {"contract": None, "tighter than the pose": 1.0}
    deviations = {"does as written": 0.0, "deviates": 0.05, "reports anything": 5.0}
    for item in itertools.product(accelerations, (0.5, 50.0), bounds, deviations):
        acceleration, rate, bound, deviation = item
        limits = {"rate": rate, "acceleration": accelerations[acceleration], "high": bounds[bound]}
        limits["low"] = None if bounds[bound] is None else -bounds[bound]
        yield f"acceleration {acceleration}, rate {rate}, bounds {bound}, {deviation}", limits, deviations[deviation]


def drive_at_random(limits, deviation, writes, seed, scale=1.0):
    """Drive a gate with random targets, ticks and reports; return the counts and the violations.

    Ticks are late or early, come in bursts, at the same time, after pauses, or after the clock went back. At some, the
    gate holds, rests, obeys a person, or waits between two actions of a slower policy.

    Args:
        limits: Of the gate, for a robot whose actions are about 1.
        deviation: Standard deviation of reported from written actions, in three of ten reports.
        writes: Smallest number of writes.
        seed: Of all random draws.
        scale: Factor of the actions and the limits.
    """
    random = np.random.default_rng(seed)
    scaled = {name: None if value is None else value * scale for name, value in limits.items()}
    values = Limits(
        **scaled, rest="position", stop_after=10**9, max_pause_s=math.inf, blend_in_s=float(random.integers(2)) * 0.2
    )
    arm = LyingArm(random, scale, deviation)
    about = {"name": "writes", "episode_steps": 100, "training": {}, "weights_sha256": "0" * 64}
    contract = Contract(rate_hz=1 / PERIOD, observation=arm.observation, action=arm.action, **about)
    gate, (low, high) = SafetyGate(arm, contract, values), values.bounds(arm.action)
    counts, violations, at = Counter(), [], 0.0
    while counts["writes"] < writes:
        rate = math.inf if scaled["rate"] is None else scaled["rate"]
        allowed = AllowedWrites(low, high, rate, PERIOD)
        slower, steady = int(random.choice([1, 1, 3])), random.random() < 0.3
        parked = random.uniform(-FARTHEST, FARTHEST, 2) * scale
        target = action = parked.astype(np.float32)
        gate.begin(PERIOD)
        allowed.begin(action)
        for tick in range(200):
            at += _wait(random)
            assert gate.fault(Observation({"position": action}, at), None) is None or tick
            if not steady and random.random() < 0.3:
                target = np.float32(random.uniform(-FARTHEST, FARTHEST, 2) * scale)
            ruling = _rule(gate, tick, slower, np.float32(0 if steady else 1) * target, at, random)
            if ruling.action is None:
                continue
            counts["writes"] += 1
            counts.update(name.partition(" ")[0] for name in ruling.limited_by)
            action = gate.write(ruling).action
            if objection := allowed.judge(ruling.action, at):
                counts[f"beyond: {objection.partition(':')[0]}"] += 1
                violations.append(objection)
    return counts, violations


def _wait(random):
    """Draw the time to the next tick [s]."""
    kind = random.random()
    if kind < 0.7:
        return PERIOD * random.uniform(0.9, 1.1)
    if kind < 0.8:
        return float(random.choice([0.0, 1e-9, 1e-6, 1e-3]))
    return float(PERIOD * random.choice([-0.1, 0.05, 0.3, 1.7, 2.0, 2.5, 30.0]))


def _rule(gate, tick, slower, target, at, random):
    kind = random.random()
    if tick and tick % slower:
        return gate.stand(at)
    if kind < 0.9 or not tick:
        return gate.propose(target, at)
    return gate.hold("age: ...", at) if kind < 0.95 else gate.rest(at) if kind < 0.97 else gate.command(target, at)


def drive_all(writes, seed, scale=1.0):
    """Drive a gate with each combination of limits; return the counts by combination, and all violations."""
    counts, violations = {}, []
    for number, (name, limits, deviation) in enumerate(combinations()):
        result, objections = drive_at_random(limits, deviation, writes, seed + number, scale)
        counts[name] = dict(result)
        violations += [f"{name}: {objection}" for objection in objections]
    return counts, violations


if __name__ == "__main__":
    by_name, beyond = drive_all(int(sys.argv[1]), int(sys.argv[2]))
    print(json.dumps(by_name, indent=1))
    print(
        f"{len(by_name)} combinations, {sum(item['writes'] for item in by_name.values())} writes: {len(beyond)} beyond"
    )
    sys.exit(bool(beyond))
