"""Results of an evaluation, by task and by task set."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sami_runtime.errors import SamiError
from sami_runtime.gap.profile import GapProfile
from sami_train import seeds
from sami_train.envs.catalog import environment
from sami_train.envs.measure import RETURN, SUCCESS, Measure, finite
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task


@dataclass(frozen=True)
class TaskResult:
    """Result of a policy in one task."""

    task_set: str
    task: Task
    episodes: int
    steps: float
    """Mean length of an episode, in steps."""
    success: float = 0.0
    """Share of successful episodes; 0 if policies are judged by return."""
    solved_at_start: float = 0.0
    """Share of episodes that started at the goal: the do-nothing baseline."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Shares of episodes with the environment's outcomes, by column, see `EnvironmentSpec.outcomes`."""
    skills: Mapping[str, float] = field(default_factory=dict)
    """Shares of episodes by the skill that they are named after (`episode_skill`), at most 1 together; empty if the
    environment labels no skills, and in older files."""
    ret: float | None = None
    """Mean return; None in older files."""
    returns: tuple[float, ...] = ()
    """Return of each episode, if policies are judged by return."""
    successes: tuple[bool, ...] = ()
    """Whether each episode succeeded, if policies are judged by success; the k-th episodes of all tasks have one start.
    Empty in older files."""
    metrics: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The environment's metrics of each episode, by name, see `EnvironmentSpec.metrics`."""

    @property
    def nontrivial_success(self) -> float:
        """Share of successes among episodes that did not start at the goal; NaN if all did."""
        if self.solved_at_start == 1.0:
            return math.nan
        return (self.success - self.solved_at_start) / (1.0 - self.solved_at_start)

    def row(self, measure: Measure) -> dict[str, Any]:
        """Return the result as plain values; which ones, depends on the measure. Each outcome is a column."""
        first = {"task_set": self.task_set, "task": dict(self.task), "episodes": self.episodes}
        last: dict[str, Any] = {"steps": self.steps, "ret": self.ret}
        if self.metrics:
            last["metrics"] = {name: list(values) for name, values in self.metrics.items()}
        if measure is not SUCCESS:
            return {**first, **last, "returns": self.returns}
        shares = {"success": self.success, "solved_at_start": self.solved_at_start, **self.shares}
        outcomes = {"successes": "".join("01"[success] for success in self.successes)} if self.successes else {}
        skills = {"skills": dict(self.skills)} if self.skills else {}
        return {**first, **shares, **last, "above_floor": finite(self.nontrivial_success), **skills, **outcomes}

    @classmethod
    def from_row(cls, row: Mapping[str, Any], spec: EnvironmentSpec) -> TaskResult:
        """Return the result that `row` wrote.

        Raises:
            KeyError, TypeError: a value is missing, or of a wrong type.
        """
        values: dict[str, Any] = {name: row[name] for name in ("task_set", "task", "episodes", "steps")}
        if spec.measure is SUCCESS:
            values |= {name: row[name] for name in ("success", "solved_at_start")}
            values["shares"] = {column: row[column] for column in spec.outcomes}
            values["skills"] = dict(row.get("skills", {}))
            values["successes"] = tuple(digit == "1" for digit in row.get("successes", ""))
        else:
            values["returns"] = tuple(row["returns"])
        values["metrics"] = {name: tuple(map(float, of)) for name, of in row.get("metrics", {}).items()}
        result = cls(**values, ret=row.get("ret"))
        numbers = [result.steps, result.success, result.solved_at_start, result.ret or 0.0, *result.shares.values()]
        numbers += [*result.skills.values(), *result.returns]
        if not (isinstance(result.task_set, str) and isinstance(result.task, Mapping) and type(result.episodes) is int):
            raise TypeError(
                f"a task: it has {result.episodes!r:.40} episodes in {result.task!r:.40} of {result.task_set!r:.40}"
            )
        if not all(type(number) is float or (type(number) is int and abs(number) < 2**63) for number in numbers):
            raise TypeError("numbers: there is something else")
        return result


OnTask = Callable[[TaskResult], None]


