"""`sami skills`: show the skills that policies used in each task, beside the paper's statement about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...options import JSON, OwnEnvironment
from ...output import print_table, print_text

if TYPE_CHECKING:
    from rich.table import Table

    from sami_train.evaluation.results import Evaluation
    from sami_train.studies.contexts.skills import TaskSkills


def skills(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...",
            help="Evaluated runs: run folders, studies, folders that hold some. Or what `sami eval --json` printed, in "
            "NAME.json.",
        ),
    ],
    env: OwnEnvironment = None,
) -> None:
    """Show the share of episodes by skill in each task, a row per mass and a column per friction; runs by method.

    Older evaluations have the share of pick and place alone. To measure a model:
    sami eval --model MODEL --json > NAME.json
    """
    from sami_runtime.errors import SamiError
    from sami_train.envs.catalog import environment
    from sami_train.studies.contexts.skills import PAPER, skills_by_task

    groups: dict[str, list[Evaluation]] = {}
    for source in sources:
        for title, evaluation in _read(source):
            if not environment(evaluation.env).skills:
                raise SamiError(f"{source} is of the environment {evaluation.env!r}, which defines no skills.")
            groups.setdefault(title, []).append(evaluation)
    if len(envs := {evaluation.env for group in groups.values() for evaluation in group}) > 1:
        raise SamiError(f"these are of the environments {', '.join(sorted(envs))}; show one at a time.")
    by_title = {title: skills_by_task(group) for title, group in groups.items()}
    paper = PAPER if envs == {"panda"} else {}
    if JSON.get():
        print_text(json.dumps({title: _plain(tasks, paper.get(title)) for title, tasks in by_title.items()}, indent=2))
        return

    for title, tasks in by_title.items():
        print_table(_table(title, tasks, paper.get(title)))


def _read(source: Path) -> list[tuple[str, Evaluation]]:
    """Return evaluations, each with its method's title or with its file's name."""
    from sami_runtime.errors import SamiError
    from sami_runtime.files import read_document
    from sami_train.evaluation.results import Evaluation
    from sami_train.studies.compare.groups import read_runs

    if source.suffix == ".json":
        evaluation = Evaluation.from_dict(read_document(source, "evaluations"), str(source))
        if not evaluation.results:
            raise SamiError(f"{source} has no task; measure again with: sami eval --model MODEL --json > NAME.json")
        return [(source.stem, evaluation)]
    return [(run.method.title, run.evaluation) for run in read_runs([source])]


def _plain(tasks: list[TaskSkills], paper: str | None) -> dict[str, Any]:
    rows = [{**task._asdict(), "task": dict(task.task), "shares": dict(task.shares)} for task in tasks]
    return {"tasks": rows, "paper": paper}


def _table(title: str, tasks: list[TaskSkills], paper: str | None) -> Table:
    """Return a table with a row for each value of the first feature, and a column for each of the others."""
    from rich.table import Table

    from sami_runtime.model.atlas import text_of

    names = list(tasks[0].shares)
    first, *further = tasks[0].task
    columns = list(dict.fromkeys(sorted(tuple(task.task[name] for name in further) for task in tasks)))
    count = max(task.runs for task in tasks)
    legend = " / ".join(name.replace("_and_", " & ") for name in names)
    runs = f", {count} runs" if count > 1 else ""
    table = Table(title=f"{title}{runs}: {legend} (success), in percent of episodes", title_justify="left")
    table.add_column(first, justify="right")
    for values in columns:
        table.add_column(", ".join(f"{n} {text_of(v)}" for n, v in zip(further, values, strict=True)), justify="right")
    by_place = {(task.task[first], tuple(task.task[name] for name in further)): task for task in tasks}
    for value in dict.fromkeys(sorted(task.task[first] for task in tasks)):
        table.add_row(text_of(value), *(_cell(by_place.get((value, column))) for column in columns))
    if paper is not None:
        table.caption = f"the paper's figure: {paper}"
    return table


def _cell(task: TaskSkills | None) -> str:
    if task is None:
        return ""
    shares = "/".join("-" if share is None else f"{100 * share:.0f}" for share in task.shares.values())
    return f"{shares} ({100 * task.success:.0f})"
