"""`sami models`: list the trained policies that are installed with this package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..options import JSON
from ..output import plain_table, print_table, print_text

if TYPE_CHECKING:
    from rich.table import Table

HASH_DIGITS = 12
"""Number of a hash's digits that the table shows."""


def models() -> None:
    """List the shipped models, which `--model NAME` accepts: scores, hashes, folder."""
    from sami_runtime.distribution import shipped_models

    rows = [_row(name, path) for name, path in shipped_models().items()]
    if JSON.get():
        print(json.dumps(rows, indent=2))
        return
    print_table(_table(rows))
    print_text("Each from one seed of training; starts of the development seed (sami eval).")
    for folder in dict.fromkeys(str(Path(row["path"]).parent) for row in rows):
        print_text(f"in {folder}\nsami run --model MODEL shows one at work, sami inspect MODEL its contract.")


def _row(name: str, path: Path) -> dict[str, Any]:
    """Return the facts about a model as values for JSON."""
    import hashlib

    from sami_runtime.model.artifact import read_artifact

    contract = read_artifact(path).contract
    return {
        "name": name,
        "env": contract.training.get("env"),
        "method": contract.training.get("method"),
        "training_tasks": len(contract.training.get("tasks", [])),
        "sets": (contract.evaluation or {}).get("sets", {}),
        "bytes": path.stat().st_size,
        "weights_sha256": contract.weights_sha256,
        "file_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "path": str(path),
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    """Return a table with two lines per model, so that it fits 80 columns."""
    sets = [name for name in rows[0]["sets"] if all(name in (row["sets"] or [name]) for row in rows)]
    table = plain_table(gap=1)
    table.pad_edge = False
    for heading in ("model\nenvironment", f"{'/'.join(sets)}\ntraining tasks, size", "SHA-256 weights\nSHA-256 file"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        reached = _results([row["sets"][name] for name in sets if row["sets"]])
        table.add_row(
            f"{row['name']}\n  {row['env']}",
            f"{reached}\n{row['training_tasks']} tasks, {row['bytes'] / 1e6:.2f} MB",
            f"{row['weights_sha256'][:HASH_DIGITS]}\n{row['file_sha256'][:HASH_DIGITS]}",
        )
    return table


def _results(sets: list[dict[str, float]]) -> str:
    """Return, as text, success or mean return in each set of tasks, from the model's own evaluation."""
    if not sets:
        return "not measured"
    if all("success" in numbers for numbers in sets):
        return "success " + "/".join(f"{numbers['success']:.2f}" for numbers in sets)
    return "return " + "/".join(f"{numbers['ret']:,.0f}" for numbers in sets)
