"""The run folder: everything that one training leaves behind.

config.json       the resolved configuration
run.json          versions, git state, machine, state of the run (running, stopped, finished)
metrics.jsonl     one line of numbers for each stretch of the run
tensorboard/      the same for TensorBoard
checkpoints/N/    agent.zip, weights.safetensors and buffer.npz after N environment steps; complete or absent
agent.zip         the trained agent, once the run has finished
weights.safetensors    its weights, which --init starts from
evaluation.json   success or returns by task, once `sami eval` has run
lock              held by the process that trains here
"""

from __future__ import annotations

import itertools
import platform
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sami_runtime.distribution import installed_version
from sami_runtime.errors import SamiError, in_shell
from sami_train.config.resolve import from_dict
from sami_train.config.schema import TrainConfig
from sami_train.config.weights import WEIGHTS_FILE, write_weights
from sami_train.files import holder, locked, read_json, read_json_lines, remove, unfinished, write_json, writing
from sami_train.machine import usable_cores

RUN_VERSION = 1
PACKAGES = (
    *("sami", "torch", "stable-baselines3", "gymnasium", "panda-gym", "pybullet", "mujoco", "numpy", "onnx"),
    "onnxruntime",
)
LOCK = "lock"
BUFFERS_KEPT = 2
"""Newest checkpoints that keep their buffers, which are large: a run resumes from the newest, or, where that was
damaged since, from the one before."""


class RunError(SamiError):
    """A run folder that is missing, incomplete, in use or of another version."""


class RunFolder:
    """One run's folder, see `create` and `open`; or that of one of its checkpoints, to evaluate and export it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        where = path.absolute()
        self.checkpointed = int(where.name) if where.parent.name == "checkpoints" and where.name.isdigit() else None
        """Steps of the checkpoint that it is; None for a run."""
        self.run = path if self.checkpointed is None else where.parents[1]
        """The run's folder."""
        self.metrics = self.run / "metrics.jsonl"
        self.evaluation = path / "evaluation.json"
        """Of the newest agent."""
        self.agent = path / "agent.zip"
        self.weights = path / WEIGHTS_FILE

    @classmethod
    def create(cls, path: Path, config: TrainConfig, command: list[str]) -> RunFolder:
        """Make a new run folder; refuse a path where something is already, or where another process trains."""
        run = cls(path)
        run._refuse_taken()
        facts = {
            "version": RUN_VERSION,
            "state": "running",
            "command": command,
            "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "versions": versions(),
            "git": git_state(),
            "machine": {"cpus": usable_cores(), "processor": platform.processor() or platform.machine()},
            "seconds": 0.0,
        }
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
        with run.locked():
            run._refuse_taken()  # by one that began at the same time
            write_json(path / "run.json", facts)
            try:
                write_json(path / "config.json", config.to_dict())
            except SamiError:
                (path / "run.json").unlink()  # an empty folder is in nobody's way
                raise
        return run

    def _refuse_taken(self) -> None:
        path = self.path
        if path.exists() and (not path.is_dir() or any(entry.name != LOCK for entry in path.iterdir())):
            if by := holder(path / LOCK):
                raise self._busy(by)
            hint = "go on with it by --resume, or" if self.newest_checkpoint() else "please"
            raise RunError(f"{path} exists and is not empty; {hint} choose another --out.")

    def _busy(self, by: str) -> RunError:
        return RunError(f"{self.path} is in use by {by}; wait for it to end, or stop it.")

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open an existing run folder; refuse one of another version."""
        if not path.is_dir():
            raise RunError(f"there is no run folder {path}; `sami train --out {in_shell(path)}` makes one.")
        for name in ("run.json", "config.json"):
            if not (cls(path).run / name).is_file():
                raise RunError(
                    f"{path} has no {name}: it is no run folder, or its making was cut off. "
                    "Train again with a new --out."
                )
        run = cls(path)
        check_version(path, run.facts())
        return run

    def config(self) -> TrainConfig:
        """Return the resolved configuration."""
        return from_dict(read_json(self.run / "config.json"))

    def facts(self) -> dict[str, Any]:
        """Return what run.json holds; of a checkpoint, with the seconds until then."""
        facts = read_json(self.run / "run.json")
        if self.checkpointed is not None:
            seconds = [0.0, *(row["time/seconds"] for row in self.rows())][-1]
            facts |= {"steps": self.checkpointed, "seconds": seconds}
        return facts

    def rows(self) -> list[dict[str, Any]]:
        """Return the lines of metrics; of a checkpoint, those until then."""
        rows = read_metrics(self.metrics)
        return rows if self.checkpointed is None else [row for row in rows if row["step"] <= self.checkpointed]

    def update(self, **facts: Any) -> None:
        """Change some of run.json's facts."""
        write_json(self.path / "run.json", {**self.facts(), **facts})

    def keep_evaluation(self, result: dict[str, Any], agent_steps: int) -> None:
        """Write the evaluation of all task sets, beside the steps that its agent had trained for."""
        write_json(self.evaluation, result | {"agent_steps": agent_steps})

    def finish(self, agent: Any) -> None:
        """Write the trained agent: a last checkpoint, which more steps could go on from, and the agent itself."""
        self.checkpoint(agent.num_timesteps, agent)
        with unfinished(self.weights) as beside:
            write_weights(beside, agent.weights())
        with unfinished(self.agent) as beside:
            agent.save(beside)

    def reopen(self, config: TrainConfig) -> None:
        """Make a finished run an unfinished one with another configuration; what was measured of it goes."""
        from sami_train.evaluation.kept import discard_all  # simulators, which readers of a run need not have

        for path in (self.evaluation, self.weights, self.agent):
            path.unlink(missing_ok=True)
        discard_all(self.evaluation)
        write_json(self.path / "config.json", config.to_dict())  # last: with its agent, it would be finished

    def newest_agent(self) -> Path:
        """Return the trained agent, or the newest checkpoint's."""
        if self.agent.is_file():
            return self.agent
        checkpoint = self.newest_checkpoint()
        if checkpoint is None:
            config, rows = self.config(), read_metrics(self.metrics)
            step, first = rows[-1]["step"] if rows else 0, min(config.checkpoint_every, config.steps)
            raise RunError(
                f"{self.path} holds no agent and no checkpoint yet: it has logged {step:,} of "
                f"{config.steps:,} steps. While it trains, wait for step {first:,}, "
                f"its first checkpoint, and see its progress in {self.metrics}; if it was cut off, train again with a "
                "new --out."
            )
        return checkpoint / "agent.zip"

    def locked(self) -> AbstractContextManager[None]:
        """Keep other processes from training in this folder, or say which one does."""
        return locked(self.path / LOCK, self._busy)

    def newest_checkpoint(self) -> Path | None:
        """Return the checkpoint with the most steps; None where there is none."""
        return next(iter(self.checkpoints()), None)

    def checkpoints(self) -> list[Path]:
        """Return all checkpoints, that with the most steps first."""
        folder = self.path / "checkpoints"
        complete = [p for p in folder.iterdir() if p.name.isdigit()] if folder.is_dir() else []
        return sorted(complete, key=lambda p: int(p.name), reverse=True)

    def clear(self) -> None:
        """Remove what a killed process was writing; for whoever holds the lock."""
        for folder in (self.path, self.path / "checkpoints"):
            for path in folder.glob("*.unfinished"):
                if not path.name.startswith(self.evaluation.name):  # which is measured under a lock of its own
                    remove(path)

    def newest_whole_checkpoint(self) -> Path | None:
        """Return the newest checkpoint of which no bit is damaged, if there is any; for whoever holds the lock.

        Those after it are set aside as N.damaged; where all are damaged, the run is refused.
        """
        damaged: dict[Path, str] = {}
        for checkpoint in self.checkpoints():
            if damage := _damage(checkpoint):
                damaged[checkpoint] = f"{checkpoint}/{damage}"
                continue
            for other, reason in damaged.items():
                print(f"{reason}. It is set aside; the run goes on from {checkpoint.name} steps.", file=sys.stderr)
                other.replace(other.with_name(f"{other.name}.damaged"))
            return checkpoint
        if damaged:
            raise RunError(f"{'; '.join(damaged.values())}. None is left to resume from: train again with a new --out.")
        return None

    def checkpoint(self, steps: int, agent: Any) -> Path:
        """Write a checkpoint of a `ContextSAC` after so many environment steps.

        It appears under its name only once it is complete; older buffers go, but for the last.
        """
        folder = self.path / "checkpoints"
        target = folder / str(steps)
        with writing(folder):
            folder.mkdir(exist_ok=True)
        with unfinished(target) as beside:
            beside.mkdir()
            agent.save(beside / "agent.zip")
            write_weights(beside / WEIGHTS_FILE, agent.weights())
            agent.make_buffer().save(beside / "buffer.npz")
        for other in self.checkpoints()[BUFFERS_KEPT:]:
            (other / "buffer.npz").unlink(missing_ok=True)
        return target


