"""Measures whether each shipped environment needs a context: the loss by a constant one, and scores of baselines.

    python benchmarks/need_a_context.py measure panda-satesac hopper-satesac --out results/need-a-context
    python benchmarks/need_a_context.py table
    python benchmarks/need_a_context.py cards

`measure` plays a shipped file on the starts of the final seed twice, with the context that its encoder infers and with
the mean context of its training tasks from the first step on, and keeps every episode; the policy, the starts and the
tasks are the same. A file that is measured already is left out. `table` prints the table of the docs from these files,
from runs of Panda, half-cheetah and hopper, and from the Go2's walks. `cards` writes its row into each model's card.

An ablation is no trained baseline: a policy that was trained to read a context may depend on it where another one, with
none, would do as well. So a loss is an upper bound of what a context is worth, and a return that stays is the stronger
evidence.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from sami_runtime.model.artifact import read_artifact
from sami_train import seeds
from sami_train.envs.catalog import environment
from sami_train.envs.make import make
from sami_train.envs.spec import EnvironmentSpec
from sami_train.episodes.rollout import Rollout
from sami_train.evaluation.evaluate import in_turn
from sami_train.evaluation.model_policy import SessionPolicy
from sami_train.evaluation.play import playing, side_by_side
from sami_train.files import write_json
from sami_train.studies.contexts.changed_episodes import PolicyHead
from sami_train.studies.sweep.study import find_runs

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "models"
MEASURED = ROOT / "results" / "need-a-context"
ARMS = ("live", "constant")
SETS = ("training", "moderate", "extreme")
LEAST = 0.05
"""Smallest loss, as a fraction of the live score, for which the context counts as needed."""
REPLICATES = 2000
NOT_MEASURED = "not measured"
LONG_RUNS = ("results/panda-550k-baselines", "results/panda-550k", "results/models:panda-satesac")
"""Runs of Panda with the shipped file's budget."""
IN_README = {
    "panda-satesac": "Panda",
    "walker-satesac": "Walker",
    "half-cheetah-satesac": "Half-cheetah",
    "crippled-hopper-satesac": "Crippled hopper",
}
"""Rows of the README, apart from the Go2's."""
ONE_SEED: dict[str, tuple[str, dict[str, str]]] = {
    "so101-satesac": ("so101/satesac", {"so101/sac": "SAC", "so101/sac-history": "SAC on ten steps"}),
    "panda-heavy-tesac": ("panda-heavy/final-1", {"panda-heavy/final-sac-0": "SAC"}),
    "ant-satesac": ("need-a-context/ant-satesac", {"ants-sac:ant-sac-0": "SAC"}),
    "crippled-ant-satesac": (
        "need-a-context/crippled-ant-satesac",
        {"ants-sac:crippled-ant-sac-0": "SAC", "ants-sac:crippled-ant-sac-1": "another seed of SAC"},
    ),
}
"""Comparison of a shipped file with one seed of each baseline of the same budget: the file's own evaluation in
`results/`, and evaluations of the baselines with their titles in the docs. STUDY:RUN is a gathered run, and else it is
the output of `sami eval --final --json` or of this script."""
PANDA = "panda-satesac"
"""The shipped Panda file with a context, trained for longer than the runs in `STUDIES`."""
WITHOUT = "panda-sac"
"""The shipped Panda file without a context."""
BASELINES = {
    "SAC": "SAC",
    "SAC with history": "SAC on ten steps",
    "Oracle": "an oracle",
    "TESAC": "TESAC",
    "SaTESAC": "SaTESAC",
}
"""Names of the methods in the docs, by title."""
MEMORIES = {"SAC": "no memory", "SAC with history": "ten steps of history"}
"""Baselines that a context must beat, by title."""
SENTENCE = "**Context:** "
"""Beginning of a card's line about the context."""


