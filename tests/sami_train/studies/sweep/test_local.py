"""Cells as processes of this machine: which GPU each of them sees."""

import os
import sys

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
    started = []

    def start(engine):
        logs = tmp_path / f"job{len(started)}"
        logs.mkdir()
        os.mkfifo(logs / "pipe")
        job = engine.submit(logs)
        started.append(job)

        def end():
            (logs / "pipe").write_text("")
            job._process.wait(60)
            return (logs / "log.txt").read_text().strip()

        return end

    yield start
    for job in started:
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


@pytest.mark.parametrize(
    ("visible", "count", "expected"), [("", 2, ("0", "1")), ("2, 3", 2, ("2", "3")), ("", 0, ()), ("0", 0, ())]
)
def test_gpus_are_named_as_cuda_takes_them(monkeypatch, visible, count, expected):
    monkeypatch.setenv(engines.VISIBLE_GPUS, visible)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert engines.usable_gpus() == expected
