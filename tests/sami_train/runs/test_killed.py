"""A deterministic run that is killed at random moments of its files; `tests/real/test_killed.py` tries many more."""

import shutil

import numpy as np
import pytest

from tests.making.killed import EXAMPLES, forked, go_on, require_whole, same


@pytest.fixture
def whole(tmp_path, monkeypatch):
    """A run that nobody killed, and how many moments it had."""
    monkeypatch.syspath_prepend(EXAMPLES)
    status, moments = forked(lambda: go_on(tmp_path / "whole"), tmp_path)
    assert status == 0
    return tmp_path / "whole", moments


def test_a_run_that_was_killed_ends_with_the_same_weights_and_the_same_lines(whole, tmp_path):
    folder, moments = whole
    draw, run, killed = np.random.default_rng(0), tmp_path / "run", 0
    while killed < 3:
        status, _ = forked(lambda: go_on(run), tmp_path, at=int(draw.integers(1, moments // 3)))
        assert status == -9
        killed += 1
        require_whole(run)
        if not (run / "checkpoints").is_dir():
            shutil.rmtree(run)
    assert forked(lambda: go_on(run), tmp_path)[0] == 0
    require_whole(run)
    assert same(run, folder)
    assert not list(run.rglob("*.unfinished"))