@dataclass(frozen=True)
class Evaluation:
    """Results of one policy over tasks."""

    env: str
    results: tuple[TaskResult, ...]
    gap: GapProfile | None = None
    """The sim-to-real profile, or None."""
    engine: str | None = None
    """Physics engine, see `EnvironmentSpec.engine`; None in older files."""
    seed: int = seeds.EVALUATION
    """Seed of the starts; older files, which lack it, have the default."""

    @property
    def measure(self) -> Measure:
        """How policies are judged: by success or by return."""
        return environment(self.env).measure

    @property
    def seed_name(self) -> str:
        """The purpose of the seed, in words: `development seed` or `final seed`."""
        return f"{seeds.EVALUATION_NAMES.get(self.seed, self.seed)} seed"

    def of(self, task_set: str) -> list[TaskResult]:
        """Return the results of one task set."""
        return [result for result in self.results if result.task_set == task_set]

    @property
    def sets(self) -> list[str]:
        """Names of the evaluated task sets, in order."""
        return list(dict.fromkeys(result.task_set for result in self.results))

    def score(self, task_set: str) -> float:
        """Return a set's success or return, by the measure."""
        return self.success(task_set) if self.measure is SUCCESS else self.ret(task_set)

    def success(self, task_set: str) -> float:
        """Return the mean success over a set's tasks."""
        return float(np.mean([result.success for result in self.of(task_set)]))

    def nontrivial_success(self, task_set: str) -> float:
        """Return the mean of `TaskResult.nontrivial_success` over the set's tasks that have one; NaN if none has."""
        defined = [value for result in self.of(task_set) if not math.isnan(value := result.nontrivial_success)]
        return float(np.mean(defined)) if defined else math.nan

    def ret(self, task_set: str) -> float:
        """Return the mean return: over a set's episodes if the measure is the return, else over its tasks; or NaN."""
        if self.measure is RETURN:
            return float(self.returns(task_set).mean())
        return float(np.mean([np.nan if result.ret is None else result.ret for result in self.of(task_set)]))

    def returns(self, task_set: str) -> np.ndarray:
        """Return the return of each episode of a set, (episodes,), task by task; empty if the measure is success."""
        return np.array([value for result in self.of(task_set) for value in result.returns])

    def ret_std(self, task_set: str) -> float | None:
        """Return the standard deviation of a set's returns over its episodes; None for a single one."""
        returns = self.returns(task_set)
        return float(returns.std(ddof=1)) if len(returns) > 1 else None

    def ret_error(self, task_set: str) -> float | None:
        """Return the standard error of a set's mean return over starts, for these tasks; None for one episode.

        It follows from the variance within each task. If a task has a single episode, the tasks are a sample of the
        set, and the error follows from the variance over all episodes.
        """
        tasks = [np.array(result.returns) for result in self.of(task_set)]
        if all(len(returns) > 1 for returns in tasks):
            spread = sum(len(returns) * float(returns.var(ddof=1)) for returns in tasks)
            return math.sqrt(spread) / len(self.returns(task_set))
        std = self.ret_std(task_set)
        return None if std is None else std / math.sqrt(len(self.returns(task_set)))

    def metrics(self, task_set: str) -> dict[str, float]:
        """Return the mean of each metric over a set's episodes, by name; empty without metrics."""
        results = [result for result in self.of(task_set) if result.metrics]
        names = results[0].metrics if results else ()
        return {name: float(np.mean([value for result in results for value in result.metrics[name]])) for name in names}

    def summary(self, task_set: str) -> dict[str, float | None]:
        """Return a set's summary: success, or the return with standard deviation and standard error; and metrics."""
        metrics = self.metrics(task_set)
        if self.measure is RETURN:
            return {
                **metrics,
                "ret": self.ret(task_set),
                "ret_std": self.ret_std(task_set),
                "ret_error": self.ret_error(task_set),
                "episodes": len(self.returns(task_set)),
            }
        ret = {} if np.isnan(self.ret(task_set)) else {"ret": self.ret(task_set)}
        success = {"success": self.success(task_set), "above_floor": finite(self.nontrivial_success(task_set))}
        return {**success, **ret, **metrics}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "env": self.env,
            "seed": self.seed,
            **({} if self.engine is None else {"engine": self.engine}),
            **({} if self.gap is None else {"gap": self.gap.dumps()}),
            "sets": {name: self.summary(name) for name in self.sets},
            "tasks": [result.row(self.measure) for result in self.results],
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any], name: str = "the evaluation") -> Evaluation:
        """Return the evaluation that `to_dict` wrote; errors call it `name`.

        Raises:
            SamiError: a value is missing or invalid.
        """
        try:
            rows, env, seed = values["tasks"], values["env"], values.get("seed", cls.seed)
            spec = environment(env)
            gap = GapProfile.loads(values["gap"]) if "gap" in values else None
            return cls(env, tuple(TaskResult.from_row(row, spec) for row in rows), gap, values.get("engine"), seed)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SamiError(f"{name} lacks {error}; measure again with: sami eval --run RUN.") from error
