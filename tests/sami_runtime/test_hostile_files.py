"""Mutated model files through the whole path; `benchmarks/hostile_files.py` tries as many as you like."""

import importlib
from collections import Counter

import pytest

from tests.making.mutants import MUTATIONS, mutant
from tests.making.sealed import sealed

FILES = 100
"""`tests/real` tries a thousand."""
CASES = (4297, 9537, 9697, 16483, 17537, 17803)
"""Files of the first 20,000 that were neither refused nor answered: a context of 2^31 numbers, an input of no type."""


@pytest.fixture
def hostile(request, monkeypatch):
    """The command; by its name, because its processes import it, too."""
    monkeypatch.syspath_prepend(request.config.rootpath / "benchmarks")
    return importlib.import_module("hostile_files")


def test_a_number_is_a_file_for_ever():
    assert [mutant(number) for number in range(20)] == [mutant(number) for number in range(20)]


def test_the_file_that_nothing_is_wrong_with_answers(hostile):
    assert hostile.through(sealed()) == "answers"


def hold_for(files, hostile):
    """No error of another kind, no process that ends, no hang, no file that is opened."""
    total, kinds, results = Counter(), Counter(), []

    def on_result(number, kind, outcome, resident):
        total[outcome] += 1
        kinds[kind] += 1
        if outcome.startswith(("FOUND", "ended", "took")):
            results.append((number, kind, outcome))

    hostile.run(range(files), on_result)
    assert results == []
    assert set(kinds) == set(MUTATIONS)
    assert sum(total.values()) == files
    for outcome in ("refused before onnxruntime", "refused when it was loaded", "answers"):
        assert total[outcome] > files / 50, total  # or the mutants do not reach that far


def test_hostile_files_are_refused_or_answer_and_do_nothing_else(hostile):
    hold_for(FILES, hostile)


@pytest.mark.parametrize("number", CASES)
def test_what_was_found_once_is_refused(hostile, number):
    assert hostile.through(mutant(number)[1]).startswith("refused")
