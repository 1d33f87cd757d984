"""What a run tells once it is over, as plain data: the same whether its folder was read or a line of a study."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sami_runtime.errors import SamiError
from sami_train.config.resolve import from_dict
from sami_train.config.schema import TrainConfig
from sami_train.machine.files import read_json, read_json_lines
from sami_train.runs.folder import RunError, RunFolder


@dataclass(frozen=True)
class RunRecord:
    """A run's configuration, facts, metrics and evaluation."""

    folder: Path
    """The run folder; of a line, the folder beside its file that has the run's name, there or not."""
    study: Path | None
    """The file that the run is a line of; None where the folder was read."""
    config: dict[str, Any]
    """What config.json holds."""
    facts: dict[str, Any]
    """What run.json holds."""
    evaluation: dict[str, Any] | None
    """What evaluation.json holds; None where the run has none."""
    metrics: list[dict[str, Any]]
    """The lines of metrics.jsonl."""

    @classmethod
    def of_folder(cls, path: Path) -> RunRecord:
        """Read a run folder.

        Raises:
            RunError: it is none, of another version, or a file of it is damaged.
        """
        folder = RunFolder.open(path)
        try:
            evaluation = read_json(folder.evaluation) if folder.evaluation.is_file() else None
            config, facts = read_json(path / "config.json"), folder.facts()
        except SamiError as error:
            raise RunError(str(error)) from error
        return cls(path, None, config, facts, evaluation, read_json_lines(folder.metrics))

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

    def train_config(self) -> TrainConfig:
        """Return the resolved configuration.

        Raises:
            RunError: it is not one of this version of sami.
        """
        try:
            return from_dict(self.config)
        except SamiError as error:
            title = f"{self.folder / 'config.json'}" if self.study is None else f"the config of {self.address}"
            raise RunError(f"{title}: {error}") from error

    def how_to_evaluate(self, options: str = "") -> str:
        """Return the command that evaluates the run, with some options; of a line, also what brings it there."""
        if self.study is None:
            return f"sami eval --run {self.folder}{options}"
        return (
            f"sami eval --run RUN{options}, where RUN is the folder that {self.name} was trained in, "
            f"and then sami gather RUN... --out {self.study} --force"
        )
