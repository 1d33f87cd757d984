"""Shows runs in a browser: one HTML file that contains everything, and loads nothing from the network.

`RunRows` makes a row of numbers for each tick; a text is an index. `live` sends the same rows while a run happens.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.scene import Shape
from sami_runtime.files import output
from sami_runtime.loop.tick import StepRecord
from sami_runtime.model.contract import Contract
from sami_runtime.recording.format import TICK, in_words, signal_values, signals_of, tick_values
from sami_runtime.recording.reader import Recording, values_of
from sami_runtime.recording.scene_topics import scene_schemas
from sami_runtime.recording.topics import SHORT, Events
from sami_runtime.signals import Signal

COLUMNS = {name: kind for name, kind in TICK.items() if name not in ("time", "age", "passed", "telemetry.alarm")}
"""Values of a tick on the page, besides its time and its signals."""


class RunRows:
    """Makes the rows of a run, one tick after the other.

    Args:
        contract: Of the first policy; signals that only a later model reads are left out.
    """

    def __init__(self, contract: Contract) -> None:
        self.words: list[str] = [""]
        """Texts by their index in rows; only `forget` makes the list shorter."""
        self._numbers = {"": 0}
        self._events = Events()
        self._start: float | None = None
        self._last, self._offset, self._period = 0.0, 0.0, 1.0 / contract.rate_hz
        self._task: Mapping[str, Any] | None = None
        self._signals = signals_of(contract)
        self.groups = [_group(name, signal) for name, signal in self._signals.items()]
        """For each signal: its kind, name, unit, meaning, the names of its elements, and their columns."""
        self.columns = ["t", *(SHORT[name] for name in COLUMNS)]
        """Name of each number of a row; the first is the time [s] since the beginning of the run."""
        self.columns += [column for group in self.groups for column in group["columns"]]

    def row(self, episode: int, record: StepRecord) -> dict[str, Any]:
        """Return a tick: its numbers (None if missing), new words, events, and task and atlas if they changed."""
        words = len(self.words)
        values, signals = tick_values(episode, record), signal_values(record)
        numbers: list[Any] = [self._time(record)]
        for name, kind in COLUMNS.items():
            numbers.append(self._word(values.get(name, "")) if kind == "string" else values.get(name))
        for name, signal in self._signals.items():
            elements = np.asarray(signals.get(name, ()), float).ravel().tolist()
            numbers += elements if len(elements) == signal.size else [None] * signal.size
        row: dict[str, Any] = {"row": [_number(number) for number in numbers]}
        if events := [list(event) for event in self._events.of(episode, record)]:
            row["events"] = events
        if record.swapped:
            row["atlas"] = plain_atlas(record.swapped.contract)
        task = record.info.get("task")
        if isinstance(task, Mapping) and (record.step == 0 or task != self._task):
            self._task = task
            row["task"] = in_words(task)
        if len(self.words) > words:
            row["words"] = self.words[words:]
        return row

    def forget(self, count: int) -> None:
        """Remove the last `count` words, which did not arrive, so that they are sent again when next needed."""
        for word in self.words[-count:]:
            del self._numbers[word]
        del self.words[-count:]

    def _time(self, record: StepRecord) -> float:
        """Return the time [s] since the run began; an episode begins at least a period after the last tick before it.

        A loop without a clock counts each episode from 0, and a clock that stands still would repeat a time.
        """
        if self._start is None:
            self._start = self._last = record.time
        elif record.step == 0:
            self._offset += max(0.0, self._last + self._period - record.time)
        self._last = record.time
        return round(record.time + self._offset - self._start, 6)

    def _word(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.words)
            self.words.append(text)
        return self._numbers[text]


def described(contract: Contract, about: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the head of a run's page.

    Args:
        contract: Of the policy.
        about: The run's metadata, as in a recording.
        name: Name of the run.
    """
    facts = [
        {True: "in a simulator", False: "on a robot"}.get(about.get("simulator", ""), ""),
        "dry run: nothing was written" if about.get("dry_run") else "",
        "with a sim-to-real profile" if about.get("gap") else "",
        f"seed {about['seed']}" if "seed" in about else "",
        str(about.get("machine", "")),
    ]
    return {
        "name": name,
        "model": contract.name,
        "weights": contract.weights_sha256[:12],
        "env": about.get("env") or "",
        "rate": contract.rate_hz,
        "facts": [fact for fact in facts if fact],
        "limits": {key: value for key, value in (about.get("limits") or {}).items() if value is not None},
        "atlas": plain_atlas(contract) or about.get("atlas"),
    }


def plain_atlas(contract: Contract) -> dict[str, Any] | None:
    """Return a contract's in-distribution reference, without the covariances; None if it has none."""
    return contract.atlas.model_dump(mode="json", exclude={"covariance"}) if contract.atlas else None


