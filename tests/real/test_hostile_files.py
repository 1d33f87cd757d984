"""A thousand mutated files of each kind: none does anything but be read or be refused."""

from tests.making import hostile_policies as policies
from tests.sami_runtime import test_hostile_files as models
from tests.sami_train.runs import test_hostile_files as training_files

hostile = models.hostile


def test_a_thousand_hostile_models_are_refused_or_answer_and_do_nothing_else(hostile):
    models.hold_for(1000, hostile)


def test_a_thousand_hostile_policies_are_refused_or_adopted_and_nothing_else(tmp_path):
    policies.hold_for(1000, tmp_path)


def test_a_thousand_other_hostile_files_are_refused_or_read_and_raise_no_other_error(tmp_path):
    for kind, outcomes in training_files.hold_for(1000, tmp_path / "hostile").items():
        assert outcomes["read"] > 2, kind  # or the mutants do not reach that far
        assert outcomes["refused"] > 2 or kind in ("metrics.jsonl", "outcome.json"), kind  # bad lines are left out
