"""Hostile files of every kind but models, each made from its number alone, and the code that must reject them."""

import contextlib
import functools
import io
import json
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from sami_runtime.adapters import Executed, Observation
from sami_runtime.errors import SamiError
from sami_runtime.gap.profile import GapProfile
from sami_runtime.loop.episode import run_episode
from sami_runtime.model.artifact import judge
from sami_runtime.recording.reader import read_recording
from sami_runtime.recording.recorder import Recorder
from sami_runtime.recording.replay import conditions, replay
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session
from sami_train.agent.context_sac import ContextSAC
from sami_train.config.recordings import recordings_of
from sami_train.config.resolve import resolve
from sami_train.config.weights import read_weights
from sami_train.envs.catalog import environment
from sami_train.evaluation.result_store import ENDING, KeptResults, Piece
from sami_train.evaluation.results import Evaluation
from sami_train.runs import train
from sami_train.runs.folder import RunFolder
from sami_train.runs.record import RunRecord
from sami_train.studies.sweep.job import CellOutcome, status
from sami_train.studies.sweep.study import read_study, write_study
from sami_train.studies.sweep.sweep import Sweep
from tests.making.killed import EXAMPLES, TINY
from tests.making.made_runs import made_return_run
from tests.making.mutants import flipped, other, relocated
from tests.making.sealed import sealed

EXAMPLE = EXAMPLES.parent
DEEP = b"[" * 100_000


def mutated(data, name, draw):
    """Return a file's bytes with a changed JSON value (in JSON files), with changed bytes, or deeply nested JSON."""
    chance = draw.random()
    if chance < 0.02:
        return DEEP
    if chance < 0.6 and name.endswith((".json", ".jsonl")):
        lines = data.decode().splitlines() if name.endswith(".jsonl") else [data.decode()]
        at = int(draw.integers(len(lines)))
        lines[at] = json.dumps(other(json.loads(lines[at]), draw))
        return "\n".join(lines).encode() + b"\n"
    return flipped(data, draw) if draw.random() < 0.5 else relocated(data, draw)


def within_zip(data, draw):
    """Return an agent's archive with one mutated member, and correct checksums, so that the member's reader runs."""
    out = io.BytesIO()
    packed = zipfile.ZIP_DEFLATED if draw.random() < 0.1 else zipfile.ZIP_STORED
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", packed) as new:
        names = old.namelist()
        member = names[draw.integers(len(names))]
        for name in names:
            part = old.read(name)
            new.writestr(name, mutated(part, name, draw) if name == member else part)
    return out.getvalue()


class Arm:
    """An adapter that stands still, with the signals of any contract."""

    waits = True

    def __init__(self, contract):
        self.observation, self.action = contract.observation, contract.action

    def reset(self, seed=None):
        pass

    def read(self):
        return Observation({signal.name: np.full(signal.size, 0.5, np.float32) for signal in self.observation}, 0.0)

    def write(self, action):
        return Executed(action)

    def stop(self):
        pass

    close = stop


@functools.cache
def base():
    """Make the intact files once per process: a run that has trained briefly, its study, and a recording."""
    sys.path.insert(0, str(EXAMPLES))
    folder = Path(tempfile.mkdtemp())
    run = made_return_run(folder / "sweep" / "pendulum", TINY["env"], ret=lambda *_: 1.0, episodes=4)
    config = resolve("fast-cpu", TINY | {"network.hidden_size": 4, "network.net_arch": [4], "steps": 800})
    agent = ContextSAC("ContextPolicy", train.make_env(config), config)
    agent.learn(800)
    RunFolder(run).checkpoint(800, agent)
    axes = {"env": [TINY["env"]], "method": ["satesac"], "seed": [0], "steps": [9000]}
    table = {"version": 1, "episodes": 4, "axes": axes, "unnamed": {}}
    (folder / "sweep" / "sweep.json").write_text(json.dumps(table))
    write_study(folder / "runs.jsonl", [RunRecord.of_folder(run)])
    (folder / "outcome.json").write_text(json.dumps({"state": "failed", "reason": "it broke"}))
    store = KeptResults(folder / "evaluation.json", agent.policy.numpy_weights(), environment(TINY["env"]), 4)
    store.add(
        Piece(None, "training").key, Evaluation.from_dict(json.loads((run / "evaluation.json").read_text())).results
    )
    session = Session(judge(sealed(), "sealed.onnx"))
    with Recorder(folder / "run.mcap", session) as recorder:
        run_episode(session, Arm(session.contract), max_steps=3, on_step=recorder)
    return folder, agent, session


