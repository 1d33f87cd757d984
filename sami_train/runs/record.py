"""What became of a run, as studies, cards and reports read it: from its folder, or from its line in a study's file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sami_runtime.errors import SamiError, in_shell
from sami_train.config.resolve import from_dict
from sami_train.config.schema import TrainConfig
from sami_train.envs.catalog import by_name
from sami_train.files import read_json
from sami_train.runs.folder import RunError, RunFolder


class RealisedContrast(NamedTuple):
    """What a run's contrastive loss reached; means over the lines of its log."""

    bound: float | None
    """Mean of the estimator [nats]; None where there was never anything to compare."""
    log_k: float | None
    """log K [nats], which no bound passes."""
    share: float | None
    """Share of the attempts that had something to compare; None in logs that do not tell it."""
    averaged: bool
    """Whether each line is a mean over many losses; of old logs it is a single one's."""
    ended: int | None = None
    """Environment steps after which it ended by itself, having taught nothing for long; None where it did not."""

    def __str__(self) -> str:
        if self.bound is None or self.log_k is None:
            return "nothing to compare"
        text = f"{self.bound:.2f} nats of {self.log_k:.2f}"
        if self.share is not None and self.share < 0.995:
            text += f", in {self.share:.0%} of attempts"
        return text + (f", ended after {self.ended:,} steps, as it taught nothing" if self.ended else "")


@dataclass(frozen=True)
class RunRecord:
    """What a run's files hold: config.json, run.json (facts), evaluation.json if it has one, lines of metrics.jsonl."""

    folder: Path
    """The run folder; of a line, the folder beside its file that has the run's name, there or not."""
    study: Path | None
    """The file that the run is a line of; None where the folder was read."""
    config: dict[str, Any]
    facts: dict[str, Any]
    evaluation: dict[str, Any] | None
    metrics: list[dict[str, Any]]

    @classmethod
    def of_folder(cls, path: Path) -> RunRecord:
        """Read a run folder; refuse one that `RunFolder.open` refuses, or of which a file is damaged."""
        folder = RunFolder.open(path)
        try:
            evaluation = read_json(folder.evaluation) if folder.evaluation.is_file() else None
            config, facts = read_json(folder.run / "config.json"), folder.facts()
        except SamiError as error:
            raise RunError(str(error)) from error
        return cls(path, None, config, facts, evaluation, folder.rows())

    @property
    def name(self) -> str:
        """The name of its folder, which is the run's in a study."""
        return self.folder.resolve().name if self.study is None else self.folder.name

    @property
    def address(self) -> str:
        """What finds the run again, see `study.find_runs`: its folder, or FILE:NAME."""
        return self.folder.as_posix() if self.study is None else f"{self.study.as_posix()}:{self.name}"

    @property
    def title_of_evaluation(self) -> str:
        """What a message calls the evaluation."""
        return f"{self.folder / 'evaluation.json'}" if self.study is None else f"the evaluation of {self.address}"

    @property
    def contrast(self) -> RealisedContrast | None:
        """What its contrastive loss reached; None where it had none."""

        def mean(column: str) -> float | None:
            values = [row[column] for row in self.metrics if column in row]
            return float(np.mean(values)) if values else None

        share, k = mean("contrast/share"), mean("contrast/k")
        if share is not None:
            ended = next((row["step"] for row in self.metrics if "contrast/ended" in row), None)
            log_k = None if k is None else float(np.log(k))
            return RealisedContrast(mean("contrast/bound"), log_k, share, True, ended)
        bound = mean("train/contrast_bound")
        return None if bound is None else RealisedContrast(bound, mean("train/contrast_log_k"), None, False)

    def train_config(self) -> TrainConfig:
        """Return the resolved configuration; refuse one of other versions of sami."""
        try:
            return from_dict(self.config)
        except SamiError as error:
            title = f"{self.folder / 'config.json'}" if self.study is None else f"the config of {self.address}"
            raise RunError(f"{title}: {error}") from error

    def how_to_evaluate(self, options: str = "") -> str:
        """Return the command that evaluates the run, with some options; of a study's line, also the gathering."""
        options += by_name(str(self.config.get("env")))
        if self.study is None:
            return f"sami eval --run {in_shell(self.folder)}{options}"
        return (
            f"sami eval --run RUN{options}, where RUN is the folder that {self.name} was trained in, "
            f"and then sami gather RUN... --out {in_shell(self.study)} --force"
        )
