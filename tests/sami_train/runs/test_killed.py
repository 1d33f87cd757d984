"""A deterministic run that is killed at a random moment of its files; `tests/real/test_killed.py` tries many more."""

import re
import resource
import shutil

import numpy as np
import pytest

from sami_train.runs.folder import RunError, RunFolder
from tests.making.killed import EXAMPLES, forked, go_on, require_whole, same


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody killed, and how many moments it had."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        status, moments = forked(lambda: go_on(folder / "whole"), folder)
        assert status == 0
        yield folder / "whole", moments


def test_a_run_that_was_killed_ends_with_the_same_weights_and_the_same_lines(whole, tmp_path):
    folder, moments = whole
    draw, run, killed = np.random.default_rng(0), tmp_path / "run", 0
    while killed < 1:
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


def test_a_run_for_whose_checkpoints_there_is_no_room_says_so_and_goes_on_once_there_is(whole, tmp_path):
    run, told = tmp_path / "run", tmp_path / "told"

    def confined():
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (700_000, resource.RLIM_INFINITY)
        )  # with Adam's moments, they are larger
        try:
            go_on(run)
        except RunError as error:
            told.write_text(str(error))

    for _ in range(2):  # the second one resumes, and finds as little
        assert forked(confined, tmp_path)[0] == 0
        assert re.fullmatch(
            rf"{run}/checkpoints/\d+ cannot be written: File too large\. Make room or choose another place; what was "
            rf"there is as it was\. Then go on with: sami train --resume {run}",
            told.read_text(),
        )
        require_whole(run)
        assert RunFolder(run).facts()["state"] == "failed"
        assert len(RunFolder(run).checkpoints()) >= 2
        assert not list(run.rglob("*.unfinished"))
    assert forked(lambda: go_on(run), tmp_path)[0] == 0
    assert same(run, whole[0])
