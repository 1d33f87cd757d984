"""Distils a teacher into a recurrent policy that reads only the robot's observations, by DAgger (Ross et al. 2011).

The student acts, the teacher labels each step with its own action, and the student learns to predict this action from
its observations so far. The student's context therefore has to estimate the teacher's privileged inputs: the robot's
motion and the task. A linear regression from the context to these inputs is an auxiliary loss; its weights are not
stored. The result is a run folder like that of `sami train`.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sami_runtime.errors import SamiError
from sami_train.agent.context_sac import ContextSAC
from sami_train.agent.networks import descend
from sami_train.agent.policy import ContextPolicy
from sami_train.config.methods import METHODS
from sami_train.config.resolve import resolve
from sami_train.config.schema import TrainConfig
from sami_train.envs.catalog import environment
from sami_train.envs.mujoco.batch import TeacherRows
from sami_train.machine import on_stop_signals
from sami_train.runs.folder import RunFolder
from sami_train.runs.progress import MetricsFile
from sami_train.runs.train import load_agent, make_env
from sami_train.studies.teacher.policy import Inputs
from sami_train.studies.teacher.teacher import Teacher, load_teacher
from sami_train.studies.teacher.vector import push_at_random, training_batch

CHUNK = 25
"""Steps of backpropagation through time; after each chunk, rows whose episode is over start a new one."""
ROWS = 128
"""Number of robots simulated in parallel."""
REPLAYED = 80
"""Number of recent chunks in the replay buffer."""
UPDATES, DRAWN_ROWS = 64, 64
"""Gradient steps after each chunk, and rows of a random chunk in each gradient step."""
LOG_EVERY = 40
"""Chunks between two checkpoints, each with a line of the log."""
RATES = (1e-3, 1e-4)
"""Adam's learning rate at the start and at the end of the run."""
TEACHER_SHARE = 0.1
"""Fraction of the run after which the teacher acts in no more episodes; until then its part falls linearly."""
NOISE = 0.2
"""Largest deviation of the action noise, which half of the episodes have: the student learns to recover from it."""
LARGE = 0.1
"""Threshold of the Huber loss of actions: the large errors of a fall must not dominate."""
PRIVILEGED_WEIGHT = 0.1
"""Weight of the regression from the context to the teacher's privileged inputs."""


class Chunk(NamedTuple):
    """Training data of CHUNK steps of all rows; the leading axes are rows and steps."""

    observations: Tensor
    previous_actions: Tensor
    labels: Tensor
    """The teacher's actions for the same states."""
    counts: Tensor
    """1 for steps of an episode, 0 after its end."""
    privileged: Tensor
    """The teacher's privileged inputs, normalised."""
    state: tuple[Tensor, ...]
    """The encoder's state before the first step."""


def student_config(env: str, method: str, steps: int, seed: int) -> TrainConfig:
    """Return the configuration of a student's run: the sizes of its networks; other settings are the preset's."""
    every = LOG_EVERY * ROWS * CHUNK
    settings = {"env": env, "method": method, "steps": steps, "seed": seed, "checkpoint_every": every}
    unused = {"collection.draws": 0, "exploration.warmup_steps": 1, "learning.steps_per_draw": 1}
    sizes = {"network.net_arch": [128, 128], "network.hidden_size": 64, "network.context_size": 24}
    return resolve("fast-cpu", {**settings, **unused, **sizes})


