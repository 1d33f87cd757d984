"""What `sami sweep` refuses before anything starts; real cells as real processes: tests/real/test_sweep.py."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--method tesac,satsac", "cell panda-satsac-0: unknown method 'satsac'. Did you mean 'satesac'?"),
        ("--seed 0,x", "cell panda-tesac-x: seed is 'x'; it must be of type int."),
        ("--set learning.discount=0.9,2", "cell panda-tesac-0-discount=2: learning.discount is 2.0; it must lie"),
        ("--set method=tesac", "method has its own option; give --method instead of --set method=..."),
        ("--set steps=1 --steps 2", "steps has its own option; give --steps instead"),
        ("--set contrast.every=1 --set contrast.every=2", "--set contrast.every=... was given twice"),
        ("--seed 0 --on slurm", "there is no sbatch here; --on slurm needs a machine that submits to Slurm."),
    ],
)
def test_a_refused_sweep_leaves_nothing_behind(sami, tmp_path, contents, arguments, message, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    before = contents(tmp_path)
    result = sami("sweep", "--out", "sweep", *arguments.split())
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("sami: ")
    assert message in result.err
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "arguments",
    ["", "--seed 1", "--out a --on there", "--on 0"],
)
def test_wrong_usage_exits_with_2(sami, arguments):
    result = sami("sweep", *arguments.split())
    assert (result.code, result.out) == (2, "")


def test_resuming_what_is_no_sweep_is_refused(sami, tmp_path):
    result = sami("sweep", "--out", tmp_path)
    assert (result.code, "has no sweep.json; say what to try, such as --method" in result.err) == (1, True)
