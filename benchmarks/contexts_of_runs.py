"""Measures how often the atlas names the task from the contexts of runs, and R2 of a probe, by method.

    python benchmarks/contexts_of_runs.py measure RUN... --out results/STUDY/contexts.jsonl
    python benchmarks/contexts_of_runs.py table results/STUDY

`measure` exports each run, gives the file an atlas (half of EPISODES of each training task, the rest calibrates it),
lets it name the tasks of fresh episodes, and fits a probe in tasks that training never saw; a line a run, and runs that
have one are left out. `table` reads them beside the study's runs.jsonl, with differences to --against (Welch's 95 %).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from seeds_with_profile import difference

from sami_train.envs.catalog import environment
from sami_train.export.atlas import least_episodes
from sami_train.export.export import compose_model
from sami_train.export.export_run import training_facts, with_measured
from sami_train.export.model_file import write
from sami_train.export.training_ranges import known_tasks
from sami_train.runs.folder import RunFolder
from sami_train.runs.train import load_agent
from sami_train.studies.contexts.alarms import check
from sami_train.studies.readout.attach import measure_probe
from sami_train.studies.sweep.study import read_study

EPISODES, FRESH, PROBED = 20, 10, 400
"""Episodes per training task for the atlas, per task for identification, and for the probe, each in its own task."""


def measured(run: Path) -> dict[str, Any]:
    """Return measures of a run's contexts; `nearest` is the fraction of fresh episodes identified correctly."""
    folder = RunFolder.open(run)
    agent = load_agent(folder)
    facts = training_facts(folder, agent)
    spec = environment(folder.config().env)
    tasks = len(known_tasks(facts, spec))
    with tempfile.TemporaryDirectory() as name:
        model = Path(name) / "model.onnx"
        artifact = compose_model(agent, model, facts, None, spec)
        write(with_measured(artifact, spec, max(EPISODES, least_episodes(tasks))))
        checks = check(model, spec, FRESH)
        probe = measure_probe(model, spec, PROBED).probe
    alarms: dict[str, list[float]] = defaultdict(list)
    for item in checks:
        alarms[item.task_set].append(item.alarms / item.episodes)
    return {
        "run": folder.path.name,
        "episodes": FRESH,
        "tasks": tasks,
        "nearest": float(np.mean([item.nearest for item in checks if item.nearest is not None])),
        "alarms": {task_set: float(np.mean(shares)) for task_set, shares in alarms.items()},
        "r2": {feature.name: feature.r2 for feature in probe.features},
    }


def measure(runs: list[Path], out: Path) -> None:
    """Measure each run without a line in the file, and append its line."""
    out.parent.mkdir(parents=True, exist_ok=True)
    names = {json.loads(line)["run"] for line in out.read_text().splitlines()} if out.exists() else set()
    for run in runs:
        if run.name not in names:
            line = json.dumps(measured(run))
            with out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            print(line, flush=True)


def table(study: Path, against: str) -> None:
    """Print a row for each quantity: means by method, in brackets the values by seed, and differences."""
    report = {line["run"]: line for line in map(json.loads, (study / "contexts.jsonl").read_text().splitlines())}
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in read_study(study / "runs.jsonl"):
        line, method = report[record.name], record.config["method"]
        assert record.evaluation is not None
        for name, score in record.evaluation["sets"].items():
            values[f"return, {name}"][method].append(score["ret"])
        bound = None if record.contrast is None else record.contrast.bound
        values["bound, nats"][method] += [] if bound is None else [bound]
        values[f"task named right, of {line['tasks']}"][method].append(line["nearest"])
        for name, r2 in line["r2"].items():
            values[f"R2 of {name}"][method].append(r2)
        for name, share in line["alarms"].items():
            values[f"alarms, {name}"][method].append(share)
    methods = sorted({method for by in values.values() for method in by}, key=lambda name: (name != against, name))
    heads = [*methods, *(f"{item} less {against}" for item in methods[1:])]
    print(f"| | {' | '.join(heads)} |\n{'|---' * (len(heads) + 1)}|")
    for name, by in values.items():
        form = ",.0f" if name.startswith("return") else ".2f"
        means = [
            f"{np.mean(by[item]):{form}} ({', '.join(f'{value:{form}}' for value in by[item])})" if by[item] else ""
            for item in methods
        ]
        less = [difference(by[item], by[against], form) if by[against] else "" for item in methods[1:]]
        print(f"| {name} | {' | '.join([*means, *less])} |")


def main() -> None:
    """Measure, or print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="asked", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("runs", type=Path, nargs="+")
    measuring.add_argument("--out", type=Path, required=True)
    printing = commands.add_parser("table")
    printing.add_argument("study", type=Path)
    printing.add_argument("--against", default="tesac", help="the method that others are compared with (tesac)")
    arguments = parser.parse_args()
    if arguments.asked == "measure":
        measure(arguments.runs, arguments.out)
    else:
        table(arguments.study, arguments.against)


if __name__ == "__main__":
    main()
