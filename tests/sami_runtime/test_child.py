"""Processes that this project starts import nothing from the current folder: a model may come with a `json.py`."""

import multiprocessing as mp
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from sami_runtime import child
from sami_runtime.child import python_command
from sami_runtime.model.artifact import read_artifact
from sami_runtime.safety.watchdog import Watchdog
from sami_runtime.session.admission import rehearse
from tests.making.stops import Stops

ROOT = Path(child.__file__).parents[1]
NAMES = (
    *("json", "typing", "importlib", "numpy", "onnxruntime", "sitecustomize", "multiprocessing", "socket", "http"),
    *("sami_runtime", "sami_cli", "sami_train"),
)


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """The current folder, where this process is said to find its modules first; which of them were run elsewhere."""
    folder, log = tmp_path / "download", tmp_path / "taken"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(log)!r}, 'a').write({name + ' '!r})")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    path = ["", ".", str(folder), *sys.path]
    monkeypatch.setattr(child, "sys", SimpleNamespace(executable=sys.executable, path=path))
    return lambda: log.read_text() if log.exists() else ""


def test_a_rehearsal_runs_no_module_of_the_current_folder(hostile, path):
    rehearse(read_artifact(path))
    assert hostile() == ""


@pytest.mark.skipif(sys.platform != "linux", reason="watchdogs need Linux")
def test_a_watchdog_runs_the_module_that_was_named_and_no_other(hostile, tmp_path):
    stops = Stops(tmp_path / "download")
    with Watchdog("my_arm:emergency_stop", 60.0) as dog:
        assert dog.fire(10.0)
    assert stops.times
    assert hostile() == ""


def test_the_server_of_a_live_run_runs_no_module_of_the_current_folder(hostile):
    pytest.importorskip("sami_cli")
    process = subprocess.run(
        python_command("sami_runtime.recording.live", 99), input="token", capture_output=True, text=True
    )
    assert "Bad file descriptor" in process.stderr, "it came as far as its socket"
    assert hostile() == ""


def test_a_cell_of_a_sweep_runs_no_module_of_the_current_folder(hostile, tmp_path):
    pytest.importorskip("torch")
    from sami_train.studies.sweep.job import job_command

    process = subprocess.run(job_command(tmp_path / "logs"), capture_output=True, text=True)
    assert "logs" in process.stderr.splitlines()[-1], "it came as far as its description"
    assert hostile() == ""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 starts them with the current folder first")
def test_a_rollout_worker_runs_no_module_of_the_current_folder(hostile):
    pytest.importorskip("torch")
    from sami_train.machine import one_thread

    with one_thread():
        process = mp.get_context("spawn").Process(target=time.sleep, args=(0,))
        process.start()
    process.join(30)
    assert (process.exitcode, hostile()) == (0, "")


def test_a_checkout_that_is_not_installed_is_found_also_where_it_is_the_current_folder(monkeypatch):
    monkeypatch.chdir(ROOT)
    path = ["", str(ROOT), *sys.path]
    monkeypatch.setattr(child, "sys", SimpleNamespace(executable=sys.executable, path=path))
    assert python_command("json.tool")[-1] == str(ROOT)
    assert "" not in python_command("json.tool")