def _damage(checkpoint: Path) -> str:
    """Return what of a checkpoint is damaged, by the sums in its zip files; empty where nothing is."""
    from sami_train.agent.context_sac import read_agent  # torch, which readers of a run need not have

    for name in ("agent.zip", "buffer.npz"):
        path = checkpoint / name
        if name == "buffer.npz" and not path.exists():
            continue
        try:
            with zipfile.ZipFile(path) as file:
                for member in file.infolist():
                    if member.compress_type != zipfile.ZIP_STORED:
                        raise ValueError(f"{member.filename} is packed, which no run does")
                if wrong := file.testzip():
                    raise ValueError(f"{wrong} is not what was written")
            if name == "agent.zip":
                read_agent(path)
        except Exception as error:  # zipfile has one of its own for each bit that can be wrong
            return f"{name} cannot be loaded: {error or type(error).__name__}"
    return ""


def check_version(run: Path | str, facts: Mapping[str, Any]) -> None:
    """Refuse facts, as run.json holds them, of another version; `run` is what a message calls the run."""
    version = facts.get("version")
    if version != RUN_VERSION:
        raise RunError(f"{run} is of run version {version}; this sami reads version {RUN_VERSION}.")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a result depends on."""
    installed = {package: version for package in PACKAGES if (version := installed_version(package)) is not None}
    return {"python": platform.python_version(), **installed}


def git_state() -> dict[str, Any]:
    """Commit of the checkout that this package runs from, and whether it has changes; empty outside one."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        result = subprocess.run(["git", "-C", str(here), *arguments], capture_output=True, text=True, check=True)
        return result.stdout.strip()

    try:
        # An installed copy may lie inside some other repository; only files that git knows are a checkout.
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return {}


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a metrics file up to the first that no run wrote whole: numbers by name, and their `step`."""
    return list(itertools.takewhile(is_line, read_json_lines(path)))


def is_line(row: Any) -> bool:
    """Whether a value is a line of metrics."""
    if not isinstance(row, dict) or type(row.get("step")) is not int:
        return False
    return all(
        value is None or type(value) is float or (type(value) is int and abs(value) < 2**63) for value in row.values()
    )
