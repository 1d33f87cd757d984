"""The page: one HTML file with everything in it, which asks nobody for anything."""

from __future__ import annotations

import base64
import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sami_runtime.recording.view.rows import RunRows, described

if TYPE_CHECKING:
    from sami_runtime.recording.reader import Recording


def page(runs: list[dict[str, Any]], live: bool = False) -> str:
    """Return the page.

    Args:
        runs: See `run_of`; empty where the page is to follow a run.
        live: Whether it asks the server that it came from for what happens, and nobody else.
    """
    parts = {
        name: (files(__package__) / "page" / name).read_text(encoding="utf-8") for name in ("view.html", "view.css")
    }
    scripts = [
        (files(__package__) / "page" / name).read_text(encoding="utf-8") for name in ("data.js", "lanes.js", "view.js")
    ]
    # Nothing that a recording says can end the script that it stands in.
    data = json.dumps({"runs": runs, "live": live}, allow_nan=False).replace("<", "\\u003c")
    whole = parts["view.html"].replace("{{connect}}", "'self'" if live else "'none'")
    whole = whole.replace("{{style}}", parts["view.css"]).replace("{{script}}", "\n".join(scripts))
    return whole.replace("{{data}}", data)


def run_of(recording: Recording) -> dict[str, Any]:
    """Return a recording as the page has it: what it is, its numbers by column, and what came of its episodes."""
    rows, tasks = RunRows(recording.contract), dict[str, str]()
    numbers, events = list[list[Any]](), list[list[Any]]()
    for at, (episode, record) in enumerate(recording.steps):
        tick_row = rows.row(episode, record)
        numbers.append(tick_row["row"])
        events += [[at, *event] for event in tick_row.get("events", ())]
        if "task" in tick_row:
            tasks[str(episode)] = tick_row["task"]
    table = np.array(numbers, np.float64).reshape(len(numbers), len(rows.columns))
    return {
        **described(recording.contract, recording.about, recording.path.name),
        "closed": recording.closed,
        "groups": rows.groups,
        "columns": rows.columns,
        "words": rows.words,
        "count": len(numbers),
        # Times to the microsecond need more digits than the rest.
        "seconds": base64.b64encode(table[:, 0].astype("<f8").tobytes()).decode(),
        "data": base64.b64encode(np.ascontiguousarray(table.T, "<f4").tobytes()).decode(),
        "events": events,
        "tasks": tasks,
        "came": {str(number): [episode.ended.value, episode.success] for number, episode in recording.episodes.items()},
    }


def write_page(recordings: list[Recording], path: Path, force: bool = False) -> None:
    """Write the page of one recording, or of two beside each other.

    Raises:
        SamiError: The file exists and is not to be replaced, or cannot be written.
    """
    from sami_runtime.files import output
    from sami_runtime.recording.reader import values_of

    runs = []
    for recording in recordings:
        with values_of(recording.path):
            runs.append(run_of(recording))
    with values_of(path):
        data = page(runs).encode()
    with output(path, force, [recording.path for recording in recordings]) as beside:
        beside.write_bytes(data)
