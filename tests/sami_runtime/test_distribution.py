"""What is told to be installed can be installed from where the user is."""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from sami_runtime import distribution
from sami_runtime.distribution import install_hint, installed_version, upgrade_hint

CHECKOUT = Path(__file__).parents[2]
of_a_checkout = pytest.mark.skipif(not distribution.in_checkout(), reason="these packages are installed copies")


@pytest.fixture(autouse=True)
def _active_environment(monkeypatch):
    """Let the shell's pip be that of the environment."""
    monkeypatch.setattr(distribution.shutil, "which", lambda name: str(Path(sys.executable).with_name(name)))


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs this package in name only, from a URL as pip writes it down."""
    record = tmp_path / "site" / "sami_rl-1.2.3.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: sami-rl\nVersion: 1.2.3\n")
    monkeypatch.syspath_prepend(record.parent)
    monkeypatch.setattr(distribution, "ROOT", record.parent)

    def install(origin):
        if origin is not None:
            (record / "direct_url.json").write_text(json.dumps(origin))

    return install


@of_a_checkout
def test_in_a_checkout_extras_are_added_to_the_checkout(monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    assert install_hint("panda") == "pip install -c constraints.txt -e '.[panda]'"
    assert install_hint() == "pip install -c constraints.txt -e ."
    assert upgrade_hint() == "git pull"


@of_a_checkout
def test_outside_of_it_the_checkout_is_named(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert install_hint("cpu", "panda") == f"pip install -c {CHECKOUT}/constraints.txt -e '{CHECKOUT}[cpu,panda]'"
    assert upgrade_hint() == f"git -C {CHECKOUT} pull"


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (None, "pip install 'sami-rl[panda]'"),
        (
            {"url": "file:///w/sami_rl-1.2.3-py3-none-any.whl", "archive_info": {}},
            "pip install 'sami-rl[panda] @ file:///w/sami_rl-1.2.3-py3-none-any.whl'",
        ),
        ({"url": "file:///checkout", "dir_info": {}}, "pip install 'sami-rl[panda] @ file:///checkout'"),
        (
            {"url": "https://host/sami.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'sami-rl[panda] @ git+https://host/sami.git@abc'",
        ),
    ],
)
def test_an_installed_one_gets_its_extras_from_where_it_came_from(installed, origin, expected):
    installed(origin)
    assert install_hint("panda") == expected


def test_an_upgrade_does_not_install_the_same_file_again(installed):
    installed(None)
    assert upgrade_hint() == "pip install --upgrade sami-rl"
    installed({"url": "file:///w/old.whl", "archive_info": {}})
    assert upgrade_hint() == "pip install, given a newer sami-rl than file:///w/old.whl"


@of_a_checkout
def test_another_pip_on_the_path_is_not_the_one_that_is_named(monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    for result in (None, "/usr/bin/elsewhere/pip"):
        monkeypatch.setattr(distribution.shutil, "which", lambda name, result=result: result)
        assert install_hint("cpu") == f"{sys.executable} -m pip install -c constraints.txt -e '.[cpu]'"


def test_files_call_this_package_sami_whatever_pip_calls_it(installed, monkeypatch):
    installed(None)
    assert installed_version("sami") == "1.2.3"
    assert installed_version("no-such-package") is None

    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(distribution.importlib.metadata, "version", absent)
    assert installed_version("sami") is None


def test_it_needs_the_standard_library_alone(tmp_path):
    script = f"import runpy; print(runpy.run_path({distribution.__file__!r})['install_hint']('cpu'))"
    process = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    assert process.stdout.endswith("[cpu]'\n")
