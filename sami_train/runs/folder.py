"""The run folder: all files of one training run.

config.json       the resolved configuration
run.json          versions, git state, machine, state of the run (running, stopped, failed, finished)
metrics.jsonl     a line of training metrics every 10,000 environment steps
tensorboard/      the same metrics for TensorBoard
checkpoints/N/    agent.zip, weights.safetensors and buffer.npz after N environment steps; complete or absent
agent.zip         the trained agent, once the run has finished
weights.safetensors    the trained agent's weights, which --init can start from
evaluation.json   success or returns by task, once `sami eval` has run
lock              held by the process that trains in this folder
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
from sami_train.envs.catalog import environment
from sami_train.files import holder, locked, make_folder, read_json, read_json_lines, remove, unfinished, write_json
from sami_train.machine import usable_cores

RUN_VERSION = 1
PACKAGES = (
    *("sami", "torch", "stable-baselines3", "gymnasium", "panda-gym", "pybullet", "mujoco", "numpy", "onnx"),
    "onnxruntime",
)
LOCK = "lock"
BUFFERS_KEPT = 2
"""How many of the newest checkpoints keep their (large) buffers: a run resumes from the newest, or from the one before
if the newest is damaged."""


class RunError(SamiError):
    """A run that cannot be used: its folder is missing, taken, incomplete or of another version, or training failed."""


class RunFolder:
    """The folder of a run (see `create` and `open`), or of one of its checkpoints, to evaluate and export it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        where = path.absolute()
        self.checkpointed = int(where.name) if where.parent.name == "checkpoints" and where.name.isdigit() else None
        """Environment steps of the checkpoint, if `path` is one; None for a run."""
        self.run = path if self.checkpointed is None else where.parents[1]
        """The run's folder, also if `path` is one of its checkpoints."""
        self.metrics = self.run / "metrics.jsonl"
        self.evaluation = path / "evaluation.json"
        """The evaluation of the newest agent."""
        self.agent = path / "agent.zip"
        self.weights = path / WEIGHTS_FILE

    @classmethod
    def create(cls, path: Path, config: TrainConfig, command: list[str]) -> RunFolder:
        """Create a run folder; raise RunError if the path exists and is not empty, or another process trains in it."""
        run = cls(path)
        run._refuse_existing()
        facts = {
            "version": RUN_VERSION,
            "state": "running",
            "command": command,
            "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "versions": versions(),
            "git": git_state(),
            "machine": {"cpus": usable_cores(), "processor": platform.processor() or platform.machine()},
            "numbers": environment(config.env).numbers,
            "seconds": 0.0,
        }
        make_folder(path)
        with run.locked():
            run._refuse_existing()  # another process may have created it since
            write_json(path / "run.json", facts)
            try:
                write_json(path / "config.json", config.to_dict())
            except SamiError:
                (path / "run.json").unlink()  # so that the same --out works next time
                raise
        return run

    def _refuse_existing(self) -> None:
        path = self.path
        if path.exists() and (not path.is_dir() or any(entry.name != LOCK for entry in path.iterdir())):
            if by := holder(path / LOCK):
                raise self._busy(by)
            hint = "Resume it with --resume, or choose" if self.newest_checkpoint() else "Choose"
            raise RunError(f"{path} exists and is not empty; no run folder is replaced. {hint} another --out.")

    def _busy(self, by: str) -> RunError:
        return RunError(f"{self.path} is in use by {by}; wait for it to end, or stop it.")

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open an existing run folder; raise RunError if it is missing, incomplete or of another version."""
        if not path.is_dir():
            raise RunError(f"there is no run folder {path}; `sami train --out {in_shell(path)}` makes one.")
        for name in ("run.json", "config.json"):
            if not (cls(path).run / name).is_file():
                advice = "it is not a run folder, or its creation was interrupted. Train again with a new --out."
                if (path / "teacher.safetensors").is_file():
                    advice = f"it is a teacher. Distil it: sami distil --teacher {in_shell(path)}"
                raise RunError(f"{path} has no {name}: {advice}")
        run = cls(path)
        check_version(path, run.facts())
        return run

    def config(self) -> TrainConfig:
        """Return the resolved configuration."""
        return from_dict(read_json(self.run / "config.json"))

    def facts(self) -> dict[str, Any]:
        """Return the contents of run.json; of a checkpoint, with the steps and seconds up to it."""
        facts = read_json(self.run / "run.json")
        if self.checkpointed is not None:
            seconds = [0.0, *(row["time/seconds"] for row in self.rows())][-1]
            facts |= {"steps": self.checkpointed, "seconds": seconds}
        return facts

    def rows(self) -> list[dict[str, Any]]:
        """Return the lines of metrics; of a checkpoint, the lines up to it."""
        rows = read_metrics(self.metrics)
        return rows if self.checkpointed is None else [row for row in rows if row["step"] <= self.checkpointed]

    def update(self, **facts: Any) -> None:
        """Set these entries of run.json; the others stay."""
        write_json(self.path / "run.json", {**self.facts(), **facts})

    def keep_evaluation(self, result: dict[str, Any], agent_steps: int) -> None:
        """Write the evaluation of all task sets, with the environment steps that its agent was trained for."""
        write_json(self.evaluation, result | {"agent_steps": agent_steps})

    def finish(self, agent: Any) -> None:
        """Write the trained agent: a last checkpoint, from which the run can be extended, weights, and agent.zip."""
        self.checkpoint(agent.num_timesteps, agent)
        with unfinished(self.weights) as temporary:
            write_weights(temporary, agent.weights())
        with unfinished(self.agent) as temporary:
            agent.save(temporary)

    def reopen(self, config: TrainConfig) -> None:
        """Make a finished run unfinished, with another configuration; delete its agent and its evaluations."""
        from sami_train.evaluation.result_store import discard_all  # needs simulators; reading a run does not

        for path in (self.evaluation, self.weights, self.agent):
            path.unlink(missing_ok=True)
        discard_all(self.evaluation)
        write_json(self.path / "config.json", config.to_dict())  # last: a run with an agent.zip counts as finished

    def newest_agent(self) -> Path:
        """Return the path of the trained agent, or of the newest checkpoint's; raise RunError if there is neither."""
        if self.agent.is_file():
            return self.agent
        checkpoint = self.newest_checkpoint()
        if checkpoint is None:
            config, rows = self.config(), read_metrics(self.metrics)
            step, first = rows[-1]["step"] if rows else 0, min(config.checkpoint_every, config.steps)
            raise RunError(
                f"{self.path} holds no agent and no checkpoint yet: it has logged {step:,} of {config.steps:,} steps. "
                f"While it trains, wait for step {first:,}, its first checkpoint, and see its progress in "
                f"{self.metrics}; if it was cut off, train again with a new --out."
            )
        return checkpoint / "agent.zip"

    def locked(self) -> AbstractContextManager[None]:
        """Keep other processes from training in this folder; raise RunError, with its name, if one already does."""
        return locked(self.path / LOCK, self._busy)

    def newest_checkpoint(self) -> Path | None:
        """Return the checkpoint with the most steps; None if there is no checkpoint."""
        return next(iter(self.checkpoints()), None)

    def checkpoints(self) -> list[Path]:
        """Return all checkpoints, the one with the most steps first."""
        complete = [p for p in (self.path / "checkpoints").glob("*") if p.name.isdigit()]
        return sorted(complete, key=lambda p: int(p.name), reverse=True)

    def clear(self) -> None:
        """Remove the unfinished files of a killed process; the caller must hold the lock."""
        for folder in (self.path, self.path / "checkpoints"):
            for path in folder.glob("*.unfinished"):
                if not path.name.startswith(self.evaluation.name):  # `sami eval` may be writing it, under another lock
                    remove(path)

    def newest_whole_checkpoint(self) -> Path | None:
        """Return the newest undamaged checkpoint; None if the run has no checkpoint. The caller must hold the lock.

        Newer, damaged checkpoints are renamed to N.damaged; if all are damaged, RunError is raised.
        """
        damaged: dict[Path, str] = {}
        for checkpoint in self.checkpoints():
            if damage := _damage(checkpoint):
                damaged[checkpoint] = f"{checkpoint}/{damage}"
                continue
            for other, reason in damaged.items():
                print(f"{reason}. It is set aside; the run resumes at {checkpoint.name} steps.", file=sys.stderr)
                other.replace(other.with_name(f"{other.name}.damaged"))
            return checkpoint
        if damaged:
            raise RunError(f"{'; '.join(damaged.values())}. None is left to resume from: train again with a new --out.")
        return None

    def checkpoint(self, steps: int, agent: Any) -> Path:
        """Write a checkpoint of a `ContextSAC` after `steps` environment steps, and return its folder.

        The folder gets its name once it is complete. Only the two newest checkpoints keep their buffers.
        """
        folder = self.path / "checkpoints"
        target = folder / str(steps)
        make_folder(folder)
        with unfinished(target) as temporary:
            temporary.mkdir()
            agent.save(temporary / "agent.zip")
            write_weights(temporary / WEIGHTS_FILE, agent.weights())
            agent.make_buffer().save(temporary / "buffer.npz")
        for other in self.checkpoints()[BUFFERS_KEPT:]:
            (other / "buffer.npz").unlink(missing_ok=True)
        return target


