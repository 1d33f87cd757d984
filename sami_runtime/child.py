"""How this project starts another Python process: that one imports nothing from the current folder."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

BOOT = (
    "import sys; call, sys.path[:] = sys.argv[1], sys.argv[2:]; import importlib, json; name, arguments = "
    "json.loads(call); importlib.import_module(name).main(*arguments)"
)
"""The program of the process. `sys` is part of the interpreter: nothing is imported before the path is replaced, on
every Python; `-P` came with 3.11, and `-I` would drop what the user's environment sets."""


def python_command(module: str, *arguments: object) -> list[str]:
    """Return the command that calls `main(*arguments)` of a module of this project in a process of its own.

    The process finds the modules that this one finds, in the same order, but for those of the current folder: there may
    lie a `json.py` that came with a model. What a user names as MODULE:FACTORY is found there nevertheless, see
    `factories`. The arguments are what JSON can hold.
    """
    folders = [os.path.abspath(entry) for entry in map(str, sys.path) if entry]
    try:
        current = os.path.realpath(os.getcwd())
    except FileNotFoundError:  # somebody removed it
        current = ""
    outside = [folder for folder in folders if os.path.realpath(folder) != current]
    # A checkout that is not installed, and in which somebody works.
    root = os.path.realpath(Path(__file__).parents[1])
    if current == root and len(outside) < len(folders):
        outside.append(root)
    return [sys.executable, "-c", BOOT, json.dumps([module, arguments]), *outside]
