"""One training run, from configuration to trained agent: progress, checkpoints, interruption and resumption."""

from __future__ import annotations

import itertools
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter, Logger

from sami_runtime.errors import SamiError, UnknownName, in_shell
from sami_train.agent.context_sac import TARGETS, ContextSAC
from sami_train.config.resolve import from_dict
from sami_train.config.schema import ConfigError, TrainConfig
from sami_train.config.weights import read_weights, sha256_of, weights_file
from sami_train.envs.catalog import by_name, environment
from sami_train.envs.make import make
from sami_train.episodes.episode import Episode
from sami_train.machine import on_stop_signals, share_of_cores
from sami_train.runs.folder import RunError, RunFolder
from sami_train.runs.progress import Dashboard, MetricsFile, Progress

LOG_EVERY = 10_000
"""Environment steps between two lines of metrics.jsonl."""
NORMAL_ENTROPY = 0.5 * float(np.log(2.0 * np.pi * np.e))
"""Differential entropy of a normal distribution with standard deviation 1 [nat]."""
RecordingReader = Callable[[TrainConfig], list[Episode]]
"""Reads the episodes of the recordings that a configuration names, as `config.recordings.recordings_of` does."""
CRITICS_INPUTS = frozenset(f"{critic}.{q}.0.weight" for critic in ("critic", "critic_target") for q in ("q1", "q2"))