def _damage(checkpoint: Path) -> str:
    """Return which file of a checkpoint is damaged and how, by the checksums of its zip files; empty if none is."""
    from sami_train.agent.context_sac import read_agent  # needs torch; reading a run does not

    for name in ("agent.zip", "buffer.npz"):
        path = checkpoint / name
        if name == "buffer.npz" and not path.exists():
            continue
        try:
            with zipfile.ZipFile(path) as file:
                for member in file.infolist():
                    if member.compress_type != zipfile.ZIP_STORED:
                        raise ValueError(f"{member.filename} is compressed; a run writes it uncompressed")
                if wrong := file.testzip():
                    raise ValueError(f"the checksum of {wrong} is wrong")
            if name == "agent.zip":
                read_agent(path)
        except Exception as error:  # zipfile raises many kinds, by which byte is damaged
            return f"{name} cannot be loaded: {error or type(error).__name__}"
    return ""


def check_version(run: Path | str, facts: Mapping[str, Any]) -> None:
    """Raise RunError if the contents of a run.json are of another version; `run` names the run in the message."""
    version = facts.get("version")
    if version != RUN_VERSION:
        raise RunError(f"{run} is of run version {version}; this sami reads version {RUN_VERSION}.")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that a result depends on."""
    installed = {package: version for package in PACKAGES if (version := installed_version(package)) is not None}
    return {"python": platform.python_version(), **installed}


def git_state() -> dict[str, Any]:
    """Return the commit of this package's git checkout, and whether it has changes; {} outside a checkout."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        result = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
        return result.stdout.strip()

    try:
        # An installed copy may lie inside another repository: only a file that git tracks shows a checkout.
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return {}


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a metrics file, numbers by name with their `step`, up to the first broken or invalid one."""
    return list(itertools.takewhile(is_line, read_json_lines(path)))


def is_line(row: Any) -> bool:
    """Return whether a value is a line of metrics: a dict with an integer `step`, numbers or null otherwise."""
    if not isinstance(row, dict) or type(row.get("step")) is not int:
        return False
    return all(
        value is None or type(value) is float or (type(value) is int and abs(value) < 2**63) for value in row.values()
    )
