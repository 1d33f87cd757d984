"""Output of `sami run` and `sami drive`: a live line, a row for each episode, and their summary."""

from __future__ import annotations

import select
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from .output import print_table, print_text, text_console

if TYPE_CHECKING:
    from sami_runtime.loop.episode import EpisodeReport
    from sami_runtime.loop.tick import StepRecord
    from sami_runtime.model.contract import Contract
    from sami_runtime.run import Follower, Run
    from sami_runtime.session.telemetry import Telemetry

    from .film import Film
    from .target import Target

SPARKS = "▁▂▃▄▅▆▇█"
SPARKS_SHOWN = 12
"""Largest number of bars for the context's speed in a line."""
RESULTS = 36
"""Columns of the terminal for a summary's results."""

LEAST_SUCCESS = 0.1
"""Smallest success rate, excluding trivial starts, of a task that counts as solvable by the model."""

JUDGEMENTS = ("success", "failure", "redo", "stop")
"""Endings of an episode that a person chooses."""

EVERY_S = 0.1
"""Shortest time between two updates of the live line [s], so that the terminal does not slow the loop down."""
CLEAR = "\r\x1b[K"

Row = dict[str, Any]


def row_of(
    number: int,
    report: EpisodeReport,
    world: Target,
    skills: Counter[str],
    rewards: Sequence[float],
    follower: Follower | None,
    telemetry: Telemetry,
) -> Row:
    """Return an episode as plain values: task, outcome, loop. `follower` is the shadow model."""
    loop, info, total = report.loop, report.info, sum(rewards) if rewards else None
    row: Row = {"episode": number, **dict.fromkeys(world.features), **_task(info)}
    if world.skills:
        from sami_train.envs.measure import episode_skill

        row["skill"] = episode_skill(skills, world.skills) or "none"
    row["steps"], tracked = report.steps, world.tracks is not None and report.steps > 0
    if world.success or report.success is not None:
        row["success"] = report.success
    row |= {
        "ended": report.ended.value,
        "return": total and round(total, 3),
        **({"tracking_error": round(-total / report.steps, 3)} if total is not None and tracked else {}),
        "context": [round(float(c), 4) for c in (report.contexts[-1] if report.steps else ())],
        "telemetry": telemetry.summary(),
        "infer_us": round(1e6 * loop.times["infer"].mean, 1),
        "outcomes": {outcome.value: count for outcome, count in loop.outcomes.items()},
        "missed": loop.missed,
        "limited": dict(loop.limited),
        **{name: report.info[name] for name in ("zeroed",) if name in report.info},
    }
    return row if follower is None else {**row, "shadow": follower.episode.summary()}


