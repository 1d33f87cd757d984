"""Sweeps on a real Slurm: submitted, run, cancelled, preempted, requeued, at its time limit, and gone on with."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.real.slurm_cluster import jobs, output_of, slurm_cluster
from tests.real.test_sweep import OPTIONS, TINY, cells, end, same_agents, sweeping, wait_for

USER_ENV = ("--env", "tests.making.logging_often:PENDULUM")
PENDULUM = (*USER_ENV, "--method", "tesac")
"""A cell that begins to learn within seconds: which robot it is trained for does not matter to a cluster."""
ENDLESS = [*PENDULUM, "--steps", "900000", "--episodes", "1", "--set", "collection.workers=1"]
ENDLESS += [word for key, value in TINY.items() if key != "checkpoint_every" for word in ("--set", f"{key}={value}")]
CELL = "tests.making.logging_often_PENDULUM-tesac-0"


@pytest.fixture(scope="module")
def cluster():
    with slurm_cluster() as folder:
        yield folder


@pytest.fixture(autouse=True)
def empty_queue(cluster):
    yield
    subprocess.run(["scancel", "--signal=KILL", f"--user={os.getuid()}"], check=False)
    subprocess.run(["scancel", f"--user={os.getuid()}"], check=False)
    deadline = time.monotonic() + 60.0
    while jobs():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def learns(out):
    """The steps that the cell's metrics have reached; 0 before there are any."""
    with contextlib.suppress(FileNotFoundError, IndexError, ValueError):
        return json.loads((out / CELL / "metrics.jsonl").read_text().splitlines()[-1])["step"]
    return 0


def checkpoints(out):
    return sorted(int(path.name) for path in (out / CELL / "checkpoints").glob("[0-9]*") if path.name.isdigit())


def stop(sweep):
    os.killpg(sweep.pid, signal.SIGINT)
    return end(sweep)


def test_cells_on_slurm_are_what_they_are_on_this_machine(tmp_path, cluster):
    local, remote = tmp_path / "here", tmp_path / "there"
    with sweeping("--out", local, *PENDULUM, *OPTIONS) as sweep:
        assert end(sweep).code == 0
    with sweeping("--out", remote, *PENDULUM, *OPTIONS, "--on", "slurm", "--json") as sweep:
        result = end(sweep)
    assert (result.code, cells(result)[CELL]["state"]) == (0, "done")
    assert same_agents(local / CELL, remote / CELL)
    assert (local / CELL / "evaluation.json").read_text() == (remote / CELL / "evaluation.json").read_text()
    assert (remote / "runs.jsonl").is_file()
    assert not list(remote.rglob("*.pkl"))
    assert "steps" in Path(cells(result)[CELL]["log"]).read_text()


def test_a_measurement_that_is_spread_on_slurm_is_what_it_is_on_this_machine(tmp_path, cluster):
    local, remote = tmp_path / "here", tmp_path / "there"
    script = [sys.executable, "-c", "from sami_cli.app import main; main()", "robustness", "panda-satesac"]
    script += ["--gap", "latency", "--episodes", "1", "--json"]
    subprocess.run([*script, "--out", local], check=True, capture_output=True)
    subprocess.run([*script, "--out", remote, "--on", "slurm:jobs=2"], check=True, capture_output=True)
    assert (local / "robustness.json").read_text() == (remote / "robustness.json").read_text()
    assert sorted(path.name for path in remote.iterdir()) == ["robustness.json", "robustness.png"]


