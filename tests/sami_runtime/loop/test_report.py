"""What a loop says about itself at the end."""

import pickle

import numpy as np
import pytest

from sami_runtime.clock import ManualClock
from sami_runtime.loop.episode import run_episode
from sami_runtime.loop.tick import Histogram, LoopReport, Outcome, SectionTimes, StepRecord
from sami_runtime.session.session import Session


def record(step, times=(0.0, 0.0, 0.0, 0.0), outcome=Outcome.ACTED, **message):
    empty = np.zeros(0, np.float32)
    return StepRecord(step, outcome, None, None, None, empty, {}, SectionTimes(*times), **message)


def test_percentiles_are_those_of_every_tick_and_the_worst_is_never_averaged_away():
    report = LoopReport()
    for step in range(10_001):
        report.add(record(step, (step * 1e-6, 0.0, 0.0, 5.0 if step == 7 else 0.0), lag=0.5 * (step == 9)))
    rows = report.percentiles()
    assert list(rows) == ["observe", "infer", "gate", "write", "total", "lag"]
    np.testing.assert_allclose(rows["observe"], (0.005, 0.0099, 0.00999, 0.01), rtol=0.006)
    assert (rows["write"].p999, rows["write"].worst) == (0.0, 5.0)
    assert rows["total"].worst == pytest.approx(5.000007)
    assert rows["lag"].worst == 0.5


def test_a_report_takes_no_more_memory_after_many_ticks_than_after_few():
    report, rng = LoopReport(), np.random.default_rng(0)
    sizes = []
    for step in range(20_000):
        if step in (100, 19_999):
            sizes.append(len(pickle.dumps(report)))
        report.add(record(step, tuple(rng.lognormal(-8, 3, 4)), time=step * 0.04, lag=rng.lognormal(-8, 3)))
    assert sizes[1] < sizes[0] + 100


@pytest.mark.parametrize("seed", range(3))
def test_a_histogram_tells_percentiles_to_half_a_percent_and_mean_and_worst_exactly(seed):
    times = np.random.default_rng(seed).lognormal(-8, 2, 5000)
    histogram = Histogram()
    for time in times:
        histogram.add(time)
    for percent in (1, 50, 99, 99.9):
        expected = np.percentile(times, percent, method="inverted_cdf")
        assert histogram.percentile(percent) == pytest.approx(expected, rel=0.0051)
    assert (histogram.count, histogram.worst) == (5000, times.max())
    assert histogram.mean == pytest.approx(times.mean())


@pytest.mark.parametrize(("seconds", "message"), [(0.0, 0.0), (-1e-9, 0.0), (1e-8, 0.0), (1e5, 1e4), (1e-7, 1e-7)])
def test_times_that_are_hardly_any_or_without_end_are_counted_too(seconds, message):
    histogram = Histogram()
    histogram.add(seconds)
    assert histogram.percentile(99) == pytest.approx(message, rel=0.01, abs=1e-12)


def test_the_mean_period_counts_ticks_that_were_missed_and_not_what_lies_between_episodes():
    report = LoopReport()
    for episode in (0.0, 100.0):
        for step, (time, missed) in enumerate([(0.0, 0), (0.04, 0), (0.16, 2), (0.2, 0)]):
            report.add(record(step, time=episode + time, missed=missed))
    assert report.mean_period == pytest.approx(0.04)
    assert (report.overruns, report.missed) == (2, 4)


def test_a_report_of_nothing_says_so():
    assert LoopReport().mean_period is None
    assert LoopReport().percentiles() == {}
    assert str(LoopReport()).startswith("0 ticks: 0 acted, 0 held, 0 late, 0 refused; 0 overruns, 0 missed")


def test_the_report_names_what_was_held_and_what_was_limited():
    report = LoopReport()
    report.add(record(0, limited_by=("bounds dx", "rate dy")))
    report.add(record(1, limited_by=("rate dy",), time=0.04))
    report.add(record(2, outcome=Outcome.HELD, reason="age: the observation is 3 s old", time=0.08))
    lines = str(report).splitlines()
    assert lines[0] == "3 ticks: 2 acted, 1 held, 0 late, 0 refused; 0 overruns, 0 missed; mean period 40 ms"
    assert lines[1:3] == ["not acted: age 1", "limited: rate dy 2, bounds dx 1"]
    assert [line.split()[0] for line in lines[3:]] == ["µs", "observe", "infer", "gate", "write", "total", "lag"]


def test_a_loop_counts_every_outcome(make, arm):
    clock = ManualClock()
    adapter = arm(clock, reading=[0, 0, 0.05], nan_at_reads=[4], stale_at_reads=[6, 7, 8])
    report = run_episode(Session.load(make.write(make.recurrent())), adapter, clock=clock, loop_hz=50.0)
    # The tick of read 2 answers late and runs over the next two; that of read 8 is the third on the same observation.
    assert report.loop.outcomes == {"acted": 7, "late": 1, "refused": 1, "held": 1, "standing": 8}
    assert report.loop.reasons == {"late": 1, "refused": 1, "age": 1}
    assert (report.loop.overruns, report.loop.missed) == (1, 2)
    assert report.loop.ticks == 18
