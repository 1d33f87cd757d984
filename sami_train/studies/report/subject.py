"""The subject of a report: a model file or a run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sami_runtime.errors import SamiError
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.contract import Contract
from sami_train.config.weights import sha256_of
from sami_train.envs.catalog import environment
from sami_train.envs.spec import EnvironmentSpec
from sami_train.evaluation.model_policy import Source
from sami_train.evaluation.results import Evaluation
from sami_train.runs.folder import RunFolder
from sami_train.runs.record import RunRecord
from sami_train.studies.sweep.study import STUDY, find_runs


@dataclass(frozen=True)
class Subject:
    """A model file or a run, and the facts that its files record."""

    name: str
    """Short, and unique in a report, which stores the subject's parts in a folder of this name."""
    spec: EnvironmentSpec
    """The environment in which the report measures the subject."""
    method: str
    """Title of the method."""
    seed: int | None
    steps: int | None
    """Environment steps of the training."""
    evaluation: Evaluation | None
    """None if the files have no evaluation in this environment."""
    model: Path | None = None
    """None for a run."""
    contract: Contract | None = None
    """The model's contract; None for a run."""
    run: RunRecord | None = None
    """None for a model without its run."""

    @classmethod
    def of_model(cls, path: Path, spec: EnvironmentSpec) -> Subject:
        """Read a model file; ignore its evaluation if that is of another environment than `spec`.

        Raises:
            SamiError: the file is not valid.
        """
        contract = read_artifact(path).contract
        training = contract.training
        measured = contract.evaluation
        in_this_env = measured is not None and measured.get("env") == spec.name
        return cls(
            name=path.stem,
            spec=spec,
            method=str(training.get("method", "unknown method")),
            seed=training.get("seed"),
            steps=training.get("steps"),
            evaluation=Evaluation.from_dict(measured) if measured is not None and in_this_env else None,
            model=path,
            contract=contract,
        )

    @classmethod
    def of_run(cls, record: RunRecord) -> Subject:
        """Return the subject of a run.

        Raises:
            SamiError: this version cannot read the run's configuration or evaluation.
        """
        config = record.train_config()
        return cls(
            name=record.name,
            spec=environment(config.env),
            method=record.method.title,
            seed=config.seed,
            steps=record.facts.get("steps"),
            evaluation=None if record.evaluation is None else Evaluation.from_dict(record.evaluation),
            run=record,
        )

    def with_run(self, other: Subject) -> Subject | None:
        """Return this model joined with the run that it was exported from; None if `other` is another run."""
        same = (self.name, self.spec.name, self.method, self.seed, self.steps)
        if self.model is None or (other.name, other.spec.name, other.method, other.seed, other.steps) != same:
            return None
        return replace(self, run=other.run, evaluation=self.evaluation or other.evaluation)

    @property
    def _results(self) -> Path | None:
        """The folder `results` beside the folder of a shipped model; None for other models."""
        folder = None if self.model is None else self.model.resolve().parent.parent / "results"
        return folder if folder is not None and (folder / "models" / STUDY).is_file() else None

    @property
    def shipped_robustness(self) -> list[Path]:
        """Files of `sami robustness` about shipped models, in a checkout; empty elsewhere."""
        return [] if self._results is None else sorted(self._results.glob("*/robustness.json"))

    def with_shipped_run(self) -> Subject:
        """Return a shipped model joined with its run, if the checkout has one; return other models unchanged."""
        records = [] if self._results is None else find_runs([self._results / "models"])
        runs = (self.with_run(Subject.of_run(record)) for record in records if record.name == self.name)
        return next((joined for joined in runs if joined is not None), self)

    @property
    def weights(self) -> str:
        """SHA-256 that identifies the policy of stored parts: the model's weights or the agent's file; else empty."""
        if self.contract is not None:
            return self.contract.weights_sha256
        return "" if self._agent is None else sha256_of(self._agent)

    @property
    def _agent(self) -> Path | None:
        """The file of the run's agent; None if only the run's results are stored."""
        if self.run is None or self.run.study is not None:
            return None
        path = RunFolder(self.run.folder).agent
        return path if path.is_file() else None

    def source(self) -> Source | None:
        """Return the policy: the model file or the run's weights; None if only the run's results are stored."""
        if self.model is not None:
            return self.model
        if self.run is None or self._agent is None:
            return None
        from sami_train.runs.train import load_agent  # torch, which a model file does not need

        return load_agent(RunFolder(self.run.folder)).policy.numpy_weights()

    def training(self) -> dict[str, Any]:
        """Return the provenance of the subject, as rows of a table."""
        command = "" if self.run is None else shlex.join(self.run.facts.get("command", ()))
        if self.contract is not None:
            facts = self.contract.training
        else:
            assert self.run is not None
            facts = {**self.run.facts, **self.run.facts.get("git", {})}
        return {
            "method": self.method,
            "environment": self.spec.name,
            "seed": self.seed,
            "environment steps": self.steps,
            "preset": facts.get("preset") or (self.run.config.get("preset") if self.run else None),
            "commit": f"{facts.get('commit', 'unknown')}{', with local changes' if facts.get('dirty') else ''}",
            "trained by": command,
            "trained with": ", ".join(f"{name} {number}" for name, number in facts.get("versions", {}).items()),
            "model file": "" if self.model is None else self.model.name,
            "SHA-256 of the file": "" if self.model is None else sha256_of(self.model),
            "SHA-256 of the weights": self.weights,
            "kept in": "" if self.run is None else self.run.address,
        }


def merged(subjects: Sequence[Subject]) -> list[Subject]:
    """Return the subjects, each model joined with its run if that is a subject, too, or is in the checkout."""
    models = [subject.with_shipped_run() for subject in subjects if subject.model is not None]
    runs = [subject for subject in subjects if subject.model is None]
    joined: list[Subject] = []
    for model in models:
        match = next((run for run in runs if model.with_run(run) is not None), None)
        joined.append(model if match is None else model.with_run(match) or model)
        runs = [run for run in runs if run is not match]
    return joined + runs


def require_alike(subjects: Sequence[Subject]) -> None:
    """Check that the subjects can be in one report.

    Raises:
        SamiError: the subjects are of different environments, or two have the same name.
    """
    first = subjects[0]
    for number, subject in enumerate(subjects):
        if subject.spec.name != first.spec.name:
            raise SamiError(
                f"{first.name} is of environment {first.spec.name!r}, {subject.name} of {subject.spec.name!r}; make a "
                "report of one environment at a time."
            )
        if subject.name in [other.name for other in subjects[:number]]:
            raise SamiError(f"two of what is reported are named {subject.name}; rename one, or leave it out.")