@dataclass(frozen=True)
class Study:
    """Runs of several methods on one robot, with one budget."""

    steps: int
    runs: tuple[str, ...]
    """Selections of runs, as arguments of `sami compare`."""
    score: str = "return"
    digits: int = 0
    bounds: tuple[float, float] | None = None
    """Smallest and largest possible mean, if the score is bounded."""
    primary: str = "moderate"
    """The set of tasks that the study was planned to judge by."""

    @cache  # noqa: B019 - only a few studies exist, and all stay in memory
    def groups(self) -> dict[str, Any]:
        """Return a group of runs for each method, by its title."""
        from sami_train.studies.compare.comparison import MethodComparison
        from sami_train.studies.compare.groups import read_runs

        groups = MethodComparison(read_runs([ROOT / runs for runs in self.runs])).groups
        return {group.method.title: group for group in groups}

    def mean(self, group: Any, name: str) -> str:
        """Return a group's mean score on a set, with the half-width of Student's 95 % interval over seeds."""
        means = group.scores(name).mean(axis=1)
        interval = stats.t.interval(0.95, len(means) - 1, means.mean(), stats.sem(means))
        low, high = np.clip(interval, *(self.bounds or (None, None)))
        return f"{means.mean():,.{self.digits}f} ± {(high - low) / 2:,.{self.digits}f}"


STUDIES = {
    PANDA: Study(
        100_000,
        (
            "results/panda-100k-baselines",
            "results/placebo:panda-tesac-?",
            "results/panda-100k-one-age:panda-tesac-*",
            "results/placebo:panda-satesac-?",
        ),
        "success",
        3,
        (0.0, 1.0),
    ),
    "half-cheetah-satesac": Study(
        400_000,
        ("results/half-cheetah-400k", "results/robots-400k-baselines:half-*", "results/robots-400k-history:half-*"),
    ),
    "hopper-satesac": Study(
        400_000,
        ("results/hopper-400k", "results/robots-400k-baselines:hopper-*", "results/robots-400k-history:hopper-*"),
    ),
    "crippled-hopper-satesac": Study(400_000, ("results/robots-400k-baselines:crippled-*",), primary="extreme"),
}
"""Studies by the shipped file of the same robot."""


