"""A run's results, as studies, cards and reports read them: from its folder, or from its line in a study's file."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sami_runtime.errors import SamiError, in_shell
from sami_train.config.methods import Method, method
from sami_train.config.resolve import from_dict
from sami_train.config.schema import TrainConfig
from sami_train.config.weights import WEIGHTS_FILE, sha256_of
from sami_train.envs.catalog import by_name
from sami_train.files import read_json
from sami_train.runs.folder import RunError, RunFolder


class RealisedContrast(NamedTuple):
    """The contrastive loss of a run: means over the lines of its log."""

    bound: float | None
    """Mean of the estimator [nats]; None if no update found trajectories to compare."""
    log_k: float | None
    """log K [nats], the largest value that the bound can have."""
    share: float | None
    """Share of the updates that found trajectories to compare; None in old logs, which lack it."""
    averaged: bool
    """Whether each line of the log is a mean over many losses; in old logs it is the value of one loss."""
    ended: int | None = None
    """Environment step at which training dropped the loss because it taught nothing; None if it did not."""

    def __str__(self) -> str:
        if self.bound is None or self.log_k is None:
            return "nothing to compare"
        text = f"{self.bound:.2f} nats of {self.log_k:.2f}"
        if self.share is not None and self.share < 0.995:
            text += f", in {self.share:.0%} of attempts"
        return text + (f", ended after {self.ended:,} steps, as it taught nothing" if self.ended else "")


@dataclass(frozen=True)
class RunRecord:
    """The contents of a run's files: config.json, run.json (facts), evaluation.json or None, lines of metrics.jsonl."""

    folder: Path
    """The run folder; for a study's line a path beside the study's file with the run's name, which need not exist."""
    study: Path | None
    """The study's file, of which the run is a line; None where the folder was read."""
    config: dict[str, Any]
    facts: dict[str, Any]
    evaluation: dict[str, Any] | None
    metrics: list[dict[str, Any]]

    @classmethod
    def of_folder(cls, path: Path) -> RunRecord:
        """Read a run folder; raise RunError as `RunFolder.open` does, or if a file is damaged."""
        folder = RunFolder.open(path)
        try:
            evaluation = read_json(folder.evaluation) if folder.evaluation.is_file() else None
            config, facts = read_json(folder.run / "config.json"), folder.facts()
        except SamiError as error:
            raise RunError(str(error)) from error
        return cls(path, None, config, facts, evaluation, folder.rows())

    @property
    def name(self) -> str:
        """The name of the run: that of its folder, which a study's line repeats."""
        return self.folder.resolve().name if self.study is None else self.folder.name

    @property
    def address(self) -> str:
        """The run as command lines name it, see `sweep.study.find_runs`: its folder, or FILE:NAME."""
        return self.folder.as_posix() if self.study is None else f"{self.study.as_posix()}:{self.name}"

    @cached_property
    def method(self) -> Method:
        """The method, by the title that the run's model file has: that of a student is not its method's."""
        paper = method(self.config["method"])
        return replace(paper, title=str(self.facts.get("title", paper.title)))

    @property
    def contrast(self) -> RealisedContrast | None:
        """The contrastive loss of the run; None if it trained without one."""

        def mean(column: str) -> float | None:
            values = [row[column] for row in self.metrics if column in row]
            return float(np.mean(values)) if values else None

        share, k = mean("contrast/share"), mean("contrast/k")
        if share is not None:
            end_step = next((row["step"] for row in self.metrics if "contrast/ended" in row), None)
            log_k = None if k is None else float(np.log(k))
            return RealisedContrast(mean("contrast/bound"), log_k, share, True, end_step)
        bound = mean("train/contrast_bound")
        return None if bound is None else RealisedContrast(bound, mean("train/contrast_log_k"), None, False)

    @property
    def trained_in(self) -> str:
        """The folder that the run was trained in; a study's line may lie elsewhere."""
        words = list(self.facts.get("command", ())) if self.study else []
        paths = (words[at + 1] for at, word in enumerate(words[:-1]) if word in ("--out", "--resume"))
        return next(paths, self.name if self.study else self.address)

    def commands_before(self) -> list[str]:
        """Return the commands of the run that it began from; none if that is gone, or has other weights by now."""
        init = self.config.get("init", {})
        source = Path(init.get("source") or "no run")
        is_whole = all((source / name).is_file() for name in ("run.json", "config.json", WEIGHTS_FILE))
        if is_whole and sha256_of(source / WEIGHTS_FILE) == init["sha256"]:
            return RunRecord.of_folder(source).commands()
        return list(self.facts.get("before", ()))  # as a study's line keeps them

    def commands(self) -> list[str]:
        """Return the commands that made the run, oldest first: of its teacher, of the run it began from, its own."""
        option, teacher = by_name(str(self.config["env"])), self.facts.get("teacher")
        lines = self.commands_before()
        if teacher:
            lines.append(f"sami teach --out {in_shell(teacher['folder'])} --steps {teacher['steps']}{option}")
        lines.append(shlex.join(self.facts["command"]))
        for more in self.facts.get("extended", ()):
            resumed = f"sami train --resume {in_shell(self.trained_in)} --steps {more['to']}{option}"
            lines.append(f"{resumed}  # after {more['from']:,} steps")
        return lines

    def train_config(self) -> TrainConfig:
        """Return the resolved configuration; raise RunError if this version of sami does not accept it."""
        try:
            return from_dict(self.config)
        except SamiError as error:
            raise RunError(f"config.json of {self.address}: {error}") from error

    def how_to_evaluate(self, options: str = "") -> str:
        """Return the command that evaluates the run, with `options`; for a study's line, also `sami gather`."""
        options += by_name(str(self.config.get("env")))
        if self.study is None:
            return f"sami eval --run {in_shell(self.folder)}{options}"
        return (
            f"sami eval --run RUN{options}, where RUN is the folder that {self.name} was trained in, "
            f"and then sami gather RUN... --out {in_shell(self.study)} --force"
        )
