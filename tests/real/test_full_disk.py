"""Commands that meet a full disk: they say so, lose nothing that was whole, and go on once there is room."""

import contextlib
import os
import re
import subprocess
import sys

import pytest
from sami_cli.app import main

from sami_train.runs.folder import RunFolder
from tests.making.killed import EXAMPLES, TINY, forked, require_whole, same, sweep_seeds

OPTIONS = [word for key, value in TINY.items() if "." in key for word in ("--set", f"{key}={value}")]
USER_ENV = ["--env", TINY["env"]]
"""A run's environment that is code is imported only where somebody names it."""
FEW = ["--set", "atlas_episodes=0", "--set", "seen_episodes=0"]
TRAIN = ["train", "--env", TINY["env"], "--steps", "1200", "--set", "checkpoint_every=200", *OPTIONS, "-q"]


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A small disk, and a function that makes it larger."""
    monkeypatch.syspath_prepend(EXAMPLES)
    path = tmp_path / "disk"
    path.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", path], capture_output=True).returncode:
        pytest.skip("a small disk can be mounted by root alone")

    def sized(size):
        subprocess.run(["mount", "-o", f"remount,size={size}", path], check=True)

    yield path, sized
    subprocess.run(["umount", "--lazy", path], check=True)


def fill(path):
    """Leave no room."""
    with (path / "full").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def sami(folder, *words):
    """Call the command in a process of its own; return its status and what it printed on stderr."""
    report = folder / "stderr"

    def call():
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the process ends
        sys.stderr = report.open("w", buffering=1)
        sys.argv = ["sami", *map(str, words)]
        main()

    status, _ = forked(call, folder)
    return status, report.read_text()


def test_a_training(disk, tmp_path):
    (path, sized), run = disk, disk[0] / "run"
    whole = tmp_path / "whole"
    assert sami(tmp_path, *TRAIN, "--out", whole)[0] == 0
    fill(path)
    status, message = sami(tmp_path, *TRAIN, "--out", run)
    assert (status, message.count("\n")) == (1, 1)
    assert re.search(r"cannot be written: No space left on device\. Make room or choose another place", message), (
        message
    )
    (path / "full").unlink()
    sized("2800k")
    status, message = sami(tmp_path, *TRAIN, "--out", run)  # what the first one left is not in the way
    assert (status, message.count("\n")) == (1, 1)
    assert message.startswith(f"sami: {run}/checkpoints/")
    assert f"Then resume the run: sami train --resume {run}" in message
    require_whole(run)
    status, message = sami(tmp_path, "train", "--resume", run, *USER_ENV, "-q")
    assert (status, f"Then resume the run: sami train --resume {run}" in message) == (1, True)
    require_whole(run)
    assert RunFolder(run).newest_checkpoint()
    assert not list(path.rglob("*.unfinished"))
    sized("100m")
    assert sami(tmp_path, "train", "--resume", run, *USER_ENV, "-q") == (0, "")
    assert same(run, whole)
    sized("12m")
    fill(path)
    model = path / "model.onnx"
    status, message = sami(tmp_path, "export", "--run", run, *USER_ENV, "--out", model, *FEW)
    assert (status, message.count("\n")) == (1, 1)
    full = r"cannot be written: No space left on device\. Make room"
    assert re.match(rf"sami: {path}/model\.(onnx|safetensors) {full}", message), message
    assert not list(path.glob("model*"))


def test_a_recording(disk, tmp_path):
    path, sized = disk
    sized("1m")  # more than a chunk, which is half a second: some 500 ticks where nothing else runs
    recording = path / "run.mcap"
    status, message = sami(tmp_path, "run", "--model", "panda-satesac", "--episodes", 120, "--record", recording)
    assert status == 1
    assert message == (
        f"sami: recording to {recording} failed: [Errno 28] No space left on device. Its whole ticks can be read. Make "
        "room, and record to another name.\n"
    )
    assert sami(tmp_path, "replay", recording) == (0, "")


def test_a_sweep(disk, tmp_path):
    path, sized = disk
    whole, out = tmp_path / "whole", path / "sweep"
    assert forked(lambda: sweep_seeds(whole), tmp_path)[0] == 0
    sized("6m")
    assert forked(lambda: sweep_seeds(out), tmp_path)[0] == 1  # with the state of each cell
    cells = sorted(out.glob("pendulum*"))
    assert len(cells) == 2
    for cell in cells:
        require_whole(cell)
    assert not (out / "runs.jsonl").exists()
    sized("100m")
    assert forked(lambda: sweep_seeds(out), tmp_path)[0] == 0
    for cell in cells:
        assert same(cell, whole / cell.name)
    assert not list(out.rglob("*.unfinished*"))
