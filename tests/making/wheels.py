"""Third-party files for tests, downloaded as wheels without dependencies, and never committed."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[2] / "build" / "wheels"


def unpacked(name, version):
    """Return the folder of an unpacked wheel; skip the test if the wheel cannot be downloaded."""
    folder = CACHE / f"{name}-{version}"
    if not folder.is_dir():
        temporary = CACHE / f"{name}-{version}.part"
        shutil.rmtree(temporary, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "-d", str(temporary)]
        try:
            process = subprocess.run([*command, f"{name}=={version}"], capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            pytest.skip(f"{name} {version} was not downloaded within 300 s")
        if process.returncode != 0:
            pytest.skip(f"{name} {version} cannot be downloaded: {process.stderr.strip().splitlines()[-1:]}")
        (wheel,) = temporary.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(temporary)
        temporary.rename(folder)
    return folder
