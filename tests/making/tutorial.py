"""Runs the blocks of a tutorial as a reader does: shell blocks by bash, each Python block by its own interpreter."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def checkout(folder):
    """Make a folder that looks like a checkout: copy the examples, link folders that a tutorial only reads."""
    subprocess.run(["cp", "-r", str(ROOT / "examples"), str(folder)], check=True)
    for name in ("models", "results", "docs"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def script(page, less=()):
    """Return a bash script of all blocks of a page, in order; `less` replaces texts, such as numbers of steps."""
    text = (ROOT / "docs" / "tutorials" / page).read_text(encoding="utf-8")
    for old, new in less:
        assert old in text, f"{page} has no {old!r}"
        text = text.replace(old, new)
    blocks = FENCED.findall(text)
    assert blocks, page
    parts = [body if kind == "sh" else f"python - <<'PYTHON'\n{body}PYTHON\n" for kind, body in blocks]
    return "set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + "\n".join(parts)


def follow(page, folder, less=()):
    """Run a tutorial in a folder, and return its output.

    Raises:
        AssertionError: with the output, if a block fails.
    """
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "100"}
    process = subprocess.run(
        ["bash", "-c", script(page, less)],
        cwd=checkout(folder),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.returncode == 0, process.stdout[-4000:]
    return process.stdout


def notebook(page):
    """Return a tutorial as the text of a notebook: the page's prose and blocks, cell by cell."""
    text = (ROOT / "docs" / "tutorials" / page).read_text(encoding="utf-8")
    folder = re.search(r"^cd (.*)$", text, re.MULTILINE)[1]
    cells, start = [], 0

    def add(kind, body):
        if body.strip():
            more = {"execution_count": None, "outputs": []} if kind == "code" else {}
            source = body.strip().splitlines(keepends=True)
            cells.append({"cell_type": kind, "id": f"cell-{len(cells)}", "metadata": {}, **more, "source": source})

    for block in FENCED.finditer(text):
        add("markdown", text[start : block.start()])
        body = block[2].replace(f"cd {folder}\n", "")
        if body != block[2]:
            add("code", f"%cd ../../{folder}")
        add("code", f"%%bash\n{body}" if block[1] == "sh" else body)
        start = block.end()
    add("markdown", text[start:])
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"
