"""Wheel and sdist contain the product and nothing else."""

import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string

import pytest

from tests.making.built import tracked

PACKAGES = {"sami_runtime": "sami_runtime", "sami_train": "sami_train", "cli": "sami_cli", "models": "sami_models"}
"""Folders of the repository, and what they are installed as."""
KINDS = {
    "sami_models/panda-satesac.onnx": "a model",
    "sami_models/panda-satesac.md": "its card",
    "sami_train/config/presets/paper.toml": "a preset",
    "sami_train/evaluation/paper.toml": "the paper's numbers",
    "sami_train/envs/panda_mujoco/panda.xml": "the Panda for MuJoCo",
    "sami_runtime/recording/page/view.html": "the page of sami view",
    "sami_runtime/robots/franka/fr3.urdf": "a robot's kinematics",
    "sami_runtime/py.typed": "the mark of a typed package",
}


@pytest.fixture(scope="module")
def packed(wheel):
    """Names in the wheel that are not its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def sources(dist):
    """Names in the sdist, below its one folder."""
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    return {name for name in names if ".egg-info/" not in name} - {"PKG-INFO", "setup.cfg"}


def test_the_wheel_contains_every_file_of_the_packages_and_no_other(packed):
    files = {name.partition("/") for name in tracked(*PACKAGES)}
    assert packed == {f"{PACKAGES[folder]}/{path}" for folder, _, path in files}
    assert [kind for name, kind in KINDS.items() if name not in packed] == []


def test_the_sdist_contains_what_the_wheel_is_built_from_and_no_tests(sources):
    further = {"pyproject.toml", "README.md", "LICENSE"}
    assert further <= sources
    assert sources - further - {"MANIFEST.in", "CHANGELOG.md", "CITATION.cff"} == set(tracked(*PACKAGES))


def test_the_licence_comes_along(wheel):
    with zipfile.ZipFile(wheel) as archive:
        texts = {name.partition(".dist-info/")[2]: name for name in archive.namelist()}
        about = message_from_string(archive.read(texts["METADATA"]).decode())
        assert "MIT License" in archive.read(texts["licenses/LICENSE"]).decode()
    assert about["License-Expression"] == "MIT"
    assert about.get_all("License-File") == ["LICENSE"]


def test_twine_finds_no_fault(dist):
    files = [str(path) for path in dist.iterdir()]
    assert len(files) == 2
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], check=True)
