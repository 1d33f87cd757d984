"""The README's blocks, each in an empty environment with exactly the extras that it names, in an empty folder."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LESS = {
    "--steps 8000": "--steps 1000 --set exploration.warmup_steps=500",
    "--out mine.onnx": "--out mine.onnx --set atlas_episodes=0 --set seen_episodes=6",
}
"""What trains takes fewer steps here, and its export plays fewer episodes."""
INSTALL = re.compile(r"pip install 'sami-rl\[([\w,-]+)\]'\n")
EXECUTED, CITED = {"sh", "python"}, {"bibtex"}
OTHER_PYTHONS = ("3.13", "3.12") if sys.version_info < (3, 12) else ("3.11",)
"""PyBullet has wheels up to Python 3.11; the blocks run on one Python with them, and on one without."""


class Block(NamedTuple):
    """One block: how it is run, the extras that the README names for it (none: ""), and its lines."""

    kind: str
    extras: str
    lines: str


def blocks():
    """Each fenced block.

    A shell block begins with its installation; a sentence of the paragraph before a Python block names its extras.
    """
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    collected = []
    for match in FENCED.finditer(text):
        kind, lines = match.groups()
        if kind == "python":
            paragraph = text[: match.start()].rstrip().rpartition("\n\n")[2]
            sentence = next((part for part in re.split(r"[.;:]\s", paragraph + " ") if "extra" in part.lower()), "")
            collected.append(Block(kind, ",".join(re.findall("`([a-z-]+)`", sentence)), lines))
        else:
            install = INSTALL.match(lines)
            collected.append(Block(kind, install[1], lines[install.end() :]) if install else Block(kind, "", lines))
    return collected


def pythons(block):
    """Interpreters a block runs on: this one, and another unless torch comes along.

    Whoever installed torch for this Python chose a build; another Python could bring gigabytes for GPUs.
    """
    running = os.path.realpath(sys.executable)
    if "train" in block.extras:
        return [running]
    other = subprocess.run(["sh", ROOT / "tests" / "find_python.sh", *OTHER_PYTHONS], stdout=subprocess.PIPE, text=True)
    return [running, other.stdout.strip() or None]


CASES = [
    pytest.param(python, block, id=f"{number}-{block.kind}-{block.extras}-{'other' if at else 'running'} python")
    for number, block in enumerate(blocks(), 1)
    if block.kind in EXECUTED
    for at, python in enumerate(pythons(block))
]


@pytest.fixture(scope="session")
def installed(wheel):
    """Make an environment of one Python with the wheel and some extras; the same for all blocks that name these."""
    folders = {}

    def environment(python, extras):
        if (python, extras) not in folders:
            folder = folders[python, extras] = Path(tempfile.mkdtemp(prefix="sami-readme-"))
            subprocess.run([python, "-m", "venv", folder], check=True)
            pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            requirement = f"sami-rl[{extras}] @ {wheel.as_uri()}"
            subprocess.run([*pip, "-c", ROOT / "constraints.txt", requirement], check=True)
        return folders[python, extras]

    yield environment
    for folder in folders.values():  # gigabytes, which pytest would keep
        shutil.rmtree(folder)


@pytest.mark.parametrize(("python", "block"), CASES)
def test_a_block_runs_with_exactly_the_extras_that_it_names(python, block, installed, tmp_path):
    if not block.extras:
        pytest.fail("the README names no extras for it")
    if python is None:
        pytest.skip(f"no Python {' or '.join(OTHER_PYTHONS)} is installed")
    path = f"{installed(python, block.extras) / 'bin'}:{os.environ['PATH']}"
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "DISPLAY", "WAYLAND_DISPLAY")
    environment = {name: value for name, value in os.environ.items() if name not in hidden} | {"PATH": path}
    lines = block.lines
    for whole, less in LESS.items():
        assert whole in lines or "sami train" not in lines, f"the README no longer has {whole}"
        lines = lines.replace(whole, less)
    command = ["bash", "-euo", "pipefail", "-c", lines] if block.kind == "sh" else ["python", "-c", lines]
    process = subprocess.run(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900
    )
    print(process.stdout)
    assert process.returncode == 0, process.stdout[-4000:]


def test_every_block_is_run_or_known_to_be_only_shown():
    assert {block.kind for block in blocks()} <= EXECUTED | CITED
    for block in blocks():
        if block.kind == "sh":
            assert block.extras, f"this block does not begin with pip install 'sami-rl[EXTRAS]':\n{block.lines}"
        if block.kind == "python":
            assert block.extras, f"no sentence before this block names its extras, such as `cpu`:\n{block.lines}"