def distil(
    source: Path,
    out: Path,
    steps: int,
    method: str = "tesac",
    seed: int = 0,
    on_chunk: Callable[[Mapping[str, float]], None] | None = None,
    env: str | None = None,
) -> ContextSAC:
    """Train a student of a teacher, or continue the student in `out`. Ctrl-C stops the training and saves the student.

    Args:
        source: folder of the teacher.
        out: the run's folder.
        steps: environment steps of all rows together, including those already done.
        method: method whose policy the student has: `tesac`, or `sac` for a policy without memory.
        seed: seed of everything random.
        on_chunk: called every `LOG_EVERY` chunks with the steps done and the mean losses.
        env: the teacher's environment, to be sure; see `load_teacher`.

    Raises:
        SamiError: there is no such teacher, `method` has no student, or `out` has another run than such a student.
        RunError: all checkpoints in `out` are damaged.
    """
    torch.set_num_threads(1)
    teacher = load_teacher(source, env)
    config = student_config(teacher.config.env, method, steps, seed)
    command = [Path(sys.argv[0]).name, *sys.argv[1:]]
    weights = b"".join(tensor.numpy().tobytes() for tensor in teacher.policy.state_dict().values())
    teachers = {"folder": str(source), "steps": teacher.steps, "blind": teacher.config.blind}
    teachers["weights_sha256"] = hashlib.sha256(weights).hexdigest()
    if out.is_dir() and (out / "run.json").is_file():
        run = RunFolder.open(out)
        _require_same_student(run, config, teachers)
        if run.agent.is_file() and (run.facts().get("steps") or 0) >= steps:
            return load_agent(run, make_env(config))
    else:
        if METHODS[method].encoder not in ("lstm", "none"):
            raise SamiError(f"method is {method!r}, and a student has a context (tesac) or no memory (sac).")
        run = RunFolder.create(out, config, command)
        run.update(teacher=teachers)
    with run.locked():
        run.clear()
        checkpoint = run.newest_whole_checkpoint()
        if checkpoint or run.agent.is_file():
            agent = load_agent(RunFolder(checkpoint or run.path), make_env(config))
            if checkpoint is None:
                run.checkpoint(agent.num_timesteps, agent)  # `reopen` deletes the final agent
        else:  # new, or cut off before its first checkpoint
            agent = ContextSAC("ContextPolicy", make_env(config), config, device="cpu")
        agent.config = config
        run.reopen(config)
        title = "Student" if method == "tesac" else "Student without memory"
        run.update(command=command, title=title, teacher=teachers, state="running")
        lesson = _Lesson(agent, teacher, training_batch(environment(config.env), ROWS), seed + agent.num_timesteps)
        start_time, stop = time.perf_counter() - float(run.facts()["seconds"]), []
        log = MetricsFile(run.metrics, agent.num_timesteps)
        with closing(log), on_stop_signals(lambda *_: stop.append(True)):
            while agent.num_timesteps < steps and not stop:
                losses = lesson.step(agent.num_timesteps / steps)
                agent.num_timesteps += ROWS * CHUNK
                agent._n_updates += UPDATES
                if agent.num_timesteps % config.checkpoint_every == 0:
                    seconds = time.perf_counter() - start_time
                    run.checkpoint(agent.num_timesteps, agent)
                    run.update(seconds=seconds, steps=agent.num_timesteps)
                    log.write({"time/seconds": seconds, **losses}, {}, agent.num_timesteps)
                    if on_chunk is not None:
                        on_chunk({"step": agent.num_timesteps, "time/seconds": seconds, **losses})
        run.update(seconds=time.perf_counter() - start_time, steps=agent.num_timesteps, updates=agent._n_updates)
        agent._began_at, agent._updates_before = agent.num_timesteps, agent._n_updates  # none are due
        run.finish(agent)
        run.update(state="finished" if agent.num_timesteps >= steps else "stopped")
    return agent


def _require_same_student(run: RunFolder, config: TrainConfig, teachers: dict[str, Any]) -> None:
    """Raise SamiError if a run is not such a student, or one of another teacher than these facts describe."""
    present, facts, out, source = run.config(), run.facts(), run.path, teachers["folder"]
    if present.env != config.env or "teacher" not in facts:
        raise SamiError(f"{out} holds no student in {config.env!r}, where {source} learned; choose another --out.")
    for key in ("method", "seed"):
        if (old := getattr(present, key)) != getattr(config, key):
            raise SamiError(f"{out} holds a student of {key} {old!r}; give --{key} {old}, or another --out.")
    original = {**teachers, **facts["teacher"]}  # older runs have no hash
    if original | {"folder": source} != teachers:
        raise SamiError(
            f"{out} holds a student of the teacher {original['folder']} after {original['steps']:,} steps, not of "
            f"the weights that {source} has after {teachers['steps']:,} steps. Give the same teacher, or another --out."
        )