class _Keeper(BaseCallback):
    """Callback that shows progress, writes checkpoints, and stops the run on a signal, see `on_stop_signals`."""

    def __init__(self, run: RunFolder, config: TrainConfig, progress: Progress, before: float) -> None:
        super().__init__()
        self.run, self.config, self.progress, self.before = run, config, progress, before
        self.start_time = time.perf_counter()
        self.stop_requested = False
        self._next = 0

    def ask_to_stop(self, number: int, frame: Any) -> None:
        """Stop after the current step, with a checkpoint; a second Ctrl-C stops at once."""
        if self.stop_requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.stop_requested = True

    @property
    def seconds(self) -> float:
        """Seconds spent on this run so far, including those before it was resumed."""
        return self.before + time.perf_counter() - self.start_time

    def _on_training_start(self) -> None:
        self.logger.record("time/seconds", self.seconds)  # a resumed run may log before its first step
        self._next = (self.num_timesteps // self.config.checkpoint_every + 1) * self.config.checkpoint_every

    def _on_step(self) -> bool:
        agent = self.model
        assert isinstance(agent, ContextSAC)
        agent.logger.record("time/seconds", self.seconds)
        self.progress.update(agent.num_timesteps, agent._n_updates, agent.task_record, agent.contrast_record.summary())
        if agent.num_timesteps >= self._next or self.stop_requested:
            self._next += self.config.checkpoint_every
            self.run.checkpoint(agent.num_timesteps, agent)
            self.run.update(seconds=self.seconds, steps=agent.num_timesteps)
        return not self.stop_requested

    def _on_training_end(self) -> None:
        self.logger.record("time/seconds", self.seconds)


def without_recordings(config: TrainConfig) -> list[Episode]:
    """Return no episodes; raise ConfigError if the configuration names recordings."""
    if config.collection.recordings:
        raise ConfigError(
            f"collection.recordings is {list(config.collection.recordings)}, but this call has no reader for them; "
            "pass reader=sami_train.config.recordings.recordings_of."
        )
    return []


def start(
    config: TrainConfig,
    out: Path,
    *,
    show: bool = True,
    command: list[str] | None = None,
    reader: RecordingReader = without_recordings,
) -> ContextSAC:
    """Train in a new run folder, and return the agent; run.json stores `command`, or this process's, to repeat the run.

    Raises:
        RunError: the folder exists and is not empty, or the weights to start from do not fit the networks.
        ConfigError: the configuration names recordings, and `reader` is the default, which reads none.
        UnknownName: torch does not know the device.
    """
    agent, episodes = prepare(config, reader)  # before the folder: a wrong configuration leaves no files
    run = RunFolder.create(out, config, command or [Path(sys.argv[0]).name, *sys.argv[1:]])
    if engine := environment(config.env).engine:
        run.update(engine=engine)
    if files := config.collection.recordings:
        digests = {name: sha256_of(Path(name)) for name in files}
        run.update(recordings={"sha256": digests, "episodes": len(episodes), "steps": sum(map(len, episodes))})
    with run.locked():
        return _run(run, config, agent, show)


def prepare(config: TrainConfig, reader: RecordingReader) -> tuple[ContextSAC, list[Episode]]:
    """Return a new run's agent, and the recorded episodes that its buffer starts with; raises as `start` does."""
    prepare_torch(config)
    episodes = reader(config)
    agent = ContextSAC("ContextPolicy", make_env(config), config, device=config.device)
    if config.init.source:
        start_from(agent, config)
    agent.take_recorded(episodes)
    return agent, episodes


def resume(
    out: Path, *, steps: int | None = None, show: bool = True, reader: RecordingReader = without_recordings
) -> ContextSAC:
    """Continue a run from its newest checkpoint, with its buffer, optimisers and random states; return the agent.

    `steps` becomes the run's total, and the learning rates then follow the schedule of a run of that length.

    Raises:
        RunError: the run is missing, finished, in use, of another engine or without checkpoint, or `steps` too few.
    """
    run = RunFolder.open(out)
    config = run.config()
    option = by_name(config.env)
    if run.checkpointed is not None:
        newest = f"sami train --resume {in_shell(run.run)}{option}"
        raise RunError(f"{out} is a checkpoint; resume its run, from the newest checkpoint: {newest}")
    if "teacher" in run.facts():
        raise RunError(f"{out} is a student; continue it by sami distil, or begin a new run with --init {out}.")
    if run.agent.is_file() and steps is None:
        line = f"sami eval --run {in_shell(out)}{option}"
        raise RunError(f"{out} finished its {config.steps} steps; evaluate it with: {line}, or extend it with --steps.")
    if run.newest_checkpoint() is None and not run.agent.is_file():
        raise RunError(f"{out} has no checkpoint to resume from; train again with a new --out.")
    require_same_numbers(run.path, config.env, run.facts())
    engine = environment(config.env).engine
    if (original := run.facts().get("engine", engine)) != engine:
        raise RunError(
            f"{out} was trained in the engine {original}, but {config.env} runs in {engine} here; resume it where "
            f"{original} is installed, or train again with a new --out."
        )
    if steps is not None:
        config = from_dict(config.to_dict() | {"steps": steps})
    prepare_torch(config)
    with run.locked():
        run.clear()
        checkpoint = run.newest_whole_checkpoint()
        agent = _agent_of(run, checkpoint, config, reader)
        if steps is not None:
            least = next(n for n in itertools.count(agent.num_timesteps + 1) if agent.due(n) > 0)
            if steps < least:
                raise RunError(
                    f"{out} has done {agent.num_timesteps} steps; --steps {steps} is too few for another update: the "
                    f"next one needs --steps {least} or more."
                )
            if checkpoint is None:
                run.checkpoint(agent.num_timesteps, agent)  # `reopen` deletes the only copy of the agent
            run.reopen(config)
            run.update(extended=[*run.facts().get("extended", ()), {"from": agent.num_timesteps, "to": steps}])
        run.update(state="running")
        run.evaluation.unlink(missing_ok=True)  # training is about to change the agent that it measured
        return _run(run, config, agent, show)


def _agent_of(run: RunFolder, checkpoint: Path | None, config: TrainConfig, reader: RecordingReader) -> ContextSAC:
    """Return a checkpoint's agent with its buffer; of a finished run without checkpoints, its final agent."""
    env, folder = make_env(config), checkpoint or run.path
    file, buffer = folder / "agent.zip", folder / "buffer.npz"
    with _readable(file):
        agent = ContextSAC.load(file, env=env, device=config.device)
    agent.config = config
    if buffer.is_file():
        with _readable(buffer):
            agent.make_buffer().restore(buffer)
    else:
        agent.take_recorded(reader(config))
        # The agent is trained, but its buffer is empty: it collects episodes first, as in a warm-up.
        agent._began_at, agent._updates_before = agent.num_timesteps, agent._n_updates
        print(
            f"{run.path} has no buffer: its collected episodes are lost. Training continues from its agent, with the "
            f"first update after {config.exploration.warmup_steps:,} more steps.",
            file=sys.stderr,
        )
    return agent


def load_agent(run: RunFolder, env: Any = None) -> ContextSAC:
    """Return a run's newest agent, on the CPU; it can learn only with an `env`. RunError: none yet, or unreadable."""
    path = run.newest_agent()
    require_same_numbers(run.path, run.config().env, run.facts())
    with _readable(path):
        return ContextSAC.load(path, env, device="cpu")


def require_same_numbers(path: Path, env: str, facts: Mapping[str, Any]) -> None:
    """Raise RunError if the environment's file or code was edited since, so that networks would read other numbers."""
    numbers = environment(env).numbers
    for old, new in itertools.zip_longest(facts.get("numbers", numbers), numbers, fillvalue="nothing"):
        if old != new:
            raise RunError(f"{path} was trained with {old}, where {env} has {new} now; undo that, or train again.")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn any error of a reader into a RunError that names the file."""
    try:
        yield
    except Exception as error:
        raise RunError(f"{path} cannot be loaded: {error}. Was it cut off, or is it of another version?") from error


def make_env(config: TrainConfig) -> Any:
    """Return the environment that a run trains in, with its training tasks and its sim-to-real profile."""
    spec, collection = environment(config.env), config.collection
    options = {name: getattr(collection, name) for name in spec.training_options}
    steps = collection.episode_steps or spec.episode_steps
    tasks = "training" if config.new_tasks else config.training_tasks()
    return make(spec, config.gap_profile, tasks=tasks, max_episode_steps=steps, **options)


def prepare_torch(config: TrainConfig) -> None:
    """Set torch's threads and number formats; UnknownName or RunError if the device is unknown or not there."""
    try:
        needs_gpu = config.device != "auto" and torch.device(config.device).type == "cuda"
    except RuntimeError as error:
        raise UnknownName("device", config.device, ["auto", "cpu", "cuda"]) from error
    if needs_gpu and not torch.cuda.is_available():
        raise RunError(f"device is {config.device!r}, but torch finds no GPU here; use device=cpu or auto.")
    torch.set_flush_denormal(True)
    torch.set_num_threads(max(1, share_of_cores() - max(1, config.collection.workers)))
    torch.set_float32_matmul_precision("high")


def bfloat16_warning(config: TrainConfig, device: torch.device, processor: Path = Path("/proc/cpuinfo")) -> str:
    """Return a line if a CPU without bfloat16 instructions, by Linux's list of its features, learns in bfloat16."""
    words = processor.read_text().split() if config.learning.bf16 and processor.is_file() else []
    if device.type == "cpu" and {"flags", "Features"} & {*words} and not any("bf16" in word for word in words):
        return "warning: learning.bf16 is slow without bfloat16 instructions, as here; set it false in a new run."
    return ""


def _run(run: RunFolder, config: TrainConfig, agent: ContextSAC, show: bool) -> ContextSAC:
    if line := bfloat16_warning(config, agent.device):
        print(line, file=sys.stderr)
    writers: list[KVWriter] = [MetricsFile(run.metrics, agent.logged_at), Dashboard(run.path)]
    agent.set_logger(Logger(str(run.path), writers))
    try:
        with Progress(config, agent.num_timesteps, show) as progress:
            keeper = _Keeper(run, config, progress, float(run.facts().get("seconds", 0.0)))
            with on_stop_signals(keeper.ask_to_stop):
                remaining = config.steps - agent.num_timesteps
                agent.learn(remaining, keeper, LOG_EVERY, reset_num_timesteps=agent.num_timesteps == 0)
        if agent.logged_at != agent.num_timesteps:
            agent.dump_logs()
        if agent.finished:
            # First the facts: as soon as agent.zip is there, the run counts as finished.
            run.update(seconds=keeper.seconds, steps=agent.num_timesteps, updates=agent._n_updates)
            run.finish(agent)
    except BaseException as error:
        with suppress(SamiError, OSError):  # a full disk may be why training failed
            run.update(state="stopped" if isinstance(error, KeyboardInterrupt) else "failed")
        if isinstance(error.__cause__, OSError) and run.newest_checkpoint():
            command = f"sami train --resume {in_shell(run.path)}{by_name(config.env)}"
            raise RunError(f"{error} Then resume the run: {command}") from error
        raise
    finally:
        with suppress(OSError):  # on a full disk TensorBoard loses its last lines, which metrics.jsonl has
            agent.logger.close()
    state = "finished" if agent.finished else "stopped"
    run.update(state=state, seconds=keeper.seconds, steps=agent.num_timesteps, updates=agent._n_updates)
    return agent


def start_from(agent: ContextSAC, config: TrainConfig) -> None:
    """Load the weights that `config.init.source` names into an agent.

    Optimisers start afresh, and SAC's temperature at `learning.initial_temperature`. Critics that the file lacks keep
    their random weights. Critics in the file that read fewer recent actions get zero weights for the added ones. An
    actor without a standard deviation gets the one whose entropy is the target entropy.

    Raises:
        RunError: the file has changed since the configuration was resolved, or does not fit the networks.
    """
    path = weights_file(config.init.source)
    weights = read_weights(path)
    if (digest := sha256_of(path)) != config.init.sha256:
        raise RunError(
            f"{path} has the SHA-256 {digest[:12]}..., but init.sha256 is {config.init.sha256[:12]}...: the file has "
            "changed since the run was configured. Start again with --init."
        )
    policy, tensors = agent.policy, {name: torch.from_numpy(np.array(a)) for name, a in weights.arrays.items()}
    initial = policy.state_dict()
    for target, source in TARGETS.items():
        for name in initial:
            if name.startswith(f"{target}."):
                copied = source + name.removeprefix(target)
                tensors.setdefault(name, tensors.get(copied, initial[copied]))
    tensors["log_temperature"] = initial["log_temperature"]
    for name in initial.keys() - tensors.keys():
        if name.startswith("actor.log_std."):
            entropy = config.learning.target_entropy / policy.action_size
            value = entropy - NORMAL_ENTROPY if name.endswith("bias") else 0.0
            tensors[name] = torch.full_like(initial[name], value)
        elif name.startswith(("critic.", "encoder.correction.", "momentum_encoder.correction.")):
            tensors[name] = initial[name]  # a new correction is 0: the estimate is the observation as it arrived
    for name in CRITICS_INPUTS & tensors.keys():
        tensors[name] = _with_recent_actions(tensors[name], initial[name].shape[1], agent)
    wrong = sorted(name for name in initial.keys() | tensors.keys() if _shape(initial, name) != _shape(tensors, name))
    if wrong or not torch.equal(tensors["features.projection"].cpu(), initial["features.projection"].cpu()):
        of = ", ".join(f"{name} {_shape(tensors, name)} instead of {_shape(initial, name)}" for name in wrong[:3])
        raise RunError(
            f"{path} does not fit the networks of this run: {of or 'its observation has another layout'}. If the file "
            "has encoder.correction, set with_profile.estimate above 0; if its critics are larger, set with_profile."
            "critic_actions as in its run. Set no keys of network., and use an environment with the same goal."
        )
    policy.load_state_dict(tensors)
    agent.learner.anchor()


def _with_recent_actions(weight: torch.Tensor, inputs: int, agent: ContextSAC) -> torch.Tensor:
    """Return a critic's first weights, (H, N), widened to (H, inputs) by zeros for older actions, after the context."""
    size, missing = agent.policy.features.size + agent.policy.encoder.size, inputs - weight.shape[1]
    if missing <= 0 or missing % agent.policy.action_size:
        return weight  # does not fit: the caller rejects it, and names both shapes
    return torch.cat([weight[:, :size], weight.new_zeros(len(weight), missing), weight[:, size:]], 1)


def _shape(tensors: dict[str, torch.Tensor], name: str) -> list[int] | str:
    return list(tensors[name].shape) if name in tensors else "none"
