"""`sami sweep` as users run it: real cells as real processes, equal to `sami train`."""

import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from typing import NamedTuple

import pytest
import torch
from sami_cli.app import main

from tests.cli.conftest import contents, sami

__all__ = ["contents", "sami"]  # fixtures of the tests below

TINY = {
    "checkpoint_every": 200,
    "network.net_arch": "[32,32]",
    "learning.train_every": 30,
    "learning.batch_transitions": 64,
    "learning.buffer_episodes": 100,
    "exploration.warmup_steps": 200,
    "contrast.every": 2,
    "contrast.trajectories": 8,
}
OPTIONS = ["--steps", "600", "--set", "collection.workers=0", "--episodes", "1"]
OPTIONS += [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
PATIENCE = 300.0
"""Seconds after which a busy machine no longer explains why nothing happens."""
SCRIPT = [sys.executable, "-c", "from sami_cli.app import main; main()", "sweep"]


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@contextlib.contextmanager
def sweeping(*arguments, **environment):
    """A sweep in a session of its own, as a terminal starts it."""
    process = subprocess.Popen(
        [*SCRIPT, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def end(process):
    out, err = process.communicate(timeout=PATIENCE)
    return Ended(process.returncode, out, err)


def cells(result):
    return {cell["name"]: cell for cell in json.loads(result.out)["cells"]}


def same_agents(first, second):
    import torch

    from sami_train.runs.folder import RunFolder
    from sami_train.runs.train import load_agent

    agent, other = (load_agent(RunFolder.open(path)) for path in (first, second))
    expected = other.policy.state_dict()
    assert agent._n_updates == other._n_updates > 5
    return all(torch.equal(tensor, expected[name]) for name, tensor in agent.policy.state_dict().items())


def wait_for(process, condition):
    deadline = time.monotonic() + PATIENCE
    while not (result := condition()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return result


@pytest.fixture(scope="module")
def finished_sweep(tmp_path_factory):
    """A sweep of two cells, one of which could not begin."""
    out = tmp_path_factory.mktemp("swept") / "sweep"
    thesis = out / "panda-satesac-0" / "thesis.txt"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("not to be lost")
    with sweeping("--out", out, "--method", "tesac,satesac", *OPTIONS, "--on", 2, "--json") as sweep:
        return out, end(sweep)


@pytest.fixture(scope="module")
def uninterrupted(finished_sweep, tmp_path_factory):
    """What `sami train` and `sami eval` make of the command that the run folder of a cell names."""
    words = json.loads((finished_sweep[0] / "panda-tesac-0" / "run.json").read_text())["command"]
    run = tmp_path_factory.mktemp("uninterrupted") / "run"
    words[words.index("--out") + 1] = str(run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        for arguments in (words, ["sami", "eval", "--run", str(run), "--episodes", "1", "--on", "1", "--json"]):
            patch.setattr(sys, "argv", arguments)
            with pytest.raises(SystemExit, match="0"):
                main()
    return run


def test_a_cell_that_fails_is_named_with_its_reason_and_does_not_stop_the_others(finished_sweep):
    out, outcome = finished_sweep
    result = cells(outcome)
    assert outcome.code == 1
    assert result["panda-tesac-0"]["state"] == "done"
    assert set(result["panda-tesac-0"]["success"]) == {"training", "moderate", "extreme"}
    failed = result["panda-satesac-0"]
    assert failed["state"] == "failed"
    assert "holds thesis.txt, which no run wrote" in failed["reason"]
    assert f"panda-satesac-0 failed: {failed['reason']}" in outcome.err
    assert failed["log"] in outcome.err
    with open(failed["log"]) as log:
        assert "RunError" in log.read()
    assert (out / "panda-satesac-0" / "thesis.txt").read_text() == "not to be lost"


def test_a_cell_is_what_sami_train_and_sami_eval_make(finished_sweep, uninterrupted):
    run = finished_sweep[0] / "panda-tesac-0"
    assert same_agents(run, uninterrupted)
    assert json.loads((run / "evaluation.json").read_text()) == json.loads(
        (uninterrupted / "evaluation.json").read_text()
    )


def test_what_is_done_is_not_done_again_and_values_may_be_added(sami, finished_sweep, tmp_path, contents):
    out = shutil.copytree(finished_sweep[0], tmp_path / "sweep")
    shutil.rmtree(out / "panda-satesac-0")
    before = contents(out)
    result = sami("sweep", "--out", out, "--method", "satesac,tesac", "--seed", "0,1", *OPTIONS, "--dry-run", "--json")
    assert {name: cell["state"] for name, cell in cells(result).items()} == {
        "panda-tesac-0": "done",
        "panda-satesac-0": "waiting",
        "panda-tesac-1": "waiting",
        "panda-satesac-1": "waiting",
    }
    table = sami("sweep", "--out", out, "--dry-run")
    assert (table.code, table.err) == (0, "")
    assert "2 cells, 1 of them done" in table.out
    assert contents(out) == before


def test_a_sweep_of_done_cells_starts_no_job(sami, finished_sweep, tmp_path, contents):
    out = tmp_path / "sweep"
    shutil.copytree(finished_sweep[0] / "panda-tesac-0", out / "panda-tesac-0")
    before = contents(out)
    result = sami("sweep", "--out", out, "--method", "tesac", *OPTIONS)
    assert (result.code, result.err) == (0, "")
    assert "all 1 cells are trained and evaluated" in result.out
    files = contents(out).keys() - before.keys()
    assert {path.name for path in files} == {"sweep.json", "sweep.lock", "runs.jsonl"}
    assert {path: contents(out)[path] for path in before} == before


def test_two_sweeps_do_not_run_in_one_folder(sami, finished_sweep):
    from sami_train.studies.sweep.sweep import Sweep

    with Sweep.open(finished_sweep[0]).locked():
        result = sami("sweep", "--out", finished_sweep[0])
    assert result.code == 1
    by = f"process {os.getpid()} on {platform.node()}"
    assert result.err == f"sami: another sweep runs in {finished_sweep[0]}, {by}; wait for it to end, or stop it.\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--episodes 2", "evaluates with 1 episodes, and now 2 are asked for"),
        ("--steps 5", "steps is 600 in the sweep that is there, and now 5;"),
        ("--method tesac", "method is tesac,satesac in the sweep that is there, and now tesac;"),
        ("--set learning.discount=0.9", "learning.discount is not set in the sweep that is there, and now is;"),
    ],
)
def test_a_contradicting_sweep_is_refused_with_what_differs(sami, finished_sweep, contents, options, message):
    before = contents(finished_sweep[0])
    result = sami("sweep", "--out", finished_sweep[0], "--method", "tesac,satesac", *OPTIONS, *options.split())
    assert result.code == 1
    assert message in result.err
    assert contents(finished_sweep[0]) == before


def test_a_run_with_other_settings_in_a_cells_place_is_refused(sami, finished_sweep, tmp_path):
    shutil.copytree(finished_sweep[0] / "panda-tesac-0", tmp_path / "panda-tesac-0")
    result = sami("sweep", "--out", tmp_path, "--method", "tesac", "--steps", 700, *OPTIONS[2:])
    assert result.code == 1
    assert "holds a run with steps = 600, and the sweep's has 700" in result.err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_cells_on_each_gpu_without_one_is_refused_before_anything_is_written(sami, tmp_path):
    with sweeping("--out", tmp_path / "sweep", "--seed", "0,1", "--on", "gpu:2") as sweep:
        result = end(sweep)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert result.err.startswith("sami: --on gpu:2 needs a GPU, and torch finds none here;")
    assert not (tmp_path / "sweep").exists()
    assert sami("sweep", "--out", tmp_path / "sweep", "--on", "gpu:0").code == 2
