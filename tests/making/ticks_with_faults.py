"""Many ticks of a run with a faulty robot, judged by an observer and by a second session that is stepped by hand.

As a program: python -m tests.making.ticks_with_faults TICKS SEED FOLDER [real] prints the counts. `real` uses the
machine's clock, and another thread swaps the model in the middle of episodes.
"""

import json
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np

from sami_runtime import Limits, ManualClock, MonotonicClock, Run, SafetyStop, SamiError, Session
from tests.making.faults import FaultyArm
from tests.making.observer import Observer, resident_bytes

LIMITS = (
    Limits(low=-0.8, high=0.9, rate=4.0, rest=0.0),
    Limits(low=-0.8, high=0.9, rate=4.0, rest=0.0, acceleration=60.0, blend_in_s=0.2),
)
"""Limits for an even and for an odd seed."""
EPISODE_STEPS = 200
SIGNALS = ("position", "goal")


class ByHand:
    """A session stepped by hand, with the observations and executed actions of the ticks at which the policy acted."""

    def __init__(self, path, arm, observer):
        self.session, self.arm, self.observer = Session.load(path), arm, observer

    def follow(self, record):
        if record.step == 0:
            self.session.reset()
        if record.stepped:
            self.session.step({name: self.arm.values[name] for name in SIGNALS})
        if self.observer.last_executed is not None:
            self.report_executed(self.observer.last_executed)
        return self.session.digest

    def report_executed(self, executed):
        self.session.executed(executed)


def drive(paths, ticks, seed, real=False):
    """Run at least `ticks` ticks with two model files in turn.

    Args:
        paths: Of the two model files.
        ticks: Smallest number of ticks.
        seed: Of all random draws.
        real: Whether to use the machine's clock and to swap models in the middle of episodes too; otherwise a manual
            clock advances only with ticks and stalls.

    Returns:
        The counts, for JSON; `violations` and `difference` are empty if every law held.
    """
    random = np.random.default_rng(seed)
    sessions = [Session.load(path) for path in paths]
    clock, period = MonotonicClock() if real else ManualClock(), 1 / sessions[0].contract.rate_hz
    pass_time = time.sleep if real else clock.advance
    limits = LIMITS[seed % 2]
    observer = Observer(-0.8, 0.9, 4.0, period, exact=not real, compares=limits.acceleration is None)
    arm = FaultyArm(clock, seed, observer, lambda periods: pass_time(periods * period))
    hands = {session.artifact.path: ByHand(session.artifact.path, arm, observer) for session in sessions}
    endings, difference = Counter(), []
    start, memory = time.perf_counter(), 0

    def watch(record):
        observer.judge(record)
        followed = {path: hand.follow(record) for path, hand in hands.items()}
        if followed[run.session.artifact.path] != record.state and len(difference) < 20:
            difference.append(f"episode {sum(endings.values())}, step {record.step}: {record.outcome.value}")
        if random.random() < 2e-4:
            run.gate.trip("somebody pressed the button")
            observer.end("trips")

    with Run(sessions[0], arm, clock, limits=limits) as run:
        arm.trip = run.gate.trip
        over = threading.Event()
        changing = threading.Thread(target=change, args=(run, paths, over, endings))
        if real:
            changing.start()
        while run.total.ticks < ticks:
            if not memory and run.total.ticks > ticks / 4:
                memory = resident_bytes()
            if not real and random.random() < 0.1:
                run.swap(sessions[run.session is sessions[0]])
            try:
                run.episode(int(random.integers(1000)), EPISODE_STEPS, watch)
                endings["whole, or the world ended it"] += 1
            except SafetyStop:
                endings["SafetyStop"] += 1
                run.gate.rearm()
            except (SamiError, OSError) as error:
                endings[type(error).__name__] += 1
        over.set()
        if real:
            changing.join()
    total, swaps = run.total, {name: endings.pop(name) for name in list(endings) if name.startswith("swap")}
    return {
        "ticks": total.ticks,
        "seconds": round(time.perf_counter() - start, 1),
        "episodes": sum(endings.values()),
        "ended": dict(endings),
        "outcomes": {outcome.value: count for outcome, count in total.outcomes.items()},
        "missed": total.missed,
        "overruns": total.overruns,
        "swaps": total.swaps,
        "asked": swaps,
        "limited": dict(total.limited),
        "reasons": dict(total.reasons),
        "faults": dict(arm.faults),
        "observer": dict(observer.counts),
        "violations": observer.violations,
        "difference": difference,
        "grown_bytes": resident_bytes() - memory,
    }


def change(run, paths, over, counts):
    """Request an immediate swap to the other model every 0.05 s, until `over` is set."""
    while not over.wait(0.05):
        try:
            swapped = run.swap(paths[run.session.artifact.path == paths[0]], "now")
            counts["swap in the middle" if swapped.fed else "swap for the next episode"] += 1
        except SamiError:
            counts["swap refused"] += 1


def require_laws(counts):
    """Assert that every law held, and that the report agrees with the observer's counts."""
    observed = counts["observer"]
    assert counts["violations"] == []
    assert counts["difference"] == []
    assert counts["ticks"] == sum(counts["outcomes"].values()) == observed["ticks"]
    assert counts["outcomes"] == {name: observed[name] for name in counts["outcomes"]}
    assert (counts["missed"], counts["overruns"]) == (observed["missed"], observed["overruns"])
    adapter = [name for name in counts["limited"] if name.startswith("adapter")]
    assert {name: counts["limited"][name] for name in adapter} == {name: observed[name] for name in adapter}
    broken = sum(
        n for error, n in counts["ended"].items() if error not in ("SafetyStop", "whole, or the world ended it")
    )
    assert observed["reads"] == counts["ticks"] + broken - counts["faults"].get("reset raises", 0)
    assert observed["stops"] == counts["episodes"]


if __name__ == "__main__":
    folder = Path(sys.argv[3])
    print(
        json.dumps(
            drive(sorted(folder.glob("*.onnx")), int(sys.argv[1]), int(sys.argv[2]), "real" in sys.argv), indent=1
        )
    )