class ConstantContext(SessionPolicy):
    """A model file whose policy reads the mean context of the training tasks, which identifies no task."""

    def __init__(self, model: Path, spec: EnvironmentSpec, rows: int) -> None:
        super().__init__(model, spec, rows)
        artifact = read_artifact(model)
        assert artifact.contract.atlas is not None
        self._head = PolicyHead(artifact)
        mean = np.mean(artifact.contract.atlas.mean, axis=0, dtype=np.float32)
        self._context = np.tile(mean, (rows, 1))

    def step(self, observation: np.ndarray, noise: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return actions (n, A) and the constant context (n, C); the encoder still runs."""
        super().step(observation, noise)
        signals = self._layout.by_name(observation, self.names)
        return self._head(signals, self._context, self._session.last.extra), self._context


def scores_of(model: Path, spec: EnvironmentSpec, arm: str, episodes: int, seed: int) -> dict[str, list[list[float]]]:
    """Return the score of each episode by set and task: return, or success."""
    policy = partial(ConstantContext if arm == "constant" else SessionPolicy, model, spec)
    play = _successes if spec.measure.per == "task" else _returns
    return play(spec, policy, episodes, seed)


def _successes(spec: EnvironmentSpec, make_policy: Callable[[int], Any], episodes: int, seed: int) -> dict[str, Any]:
    rows = side_by_side(episodes)
    envs, policy, scores = [make(spec) for _ in range(rows)], make_policy(rows), {}
    for name in SETS:
        scores[name] = []
        for task in spec.tasks.resolve(name):
            rollout = Rollout(envs, policy, seed, tasks=(task,))
            results = [item for first in range(0, episodes, rows) for item in rollout.round(range(first, first + rows))]
            scores[name].append([float(episode.success) for episode in results[:episodes]])
    for env in envs:
        env.close()
    return scores


def _returns(spec: EnvironmentSpec, make_policy: Callable[[int], Any], episodes: int, seed: int) -> dict[str, Any]:
    scores = {}
    with playing(spec, make_policy, episodes, 1) as (play, _):
        for name in SETS:
            tasks = spec.tasks.resolve(name)
            turns = in_turn(len(tasks), episodes, seed)
            returns, _, _ = play([tasks[turn] for turn in turns], seed)
            scores[name] = [returns[turns == k].tolist() for k in range(len(tasks)) if (turns == k).any()]
    return scores


def measure(names: Sequence[str], out: Path, episodes: int) -> None:
    """Measure shipped files with both contexts, and store the score of every episode."""
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = out / f"{name}.json"
        if path.exists():
            print(f"{path} is there already")
            continue
        contract = read_artifact(MODELS / f"{name}.onnx").contract
        spec = environment(str(contract.training["env"]))
        arms = {arm: scores_of(MODELS / f"{name}.onnx", spec, arm, episodes, seeds.FINAL) for arm in ARMS}
        write_json(
            path,
            {
                "model": name,
                "weights_sha256": contract.weights_sha256,
                "env": spec.name,
                "measure": spec.measure.name,
                "seed": seeds.FINAL,
                "episodes": episodes,
                "arms": arms,
            },
        )
        print(f"wrote {path}")


@dataclass(frozen=True)
class Loss:
    """Loss by a constant context on a set of tasks, as fractions of the live score."""

    live: float
    constant: float
    share: float
    low: float
    high: float

    def __str__(self) -> str:
        share, low, high = (round(100 * value) for value in (self.share, self.low, self.high))
        return f"{share} % [{low}, {high}]"


def loss_of(document: Mapping[str, Any], name: str) -> Loss:
    """Return the loss on one set, with a 95 % bootstrap interval over pairs of episodes with the same start.

    If success is measured, the k-th episodes of all tasks share a start, so the bootstrap draws starts with all tasks.
    """
    live, constant = ([np.array(task) for task in document["arms"][arm][name]] for arm in ARMS)
    by_start = document["measure"] == "success"
    pairs = np.stack([np.mean(arm, axis=0) if by_start else np.concatenate(arm) for arm in (live, constant)])
    rows = np.random.default_rng(0).integers(pairs.shape[1], size=(REPLICATES, pairs.shape[1]))
    means = pairs[:, rows].mean(axis=2)
    low, high = np.percentile(1.0 - means[1] / means[0], [2.5, 97.5])
    live_mean, constant_mean = pairs.mean(axis=1).tolist()
    return Loss(live_mean, constant_mean, 1.0 - constant_mean / live_mean, float(low), float(high))


def verdict(losses: Mapping[str, Loss]) -> str:
    """Return, as text, whether a context is needed, as far as this ablation can show."""
    if all(loss.high < LEAST for loss in losses.values()):
        return "no"
    names = [name for name, loss in losses.items() if loss.low > LEAST]
    if len(names) == len(losses):
        return "this policy uses it"
    if names:
        return f"this policy uses it ({', '.join(names)})"
    return f"not shown: at most {round(100 * max(loss.high for loss in losses.values()))} % lost"


def documents() -> list[dict[str, Any]]:
    """Return the measurements, one document per model."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(MEASURED.glob("*.json"))]


def losses_of(document: Mapping[str, Any]) -> dict[str, Loss]:
    """Return the loss by a constant context, by set."""
    return {name: loss_of(document, name) for name in SETS}


def score_text(value: float, document: Mapping[str, Any]) -> str:
    """Return a score in the format of the docs."""
    return f"{value:.3f}" if document["measure"] == "success" else f"{value:,.0f}"


def environments_table() -> list[str]:
    """Return the table of all shipped files, in Markdown."""
    lines = [
        "| shipped file | episodes | its score, final seed: training / moderate / extreme | lost with a constant "
        "context: training | moderate | extreme | trained baselines | is a context needed? |",
        "|---|---|---|---|---|---|---|---|",
    ]
    measured = {document["model"]: document for document in documents()}
    for path in sorted(MODELS.glob("*.onnx")):
        document, name = measured.get(path.stem), f"`{path.stem}`"
        if path.stem == "go2-student":
            lines.append(f"| {name} | 200 | {' | '.join(_go2_cells())} |")
        elif path.stem == WITHOUT:
            lines.append(f"| {name} | 25 | {without()} | {' | '.join(['has none'] * 3)} | it is one | it has none |")
        elif document is None:
            lines.append(f"| {name} | {' | '.join([NOT_MEASURED] * 7)} |")
        else:
            losses = losses_of(document)
            live = " / ".join(score_text(loss.live, document) for loss in losses.values())
            baseline, answer = NOT_MEASURED, verdict(losses)
            if baselines := trained_baselines(path.stem):
                baseline, answer = baselines[0], f"{answer}; {baselines[1]}"
            cells = [str(document["episodes"]), live, *map(str, losses.values()), baseline, answer]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def short_table() -> list[str]:
    """Return the table of the README: scores and losses, in percent, of some shipped files, in Markdown."""
    lines = [
        "| policy | training / moderate / extreme | % lost with a constant context | needed? |",
        "|---|---|---|---|",
    ]
    measured = {document["model"]: document for document in documents()}
    for name, title in IN_README.items():
        document = measured[name]
        losses = losses_of(document)
        scores = " / ".join(score_text(loss.live, document) for loss in losses.values())
        percent = " / ".join(str(loss).replace(" %", "") for loss in losses.values())
        needed = f"little: SAC scores {without()}" if name == PANDA else verdict(losses)
        cells = [f"[{title}](models/{name}.md), {document['measure']}", scores, percent, needed]
        lines.append(f"| {' | '.join(cells)} |")
    live, constant, _ = (" / ".join(f"{share:.2f}" for share in shares) for shares in _go2_falls())
    return [*lines, f"| [Go2](models/go2-student.md), falls | {live} | falls {constant} | {_go2_cells()[-1]} |"]


def _go2_sets(name: str) -> dict[str, Any]:
    """Return the measurements of a policy's walks, by set."""
    sets: dict[str, Any] = json.loads((ROOT / "results" / "go2" / f"{name}.json").read_text(encoding="utf-8"))["sets"]
    return sets


def _go2_falls() -> list[list[float]]:
    """Return fractions of walks that end in a fall by set: live, constant context, and a student without memory."""
    policies = map(_go2_sets, ("live", "constant", "memoryless"))
    return [[float(np.mean(sets[task_set]["falls"])) for task_set in SETS] for sets in policies]


def _go2_cells() -> list[str]:
    """Return the row of the Go2, with fractions of falls, and a trained student without memory as baseline."""
    live, constant, memoryless = _go2_falls()
    score = " / ".join(f"{share:.2f}" for share in live) + " of the walks end in a fall (seed 8,000,009)"
    falls = [f"{blind:.2f} instead of {other:.2f} fall" for blind, other in zip(constant, live, strict=True)]
    listed = " / ".join(f"{share:.2f}" for share in memoryless)
    helpful = any(high < 1.0 for _, _, high in _go2_ratios().values())
    effect = "it helps" if helpful else "not shown"
    return [score, *falls, f"a student without memory, one seed: {listed}", f"{effect}: without memory {listed}"]


def _go2_ratios() -> dict[str, tuple[float, float, float]]:
    """Return the ratio of falls to those without memory, with 95 % intervals over pairs, in extreme and dead tasks."""
    from go2_walks import ratio_interval

    sets = [_go2_sets(name) for name in ("live", "memoryless")]
    ratios = {}
    for name in ("extreme", "dead"):
        policy, baseline = (np.array(of_policy[name]["falls"]) for of_policy in sets)
        ratios[name] = (float(policy.sum() / baseline.sum()), *ratio_interval(policy, baseline))
    return ratios


def study_baselines(model: str) -> tuple[str, str]:
    """Return, as text, the scores of a study's trained baselines on its primary set of tasks, and the conclusion."""
    from sami_train.studies.compare.estimates import welch

    study = STUDIES[model]
    groups = study.groups()
    titles = [title for title in BASELINES if title in groups]
    cells = [f"{BASELINES[title]} {study.mean(groups[title], study.primary)}" for title in titles]
    means = {title: groups[title].scores(study.primary).mean(axis=1) for title in titles}
    gains = {title: welch(means["TESAC"], means[title]) for title in MEMORIES if title in groups}
    followed = ", ".join(
        f"{'a gain' if (gain.low or 0.0) > 0.0 else 'no gain'} over {MEMORIES[title]}" for title, gain in gains.items()
    )
    seeds = " to ".join(map(str, sorted({len(groups[title].runs) for title in titles})))
    scores = f"{study.primary} {study.score} at {study.steps:,} steps, {seeds} seeds: {', '.join(cells)}"
    if model == PANDA:
        count, long = memoryless()
        scores += f"; at 550,000 steps, seeds: {count}, SAC {long}"
    return scores, f"TESAC shows {followed}"


def paired_baselines(model: str) -> tuple[str, str]:
    """Return, as text, the scores of one seed of each baseline, and the gains of the shipped file over them.

    All have the same budget and the same evaluation starts; the 95 % intervals are over starts, not over training.
    """
    shipped, baselines = ONE_SEED[model]
    live = scores_by_start(shipped)
    cells, gains = [], []
    for name, title in baselines.items():
        baseline = scores_by_start(name)
        digits = 3 if max(map(np.max, baseline.values())) <= 1.0 else 0
        cells.append(f"{title} {' / '.join(f'{baseline[of].mean():,.{digits}f}' for of in SETS)}")
        gains.append(f"over {title} {' / '.join(_paired(live[of] - baseline[of], digits) for of in SETS)}")
    return f"one seed: {', '.join(cells)}", f"gains {', '.join(gains)}"


def scores_by_start(name: str) -> dict[str, np.ndarray]:
    """Return the scores of an evaluation in `results/`, (starts,) by set: returns, or successes' means over tasks."""
    document: Any
    if ":" in name:
        (document,) = [run.evaluation for run in find_runs([ROOT / "results" / name])]
    else:
        document = json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))
    if "arms" in document:
        return {of: np.concatenate(document["arms"]["live"][of]) for of in SETS}
    tasks = {of: [task for task in document["tasks"] if task["task_set"] == of] for of in SETS}
    if "returns" in document["tasks"][0]:
        return {of: np.concatenate([task["returns"] for task in tasks[of]]) for of in SETS}
    return {of: np.mean([[*map(int, task["successes"])] for task in tasks[of]], axis=0) for of in SETS}


