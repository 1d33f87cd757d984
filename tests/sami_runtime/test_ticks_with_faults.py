"""Two thousand ticks of a robot that does everything wrong; `make test-real` drives 100,000."""

import numpy as np
import pytest

from sami_runtime import SafetyGate, Session
from sami_runtime.safety.limiter import Bounds, Rate
from tests.making.observer import Observer
from tests.making.ticks_with_faults import drive, require_laws


@pytest.fixture
def paths(make):
    return [make.write(make.recurrent(seed=item)) for item in (0, 1)]


def test_whatever_the_robot_does_what_is_written_is_allowed_and_what_is_reported_is_what_happened(paths):
    require_laws(drive(paths, 2_000, seed=0))


@pytest.mark.parametrize(
    ("owner", "method", "broken", "finding"),
    [
        (Bounds, "cut", lambda _, action: action, "bounds fx"),
        (Rate, "limit", lambda _, step, move: step * 1.001, "rate: "),
        (SafetyGate, "require_armed", lambda _: None, "after a stop or a trip"),
        (Session, "executed", lambda _, action: None, "acted"),
        (SafetyGate, "changed", lambda _, ruling, result: (), "said is ()"),
    ],
)
def test_the_observer_finds_a_gate_that_is_broken(paths, monkeypatch, owner, method, broken, finding):
    """A guard of the guard: it would also pass if it saw nothing."""
    rest = Session.executed
    monkeypatch.setattr(owner, method, broken)
    if owner is Session:  # the one that is fed by hand is not broken
        monkeypatch.setattr(
            "tests.making.ticks_with_faults.ByHand.report_executed", lambda hand, message: rest(hand.session, message)
        )
    counts = drive(paths, 800, seed=0)
    assert finding in str(counts["violations"] + counts["difference"])
    with pytest.raises(AssertionError):
        require_laws(counts)


def test_a_write_that_is_not_finite_is_found():
    observer = Observer(-1.0, 1.0, 4.0, 0.04)
    for action in ([np.nan, 0.0], [np.inf, 0.0], [0.0]):
        observer.begin()
        observer.write(action, 0.0)
    assert len(observer.violations) == 3
