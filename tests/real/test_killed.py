"""Trainings, sweeps and evaluations that are killed at ten random moments each, and end as if nobody had."""

import json
import os
import re
import resource
import shutil
import signal
import sys

import numpy as np
import pytest

from sami_train.files import read_json
from sami_train.runs.folder import RunError, RunFolder
from tests.making.killed import EXAMPLES, forked, go_on, require_whole, same, sweep_seeds

KILLS = 10


@pytest.fixture(autouse=True)
def pendulum(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)


def require_whole_or_anew(run):
    """A run is whole; without a checkpoint, also where it was killed while it wrote the first, it begins anew."""
    require_whole(run)
    if RunFolder(run).newest_checkpoint() is None:
        shutil.rmtree(run, ignore_errors=True)


def kill_often(work, folder, moments, check, unless=lambda: None, seed=0):
    """Kill some work at random moments, half of them by the clock; it is begun anew where it had come to its end."""
    draw, killed, ends, seconds = np.random.default_rng(seed), 0, 0, 3.0
    while killed < KILLS:
        when = (
            {"at": int(draw.integers(1, moments // 2))} if killed % 2 else {"after": float(draw.uniform(0.1, seconds))}
        )
        status, _ = forked(work, folder, **when)
        assert status in (0, -signal.SIGKILL), "it ended in an error"
        check()
        if status == 0:
            ends += 1
            seconds *= 0.7
            unless()
        killed += status != 0
    assert forked(work, folder)[0] == 0
    check()
    return ends + 1


def test_a_run_ends_with_the_same_weights(tmp_path, capsys):
    whole, run = tmp_path / "whole", tmp_path / "run"
    status, moments = forked(lambda: go_on(whole), tmp_path)
    assert status == 0

    def ended():
        assert same(run, whole)
        shutil.rmtree(run)

    ends = kill_often(lambda: go_on(run), tmp_path, moments, lambda: require_whole_or_anew(run), ended)
    assert same(run, whole)
    assert not list(run.rglob("*.unfinished"))
    with capsys.disabled():
        print(f"\n{KILLS} kills in {ends} runs of {moments} moments each")


def test_a_run_with_a_rollout_worker_ends_and_its_files_are_whole(tmp_path):
    """Its weights depend on how fast each process was."""
    run = tmp_path / "run"

    def work():
        go_on(run, **{"collection.workers": 1, "steps": 6000})

    for seconds in (5.0, 6.0, 7.0):
        assert forked(work, tmp_path, after=seconds)[0] in (0, -signal.SIGKILL)
        require_whole_or_anew(run)
        if (run / "agent.zip").is_file():
            break
    if not (run / "agent.zip").is_file():
        assert forked(work, tmp_path)[0] == 0
    require_whole_or_anew(run)
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(set(steps))
    assert not list(run.rglob("*.unfinished"))


def test_a_run_for_whose_checkpoints_there_is_no_room_says_so_and_goes_on_once_there_is(tmp_path):
    whole, run, report = (tmp_path / name for name in ("whole", "run", "told"))
    assert forked(lambda: go_on(whole), tmp_path)[0] == 0

    def confined():
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (700_000, resource.RLIM_INFINITY)
        )  # with Adam's moments, they are larger
        try:
            go_on(run)
        except RunError as error:
            report.write_text(str(error))

    for _ in range(2):  # the second one resumes, and finds as little
        assert forked(confined, tmp_path)[0] == 0
        assert re.fullmatch(
            rf"{run}/checkpoints/\d+ cannot be written: File too large\. Make room or choose another place; an "
            rf"existing file was not changed\. Then resume the run: sami train --resume {run} --env pendulum:PENDULUM",
            report.read_text(),
        )
        require_whole(run)
        assert RunFolder(run).facts()["state"] == "failed"
        assert len(RunFolder(run).checkpoints()) >= 2
        assert not list(run.rglob("*.unfinished"))
    assert forked(lambda: go_on(run), tmp_path)[0] == 0
    assert same(run, whole)


def test_a_sweep_ends_with_the_same_cells_and_the_same_study(tmp_path, capsys):
    whole, out = tmp_path / "whole", tmp_path / "sweep"
    status, moments = forked(lambda: sweep_seeds(whole), tmp_path)
    assert status == 0

    def check():
        for run in out.glob("pendulum*"):
            require_whole(run)
        for path in (*out.glob("*.json"), *out.glob("logs/*/*.json")):
            assert read_json(path)

    ends = kill_often(lambda: sweep_seeds(out), tmp_path, moments, check, lambda: shutil.rmtree(out))
    cells = sorted(whole.glob("pendulum*"))
    assert len(cells) == 2
    for cell in cells:
        assert same(out / cell.name, cell)
        assert read_json(out / cell.name / "evaluation.json") == read_json(cell / "evaluation.json")
        assert RunFolder.open(out / cell.name).facts()["state"] == "finished"
    assert not list(out.rglob("*.unfinished*"))
    assert {path.name for path in out.iterdir()} == {path.name for path in whole.iterdir()}
    with capsys.disabled():
        print(f"\n{KILLS} kills in {ends} sweeps of {moments} moments each")


def test_an_evaluation_goes_on_with_what_is_finished_and_ends_with_the_same_file(tmp_path, capsys):
    from sami_cli.app import main

    from sami_train.evaluation.result_store import ENDING

    def evaluate(out):
        sys.argv = ["sami", "eval", "--model", "panda-satesac", "--tasks", "training,moderate", "--episodes", "1"]
        sys.argv += ["--on", "1", "--out", str(out), "--json", "--force"]
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the process ends
        main()

    whole, out, most = tmp_path / "whole", tmp_path / "out", 0
    status, moments = forked(lambda: evaluate(whole), tmp_path)
    assert status == 0

    def check():
        nonlocal most
        rest = [len(path.read_text().splitlines()) for path in out.glob(f"*{ENDING}")]
        if (out / "evaluation.json").is_file():
            assert read_json(out / "evaluation.json") == read_json(whole / "evaluation.json")
            most = 0
        else:
            assert sum(rest) >= most, "a task that was finished is measured again"
            most = sum(rest)

    def ended():
        nonlocal most
        shutil.rmtree(out)
        most = 0

    ends = kill_often(lambda: evaluate(out), tmp_path, moments, check, ended)
    assert [path.name for path in out.iterdir()] == ["evaluation.json"]
    with capsys.disabled():
        print(f"\n{KILLS} kills in {ends} evaluations of {moments} moments each")