@pytest.mark.parametrize("event", ["requeue", "preempt", "time limit"])
def test_a_cell_with_a_rollout_worker_that_the_cluster_cuts_off_goes_on(tmp_path, cluster, event):
    out = tmp_path / "sweep"
    with sweeping("--out", out, *ENDLESS, "--on", "slurm:time=10") as sweep:
        wait_for(sweep, lambda: learns(out))
        (first,) = jobs("RUNNING")
        if event == "requeue":
            output_of("scontrol", "requeue", first)
        elif event == "time limit":  # shortened once it learns: Slurm may warn as soon as such a job begins
            output_of("scontrol", "update", f"JobId={first}", "TimeLimit=2")
        elif event == "preempt":
            script = "#!/bin/bash\nsleep 3\n"
            urgent = ["sbatch", "--partition=urgent", "--cpus-per-task=2", "--output=/dev/null"]
            subprocess.run(urgent, input=script, text=True, check=True, capture_output=True)
        wait_for(sweep, lambda: checkpoints(out))
        cut_at = checkpoints(out)[-1]
        if event != "time limit":
            wait_for(sweep, lambda: first in jobs("PENDING"))
            output_of("scontrol", "update", f"JobId={first}", "StartTime=now")  # else Slurm waits two minutes
        wait_for(sweep, lambda: learns(out) > cut_at)
        (second,) = jobs("RUNNING")
        assert (second == first) == (event != "time limit")
        result = stop(sweep)
    assert result.code == 130
    assert "stopped with 0 of 1 cells done. Go on with:" in result.out
    assert f"sami sweep --out {out} --on slurm {' '.join(USER_ENV)}\n" in result.out.replace(" \\\n      ", " ")
    assert "failed" not in result.out
    assert jobs() == []
    assert checkpoints(out)[-1] > cut_at


def test_a_cell_that_somebody_cancels_stops_at_a_checkpoint_and_is_not_submitted_again(tmp_path, cluster):
    out = tmp_path / "sweep"
    with sweeping("--out", out, *ENDLESS, "--on", "slurm", "--json") as sweep:
        wait_for(sweep, lambda: learns(out))
        output_of("scancel", *jobs("RUNNING"))
        result = end(sweep)
    cell = cells(result)[CELL]
    assert (result.code, cell["state"], cell["reason"]) == (1, "stopped", "its job was cancelled")
    assert checkpoints(out)
    assert jobs() == []


def test_what_waits_in_the_queue_says_why_and_ends_at_once(tmp_path, cluster):
    out = tmp_path / "sweep"
    holding = ["sbatch", "--parsable", "--cpus-per-task=2", "--output=/dev/null"]
    subprocess.run(holding, input="#!/bin/bash\nsleep 600\n", text=True, check=True, capture_output=True)
    with sweeping("--out", out, *ENDLESS, "--on", "slurm", COLUMNS="200") as sweep:
        line = wait_for(sweep, sweep.stdout.readline)
        assert line.startswith(f"{CELL} pending: pending in Slurm's queue: ")
        start = time.monotonic()
        result = stop(sweep)
    assert result.code == 130
    assert time.monotonic() - start < 30.0
    assert "have not stopped yet" not in result.out
    assert len(jobs()) == 1
    assert not (out / CELL).exists()


def test_the_job_of_a_sweep_that_was_killed_is_taken_by_the_next(tmp_path, cluster):
    out = tmp_path / "sweep"
    with sweeping("--out", out, *ENDLESS, "--on", "slurm:partition=urgent") as sweep:
        wait_for(sweep, lambda: learns(out))
        first = jobs("RUNNING")
        sweep.kill()
    with sweeping("--out", out, *USER_ENV, "--on", "slurm") as sweep:
        wait_for(sweep, sweep.stdout.readline)
        assert jobs() == first
        assert stop(sweep).code == 130
    assert json.loads((out / "sweep.json").read_text())["cluster"] == {"partition": "urgent"}
    assert jobs() == []
    assert checkpoints(out)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("cpus_per_task=99", "Slurm does not take this: allocation failure: Requested node configuration is not"),
        ("partition=nope", "Slurm does not take this: invalid partition specified: nope; "),
        ("colour=blue", "Slurm does not take this: unrecognized option '--colour=blue'; "),
        ("output=x", "--on slurm:output=... is the sweep's own; leave it out."),
    ],
)
def test_what_slurm_would_not_run_is_refused_before_anything_is_written(tmp_path, cluster, setting, message):
    with sweeping("--out", tmp_path / "sweep", *ENDLESS, "--on", f"slurm:{setting}") as sweep:
        result = end(sweep)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"sami: {message}")
    assert not (tmp_path / "sweep").exists()
