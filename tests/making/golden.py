"""The golden steps of a model file as a table, which `sami inspect` writes in a child process."""

import subprocess
import sys
from pathlib import Path

PANDA = Path(__file__).parents[2] / "models" / "panda-satesac.onnx"
MAIN = "from sami_cli.app import main; main()"


def golden_steps(table, model=PANDA):
    """Write a table of golden steps, and return the completed process."""
    command = [sys.executable, "-c", MAIN, "inspect", str(model), "--golden", str(table)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
