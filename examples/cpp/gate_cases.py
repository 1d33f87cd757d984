"""Writes gate_cases.csv: what the Python gate rules, tick by tick, for the gate in C++ to agree with.

    python examples/cpp/gate_cases.py > examples/cpp/gate_cases.csv

Rows, for an action of two elements, fx and fy; `-` where there are none:

    case   name, rate_hz, hold_ticks, stop_after, max_age_s, max_pause_s, low (2), high (2), rate (2), rest (2)
    begin  whether the gate began an episode
    rearm
    tick   time, stamp of the observation, ticks of the policy since the last one, proposed action (2), kind of reason,
           limits that changed it, written action (2), what the robot said it executed (2), whether the gate is latched

`--random N --seed S` sets how many cases are drawn at random.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from sami_runtime import Contract, FakeAdapter, Limits, NonFiniteError, Observation, SafetyGate, SafetyStop
from sami_runtime.signals import Signal

RATE_HZ = 25.0
PERIOD = 1 / RATE_HZ
NAN, INF = math.nan, math.inf
ROBOT_LIMIT = 0.9
"""The robot executes no more than this of an action, whose bound is 1, and says so."""


class Tick(NamedTuple):
    """A tick of the policy, as the loop meets it."""

    time: float
    stamp: float
    action: tuple[float, float]
    ticks: int = 1


Case = tuple[str, dict[str, Any], list[Tick | str]]


def ticks(*actions: tuple[float, float], start: float = 0.0) -> list[Tick | str]:
    """Ticks on time, with observations that were measured 10 ms before."""
    times = [round(start + at * PERIOD, 6) for at in range(len(actions))]
    return [Tick(time, round(time - 0.01, 6), action) for time, action in zip(times, actions, strict=True)]


def old(count: int, start: float) -> list[Tick | str]:
    """Ticks with an observation that is too old."""
    return [tick._replace(stamp=-1.0) for tick in ticks(*[(0.1, 0.1)] * count, start=start) if isinstance(tick, Tick)]


def by_hand() -> Iterator[Case]:
    """Cases of one rule each, and those where rules meet."""
    rate = {"rate": {"fx": 5.0, "fy": 12.5}, "rest": 0.0}
    yield "free", {}, ticks((0.1, -0.2), (0.5, 0.5), (-0.9, 0.9))
    yield "bounds", {"low": {"fx": -0.25}, "high": 0.5}, ticks((2.0, 0.7), (-2.0, -2.0), (0.5, -0.25), (0.0, -0.0))
    yield "rate", rate, ticks((1.0, 1.0), (1.0, 1.0), (-1.0, -1.0), (-1.0, 0.3), (-0.3, 0.3))
    late = [
        Tick(0.0, -0.01, (0.1, 0.1)),
        Tick(0.055, 0.05, (1.0, 1.0)),
        Tick(0.3, 0.3, (-1.0, 1.0)),
        Tick(0.3, 0.3, (1, 1)),
    ]
    yield "rate by the measured time, a pause and a standing clock", rate, late
    burst = [Tick(time, time, (1.0, -1.0)) for time in (0.0, 0.04, 0.0401, 0.0402, 0.04, 0.08, 0.0800001)]
    yield "rate in a burst, and a clock that goes back", {**rate, "max_age_s": INF}, list(burst)
    yield "rate in small steps of float32", {"rate": 3e-6, "rest": 0.5}, ticks(*[(1.0, -1.0)] * 5)
    yield "rate of one element", {"rate": {"fy": 3.0}, "rest": {"fx": 0.5, "fy": -0.5}}, ticks((1, 1), (1, 1), (-1, 0))
    yield "robot limits", rate, ticks(*[(1.0, 1.0)] * 8, (0.0, 0.0))
    ages = [Tick(0.2, stamp, (0.1, 0.2)) for stamp in (0.2, 0.08, 0.0799, 0.32, 0.3201, NAN, INF, -INF, 0.2)]
    yield "age at its edges", {}, list(ages)
    yield "age, given", {"max_age_s": 0.05}, [Tick(0.04, 0.0, (0.1, 0.1)), Tick(0.09, 0.03, (0.2, 0.2))]
    back = [Tick(0.0, 0.0, (0.1, 0.1)), Tick(0.04, -0.01, (0.2, 0.2)), Tick(0.08, 0.0, (0.3, 0.3))]
    yield "order", {"max_age_s": INF}, list(back)
    bad = ticks((0.1, 0.1), (NAN, 0.2), (0.3, 0.3), (0.4, INF), (-INF, 0.4), (0.5, 0.5))
    yield "not finite", {}, bad
    yield "nothing to hold", {}, [*old(2, 0.0), *ticks((0.4, 0.4), start=2 * PERIOD)]
    yield "hold, rest, stop", {**rate, "hold_ticks": 2, "stop_after": 7}, [
        *ticks((0.2, 0.4), (0.2, 0.4)), *old(8, 2 * PERIOD), *ticks((0.3, 0.3), start=10 * PERIOD),
    ]  # fmt: skip
    yield "hold without rest", {"hold_ticks": 0, "stop_after": 4}, [*ticks((0.2, 0.4)), *old(5, PERIOD)]
    yield "back from rest", {**rate, "hold_ticks": 0}, [
        *ticks((0.2, 0.4)), *old(3, PERIOD), *ticks((0.5, 0.5), (0.5, 0.5), start=4 * PERIOD),
    ]  # fmt: skip
    latch: list[Tick | str] = [*ticks((0.2, 0.4)), *old(4, PERIOD), "begin", "rearm", *old(1, 0.2), "begin"]
    yield "latch", {"stop_after": 3}, [*latch, *ticks((0.6, 0.6), start=0.24)]
    after = [Tick(0.0, 0.0, (0.1, 0.1)), Tick(0.12, 0.12, (0.2, 0.2), 3), Tick(0.16, 0.0, (0.3, 0.3))]
    yield "missed, then acted: too few", {"stop_after": 4}, [*after, Tick(0.24, 0.24, (0.4, 0.4), 2)]
    yield (
        "missed, then acted: too many",
        {"stop_after": 3, "max_pause_s": 1.0},
        [*after[:1], Tick(0.16, 0.16, (0.2, 0.2), 4)],
    )
    yield "missed after held ticks, then acted", {"stop_after": 5, "max_pause_s": 1.0}, [
        *after[:1], *old(3, PERIOD), Tick(0.24, 0.24, (0.2, 0.2), 3),
    ]  # fmt: skip
    yield "missed, then held", {"stop_after": 4, "max_pause_s": 1.0}, [*after[:1], Tick(0.16, 0.0, (0.2, 0.2), 4)]
    pause = [Tick(0.0, 0.0, (0.1, 0.1)), Tick(0.2, 0.2, (0.2, 0.2)), Tick(0.401, 0.401, (0.2, 0.2))]
    yield "pause", {"max_pause_s": 0.2}, [*pause, Tick(0.44, 0.44, (0.3, 0.3))]
    yield "pause while held", {"max_pause_s": 0.2, "max_age_s": 0.1}, [*pause[:1], Tick(0.3, 0.0, (0.3, 0.3), 3)]
    yield "pause by default", {"stop_after": 4}, [*pause[:1], Tick(0.16, 0.16, (0.2, 0.2)), Tick(0.3205, 0.32, (0, 0))]
    yield "any pause", {"max_pause_s": INF, "stop_after": 3}, [
        *pause[:1], Tick(9.0, 9.0, (0.2, 0.2), 225), Tick(9.2, 9.0, (0.3, 0.3), 5),
    ]  # fmt: skip


def at_random(generator: random.Random, name: str) -> Case:
    """Draw limits, and ticks with every fault."""

    def number(low: float, high: float, digits: int = 3) -> float:
        return round(generator.uniform(low, high), digits)

    limits: dict[str, Any] = {"hold_ticks": generator.randrange(4), "stop_after": generator.randrange(2, 9)}
    if generator.random() < 0.7:
        limits |= {"rate": {"fx": number(0.5, 20), "fy": number(0.5, 20)}, "rest": number(-0.2, 0.2)}
    if generator.random() < 0.5:
        limits |= {"low": {"fx": number(-1.2, -0.3)}, "high": {"fy": number(0.3, 1.2)}}
    if generator.random() < 0.3:
        limits |= {"max_age_s": number(0.02, 0.1)}
    if generator.random() < 0.3:
        limits |= {"max_pause_s": number(0.08, 0.3)}
    time, steps = number(0, 1), []  # type: float, list[Tick | str]
    for _ in range(generator.randrange(6, 16)):
        kind = generator.random()
        missed = generator.randrange(1, 4) if kind < 0.06 else 0
        time = round(time + (1 + missed) * PERIOD + number(-0.004, 0.004, 6), 6)
        stamp = round(time - (number(0.1, 0.3) if 0.06 < kind < 0.25 else number(0, 0.03)), 6)
        action = (number(-1.3, 1.3, 6), number(-1.3, 1.3, 6))
        if kind > 0.95:
            action = (generator.choice((NAN, INF, -INF)), action[1])
        steps.append(Tick(time, stamp, action, 1 + missed))
    return name, limits, steps


def contract_of(robot: FakeAdapter) -> Contract:
    """Return a contract whose action the robot does not execute in full."""
    action = Signal(name="force", size=2, unit="N", elements=("fx", "fy"), low=(-1.0, -1.0), high=(1.0, 1.0))
    about = {"name": "cases", "episode_steps": 100, "training": {}, "weights_sha256": "0" * 64}
    return Contract(rate_hz=RATE_HZ, observation=robot.observation, action=action, **about)


def rows(case: Case) -> Iterator[list[object]]:
    """Drive the gate through a case, and tell what it ruled."""
    name, document, steps = case
    limits, robot = Limits(**document), FakeAdapter(axes=2, limit=ROBOT_LIMIT)
    contract = contract_of(robot)
    gate = SafetyGate(robot, contract, limits)
    robot.reset()
    low, high = limits.bounds(contract.action)
    rate = limits.rate if isinstance(limits.rate, dict) else dict.fromkeys(("fx", "fy"), limits.rate or INF)
    rest = dict.fromkeys(("fx", "fy"), limits.rest) if isinstance(limits.rest, float) else limits.rest or {}
    ages = [limits.max_age_s or 3 * PERIOD, limits.max_pause(contract)]
    numbers = [*low, *high, *(rate.get(name, INF) for name in ("fx", "fy")), *_pair(tuple(rest.values()))]
    yield ["case", name.replace(",", ""), RATE_HZ, limits.hold_ticks, limits.stop_after, *ages, *numbers]
    for step in ("begin", *steps):
        if isinstance(step, Tick):
            yield ["tick", step.time, step.stamp, step.ticks, *step.action, *_drive(gate, step, robot)]
        elif step == "rearm":
            gate.rearm()
            yield ["rearm"]
        else:
            yield ["begin", int(_begins(gate))]


def _drive(gate: SafetyGate, step: Tick, robot: FakeAdapter) -> list[object]:
    values = {signal.name: np.zeros(signal.size, np.float32) for signal in robot.observation}
    reason, ruling = gate.fault(Observation(values, step.stamp), step.time) or "", None
    if not reason:
        try:
            ruling = gate.propose(np.float32(step.action), step.time, step.ticks)
        except NonFiniteError as error:
            reason = f"refused: {error}"
    if ruling is None:
        ruling = gate.hold(reason, step.time, step.ticks)
    try:
        sent = gate.write(ruling)
    except SafetyStop:
        sent = None
    written = () if sent is None or ruling.action is None else tuple(ruling.action)
    kind = (ruling.reason or reason).partition(":")[0]
    said = () if sent is None else tuple(sent.action)
    return [kind, ";".join(ruling.limited_by), *_pair(written), *_pair(said), int(gate.tripped is not None)]


def _begins(gate: SafetyGate) -> bool:
    try:
        gate.begin(PERIOD)
    except SafetyStop:
        return False
    return True


def _pair(values: tuple[object, ...]) -> tuple[object, ...]:
    return values or ("-", "-")


def _text(cell: object) -> str:
    return f"{cell:.9g}" if isinstance(cell, (float, np.floating)) else str(cell)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--random", type=int, default=24, help="cases drawn at random (24)")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (0)")
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    cases = [*by_hand(), *(at_random(generator, f"random {number}") for number in range(arguments.random))]
    print("# Written by gate_cases.py, which says what the columns are; do not edit.")
    for case in cases:
        sys.stdout.writelines(",".join(map(_text, row)) + "\n" for row in rows(case))


if __name__ == "__main__":
    main()
