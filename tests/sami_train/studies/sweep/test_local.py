"""Cells as processes of this machine, which GPU each of them sees; the log of a cell on Ray."""

import os
import sys
from pathlib import Path

import pytest
import torch

from sami_train.studies.sweep import engines

JOB_CODE = (
    f"import os, sys; print(os.environ.get('{engines.VISIBLE_GPUS}'), flush=True); "
    "sys.stdin.close(); open(sys.argv[1]).read()"
)
"""A job that tells what it sees, and ends once somebody has opened its pipe for writing and closed it."""


@pytest.fixture
def submit(tmp_path, monkeypatch):
    """Start a job on an engine; return it with what ends it."""
    monkeypatch.setattr(engines, "job_command", lambda logs: [sys.executable, "-c", JOB_CODE, str(logs / "pipe")])
    jobs = []

    def start(engine):
        logs = tmp_path / f"job{len(jobs)}"
        logs.mkdir()
        os.mkfifo(logs / "pipe")
        job = engine.submit(logs)
        jobs.append(job)

        def end():
            (logs / "pipe").write_text("")
            job._process.wait(60)
            return (logs / "log.txt").read_text().strip()

        return end

    yield start
    for job in jobs:
        job._process.kill()
        job._process.wait()


def test_each_job_sees_the_gpu_that_has_the_fewest(submit):
    engine = engines.Local(4, ("0", "3"))
    first, second, third, fourth = (submit(engine) for _ in range(4))
    assert (second(), third()) == ("3", "0")
    assert submit(engine)() in ("0", "3")
    on_third, on_second = submit(engine), submit(engine)
    assert sorted((on_third(), on_second())) == ["0", "3"]
    assert (first(), fourth()) == ("0", "3")


def test_without_gpus_a_job_sees_what_its_sweep_does(submit, monkeypatch):
    monkeypatch.setenv(engines.VISIBLE_GPUS, "7")
    assert submit(engines.Local(1))() == "7"


def test_the_log_of_a_task_on_ray_that_starts_at_once_stays_in_place(tmp_path):
    class RemoteTask:
        """What a free worker does: it opens the log before `remote` returns."""

        def options(self, name):
            return self

        def remote(self, command, log):
            Path(log).write_text("second try")

    (tmp_path / engines.LOG).write_text("first try")
    engine = object.__new__(engines.Ray)
    engine._task = RemoteTask()
    assert engine.submit(tmp_path).log.read_text() == "second try"
    assert (tmp_path / "log.before").read_text() == "first try"


@pytest.mark.parametrize(
    ("visible", "count", "expected"), [("", 2, ("0", "1")), ("2, 3", 2, ("2", "3")), ("", 0, ()), ("0", 0, ())]
)
def test_gpus_are_named_as_cuda_takes_them(monkeypatch, visible, count, expected):
    monkeypatch.setenv(engines.VISIBLE_GPUS, visible)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert engines.usable_gpus() == expected
