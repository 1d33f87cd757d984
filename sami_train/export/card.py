"""The model card: how a model was trained and how it was evaluated, read from the run."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sami_runtime.errors import in_shell, quantity
from sami_runtime.model.atlas import label
from sami_runtime.model.contract import Contract
from sami_runtime.model.lookahead import Lookahead
from sami_runtime.model.probe import Probe
from sami_train.envs.catalog import by_name, environment
from sami_train.envs.measure import SUCCESS, Measure
from sami_train.envs.tasks import Crippled, Task, TaskSpace
from sami_train.evaluation.paper import reported
from sami_train.evaluation.results import Evaluation, TaskResult
from sami_train.runs.record import RealisedContrast, RunRecord

LEAST_LEARNED = 0.5
"""Bound [nats] below which a card says that the contrast hardly taught the encoder."""
MOST_LISTED = 30
"""Most tasks of a set with a row each."""
MOST_VALUES = 16
"""Most values of a feature that a card lists; of more, it states the range."""
MOST_NAMED = 9
"""Most tasks whose curves a plot labels; with more, only the mean has a label."""
IMITATION = "train/action_error"
"""Metric of a student."""


def card_files(run: RunRecord, contract: Contract, model: Path) -> dict[Path, bytes]:
    """Return the card beside the model, NAME.md, and where matplotlib is installed NAME.png; nothing is written."""
    training = contract.training
    steps_per_draw = training["config"]["learning"].get("steps_per_draw", 1)
    option = by_name(str(training["env"]))
    lines = [
        f"# {model.stem}",
        "",
        f"{training['method']} on `{training['env']}`, seed {training['seed']}: {training['steps']:,} environment "
        f"steps and {training['updates'] * steps_per_draw:,} gradient steps in {training['minutes']} minutes "
        f"on {quantity(training['cpus'], 'core')}.",
        "",
        *([] if training["updates"] else ["**It has not learned: 0 updates.** It acts at random.", ""]),
        "Made with:",
        "",
        "```",
        *run.commands(),
        f"sami eval --run {in_shell(run.trained_in)}{option}",
        f"sami export --run {in_shell(run.trained_in)} --out {in_shell(model.as_posix())}{option}{_options(contract)}",
        "```",
        "",
        f"at commit {training['commit']}{' with local changes' if training['dirty'] else ''}.",
        "",
    ]
    spec = environment(str(training["env"]))
    if idle := _never_obeyed(spec.tasks, spec.tasks.resolve(training.get("tasks") or "training")):
        lines += [f"**These motors work in no training task: {', '.join(idle)}.** The policy always sends them 0.", ""]
    caption, picture = training_curve(run, spec.measure)
    if caption:
        lines += [f"![{caption[0].upper()}{caption[1:]}]({model.stem}.png)", ""]
    if run.contrast is not None:
        lines += [_contrast(run.contrast, training["config"]["contrast"]), ""]
    if contract.lookahead is not None:
        lines += _lookahead(contract, contract.lookahead)
    if contract.probe is not None:
        lines += _probe(contract.probe)
    if contract.evaluation is not None:
        result, title = Evaluation.from_dict(contract.evaluation), str(training["method"])
        lines += _successes(result, title) if result.measure is SUCCESS else _returns(result, title)
    lines += [f"Versions: {', '.join(f'{name} {number}' for name, number in training['versions'].items())}.", ""]
    pages = {model.with_suffix(".md"): "\n".join(lines).encode()}
    return pages | ({model.with_suffix(".png"): picture} if caption else {})


def _contrast(contrast: RealisedContrast, config: Mapping[str, Any]) -> str:
    mean = "mean over the run, averaged over many losses" if contrast.averaged else "mean over single logged losses"
    idle = contrast.bound is not None and contrast.bound < LEAST_LEARNED
    keys = "encoder" if config.get("keys") == "encoder" else "momentum encoder"
    return (
        f"Contrast: {contrast} ({mean}; a constant encoder has 0). Ranked by {config['ranking']}, keys of the "
        f"{keys}, {config['trajectories']} trajectories."
        f"{' The encoder learned from the critics, hardly from the contrast.' * idle}"
    )


def _lookahead(contract: Contract, ahead: Lookahead) -> list[str]:
    rows = [(name, unit, *cells) for name, unit, cells in ahead.rows(contract.observation)]
    return [
        f"Lookahead: {ahead.summary()}. Its error on held-out transitions, by periods ahead, and in brackets the error "
        "if the late observation is treated as current:",
        "",
        *_table(["signal", "unit", *map(str, range(1, ahead.steps + 1))], rows),
    ]


def _probe(probe: Probe) -> list[str]:
    head, *features = probe.lines()
    return [f"{head[0].upper()}{head[1:]}:", "", *(f"- {line.strip()}" for line in features), ""]


def _options(contract: Contract) -> str:
    atlas, ahead = contract.atlas, contract.lookahead
    looking = (f" --lookahead {ahead.steps}" if ahead else "") + " --set probe=true" * (contract.probe is not None)
    return f"{looking} --set atlas_episodes={(atlas.episodes + atlas.held_out) // len(atlas.tasks) if atlas else 0}"


def _returns(result: Evaluation, title: str) -> list[str]:
    show = result.measure.show
    metrics = [metric for metric in environment(result.env).metrics if result.results[0].metrics]
    names = [f"{metric.name.replace('_', ' ')} [{metric.unit}]" for metric in metrics]
    counts = " or ".join(dict.fromkeys(str(len(result.returns(name))) for name in result.sets))
    of_sets, of_tasks = list[list[str]](), list[list[str]]()
    for name in result.sets:
        cell = reported(result.env, title, name)
        published = " ± ".join(map(show, cell)) if cell else ""
        note = " drawn" if name in environment(result.env).tasks.drawn else ""
        row = [name, f"{len(result.of(name))}{note}", f"{show(result.ret(name))} ± {show(result.ret_error(name))}"]
        means = [f"{result.metrics(name)[metric.name]:.{metric.digits}f}" for metric in metrics]
        of_sets.append([*row, show(result.ret_std(name)), published, *means])
        for tasks, same in _listed(result.of(name)):
            returns = [value for row in same for value in row.returns]
            cells = []
            for metric in metrics:
                values = [value for row in same for value in row.metrics[metric.name]]
                cells.append(f"{sum(values) / len(values):.{metric.digits}f}")
            of_tasks.append([name, tasks, str(len(returns)), show(sum(returns) / len(returns)), *cells])
    return [
        f"Return, {counts} episodes in each set of tasks, which come in turn, deterministic, {result.seed_name}. std: "
        "deviation over these episodes; ±: standard error over starts; the paper's ±: deviation over five seeds.",
        "",
        *_table(["task set", "tasks", "return", "std", "paper", *names], of_sets),
        *_table(["task set", "task", "episodes", "return", *names], of_tasks),
    ]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table, and an empty one after it."""
    head, *lines = (f"| {' | '.join(cells)} |" for cells in (columns, *rows))
    return [head, "|---" * len(columns) + "|", *lines, ""]


