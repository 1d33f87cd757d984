"""What tests of every package share."""

import dataclasses
import gc
import os
import re
import sys
from collections import Counter

import pytest

# One worker of pytest has one core. More threads of torch and BLAS would wait for each other by spinning, which
# takes several times the processor time. Set before torch and numpy are imported; child processes inherit it.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")


def pytest_xdist_auto_num_workers():
    """Start one worker more than there are cores: tests that wait for clocks and processes leave a core to another."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.fixture(autouse=True, scope="session")
def _log_folder(tmp_path_factory):
    """Keep what stable-baselines3 logs for agents without a run out of the system's folder for temporary files."""
    os.environ.setdefault("SB3_LOGDIR", str(tmp_path_factory.mktemp("logs")))


@pytest.fixture(autouse=True)
def _torch_as_it_was():
    """Undo what training sets for its whole process: one that flushes denormals computes 1 / 1e-39 differently."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_flush_denormal(False)
        torch.set_float32_matmul_precision("highest")
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _short_closed_loop(monkeypatch):
    """Compare an exported file with torch over 60 steps; a process's first export does it over all 300."""
    if graph := sys.modules.get("sami_train.export.graph"):
        monkeypatch.setattr(graph, "CLOSED_LOOP_STEPS", 60)


@pytest.fixture
def short_panda(monkeypatch):
    """Give the Panda two tasks a set and episodes of 12 steps, where a law is not about how well it is judged."""
    from sami_train.envs import catalog

    panda = catalog.ENVIRONMENTS["panda"]
    sets = {name: tasks[:2] for name, tasks in panda.tasks.sets.items()}
    short = dataclasses.replace(panda, episode_steps=12, tasks=dataclasses.replace(panda.tasks, sets=sets))
    monkeypatch.setitem(catalog.of_commands, "panda", short)
    return short


gc.disable()  # until everything is collected: thousands of tests are no garbage
WRITES_NO_BYTECODE, sys.dont_write_bytecode = sys.dont_write_bytecode, False
"""Rewriting the assertions of all files takes seconds: it is kept where PYTHONDONTWRITEBYTECODE forbids it too."""


def pytest_collection_finish():
    """Leave what was collected out of every later search for garbage."""
    sys.dont_write_bytecode = WRITES_NO_BYTECODE
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """One file of the commands goes first: it trains the run that the others share, and none waits for it idly."""

    def rank(item):
        path = item.path.as_posix()
        return 0 if path.endswith("/cli/test_commands.py") else 2 if "/tests/cli/" in path else 1

    items.sort(key=rank)


def pytest_terminal_summary(terminalreporter):
    """Count what skipped for want of Debian packages in one line, with the command that installs them."""
    reasons = (str(report.longrepr) for report in terminalreporter.stats.get("skipped", ()))
    packages = Counter(package[1] for reason in reasons if (package := re.search(r"\(Debian: ([\w+-]+)\)", reason)))
    if packages:
        names = ", ".join(sorted(packages))
        terminalreporter.write_line(f"{packages.total()} skipped for want of {names}: `make debian` installs them")