def _paired(gain: np.ndarray, digits: int = 3) -> str:
    """Return a mean gain over starts, with a 95 % bootstrap interval."""
    gains = gain[np.random.default_rng(0).integers(len(gain), size=(REPLICATES, len(gain)))].mean(axis=1)
    low, high = np.percentile(gains, [2.5, 97.5])
    return f"{gain.mean():,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}]"


def trained_baselines(model: str) -> tuple[str, str] | None:
    """Return the scores of trained baselines of a shipped file's robot, and the conclusion; None without baselines."""
    if model in ONE_SEED:
        return paired_baselines(model)
    return study_baselines(model) if model in STUDIES else None


def study_tables(study: Study) -> list[str]:
    """Return tables of a study's scores, of gains over methods without a context, and of headroom, in Markdown."""
    from sami_train.studies.compare.estimates import share_of_gap, welch

    groups = study.groups()
    means = {title: {name: group.scores(name).mean(axis=1) for name in SETS} for title, group in groups.items()}
    lines = ["| method | seeds | training | moderate | extreme |", "|---|---|---|---|---|"]
    for title, group in groups.items():
        lines.append(f"| {title} | {len(group.runs)} | {' | '.join(study.mean(group, name) for name in SETS)} |")
    for other in (title for title in MEMORIES if title in groups):
        lines += ["", f"| less {other} | training | moderate | extreme |", "|---|---|---|---|"]
        for title in groups:
            if title != other:
                differences = [welch(means[title][name], means[other][name]) for name in SETS]
                cells = (_interval(difference, study.digits) for difference in differences)
                lines.append(f"| {title} | {' | '.join(cells)} |")
    if "Oracle" not in groups:
        return lines
    lines += ["", "| share of the headroom closed | training | moderate | extreme |", "|---|---|---|---|"]
    for title in groups:
        if title not in ("SAC", "Oracle"):
            cells_of_title = []
            for name in SETS:
                headroom = welch(means["Oracle"][name], means["SAC"][name])
                has_headroom = headroom.low is not None and headroom.low > 0.0
                share = share_of_gap(means[title][name], means["SAC"][name], means["Oracle"][name])
                cells_of_title.append(_interval(share) if has_headroom else "no headroom shown")
            lines.append(f"| {title} | {' | '.join(cells_of_title)} |")
    return lines