def _listed(rows: Sequence[TaskResult]) -> Iterator[tuple[str, list[TaskResult]]]:
    """Return a set's rows: one for each task; for many tasks with few episodes, one for each value of a feature."""
    if len(rows) <= MOST_LISTED:
        yield from ((label(row.task), [row]) for row in rows)
        return
    for feature in rows[0].task:
        groups: dict[str, list[TaskResult]] = {}
        for row in rows:
            groups.setdefault(label({feature: row.task[feature]}), []).append(row)
        if len(groups) > MOST_VALUES:  # the value that most tasks have, and the others
            usual = max(groups, key=lambda value: len(groups[value]))
            varied_rows = [row for value, same in groups.items() if value != usual for row in same]
            groups = {usual: groups[usual], f"{feature} drawn": varied_rows}
        yield from groups.items()


def _successes(result: Evaluation, title: str) -> list[str]:
    show = result.measure.show
    paper = {name: f"{cell.mean:.2f}" for name in result.sets if (cell := reported(result.env, title, name))}
    of_sets = [
        [name, f"{result.success(name):.3f}", show(result.nontrivial_success(name)), paper.get(name, "")]
        for name in result.sets
    ]
    of_tasks = []
    for row in result.results:
        shares = [f"{share:.2f}" for share in row.shares.values()]
        numbers = [f"{row.success:.2f}", show(row.nontrivial_success, coarse=True), *shares, f"{row.steps:.1f}"]
        of_tasks.append([row.task_set, label(row.task), *numbers])
    columns = ["task set", "task", "success", "excluding trivial starts", *result.results[0].shares, "steps"]
    return [
        f"Success, {result.results[0].episodes} episodes per task, deterministic, {result.seed_name}, the same starts "
        f"in every task ({result.results[0].solved_at_start:.0%} of them solved already: the do-nothing baseline).",
        "",
        *_table(["task set", "success", "excluding trivial starts", "paper"], of_sets),
        *_table(columns, of_tasks),
    ]


def training_curve(run: RunRecord, measure: Measure) -> tuple[str, bytes]:
    """Return a caption and a PNG: the measure while exploring over minutes, or how a student learned.

    Both are empty if the run has no such metrics, or matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return "", b""
    curves = {measure.exploring: f"{measure.name} while exploring", IMITATION: "squared difference from the teacher"}
    curve = next((key for key in curves if any(key in row for row in run.metrics)), None)
    if curve is None:
        return "", b""
    rows = [row for row in run.metrics if "time/seconds" in row and curve in row]
    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.subplots()
    minutes = [row["time/seconds"] / 60 for row in rows]
    prefix = f"{measure.name}/"
    names = sorted({key for row in rows for key in row if key.startswith(prefix)})
    for name in names:
        task = name.removeprefix(prefix) if len(names) <= MOST_NAMED else "_"
        axes.plot(minutes, [row.get(name, float("nan")) for row in rows], lw=1, alpha=0.6, label=task)
    axes.plot(minutes, [row[curve] for row in rows], "k", lw=2, label="mean")
    shorter = run.train_config().collection.episode_steps
    label = curves[curve] + (f",\nepisodes of {shorter} steps" if shorter else "")
    axes.set(xlabel="minutes", ylabel=label, ylim=measure.bounds if curve == measure.exploring else None)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="lower right")
    figure.savefig(picture := io.BytesIO(), dpi=110, format="png")
    return curves[curve], picture.getvalue()


def _never_obeyed(space: TaskSpace, tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return the parts that are crippled in all of these tasks, e.g. "joint foot_joint"."""
    return tuple(
        f"{feature.kind} {part}"
        for feature in space.features
        if isinstance(feature, Crippled)
        for number, part in enumerate(feature.parts)
        if all(number in task.get(feature.name, ()) for task in tasks)
    )