class _Lesson:
    """A student that acts and learns, chunk by chunk."""

    def __init__(self, agent: ContextSAC, teacher: Teacher, batch: TeacherRows, seed: int) -> None:
        self.policy: ContextPolicy = agent.policy
        self.teacher, self.batch, self.rng = teacher, batch, np.random.default_rng(seed)
        inputs = teacher.policy.features_extractor
        assert isinstance(inputs, Inputs)
        self.normaliser = inputs.normalisers["privileged"]
        self.readout = nn.Linear(max(1, self.policy.context_size), batch.privileged().shape[1])
        learned = [*self.policy.encoder.parameters(), *self.policy.actor.parameters(), *self.readout.parameters()]
        self.optimiser = torch.optim.Adam(learned, RATES[0], fused=True)
        self.chunks: deque[Chunk] = deque(maxlen=REPLAYED)
        self.observation = batch.reset(seeds=[seed + row for row in range(ROWS)])
        batch.steps[:] = self.rng.integers(0, batch.episode_steps, ROWS)
        self.previous = np.zeros((ROWS, self.policy.action_size), np.float32)
        self.state = tuple(torch.zeros(ROWS, *shape) for shape in self.policy.encoder.state.values())
        self.over, self.teacher_acts = np.zeros(ROWS, bool), np.ones(ROWS, bool)
        self.deviations = np.zeros(ROWS, np.float32)

    def step(self, progress: float) -> dict[str, float]:
        """Act for a chunk of steps, learn from it and earlier ones, return mean losses; `progress` goes from 0 to 1."""
        chunk = self._act(progress)
        self.chunks.append(chunk)
        if progress < 0.5:
            self.policy.features.update(chunk.observations[chunk.counts > 0.0].numpy())
        rate = RATES[0] * (RATES[1] / RATES[0]) ** progress
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        losses = [self._learn() for _ in range(UPDATES)]
        names = ("train/action_error", "train/privileged_error")
        return {name: float(np.mean(of_name)) for name, of_name in zip(names, zip(*losses, strict=True), strict=True)}

    @torch.no_grad()
    def _act(self, progress: float) -> Chunk:
        self._begin_anew(progress)
        policy, before = self.policy, tuple(part.clone() for part in self.state)
        steps: list[list[Tensor]] = []
        for _ in range(CHUNK):
            hidden, weight = self.batch.privileged(), (~self.over).astype(np.float32)
            label = self.batch.command(self.teacher.act(self.observation, hidden)).astype(np.float32)
            steps.append([torch.from_numpy(part) for part in (self.observation, self.previous, label, weight, hidden)])
            action, *rest = policy.step(*steps[-1][:2], *self.state)
            self.state = tuple(rest[1 if policy.context_size else 0 :])
            acted = np.where(self.teacher_acts[:, None] & (progress < TEACHER_SHARE), label, action.numpy())
            noise = self.deviations[:, None] * self.rng.standard_normal(acted.shape, np.float32)
            self.previous = np.clip(acted + noise, -1.0, 1.0)
            push_at_random(self.batch, self.rng)
            self.observation, _ = self.batch.step(self.previous)
            self.over = self.over | self.batch.terminated | self.batch.truncated
        *parts, privileged = (torch.stack(part, 1) for part in zip(*steps, strict=True))
        return Chunk._make([*parts, self.normaliser(privileged), before])

    def _begin_anew(self, progress: float) -> None:
        """Begin episodes in rows whose last one is over: half have noise; early in a run, the teacher acts in some."""
        rows = np.flatnonzero(self.over)
        if not len(rows):
            return
        self.observation[rows] = self.batch.reset(rows=rows)
        self.previous[rows] = 0.0
        for part in self.state:
            part[rows] = 0.0
        self.over[rows] = False
        self.teacher_acts[rows] = self.rng.random(len(rows)) > progress / TEACHER_SHARE
        self.deviations[rows] = self.rng.uniform(-NOISE, NOISE, len(rows)).clip(min=0.0)

    def _learn(self) -> tuple[float, float]:
        whole = self.chunks[int(self.rng.integers(len(self.chunks)))]
        rows = torch.from_numpy(self.rng.permutation(ROWS)[:DRAWN_ROWS])
        chunk = Chunk._make([*(part[rows] for part in whole[:-1]), tuple(part[rows] for part in whole.state)])
        policy, features = self.policy, self.policy.features(chunk.observations)
        contexts, _ = policy.encoder(policy.encoder_input(features, chunk.previous_actions), chunk.state or None)
        mean, _ = policy.actor(torch.cat([features, contexts], -1) if policy.encoder.size else features)
        weight, actions = chunk.counts / chunk.counts.sum().clamp(min=1.0), torch.tanh(mean)
        errors = functional.huber_loss(actions, chunk.labels, reduction="none", delta=LARGE)
        loss = 2.0 * (errors.sum(-1) * weight).sum()
        action_error = ((actions.detach() - chunk.labels).square().sum(-1) * weight).sum()
        privileged_error = torch.zeros(())
        if policy.context_size:
            privileged_error = ((self.readout(contexts) - chunk.privileged).square().mean(-1) * weight).sum()
        learned = [parameter for group in self.optimiser.param_groups for parameter in group["params"]]
        descend(self.optimiser, loss + PRIVILEGED_WEIGHT * privileged_error, learned, 1.0)
        return action_error.item(), privileged_error.item()