def long_runs() -> list[Any]:
    """Return the runs of Panda with the shipped file's budget."""
    from sami_train.studies.compare.groups import read_runs

    return list(read_runs([ROOT / runs for runs in LONG_RUNS]))


def long_table() -> list[str]:
    """Return the score of each run of Panda with the shipped file's budget, in Markdown."""
    lines = ["| method | seed | training | moderate | extreme |", "|---|---|---|---|---|"]
    for run in long_runs():
        cells = [f"{run.scores(name).mean():.3f}" for name in SETS]
        lines.append(f"| {run.method.title} | {run.seed} | {' | '.join(cells)} |")
    lines += ["", "| less the shipped file | training | moderate | extreme |", "|---|---|---|---|"]
    (shipped,) = [run for run in long_runs() if "results/models" in run.address]
    for run in long_runs():
        if run.method.title == "SAC":
            lines.append(f"| SAC, seed {run.seed} | {' | '.join(_gain(run, shipped, name) for name in SETS)} |")
    return lines


def _gain(run: Any, other: Any, name: str) -> str:
    """Return the gain in success of a run over another on a set, with a 95 % bootstrap interval over starts."""
    policy, baseline = (
        np.array([[int(success) for success in task.successes] for task in item.evaluation.of(name)])
        for item in (run, other)
    )
    return _paired((policy - baseline).mean(axis=0))


