"""Wheel and sdist, for the tests of what a release contains."""

import os
from pathlib import Path

import pytest

from tests.making.built import build


@pytest.fixture(scope="session")
def dist(tmp_path_factory):
    """The folder with wheel and sdist: $DIST, or built here."""
    folder = Path(os.environ["DIST"]).resolve() if os.environ.get("DIST") else tmp_path_factory.mktemp("dist")
    if not list(folder.glob("*.whl")):
        build(folder)
    return folder


@pytest.fixture(scope="session")
def wheel(dist):
    (path,) = dist.glob("*.whl")
    return path
