"""Whether an observation can be too old, and an answer too late, is said and not guessed."""

import pytest

from sami_runtime.clock import ManualClock
from sami_runtime.errors import SamiError
from sami_runtime.loop.episode import run_episode
from sami_runtime.session.session import Session

STALE = {"reading": [0.0, 0.0, 0.05], "stale_at_reads": range(4, 9)}
"""One answer that is late, and observations that grow too old."""


@pytest.fixture
def session(path):
    return Session.load(path)


@pytest.mark.parametrize("enforced", [None, True])
def test_with_a_clock_timing_is_enforced_unless_told_otherwise(session, arm, enforced):
    clock = ManualClock()
    loop = run_episode(session, arm(clock, **STALE), clock=clock, enforce_timing=enforced).loop
    assert (loop.outcomes["late"], loop.reasons["age"]) == (1, 3)


def test_without_enforcement_the_clock_keeps_the_rate_alone(session, arm):
    clock = ManualClock()
    loop = run_episode(session, arm(clock, **STALE), clock=clock, enforce_timing=False).loop
    assert (loop.outcomes, loop.missed) == ({"acted": 10}, 1)
    assert loop.mean_period == pytest.approx(0.04)


def test_an_adapter_that_stamps_with_a_clock_of_its_own_can_be_driven(session, arm):
    clock, adapter = ManualClock(), arm(ManualClock(start=1e6))
    assert run_episode(session, adapter, clock=clock, enforce_timing=False).loop.outcomes == {"acted": 10}
    assert clock.now() == pytest.approx(9 * 0.04)


def test_without_a_clock_there_is_no_time_to_enforce(session, arm):
    adapter = arm()
    assert run_episode(session, adapter, enforce_timing=False).loop.outcomes == {"acted": 10}
    with pytest.raises(SamiError, match="enforce_timing is True, but clock is None, so ages cannot be measured"):
        run_episode(session, adapter, enforce_timing=True)
    assert adapter.resets == 1