def run_of(recording: Recording) -> dict[str, Any]:
    """Return a recording as the page reads it: its head, its numbers by column, and the outcomes of its episodes."""
    rows, tasks = RunRows(recording.contract), dict[str, str]()
    numbers, events, atlases = list[list[Any]](), list[list[Any]](), list[list[Any]]()
    for at, (episode, record) in enumerate(recording.steps):
        tick_row = rows.row(episode, record)
        numbers.append(tick_row["row"])
        events += [[at, *event] for event in tick_row.get("events", ())]
        if "atlas" in tick_row:
            atlases.append([at, tick_row["atlas"]])
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
        # Times resolve 1 µs, for which float32 has too few digits.
        "seconds": base64.b64encode(table[:, 0].astype("<f8").tobytes()).decode(),
        "data": base64.b64encode(np.ascontiguousarray(table.T, "<f4").tobytes()).decode(),
        "events": events,
        "tasks": tasks,
        "atlases": atlases,
        **_scene_of(recording),
        "came": {str(number): [episode.ended.value, episode.success] for number, episode in recording.episodes.items()},
    }


def _scene_of(recording: Recording) -> dict[str, Any]:
    """Return the scene and the links' poses; an empty table if the recording lacks one of them for any tick."""
    if "scene" not in recording.about or len(recording.transforms) != len(recording.steps):
        return {}
    scene, poses = require_scene(recording.about["scene"]), read_poses(recording.transforms)
    if poses.shape[1] != len(scene["links"]):
        raise ValueError(f"its ticks show {poses.shape[1]} links, and its scene has {len(scene['links'])}")
    return {"scene": scene, "poses": base64.b64encode(poses.astype("<f4").tobytes()).decode()}


def read_poses(messages: Sequence[bytes]) -> NDArray[np.float32]:
    """Return the poses (N, L, 7) in N messages of `/tf`, of L links each: x, y, z [m], then the quaternion x, y, z, w.

    Raises:
        ValueError: The messages have different numbers of links, or there is none.
    """
    make = scene_schemas().message("foxglove.FrameTransforms")
    rows = [
        [
            (*(getattr(link.translation, axis) for axis in "xyz"), *(getattr(link.rotation, axis) for axis in "xyzw"))
            for link in make.FromString(data).transforms
        ]
        for data in messages
    ]
    if len({len(row) for row in rows}) != 1:
        raise ValueError("its ticks do not show equally many links")
    return np.array(rows, np.float32)


def require_scene(value: Any) -> Mapping[str, Any]:
    """Return the scene of a recording, after a check that it has the form of `plain_scene`.

    Raises:
        ValueError, TypeError, LookupError: It has another form.
    """
    links, shapes = value["links"], [Shape(*row) for row in value["shapes"]]
    for shape in shapes:
        numbers = [*shape.size, *shape.pose, *shape.rgba]
        if not 0 <= shape.link < len(links) or len(numbers) != 14 or not np.isfinite(np.array(numbers, float)).all():
            raise ValueError(f"a shape of its scene is {list(shape)}")
    return {"links": [str(name) for name in links], "shapes": [list(shape) for shape in shapes]}


def page(runs: list[dict[str, Any]], live: bool = False) -> str:
    """Return the page's HTML.

    Args:
        runs: Runs from `run_of`; empty if the page follows a run.
        live: Whether the page follows the events of the server that it was loaded from.
    """
    folder = files(__package__) / "page"
    libraries = ("three.min.js",) if live or any("scene" in run for run in runs) else ()
    html, style, *scripts = (
        (folder / name).read_text(encoding="utf-8")
        for name in ("view.html", "view.css", *libraries, "data.js", "lanes.js", "scene.js", "view.js")
    )
    # Without "<", no text of a recording can end the script element around it.
    data = json.dumps({"runs": runs, "live": live}, allow_nan=False).replace("<", "\\u003c")
    whole = html.replace("{{connect}}", "'self'" if live else "'none'").replace("{{style}}", style)
    return whole.replace("{{script}}", "\n".join(scripts)).replace("{{data}}", data)


def write_page(recordings: list[Recording], path: Path, force: bool = False) -> None:
    """Write the page of one recording, or of two side by side.

    Raises:
        SamiError: The file exists and `force` is False, or it cannot be written; or a recording has invalid values.
    """
    runs = []
    for recording in recordings:
        with values_of(recording.path):
            runs.append(run_of(recording))
    with values_of(path):
        data = page(runs).encode()
    with output(path, force, [recording.path for recording in recordings]) as temporary:
        temporary.write_bytes(data)


def _group(name: str, signal: Signal) -> dict[str, Any]:
    kind = name.partition(".")[0]
    return {
        "kind": kind,
        "name": signal.name if kind in ("observation", "answer") else kind,
        "unit": "" if signal.unit == "1" else signal.unit,
        "meaning": signal.meaning,
        "elements": list(signal.elements),
        "columns": [f"{name}.{element}" for element in signal.elements],
    }


def _number(number: Any) -> Any:
    """Return a number, rounded to 6 decimals; None for NaN, infinity and other types."""
    if number.__class__ is float:
        return round(number, 6) if math.isfinite(number) else None
    if number is None or isinstance(number, bool | str | list | dict):
        return None
    return number if isinstance(number, int) else _number(float(number))
