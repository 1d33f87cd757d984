"""Mutated files of a run folder, and of all else that is read; `benchmarks/hostile_files.py` tries more."""

from collections import Counter

import pytest

from tests.making import hostile

FILES = 100
"""`tests/real` tries a thousand."""
CASES = (
    58,
    59,
    128,
    175,
    189,
    259,
    371,
    385,
    413,
    483,
    534,
    667,
    814,
    828,
    833,
    903,
    1141,
    1291,
    1458,
    1879,
    2177,
    5880,
)
"""Files that ended in another error once."""


def hold_for(files, folder):
    """Read so many mutated files; returns how they ended, by kind."""
    total, results = {kind: Counter() for kind in hostile.KINDS}, []
    for number in range(files):
        kind, outcome = hostile.attempt(number, folder)
        total[kind][outcome] += 1
        if outcome.startswith("FOUND"):
            results.append((number, kind, outcome))
    assert results == []
    return total


def test_they_are_refused_or_read_and_raise_no_other_error(tmp_path):
    total = hold_for(FILES, tmp_path / "hostile")
    assert all(sum(outcomes.values()) > 2 for outcomes in total.values())


@pytest.mark.parametrize("number", CASES)
def test_what_was_found_once_is_refused_or_read(tmp_path, number):
    assert hostile.attempt(number, tmp_path / "hostile")[1] in ("refused", "read")