def _task(info: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the task that an adapter reports; {} if its `info["task"]` is missing or no mapping."""
    task = info.get("task")
    return task if isinstance(task, Mapping) else {}


def unsolved_tasks(contract: Contract) -> list[dict[str, Any]]:
    """Return the tasks with a success below `LEAST_SUCCESS` in the model's own evaluation."""
    measured = (contract.evaluation or {}).get("tasks", [])
    scored = [row for row in measured if row.get("above_floor") is not None]
    return [row["task"] for row in scored if row["above_floor"] < LEAST_SUCCESS]


def header(world: Target, telemetry: Telemetry) -> str:
    """Return the table's header, after lines with the engine and the meaning of columns."""
    from .model_file import engine_line

    engine = engine_line(world.name, world.engine)
    note = f"{engine}\n" if engine else ""
    if telemetry.atlas is not None:
        note += "score: highest out-of-distribution score (!: alarm); context moves: its speed\n"
    if telemetry.probe is not None and telemetry.probe.silent:
        note += f"the context does not identify {', '.join(telemetry.probe.silent)}\n"
    names = " ".join(f"{name:>{_width(name)}}" for name in world.features)
    atlas_columns = "" if telemetry.atlas is None else "  phase       score "
    outcome = "  success" if world.success else "    return"
    outcome += f"  error [{world.tracks}]" if world.tracks else ""
    moves = "  context moves" if telemetry.size else ""
    return f"{note}{names}  {'skill          ' if world.skills else ''}steps{outcome}{atlas_columns}{moves}"


def line(row: Mapping[str, Any], world: Target, report: EpisodeReport, hopeless: Sequence[Mapping[str, Any]]) -> str:
    """Return a line that describes an episode, marked if its task is one of the `hopeless`, see `unsolved_tasks`."""
    import numpy as np

    speed = np.linalg.norm(np.diff(report.contexts, axis=0), axis=1) if report.contexts.size else np.zeros(0)
    # In a long episode each bar is the mean over several steps.
    speed = np.array([part.mean() for part in np.array_split(speed, min(len(speed), SPARKS_SHOWN) or 1) if len(part)])
    scale = max(float(speed.max(initial=0.0)), 1e-9)
    sparks = "".join(SPARKS[min(int(s / scale * len(SPARKS)), len(SPARKS) - 1)] for s in speed)
    task = " ".join(f"{_value(row, name):>{_width(name)}}" for name in world.features)
    if row["telemetry"]["phase"] is not None:
        sparks = f"{_score_columns(row['telemetry'])}  {sparks}"
    if world.success:
        success = {True: "yes", False: "no", None: "-"}[row["success"]] + _mark(row, world.features, hopeless)
        outcome = f"{success:<7}"
        outcome += f"  {row['tracking_error']:<8.2f}" if "tracking_error" in row else ""
    else:
        total = "-" if row["return"] is None else f"{row['return']:.1f}"
        outcome = f"{total:>8}"
    ending = f"  {row['ended']}" if row["ended"] in JUDGEMENTS else ""
    skill = f"{row['skill']:<14} " if world.skills else ""
    readout = probed(row["telemetry"].get("probe", {}))
    return f"{task}  {skill}{row['steps']:>5}  {outcome}  {sparks}{ending}  {readout}".rstrip()


def probed(features: Mapping[str, Mapping[str, float]]) -> str:
    """Return the probe's readout as text: a number's estimate and interval, and parts crippled with p > 0.5."""
    words = []
    for name, numbers in features.items():
        if "estimate" in numbers:
            words.append(f"{name} {numbers['estimate']:.3g} [{numbers['low']:.3g}, {numbers['high']:.3g}]")
        else:
            words.append(f"{name} {'+'.join(part for part, share in numbers.items() if share > 0.5) or 'none'}")
    return ", ".join(words)


def successes(rows: Sequence[Row]) -> str:
    """Return how many of a robot's judged episodes succeeded; empty if none was judged."""
    outcomes = [row["success"] for row in rows if row["success"] is not None]
    unjudged = f"; {len(rows) - len(outcomes)} were not judged" if len(outcomes) < len(rows) else ""
    return f"{sum(outcomes)} of {len(outcomes)} episodes succeeded{unjudged}" if outcomes else ""


def summary(rows: list[Row], world: Target, hopeless: Sequence[Mapping[str, Any]]) -> None:
    """Print the episodes' means by task; `hopeless` tasks are marked, and the mark is explained."""
    from rich.table import Table

    from sami_runtime.errors import quantity

    table = Table(title=quantity(len(rows), "episode"), title_justify="left")
    features = world.features
    shares = [skill.column for skill in world.skills if skill.column is not None]
    has_room = sum(_width(name) + 3 for name in features) <= text_console().width - RESULTS
    columns = features if has_room else ["task"]
    for name in (*columns, "episodes", "success" if world.success else "return", *shares, "steps"):
        table.add_column(name, justify="left" if name == "task" else "right")
    marked = any(_mark(row, features, hopeless) for row in rows)
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: [row[name] for name in features]):
        groups.setdefault(tuple(_value(row, name) for name in features), []).append(row)
    for key, same in groups.items():
        mark = _mark(same[0], features, hopeless)
        task = key if has_room else [", ".join(f"{name} {value}" for name, value in zip(features, key, strict=True))]
        count, outcome, *means = _means(same, world)
        table.add_row(*task, count, outcome + (mark or " " * marked), *means)
    table.add_section()
    count, outcome, *means = _means(rows, world)
    table.add_row("all", *[""] * (len(columns) - 1), count, outcome + " " * marked, *means, style="bold")
    print_table(table)
    if marked:
        print_text("*: in this task the model's own evaluation is hardly better than doing nothing.")


def _score_columns(telemetry: Mapping[str, Any]) -> str:
    """Return the last phase and the highest out-of-distribution score, with an exclamation mark after an alarm."""
    score = "-" if telemetry["score"] is None else f"{telemetry['score']:.2f}"
    return f"{telemetry['phase']:<11} {score:>5}{' ' if telemetry['alarm_at'] is None else '!'}"


def _mark(row: Mapping[str, Any], features: Sequence[str], hopeless: Sequence[Mapping[str, Any]]) -> str:
    return "*" if {name: row[name] for name in features} in hopeless else ""