def _run(folder):
    record = RunRecord.of_folder(folder)
    record.train_config()
    str(record.contrast)
    if record.evaluation is not None:
        evaluation = Evaluation.from_dict(record.evaluation)
        [evaluation.summary(name) for name in evaluation.sets]


def _checkpoint(folder):
    run = RunFolder.open(folder)
    with contextlib.redirect_stderr(io.StringIO()):
        checkpoint = run.newest_whole_checkpoint()
        train._agent_of(run, checkpoint, run.config(), recordings_of)


def _kept_results(folder):
    spec = environment(TINY["env"])
    store = KeptResults(folder / "evaluation.json", base()[1].policy.numpy_weights(), spec, 4)
    store.results_of(Piece(None, "training"))


def _recording(path):
    result = read_recording(path)
    conditions(result, base()[2])
    replay(result, base()[2])


def _of_run(name):
    return lambda: (base()[0] / "sweep" / "pendulum", name)


KINDS = {
    "config.json": (_of_run("config.json"), (_run,)),
    "run.json": (_of_run("run.json"), (_run,)),
    "metrics.jsonl": (_of_run("metrics.jsonl"), (_run, lambda run: status(run, TINY["env"], 4))),
    "evaluation.json": (_of_run("evaluation.json"), (_run, lambda run: status(run, TINY["env"], 4))),
    "agent.zip": (_of_run("checkpoints/800/agent.zip"), (_checkpoint,)),
    "buffer.npz": (_of_run("checkpoints/800/buffer.npz"), (_checkpoint,)),
    "weights.safetensors": (
        _of_run("checkpoints/800/weights.safetensors"),
        (lambda run: read_weights(run / "checkpoints/800/weights.safetensors"),),
    ),
    "sweep.json": (lambda: (base()[0] / "sweep", "sweep.json"), (Sweep.open,)),
    "outcome.json": (lambda: (base()[0], "outcome.json"), (CellOutcome.read,)),
    "runs.jsonl": (lambda: (base()[0], "runs.jsonl"), (lambda folder: read_study(folder / "runs.jsonl"),)),
    "kept results": (lambda: (base()[0], next(base()[0].glob(f"*{ENDING}")).name), (_kept_results,)),
    "gap": (lambda: (EXAMPLE, "gap.toml"), (lambda folder: GapProfile.load(folder / "gap.toml"),)),
    "limits": (lambda: (EXAMPLE, "limits.toml"), (lambda folder: Limits.load(folder / "limits.toml"),)),
    "recording": (lambda: (base()[0], "run.mcap"), (lambda folder: _recording(folder / "run.mcap"),)),
}
"""The files to mutate, by kind: a function that returns folder and name, and the functions that read the folder."""


def kind_of(number):
    """Return the kind of the file with this number."""
    return list(KINDS)[number % len(KINDS)]


def attempt(number, folder):
    """Mutate a file in a copy of its folder and read it; return its kind, and "read", "refused" or "FOUND: ...".

    Args:
        number: of the file; it determines kind and mutation.
        folder: folder for the copy; its earlier contents are removed.
    """
    kind, draw = kind_of(number), np.random.default_rng(number)
    where, readers = KINDS[kind]
    source, name = where()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if kind in (
        "agent.zip",
        "buffer.npz",
        "config.json",
        "run.json",
        "metrics.jsonl",
        "evaluation.json",
        "weights.safetensors",
    ):
        shutil.copytree(source, folder, dirs_exist_ok=True)
    data = (source / name).read_bytes()
    content = within_zip(data, draw) if kind == "agent.zip" and draw.random() < 0.5 else mutated(data, name, draw)
    (folder / name).write_bytes(content)
    outcomes = set()
    for reader in readers:
        try:
            reader(folder)
            outcomes.add("read")
        except SamiError:
            outcomes.add("refused")
        except Exception as error:
            outcomes.add(f"FOUND: {type(error).__name__} {str(error)[:80]}")
    return kind, max(outcomes, key=lambda outcome: (outcome.startswith("FOUND"), outcome))
