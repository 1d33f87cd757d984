"""What tests of every package share."""

import importlib.util
import re
import sys
from collections import Counter

import pytest

NO_PANDA = sys.version_info >= (3, 12) and importlib.util.find_spec("pybullet") is None
"""PyBullet has no wheels from Python 3.12 on: there everything but Panda is to work."""
OF_PANDA = ("No module named 'pybullet'", "needs the package pybullet", "[panda]'")


@pytest.fixture(scope="session")
def panda():
    """Skip where there is no PyBullet: for tests whose failure would not tell that it is what they want."""
    if NO_PANDA:
        pytest.skip("PyBullet has no wheel for this Python")


@pytest.fixture(autouse=True)
def _torch_as_it_was():
    """Undo what training sets for its whole process: one that flushes denormals computes 1 / 1e-39 differently."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_flush_denormal(False)
        torch.set_float32_matmul_precision("highest")
        torch.set_num_threads(1)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Skip what fails for want of PyBullet, where there is none for this Python."""
    report = (yield).get_result()
    told = report.longreprtext + report.capstdout + report.capstderr
    if NO_PANDA and report.failed and any(said in told for said in OF_PANDA):
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, "PyBullet has no wheel for this Python")


def pytest_terminal_summary(terminalreporter):
    """Count what skipped for want of Debian packages in one line, with the command that installs them."""
    reasons = (str(report.longrepr) for report in terminalreporter.stats.get("skipped", ()))
    packages = Counter(package[1] for reason in reasons if (package := re.search(r"\(Debian: ([\w+-]+)\)", reason)))
    if packages:
        names = ", ".join(sorted(packages))
        terminalreporter.write_line(
            f"{packages.total()} skipped for want of {names}: `make debian` installs what may be"
        )
