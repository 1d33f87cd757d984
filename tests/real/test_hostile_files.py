"""A thousand mutated model files: none does anything but answer or be refused."""

from tests.sami_runtime.test_hostile_files import hold_for, hostile

__all__ = ["hostile"]


def test_a_thousand_hostile_files_are_refused_or_answer_and_do_nothing_else(hostile):
    hold_for(1000, hostile)
