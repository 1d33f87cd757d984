"""Write gate_cases.csv: the rulings of the Python gate, tick by tick, which the gate in C++ must reproduce.

    python examples/cpp/gate_cases.py > examples/cpp/gate_cases.csv

Rows, for an action of two elements, fx and fy, and an observation of four values; `-` marks a missing action:

    case   name
    limit  name of a member of sami::Limits, its numbers
    fallback  factor f and number n: the case has a fallback, whose action is f times the first effort, and n
    begin  whether the gate began an episode
    rearm
    stand  time of a tick of the loop between two of the policy; then as for a tick: reason, limits, written, executed,
           latched
    heed   out-of-distribution score after a step of the policy, whether the context has settled, whether a change is
           detected
    tick   time, stamp of the observation, ticks of the policy since the last one, proposed action (2), kind of reason,
           limits that changed it, written action (2), applied action as reported (2), whether the gate is latched,
           observation (4)

`--random N --seed S` sets how many cases are drawn at random.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from sami_runtime import Contract, FakeAdapter, Limits, NonFiniteError, Observation, SafetyGate, SafetyStop, SamiError
from sami_runtime.model.atlas import Atlas
from sami_runtime.model.contract import Context
from sami_runtime.model.training_ranges import Spread, TrainingRanges
from sami_runtime.robots.c_export.resolved_limits import resolved_limits
from sami_runtime.safety.gate import Ruling
from sami_runtime.session.telemetry import Phase, Reading
from sami_runtime.signals import Signal

RATE_HZ = 25.0
PERIOD = 1 / RATE_HZ
NAN, INF = math.nan, math.inf
ROBOT_LIMIT = 0.9
"""The robot clips actions, whose bound is 1, to this magnitude, and reports the applied action."""


class Tick(NamedTuple):
    """One tick of the policy; times in seconds."""

    time: float
    stamp: float
    action: tuple[float, float]
    ticks: int = 1
    values: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    """Effort and velocity, of two elements each."""


class Stand(NamedTuple):
    """A tick of the loop between two of the policy."""

    time: float


class Spring(NamedTuple):
    """A fallback that pushes against the first effort, and evenly along fy."""

    factor: float
    push: float

    def reset(self) -> None:
        """Do nothing."""

    def act(self, observation: Observation, now: float) -> np.ndarray:
        """Return the action (2,)."""
        return np.float32([np.float32(self.factor) * observation.values["effort"][0], self.push])


class Score(NamedTuple):
    """The telemetry after a step: OOD score, and phase."""

    value: float
    phase: Phase = Phase.IDENTIFYING


Step = Tick | Stand | Score | str
Case = tuple[str, dict[str, Any], list[Step]]


def ticks(*actions: tuple[float, float], start: float = 0.0) -> list[Step]:
    """Return ticks on time that propose these actions, with observations measured 10 ms before."""
    times = [round(start + at * PERIOD, 6) for at in range(len(actions))]
    return [Tick(time, round(time - 0.01, 6), action) for time, action in zip(times, actions, strict=True)]


def old(count: int, start: float) -> list[Step]:
    """Return ticks with an observation that is too old."""
    return [tick._replace(stamp=-1.0) for tick in ticks(*[(0.1, 0.1)] * count, start=start) if isinstance(tick, Tick)]


def by_hand() -> Iterator[Case]:
    """Yield cases of one rule each, and cases in which rules interact."""
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
    falling = {"hold_ticks": 1, "stop_after": 6, "fallback": (-0.5, 0.25), "rest": 0.0}
    falling["inside"] = {"velocity.y": {"range": [-1.0, 2.0], "then": "rest"}}
    lost: list[Step] = [
        *along(0.2, 0.4), *(tick._replace(stamp=-1.0) for tick in along(0.6, 0.8, 1.0, start=2 * PERIOD)),
        *measured((0.3, 0.0, 0.0, 2.5), start=5 * PERIOD), *along(0.3, start=6 * PERIOD),
        *(tick._replace(stamp=-1.0) for tick in along(NAN, NAN, start=7 * PERIOD)),
    ]  # fmt: skip
    yield "fallback", falling, lost
    yield "fallback with a rate", {**falling, "rate": 5.0}, lost
    yield "fallback with a measured rest", {**falling, "rest": "effort", "rate": 5.0, "blend_in_s": 0.1}, lost
    unknown: list[Step] = [
        Tick(round(at * PERIOD, 6), stamp, (0.4, -0.3), 1, (0.2, NAN, 0.0, speed))
        for at, (stamp, speed) in enumerate([(0.0, 0.0), (-1.0, 0.0), (-1.0, 0.0), (0.12, 2.5)])
    ]
    yield "fallback before a rest was measured", {**falling, "rest": "effort"}, unknown
    yield "back from rest", {**rate, "hold_ticks": 0}, [
        *ticks((0.2, 0.4)), *old(3, PERIOD), *ticks((0.5, 0.5), (0.5, 0.5), start=4 * PERIOD),
    ]  # fmt: skip
    latch: list[Step] = [*ticks((0.2, 0.4)), *old(4, PERIOD), "begin", "rearm", *old(1, 0.2), "begin"]
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


def measured(*values: tuple[float, ...], start: float = 0.0, action: tuple[float, float] = (0.4, -0.3)) -> list[Step]:
    """Return ticks on time that propose one action, with these efforts and velocities (4,)."""
    times = [round(start + at * PERIOD, 6) for at in range(len(values))]
    return [Tick(time, time, action, 1, values) for time, values in zip(times, values, strict=True)]


def along(*positions: float, start: float = 0.0, action: tuple[float, float] = (0.4, -0.3)) -> list[Step]:
    """Return ticks with this effort x, and 0 elsewhere."""
    return measured(*((x, 0.0, 0.0, 0.0) for x in positions), start=start, action=action)


def of_the_world() -> Iterator[Case]:
    """Yield cases of the rules on observations, and of the limits on actions that depend on more than the last one."""
    quick = {"acceleration": {"fx": 40.0, "fy": 100.0}, "rest": 0.0}
    to_and_fro = ticks(*[(1.0, 1.0)] * 6, *[(-1.0, -0.5)] * 8, *[(0.2, 0.1)] * 6)
    yield "acceleration", quick, to_and_fro
    yield "acceleration and rate", {**quick, "rate": 4.0}, to_and_fro
    yield "acceleration after a pause", quick, [*ticks(*[(1.0, 1.0)] * 4), *ticks((-1.0, 0.0), (0, 0), start=0.3)]
    between: list[Step] = []
    for at, tick in enumerate(ticks((1.0, 1.0), (1.0, -1.0), (-1.0, 0.0), (0.0, 0.0))):
        between += [tick, *(Stand(round(at * PERIOD + part * 0.01, 6)) for part in (1, 2, 3))]
    yield "a loop of 100 Hz", {**quick, "rate": {"fx": 6.0}}, between
    yield "blend-in", {"blend_in_s": 0.2, "rest": {"fx": 0.5, "fy": -0.1}}, ticks(*[(0.9, 0.3)] * 8)
    yield "blend-in anew after rest", {"blend_in_s": 0.12, "rest": 0.0, "hold_ticks": 0}, [
        *ticks(*[(0.9, 0.3)] * 5), *old(2, 5 * PERIOD), *ticks(*[(0.9, 0.3)] * 5, start=7 * PERIOD),
    ]  # fmt: skip
    inside = {"inside": {"effort.x": [-0.5, 0.5], "velocity.y": {"range": [-1.0, 2.0], "then": "rest"}}, "rest": 0.0}
    yield "inside", inside, along(0.1, 0.5, 0.6, -0.51, NAN, INF, 0.2)
    yield "inside, then rest", inside, measured((0, 0, 0, 0), (0, 0, 0, 2.5), (0, 0, 0, 2.5), (0, 0, 0, 0))
    yield "inside, then stop", {"inside": {"effort.y": {"range": [-1, 1], "then": "stop"}}}, [
        *measured((0, 0.5, 0, 0), (0, 1.5, 0, 0)), "begin", "rearm", "begin", *measured((0, 0.5, 0, 0), start=0.2),
    ]  # fmt: skip
    yield "out of bounds", {}, measured((0, 0, 2.9, 0), (0, 0, 3.1, 0), (0, 0, 0, -3.5), (0, 0, NAN, 0), (0, 0, 1, 0))
    yield "out of bounds, acted on", {"out_of_bounds": {"velocity": "act"}}, measured((0, 0, 9.0, 0), (0, 0, 0, -9))
    yield "out of bounds, then stop", {"out_of_bounds": "stop"}, measured((0, 0, 0, 0), (0, 0, 9.0, 0))
    jump = {"jump": {"effort.x": 0.1, "effort.y": {"most": 0.5, "then": "stop"}}}
    yield "jump", jump, along(0.0, 0.1, 0.25, 0.3, 0.9, 0.9, 0.9, 0.9, 0.9)
    yield "jump, then stop", jump, measured((0, 0, 0, 0), (0, 0.4, 0, 0), (0, 1.1, 0, 0))
    yield "frozen", {"frozen": {"effort": 3}}, along(0.1, 0.1, 0.1, 0.1, 0.2, 0.2, -0.0, 0.0)
    yield "ranges", {"guards": ["ranges"]}, along(0.1, 2.5, 0.9, 3.5, 0.0, -9.0)
    yield "ranges before anything moves", {"guards": ["ranges"]}, along(2.0, 0.5, 2.0)
    yield "ranges after what is no number", {"guards": ["ranges"]}, along(NAN, 2.5, 0.5, NAN, 2.5)
    alarms: list[Step] = []
    for tick, score in zip(ticks(*[(0.2, 0.2)] * 7), (3.0, 0.5, 2.0, 2.0, 1.2, 2.0, 2.0), strict=True):
        alarms += [tick, Score(score)]
    yield "alarm", {"stop_on_alarm": {"steps": 3, "then": "stop"}}, alarms
    yield "alarm, then hold", {"stop_on_alarm": {"steps": 2, "then": "hold", "score": 1.5}}, alarms
    for strict in ("stop", "rest"):
        hiding = {"inside": {"effort.x": {"range": [-0.5, 0.5], "then": strict}, "effort.y": [-0.5, 0.5]}}
        yield (
            f"alarm that holds hides no rule with {strict}",
            {"stop_on_alarm": {"steps": 1, "then": "hold", "score": 1.5}, "rest": 0.0, **hiding},
            [*along(0.1), Score(2.0), *measured((0.1, 0.9, 0, 0), (0.9, 0.9, 0, 0), start=PERIOD)],
        )
    stale = [*along(0.1), Score(2.0), *old(2, PERIOD)]
    yield "age hides no alarm that stops", {"stop_on_alarm": {"steps": 1, "then": "stop", "score": 1.5}}, stale
    yield from _adapting()
    box = {"workspace": {"effort.x": [-0.2, 0.2]}, "moves": {"fx": {"element": "effort.x", "scale": 0.1}}}
    out = [step for x in (0.0, 0.05, 0.15, 0.2, 0.25) for step in along(x, start=round(x * 8, 6), action=(0.9, 0.1))]
    yield "workspace", box, out
    yield "workspace with a rate", {**box, "rate": {"fx": 5.0}, "rest": 0.0}, out
    yield (
        "workspace with an acceleration",
        {**box, **quick, "rate": 8.0},
        along(*(0.0, 0.03, 0.09, 0.14, 0.17, 0.19, 0.2, NAN, 0.2), action=(0.9, 0.1)),
    )
    yield "workspace, and nothing was seen", box, along(NAN, 0.0)
    yield (
        "workspace, and what was seen is lost",
        {**box, "hold_ticks": 9},
        along(0.0, *[NAN] * 4, 0.1, action=(0.9, 0.1)),
    )
    slow = [step._replace(stamp=-0.01) for step in along(*[0.1] * 3, action=(0.9, 0.1)) if isinstance(step, Tick)]
    yield "workspace and a slow sensor", box, [*slow, *along(0.1, start=3 * PERIOD, action=(0.9, 0.1))]
    late: list[Step] = []
    for at, x in enumerate((0.0, 0.0, 0.0, 0.0, 0.09, 0.18, 0.2, 0.2)):  # measured three ticks ago
        values, time = (x, 0.0, 0.0, 0.0), round(at * PERIOD, 6)
        late += [Tick(time, round(max(at - 3, 0) * PERIOD, 6), (0.9, 0.1), 1, values), Stand(round(time + 0.02, 6))]
    yield "workspace and late positions", {**box, "max_age_s": 1.0}, late
    yield "workspace and late positions with a rate", {**box, "max_age_s": 1.0, "rate": 5.0, "rest": 0.0}, late
    quick_loop: list[Step] = []
    for at in range(150):  # the positions of 90 ticks of the loop ago
        time, stamp = round(at * 0.001, 6), round(max(at - 90, 0) * 0.001, 6)
        quick_loop.append(Stand(time) if at % 40 else Tick(time, stamp, (0.9, 0.1), 1, (2.5 * stamp, 0.0, 0.0, 0.0)))
    yield "workspace and late positions in a quick loop", box, quick_loop
    yield "workspace after a pause", {**box, "hold_ticks": 9}, [*along(0.05, action=(0.5, 0.1)), *old(2, 8 * PERIOD)]
    yield "workspace backwards", {**box, "moves": {"fx": {"element": "effort.x", "scale": -0.1}}}, out
    yield "no rest was measured", {"blend_in_s": 0.2, "rest": "effort"}, along(NAN, 0.1)
    yield "measured rest", {"rate": 5.0, "rest": "effort", "hold_ticks": 0}, [
        *along(0.3, 0.3), *old(2, 2 * PERIOD), *along(0.1, start=4 * PERIOD),
    ]  # fmt: skip
    yield "starts beyond the bounds", {"rest": "effort"}, along(1.5, 0.5)


def _adapting() -> Iterator[Case]:
    """Yield cases of a change detected in mid-episode: gentle until the context settles, or the time has passed."""
    quick = {"acceleration": {"fx": 40.0, "fy": 100.0}, "rest": 0.0}
    unsettled, settled = (0.4, Phase.READAPTING), (0.2, Phase.SETTLED)
    alarm, identifying = (1.3, Phase.READAPTING), (0.3, Phase.IDENTIFYING)
    reports = [identifying, settled, settled, unsettled, unsettled, settled, settled, alarm, *[unsettled] * 9, settled]
    steps: list[Step] = []
    for tick, score in zip(ticks(*[(0.9, -0.9), (-0.9, 0.9), (0.9, 0.2)] * 6), reports, strict=True):
        steps += [tick, Score(*score)]
    adapt = {"steps": 4, "gentle": 0.25}
    yield "time to adapt", {"time_to_adapt": adapt, "rate": 12.0, "rest": 0.0}, steps
    yield "time to adapt with an acceleration", {"time_to_adapt": adapt, "rate": 12.0, **quick}, steps
    box = {"workspace": {"effort.x": [-0.3, 0.3]}, "moves": {"fx": {"element": "effort.x", "scale": 0.1}}}
    slowing = {"time_to_adapt": adapt, "rate": 5.0, "rest": 0.0, **box}
    ahead: list[Step] = []
    for tick in along(0.0, 0.02, 0.06, 0.12, 0.2, 0.27, 0.29, 0.3, action=(0.9, 0.1)):
        ahead += [tick, Score(*(alarm if len(ahead) > 5 else settled))]
    yield "time to adapt in a workspace", slowing, ahead
    yield "time to adapt in a workspace with an acceleration", {**slowing, "acceleration": 150.0}, ahead
    yield "time to adapt then stop", {"time_to_adapt": {"steps": 6, "then": "stop"}}, steps
    yield "time to adapt then rest", {"time_to_adapt": {"steps": 2, "then": "rest"}, "rest": 0.0}, steps
    limits = {"time_to_adapt": adapt, "stop_on_alarm": {"steps": 1, "then": "hold"}, "rest": 0.0}
    yield "time to adapt and an alarm", limits | {"rate": 3.0}, steps
    stricter = {"time_to_adapt": {"steps": 2, "then": "rest"}, "inside": {"effort.x": [-0.5, 0.5]}}
    beyond = along(0.9, start=len(reports) * PERIOD)
    yield "time to adapt that rests, and what holds", limits | stricter, [*steps, *beyond]


def at_random(generator: random.Random, name: str) -> Case:
    """Draw limits of every kind, and ticks with faults of every kind."""

    def number(low: float, high: float, digits: int = 3) -> float:
        return round(generator.uniform(low, high), digits)

    limits, time, steps = _limits_at_random(generator, number), number(0, 1), []  # type: dict[str, Any], float, Any
    chance, choice, stamp = generator.random, generator.choice, time
    action, values = (0.0, 0.0), (0.0, 0.0, 0.0, 0.0)
    for _ in range(generator.randrange(8, 24)):
        missed = generator.randrange(1, 4) if chance() < 0.06 else 0
        usual = (1 + missed) * PERIOD + number(-0.004, 0.004, 6)
        odd = choice(
            (0.0, 1e-6, 0.01, -0.001, -0.03, 0.1, number(0.1, 0.5))
        )  # a burst, a clock that goes back, a pause
        time = round(time + (usual if chance() < 0.85 else odd), 6)
        kind = chance()
        if kind < 0.65:  # the robot moves on from where it was
            steady = [value if math.isfinite(value) else 0.0 for value in values]
            values = tuple(round(value + number(-0.15, 0.15, 6), 6) for value in steady)
            stamp = round(time - number(0, 0.03), 6)
        elif kind < 0.75:  # a sensor that is slower than the policy repeats its measurement
            pass
        elif kind < 0.9:
            values = tuple(number(-reach, reach, 6) for reach in (0.4, 0.4, 2.2, 1.0))
            stamp = round(time - choice((0.0, 0.0, number(0.1, 0.3), -number(0, 0.3))), 6)
        else:
            at = generator.randrange(4)
            values = (*values[:at], choice((NAN, INF, -INF, -0.0, 9.0)), *values[at + 1 :])
            stamp = choice((NAN, round(time, 6), round(time, 6)))
        if chance() < 0.6:
            action = (number(-1.3, 1.3, 6), number(-1.3, 1.3, 6))
        proposed = action if chance() < 0.95 else (choice((NAN, INF, -INF)), action[1])
        steps.append(Tick(time, stamp, proposed, 1 + missed, values))
        for _ in range(choice((0, 0, 0, 0, 1, 3))):
            time = round(time + 0.01, 6)
            steps.append(Stand(time))
        if {"time_to_adapt", "stop_on_alarm"} & limits.keys():
            steps.append(Score(number(0.0, 1.5), choice(tuple(Phase))))
        steps += choice([[]] * 10 + [["begin"], ["rearm"], ["rearm", "begin"]])
    return name, limits, steps


def _limits_at_random(generator: random.Random, number: Callable[[float, float], float]) -> dict[str, Any]:
    chance, choice = generator.random, generator.choice
    limits: dict[str, Any] = {"hold_ticks": generator.randrange(4), "stop_after": generator.randrange(2, 12)}
    thens = ["hold", "stop"]
    if chance() < 0.8:
        neutral = {"fx": number(-0.3, 0.3), "fy": number(-0.3, 0.3)}
        limits["rest"] = choice((0.0, number(-0.2, 0.2), neutral, "effort"))
        thens.append("rest")
        optional: dict[str, Any] = {
            "rate": choice((number(0.5, 20), {"fx": number(0.1, 5)}, {"fx": number(0.5, 20), "fy": number(0.5, 20)})),
            "acceleration": choice((number(5, 200), {"fy": number(1, 100)}, {"fx": number(5, 2000), "fy": 50.0})),
            "blend_in_s": number(0.03, 0.4),
        }
        limits |= {name: value for name, value in optional.items() if chance() < 0.5}
    optional = {
        "low": {"fx": number(-1.2, -0.3)},
        "high": {"fy": number(0.3, 1.2)},
        "max_age_s": choice((number(0.02, 0.1), INF, {"effort": number(0.03, 0.2), "velocity": INF})),
        "max_pause_s": choice((number(0.08, 0.5), INF)),
        "inside": {"velocity.x": {"range": [number(-2, -0.5), number(0.5, 2)], "then": choice(thens)}},
        "jump": {"effort.y": {"most": number(0.1, 0.6), "then": choice(thens)}, "velocity.x": number(0.3, 2)},
        "frozen": {choice(("effort", "velocity")): generator.randrange(2, 5)},
        "out_of_bounds": choice((*thens, "act", {"velocity": choice((*thens, "act"))})),
        "guards": ["ranges"],
        "stop_on_alarm": {"steps": generator.randrange(1, 4), "then": choice(thens), "score": choice((0.5, 1.0))},
    }
    limits |= {name: value for name, value in optional.items() if chance() < 0.3}
    if chance() < 0.5:
        limits["workspace"] = {"effort.x": [number(-0.5, -0.05), number(0.05, 0.5)], "velocity.y": [-0.8, 0.8]}
        entries = ("fx", "effort.x", (0.1, -0.05, 1e-5, 2.0)), ("fy", "velocity.y", (0.3, -0.2))
        limits["moves"] = {name: {"element": element, "scale": choice(scales)} for name, element, scales in entries}
    if chance() < 0.4:
        gentle = choice((1.0, 0.5, 0.1)) if "rate" in limits else 1.0
        limits["time_to_adapt"] = {"steps": generator.randrange(1, 8), "then": choice(thens), "gentle": gentle}
    if chance() < 0.3:
        limits |= {"fallback": (number(-1, 1), number(-1, 1)), "stop_after": limits["hold_ticks"] + 4}
    return limits


def contract_of() -> Contract:
    """Return the cases' contract, whose action bound of 1 exceeds the robot's `ROBOT_LIMIT`."""
    free, elements = (None, None), ("x", "y")
    action = Signal(name="force", size=2, unit="N", elements=("fx", "fy"), low=(-1.0, -1.0), high=(1.0, 1.0))
    observation = (
        Signal(name="effort", size=2, unit="N", elements=elements, low=free, high=free),
        Signal(name="velocity", size=2, unit="m/s", elements=elements, low=(-3.0, -3.0), high=(3.0, 3.0)),
    )
    spread = Spread.of(np.array([[-0.5, -0.5], [0.0, 0.1], [0.5, 0.5]]))
    observed = {signal.name: spread for signal in observation}
    spreads = {**observed, action.name: spread}
    atlas = Atlas(
        tasks=({},), mean=((0.0,),), covariance=(((1.0,),),), step=1, threshold=1.0, slow=0.1, fast=0.1,
        false_alarm_rate=0.05, episodes=1, held_out=1,
    )  # fmt: skip
    about = {"name": "cases", "episode_steps": 100, "training": {}, "weights_sha256": "0" * 64}
    return Contract(
        rate_hz=RATE_HZ, observation=observation, action=action, context=Context(size=1), atlas=atlas,
        training_ranges=TrainingRanges(measured="by hand", steps=3, episodes=1, begin=observed, signals=spreads),
        **about,
    )  # fmt: skip


def rows(case: Case) -> Iterator[list[object]]:
    """Drive the gate through a case, and yield the rows of its rulings."""
    name, document, steps = case
    document = dict(document)
    guards, fallback = document.pop("guards", []), document.pop("fallback", None)
    limits, robot, contract = Limits.of(document, name), FakeAdapter(axes=2, limit=ROBOT_LIMIT), contract_of()
    robot.observation = contract.observation
    gate = SafetyGate(robot, contract, limits, guards=guards, fallback=fallback and Spring(*fallback))
    robot.reset()
    yield ["case", name.replace(",", "")]
    if fallback:
        yield ["fallback", *fallback]
    for member, value in resolved_limits(limits, contract, guards).items():
        yield ["limit", member, *(value if isinstance(value, list) else [value])]
    for step in ("begin", *steps):
        if isinstance(step, Tick):
            yield ["tick", step.time, step.stamp, step.ticks, *step.action, *_drive(gate, step, contract), *step.values]
        elif isinstance(step, Stand):
            yield ["stand", step.time, *_row(gate, _stand(gate, step.time), "")]
        elif isinstance(step, Score):
            reading = Reading(0, 0.0, step.phase, score=step.value, alarm=step.value > 1.0)
            gate.record_telemetry(reading)
            settled, alarm = reading.phase is Phase.SETTLED, reading.alarm or reading.phase is Phase.READAPTING
            yield ["heed", step.value, int(settled), int(alarm)]
        elif step == "rearm":
            gate.rearm()
            yield ["rearm"]
        else:
            yield ["begin", int(_can_begin(gate))]


def _drive(gate: SafetyGate, step: Tick, contract: Contract) -> list[object]:
    parts = np.split(np.float32(step.values), 2)
    values = {signal.name: part for signal, part in zip(contract.observation, parts, strict=True)}
    reason, ruling = gate.fault(Observation(values, step.stamp), step.time) or "", None
    try:
        if not reason:
            ruling = gate.propose(np.float32(step.action), step.time, step.ticks)
    except NonFiniteError as error:
        reason = f"refused: {error}"
    except SamiError as error:  # no start of a step: Python raises and the loop stops, C++ trips
        gate.trip(str(error))
        ruling = Ruling(None, ("stop",), step.time, f"start: {error}")
    if ruling is None:
        ruling = gate.hold(reason, step.time, step.ticks)
    return _row(gate, ruling, reason)


def _stand(gate: SafetyGate, now: float) -> Ruling:
    try:
        return gate.stand(now)
    except SamiError as error:  # only after a trip of `_drive`, so that nothing is written
        return Ruling(None, ("stop",), now, f"start: {error}")


def _row(gate: SafetyGate, ruling: Ruling, reason: str) -> list[object]:
    try:
        result = gate.write(ruling)
    except SafetyStop:
        result = None
    action = () if result is None or ruling.action is None else tuple(ruling.action)
    kind = (ruling.reason or reason).partition(":")[0]
    executed = () if result is None else tuple(result.action)
    return [kind, ";".join(ruling.limited_by), *_pair(action), *_pair(executed), int(gate.tripped is not None)]


def _can_begin(gate: SafetyGate) -> bool:
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
    """Print the table of all cases."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--random", type=int, default=24, help="cases drawn at random (24)")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (0)")
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    cases = [
        *by_hand(),
        *of_the_world(),
        *(at_random(generator, f"random {number}") for number in range(arguments.random)),
    ]
    print("# Written by gate_cases.py, which says what the columns are; do not edit.")
    for case in cases:
        sys.stdout.writelines(",".join(map(_text, row)) + "\n" for row in rows(case))


if __name__ == "__main__":
    main()