def without() -> str:
    """Return, as text, the scores of the shipped Panda without a context with the final seed."""
    sets = json.loads((ROOT / LONG_RUNS[0] / "final.json").read_text(encoding="utf-8"))["sets"]
    return " / ".join(f"{sets[name]['success']:.3f}" for name in SETS)


def memoryless() -> tuple[int, str]:
    """Return the number of SAC's seeds with the shipped Panda's budget, and, as text, their mean scores."""
    runs = [run for run in long_runs() if run.method.title == "SAC"]
    means = [np.mean([run.scores(name).mean() for run in runs]) for name in SETS]
    return len(runs), " / ".join(f"{mean:.3f}" for mean in means)


def _interval(interval: Any, digits: int = 3) -> str:
    bounds = "" if interval.bounds is None else " [{:,.{d}f}, {:,.{d}f}]".format(*interval.bounds, d=digits)
    return f"{interval.value:,.{digits}f}{bounds}"


def card_line(document: Mapping[str, Any]) -> str:
    """Return the line about the context for a model's card."""
    losses = losses_of(document)
    percent = ", ".join(f"{loss} on {name} tasks" for name, loss in losses.items())
    text = (
        f"{SENTENCE}with the mean context instead of its own, the policy loses {percent} (95 % over starts, "
        f"{document['episodes']} episodes, final seed; `python benchmarks/need_a_context.py table`)."
    )
    answer = verdict(losses)
    if answer == "no":
        return f"{text} This robot does not need a context: the policy is robust, and not adaptive."
    answer = f"that it needs one is {answer}" if answer.startswith("not") else answer
    baseline = f"A policy that was trained without one is {NOT_MEASURED}."
    if baselines := trained_baselines(document["model"]):
        simpler = f" [`{WITHOUT}`]({WITHOUT}.md) has no context." if document["model"] == PANDA else ""
        baseline = f"Trained baselines, {baselines[0]}: {baselines[1]}.{simpler}"
    return f"{text} {answer[0].upper()}{answer[1:]}. {baseline}"


def go2_line() -> str:
    """Return the line for the Go2's card: a comparison with a student without memory of the same teacher and budget."""
    live, _, memoryless = (" / ".join(f"{share:.2f}" for share in shares) for shares in _go2_falls())
    shares = {name: f"{ratio:.2f} times [{low:.2f}, {high:.2f}]" for name, (ratio, low, high) in _go2_ratios().items()}
    return (
        f"{SENTENCE}a student of the same teacher and budget that was trained without memory falls in {memoryless} of "
        f"the training / moderate / extreme walks, this one in {live}: in extreme tasks {shares['extreme']} as often, "
        f"with a dead motor {shares['dead']} (one seed, 200 paired walks a set, 95 % over these; "
        "`python benchmarks/go2_walks.py table results/go2`)."
    )


def write_cards() -> None:
    """Write the line about the context into the card of each measured model and of the Go2, before the results."""
    lines = {document["model"]: card_line(document) for document in documents()} | {"go2-student": go2_line()}
    for name, line in lines.items():
        path = MODELS / f"{name}.md"
        text = re.sub(rf"^{re.escape(SENTENCE)}.*\n\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        start = re.search(r"^(Return|Success), ", text, re.MULTILINE)
        assert start is not None, path
        path.write_text(f"{text[: start.start()]}{line}\n\n{text[start.start() :]}", encoding="utf-8")


def main() -> None:
    """Parse the command line, and run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("measure")
    command.add_argument("names", nargs="+", help="shipped models")
    command.add_argument("--out", type=Path, default=MEASURED)
    command.add_argument("--episodes", type=int, default=50, help="in each task, or in each set, as `sami eval` counts")
    commands.add_parser("table")
    commands.add_parser("cards")
    options = parser.parse_args()
    if options.command == "measure":
        measure(options.names, options.out, options.episodes)
    elif options.command == "cards":
        write_cards()
    else:
        tables = [environments_table(), short_table(), *map(study_tables, STUDIES.values()), long_table()]
        print("\n\n".join("\n".join(table) for table in tables))


if __name__ == "__main__":
    main()
