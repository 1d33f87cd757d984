"""A tiny trained run, and the `sami` command called as a user calls it."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import onnx
import pytest
from onnx import helper
from rich.cells import cell_len
from sami_cli.app import main

from sami_runtime.model.artifact import graph_sha256
from sami_runtime.model.contract import METADATA_KEY
from sami_runtime.session import admission
from tests.making.coarse import coarse_physics, coarsen
from tests.making.shared import shared_folder
from tests.making.still_robot import ROBOT

__all__ = ["coarse_physics"]

SMALL = {
    "collection.workers": "0",
    "exploration.warmup_steps": "300",
    "learning.train_every": "60",
    "learning.buffer_episodes": "200",
    "network.net_arch": "[32,32]",
}


UNBROKEN = re.compile(r"\s*(Next: )?(\S*sami [a-z-]+ )?(--\S+ )?\S+( \\)?")
"""A path or an address, perhaps with the command or the option that it belongs to."""
FOR_PROGRAMS = re.compile(r"[\s\[]*[{}\]\"]|\s*-?[0-9.]+,?$|\| ")
"""The beginning of a line of JSON, or of a table for a page."""


def too_wide(text):
    """Lines that a terminal of 80 columns breaks in the middle of a word, and cells of tables that were cut off."""
    columns = int(os.environ.get("COLUMNS", 80))
    lines = [line for line in text.splitlines() if not FOR_PROGRAMS.match(line)]
    return [line for line in lines if "…" in line or (cell_len(line) > columns and not UNBROKEN.fullmatch(line))]


class CommandResult(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def prose(self) -> str:
        """Standard output with its lines joined."""
        return " ".join(self.out.split())

    @property
    def errors(self) -> str:
        """What standard error holds besides warnings of missing protections."""
        return "".join(line for line in self.err.splitlines(True) if not line.startswith("warning: "))


class TrainedRun(NamedTuple):
    """A finished run with its evaluation, and the model made of it. Tests copy what they change."""

    run: Path
    model: Path


def settings(**changes):
    """`--set` options of a run that trains within seconds; changes by key with `__` for a dot."""
    values = SMALL | {key.replace("__", "."): str(value) for key, value in changes.items()}
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def call(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["sami", *map(str, arguments)])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _train(folder):
    run, bare = folder / "run", ("--set", "atlas_episodes=0", "--set", "seen_episodes=0")
    with pytest.MonkeyPatch.context() as patch:
        coarsen(patch)
        assert call(patch, "train", "--method", "satesac", "--steps", 700, *settings(), "--out", run, "-q") == 0
        assert call(patch, "eval", "--run", run, "--episodes", 1, "--on", 1, "--json") == 0
        assert call(patch, "export", "--run", run, "--out", folder / "tiny.onnx", *bare) == 0


@pytest.fixture(scope="session")
def panda(tmp_path_factory):
    folder = shared_folder(tmp_path_factory, "trained", _train)
    return TrainedRun(folder / "run", folder / "tiny.onnx")


REHEARSED = set()
"""Hashes of the model files that came through a rehearsal in these tests."""


@pytest.fixture(autouse=True)
def rehearsed_once(monkeypatch):
    """Share rehearsals between tests: the bytes that came through one need no second process of a second."""
    rehearse = admission.rehearse

    def once(artifact, provider="cpu", *limits):
        key = hashlib.sha256(artifact.model_bytes).digest(), provider
        if key not in REHEARSED:
            rehearse(artifact, provider, *limits)
            REHEARSED.add(key)

    monkeypatch.setattr(admission, "rehearse", once)


@pytest.fixture
def sami(monkeypatch, capfd, tmp_path):
    """Calls `sami` in an empty folder; the captured output is that of the file descriptors, C code's too.

    Each call asserts that what it printed for people fits 80 columns.
    """
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(*arguments):
        capfd.readouterr()
        code = call(monkeypatch, *arguments)
        result = CommandResult(code, *capfd.readouterr())
        assert too_wide(result.out) == []
        return result

    return run


@pytest.fixture
def run_copy(panda, tmp_path):
    """A copy of the trained run that a test may break."""
    return Path(shutil.copytree(panda.run, tmp_path / "copy"))


@pytest.fixture
def rewritten(panda, tmp_path):
    """Writes a model like the trained one, with a changed contract and perhaps a changed graph."""

    def write(change, edit=None):
        model = onnx.load(panda.model)
        contract = json.loads(next(p.value for p in model.metadata_props if p.key == METADATA_KEY))
        if edit is not None:
            edit(model.graph)
            contract["weights_sha256"] = graph_sha256(model.SerializeToString())
        change(contract)
        helper.set_model_props(model, {METADATA_KEY: json.dumps(contract)})
        path = tmp_path / "rewritten.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    return write


@pytest.fixture
def small():
    return settings


@pytest.fixture
def contents():
    """Every file below a folder (or one file) with its bytes."""

    def read(path):
        if path.is_file():
            return path.read_bytes()
        return {p.relative_to(path): p.is_file() and p.read_bytes() for p in path.rglob("*")}

    return read


@pytest.fixture
def garbage_collected():
    """Files that a failed training leaves open are found in its own test, not in a later one."""
    yield
    gc.collect()


@pytest.fixture
def my_robot(sami, monkeypatch):
    """The module `my_robot` in the current folder; forgotten afterwards."""
    Path("my_robot.py").write_text(ROBOT)
    Path("needs.py").write_text("import rclpyy")
    Path("leaves.py").write_text("raise SystemExit(0)")
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("my_robot", None)
