"""Laws of the measurement: all candidates step the same policy, in turns, and a leak is found."""

import mmap
import os
import time

import numpy as np
import pytest

from sami_runtime.checks import bench
from sami_runtime.model.artifact import read_artifact
from sami_runtime.session.session import Session


@pytest.fixture
def path(make):
    return make.write(make.recurrent())


def scripted(name, calls, prewarm=None):
    """A candidate that notes what is called."""
    return bench.Candidate(
        name,
        reset=lambda: calls.append((name, "reset")),
        step=lambda i: calls.append((name, i)) or np.zeros(1, np.float32),
        feed=lambda i: calls.append((name, "feed")),
        prewarm=prewarm and (lambda: calls.append((name, "prewarm"))),
    )


def test_all_ways_to_step_a_file_answer_the_same(make, path):
    for model in (path, make.write(make.memoryless())):
        candidates = bench.candidates(read_artifact(model))
        names = [bench.BOUND, bench.PLAIN, bench.SESSION, f"{bench.SESSION} after prewarm()"]
        assert [candidate.name for candidate in candidates] == names
        assert bench.largest_difference(candidates) == 0.0


def test_candidates_of_another_policy_are_found_out(make, path):
    policies = [bench.candidates(read_artifact(model))[0] for model in (path, make.write(make.recurrent(seed=1)))]
    assert bench.largest_difference(policies) > 0.01


def test_candidates_take_turns_and_the_first_steps_of_a_turn_are_not_counted():
    calls = []
    times = bench.measure([scripted("a", calls), scripted("b", calls)], seconds=0.02)
    resets = [name for name, event in calls if event == "reset"]
    assert len(resets) >= 4
    assert all({"a", "b"} == set(resets[i : i + 2]) for i in range(0, len(resets), 2))
    assert [name for name, event in calls if event == 249] == resets
    assert {name: len(durations) for name, durations in times.items()} == dict.fromkeys("ab", len(resets) // 2 * 240)
    paced = bench.measure([scripted("a", calls)], seconds=0.1, rate_hz=100)
    assert len(paced["a"]) == 10 - 3


def test_a_paced_step_is_fed_then_warmed_up_then_timed():
    calls = []
    candidate = scripted("a", calls, prewarm=True)
    start = time.perf_counter()
    bench.measure([candidate], seconds=0.1, rate_hz=100)
    assert time.perf_counter() - start > 0.09
    assert [event for _, event in calls[:7]] == ["reset", "feed", "prewarm", 0, "feed", "prewarm", 1]


def test_back_to_back_nothing_is_warmed_up():
    calls = []
    candidates = [scripted("a", calls), scripted("b", calls, prewarm=True)]
    assert list(bench.measure(candidates, seconds=0.01)) == ["a"]


def test_a_summary_holds_percentiles_and_the_ratio_to_the_first():
    times = {"a": np.arange(2001.0), "b": np.full(10, 2000.0)}
    result = bench.summarise(times)
    assert result["a"].p99_9 == pytest.approx(1998.0)
    assert result["a"] == bench.CandidateTiming(2001, 1000.0, 1980.0, result["a"].p99_9, worst=2000.0, ratio=1.0)
    assert result["b"] == bench.CandidateTiming(steps=10, p50=2000.0, p99=2000.0, p99_9=None, worst=2000.0, ratio=2.0)


@pytest.mark.skipif(not os.path.isfile("/proc/self/statm"), reason="reads memory from /proc")
def test_a_leak_is_found(path):
    rest = []
    PAGES = 1 << 16

    class Leaking(Session):
        def step(self, observation):
            rest.append(mmap.mmap(-1, PAGES))  # from the system always: an array may reuse what others have freed
            rest[-1].write(bytes(PAGES))
            return super().step(observation)

    assert bench.soak(Leaking.load(path), 600) > 2 * 512 * 1024
