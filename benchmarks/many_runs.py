"""Measures the cost of one run in a large sweep: planning its cell, reading its state, and its files on disk.

python benchmarks/many_runs.py RUN results/STUDY/runs.jsonl
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from sami_train.runs.folder import RunFolder
from sami_train.studies.sweep.grid import Grid
from sami_train.studies.sweep.job import status
from sami_train.studies.sweep.sweep import Sweep

CELLS, LOOKS = 200, 200


def main(run: Path, study: Path) -> None:
    """Print the costs of a finished run, and of a line of a study."""
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        grid = Grid({"env": ["panda"], "method": ["tesac"], "seed": range(CELLS), "steps": [100_000]})
        Sweep(Path(folder), grid, 100)
    print(f"planning a cell: {(time.process_time() - start) / CELLS * 1e3:.1f} ms")
    env = RunFolder.open(run).config().env
    start = time.process_time()
    for _ in range(LOOKS):
        status(run, env, 100)
    print(f"a look at a cell: {(time.process_time() - start) / LOOKS * 1e3:.2f} ms")
    buffers = {path for path in run.rglob("buffer.npz")}
    parts = {
        "buffers of its checkpoints": buffers,
        "the rest of its checkpoints": set(run.glob("checkpoints/**/*")) - buffers,
        "agent and weights": {run / "agent.zip", run / "weights.safetensors"},
        "metrics and tensorboard": {run / "metrics.jsonl", *run.glob("tensorboard/*")},
    }
    for name, paths in parts.items():
        print(f"{name}: {sum(path.stat().st_size for path in paths if path.is_file()) / 1e6:.1f} MB")
    lines = study.read_text(encoding="utf-8").splitlines()
    print(f"a line of a study: {sum(map(len, lines)) / len(lines) / 1e3:.1f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
