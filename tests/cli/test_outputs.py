"""What commands write: whole or absent, never over an input, and over another file with --force alone."""

import errno
import io
import os
import re
import resource
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcap")
from sami_cli.app import main

ROOT = Path(__file__).parents[2]
OLD = ROOT / "tests/sami_runtime/recording/version-1.mcap"
MODEL = ROOT / "models/panda-satesac.onnx"

WRITES = {
    "run.html": ["view", "run.mcap", "--no-open"],
    "page.html": ["view", "run.mcap", "--no-open", "--out", "page.html"],
    "run.csv": ["convert", "run.mcap", "run.csv"],
    "run.parquet": ["convert", "run.mcap", "run.parquet"],
    "set": ["convert", "run.mcap", "set"],
    "golden.csv": ["inspect", "model.onnx", "--golden", "golden.csv"],
    "my_arm.py": ["new-adapter", "my_arm.py", "--model", "model.onnx"],
    "own.key": ["sign", "--new-key", "own.key"],
}
"""Commands that write within a second, by what they write."""
REFUSES = {
    "own.pub": ["sign", "--new-key", "own.key"],
    "gap.toml": ["fit-gap", "run.mcap", "--out", "gap.toml"],
    "fitted.xml": ["fit-robot", "robot.xml", "run.mcap", "--out", "fitted.xml"],
    "fitted.toml": ["fit-robot", "robot.xml", "run.mcap", "--out", "fitted.xml"],
    "probed.onnx": ["probe", "model.onnx", "--out", "probed.onnx"],
    "ahead.onnx": ["export", "--model", "model.onnx", "--refit", "run.mcap", "--out", "ahead.onnx"],
    "runs.jsonl": ["gather", "run", "--out", "runs.jsonl"],
    "out/evaluation.json": ["eval", "--model", "model.onnx", "--out", "out"],
    "out/robustness.json": ["robustness", "model.onnx", "--out", "out"],
    "out/adaptation.png": ["adapt", "--model", "model.onnx", "--change", "mass=1:10,friction=0.1@5", "--out", "out"],
    "out/report.md": ["compare", "run", "--out", "out"],
    "film.gif": ["run", "--model", "model.onnx", "--render", "film.gif"],
}
"""Commands that compute for long, and refuse before they begin."""
NEVER_REPLACED = {"set", "own.key", "own.pub", "film.gif"}


@pytest.fixture(autouse=True)
def inputs(sami):
    shutil.copy(OLD, "run.mcap")
    shutil.copy(MODEL, "model.onnx")


def on_a_full_disk(words):
    """Call the command in a process whose files have at most 16 bytes; return its status and what it printed."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        sys.stdout = sys.stderr = os.fdopen(write_end, "w", buffering=1)
        sys.argv = ["sami", *words]
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))
        status = 0
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
        finally:
            os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end) as report:
        text = report.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


def files():
    return sorted(path.name for path in Path().iterdir())


def require_packages(name):
    if name in ("run.parquet", "set"):
        pytest.importorskip("pyarrow")
    if name.startswith("own."):
        pytest.importorskip("cryptography")
    if name.startswith("film"):
        pytest.importorskip("gymnasium")


@pytest.mark.parametrize("name", [*WRITES, *REFUSES])
def test_a_file_that_exists_stays(sami, name):
    require_packages(name)
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text("precious")
    result = sami(*(WRITES | REFUSES)[name])
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert f"{name} exists" in result.err or "out is not empty; choose another --out" in result.err
    assert Path(name).read_text() == "precious"


IN_PLACE = {name: [name, "model.onnx", "--force"] for name in ("describe", "atlas", "probe")}
"""Commands that compute for long, and then change a file that they read."""


@pytest.mark.parametrize("name", ["probed.onnx", "out/robustness.json", *IN_PLACE])
def test_a_write_protected_folder_is_refused_before_anything_is_computed(sami, monkeypatch, name):
    """Root may write anywhere, so the system's answer is replaced."""
    before = files()
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    result = sami(*(REFUSES | IN_PLACE)[name])
    assert (result.code, result.err.count("\n"), files()) == (1, 1, before)
    assert "cannot be written: . is write-protected. Change that, or choose another place." in result.err


@pytest.mark.parametrize("name", sorted(WRITES.keys() - NEVER_REPLACED))
def test_force_replaces_it(sami, name):
    require_packages(name)
    Path(name).write_text("old")
    assert sami(*WRITES[name], "--force").code == 0
    assert Path(name).read_bytes()[:3] != b"old"


@pytest.mark.parametrize(
    "words",
    [
        ("view", "run.mcap", "--no-open", "--out", "run.mcap"),
        ("view", "run.mcap", "--no-open", "--out", "./same.mcap"),
        ("convert", "gap.csv", "gap.csv"),
        ("convert", "run.mcap", "one.csv", "one.csv"),
        ("fit-gap", "gap.toml", "--out", "gap.toml"),
        ("fit-robot", "robot.xml", "run.mcap", "--out", "robot.xml"),
        ("inspect", "model.onnx", "--golden", "model.onnx"),
        ("probe", "model.onnx", "--out", "model.onnx"),
    ],
    ids=" ".join,
)
def test_an_input_is_never_replaced(sami, words):
    shutil.copy("run.mcap", "gap.toml")
    shutil.copy("run.mcap", "gap.csv")
    Path("same.mcap").symlink_to("run.mcap")
    before = {name: Path(name).read_bytes() for name in files()}
    result = sami(*words, "--force")
    assert (result.code, "is read by this command, which never replaces" in result.err) == (1, True)
    assert {name: Path(name).read_bytes() for name in files()} == before


@pytest.mark.parametrize("name", WRITES)
def test_a_full_disk_leaves_nothing_or_what_was_there(sami, name):
    require_packages(name)
    before = files()
    status, message = on_a_full_disk(WRITES[name])
    assert (status, message.count("\n"), files()) == (1, 1, before)
    assert re.search("cannot be written: .*File too large", message)
    if name in NEVER_REPLACED:
        return
    Path(name).write_text("old")
    assert on_a_full_disk([*WRITES[name], "--force"])[0] == 1
    assert (Path(name).read_text(), files()) == ("old", sorted({*before, name}))


def test_standard_output_on_a_full_disk_names_the_disk(monkeypatch, capfd):
    class FullDisk(io.StringIO):
        def write(self, text):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sys.stdout", FullDisk())
    monkeypatch.setattr("sys.argv", ["sami", "--version"])
    with pytest.raises(SystemExit, match="1"):
        main()
    assert "the disk of standard output or of another file is full; make room there" in capfd.readouterr().err