def _width(feature: str) -> int:
    """Return the width of a feature's column, which fits most values."""
    return max(len(feature), 5)


def _value(row: Mapping[str, Any], name: str) -> str:
    from sami_runtime.model.atlas import text_of

    return "-" if row[name] is None else text_of(row[name])


def _means(rows: list[Row], world: Target) -> list[str]:
    n = len(rows)
    if world.success:
        outcome = f"{sum(bool(row['success']) for row in rows) / n:.2f}"
    else:
        outcome = f"{sum(row['return'] or 0.0 for row in rows) / n:.1f}"
    columns = [skill.name for skill in world.skills if skill.column is not None]
    shares = [f"{sum(row['skill'] == name for row in rows) / n:.2f}" for name in columns]
    return [str(n), outcome, *shares, f"{sum(row['steps'] for row in rows) / n:.1f}"]


def ending(driving: Run, film: Film | None, record: Path | None) -> list[str]:
    """Return the closing lines of a run, which are printed even after an error; [] if it made no tick."""
    from sami_runtime.errors import in_shell

    if not driving.total.ticks:
        return []
    parts = [str(driving.total)]
    if driving.shadow:
        parts.append(f"shadow: {driving.shadow.comparison}")
    whole = record if driving.recorded else None
    parts += [f"wrote {path}" for path in (whole, film.path if film and film.frames else None) if path]
    parts += [f"Next: sami view {in_shell(whole)}, or sami replay {in_shell(whole)}"] if whole else []
    return parts


class LiveLine:
    """Shows the latest telemetry in one line of a terminal; call it as a loop's `on_step`. Prints nothing elsewhere."""

    def __init__(
        self, telemetry: Telemetry, file: TextIO | None = None, status: Callable[[], str] = lambda: ""
    ) -> None:
        self._telemetry, self._file, self._status = telemetry, file or sys.stdout, status
        self._live, self._drawing_time, self._visible = self._file.isatty(), 0.0, False

    def __call__(self, record: StepRecord) -> None:
        """Draw the line, at most every `EVERY_S` seconds."""
        is_due = self._live and (now := time.monotonic()) - self._drawing_time >= EVERY_S
        if is_due and select.select([], [self._file], [], 0.0)[1]:  # not a terminal at which Ctrl-S holds the loop up
            self._drawing_time, self._visible = now, True
            reading = reading_text(self._telemetry)
            parts = (self._status(), reading, probed(self._telemetry.probed), corrected(record))
            text = "  ".join(filter(None, parts))
            text = text[: shutil.get_terminal_size().columns - 1]
            print(CLEAR + text, end="", file=self._file, flush=True)

    def clear(self) -> None:
        """Clear the line, so that another one can be printed in its place."""
        if self._visible:
            self._visible = False
            print(CLEAR, end="", file=self._file, flush=True)


def corrected(record: StepRecord) -> str:
    """Return, as text, the distance between predicted and arrived observation by signal; empty without predictions."""
    import numpy as np

    from sami_runtime.model.contract import PRESENT

    arrived = {} if record.observation is None else record.observation.values
    off = {
        name: float(np.linalg.norm(record.extra[PRESENT + name] - value))
        for name, value in arrived.items()
        if PRESENT + name in record.extra
    }
    return "present off by " + ", ".join(f"{name} {distance:.3g}" for name, distance in off.items()) if off else ""


def reading_text(telemetry: Telemetry) -> str:
    """Return the last reading as a line, with those features of the nearest task that the context identifies."""
    reading, probe = telemetry.now, telemetry.probe
    parts = [f"step {max(0, reading.step):>3}", *([f"context moves {reading.speed:5.2f}"] if telemetry.size else [])]
    if reading.phase is not None:
        parts.append(f"{reading.phase.value:<11}")
    if reading.nearest is not None:
        from sami_runtime.model.atlas import label

        alarm = "  OUT OF DISTRIBUTION" if reading.alarm else ""
        silent = {} if probe is None else {item.name: item.r2 for item in probe.features if not item.carried}
        features = {name: value for name, value in reading.nearest.items() if name not in silent}
        near = [f"nearest {label(features)} at {reading.distance:.1f}"] if features else []
        near += [f"does not identify {name}, R2 {r2:.2f}" for name, r2 in silent.items()]
        parts.append("  ".join((f"score {reading.score:.2f}{alarm}", *near)))
    return "  ".join(parts)
