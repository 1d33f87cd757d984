"""Trains a teacher by PPO in a folder, from which the training can be continued.

teacher.safetensors    networks and the optimiser's moments; configuration and progress of the training as metadata
lock                   held by the process that trains here
metrics.jsonl          a line for each measurement: by set of tasks, the mean of each metric of the environment
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

from sami_runtime.errors import SamiError, in_shell
from sami_train import seeds
from sami_train.envs.catalog import by_name, environment
from sami_train.envs.tasks import Crippled, Task
from sami_train.files import locked, make_folder, read_json, unfinished
from sami_train.machine import on_stop_signals
from sami_train.runs.train import require_same_numbers
from sami_train.studies.teacher.policy import Inputs, PrivilegedPolicy
from sami_train.studies.teacher.vector import ACTION_SCALE, nominal_task, training_batch, vector_env

FILE, METADATA = "teacher.safetensors", "sami.teacher"
"""Name of a teacher's file, and the key of configuration and progress in the file's metadata."""
KL = 0.015
"""Target KL divergence of an update, to which the learning rate adapts."""
RATES = (1e-5, 3e-3)
ENTROPY = 0.01
"""Weight of the entropy bonus while tasks still become harder; otherwise 0, so that actions become precise."""
DEVIATIONS = (-2.3, 0.3)
"""Bounds of the logarithm of the actions' standard deviation."""
MEASURED = 12
"""Number of episodes in a measurement by task set, each in the set's next task; twice as many if tasks are drawn."""
OnMeasured = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class TeacherConfig:
    """Settings of a teacher's training."""

    env: str
    seed: int = 0
    rows: int = 256
    """Number of robots simulated in parallel."""
    rollout: int = 24
    """Steps of each robot between two updates."""
    units: int = 128
    blind: bool = False
    """Whether the actor reads only the robot's own observation: a policy without memory and privileged information."""
    easy_steps: int = 4_500_000
    """If tasks cripple parts: steps with nominal tasks only, whose fraction then falls to 0 over as many steps. With
    dead motors from the start, a teacher would learn to stand still instead of walking."""


@dataclass
class Teacher:
    """A trained teacher."""

    config: TeacherConfig
    policy: PrivilegedPolicy
    steps: int

    def act(self, observation: np.ndarray, privileged: np.ndarray) -> np.ndarray:
        """Return actions (n, A) from -1 to 1 for observations (n, D) and privileged information (n, P)."""
        return np.clip(ACTION_SCALE * self.policy.act(observation, privileged), -1.0, 1.0)


class AdaptivePPO(PPO):
    """PPO that adapts its learning rate to the KL divergence of its updates, and updates the statistics of inputs."""

    rate = 1e-3
    policy: PrivilegedPolicy

    def train(self) -> None:
        """Update the networks on the latest rollouts."""
        self.lr_schedule = lambda _: self.rate
        super().train()
        divergence = self.logger.name_to_value["train/approx_kl"]
        if divergence > 2.0 * KL:
            self.rate = max(RATES[0], self.rate / 1.5)
        elif divergence < 0.5 * KL:
            self.rate = min(RATES[1], self.rate * 1.5)
        self.policy.log_std.data.clamp_(*DEVIATIONS)
        inputs, observations = self.policy.features_extractor, self.rollout_buffer.observations
        assert isinstance(inputs, Inputs)
        assert isinstance(observations, dict)
        for name, normaliser in inputs.normalisers.items():
            normaliser.update(torch.from_numpy(observations[name].reshape(-1, observations[name].shape[-1])))  # type: ignore[operator]


def train_teacher(folder: Path, config: TeacherConfig, steps: int, every: int, on_measured: OnMeasured) -> Teacher:
    """Train a teacher, or continue the teacher in the folder. Ctrl-C stops the training and saves the teacher.

    Args:
        folder: the teacher's folder, created if missing.
        config: settings of the training; they must equal those of a teacher in the folder.
        steps: environment steps of all rows together, including those already done.
        every: environment steps between measurements.
        on_measured: called with each measurement.

    Raises:
        SamiError: the folder has other files or settings, or is in use, or the environment has no batch.
    """
    spec = environment(config.env)
    files = {path.name for path in folder.glob("*") if path.suffix != ".unfinished"}
    if FILE not in files and files - {"lock", "metrics.jsonl"}:
        raise SamiError(f"{folder} exists and holds no teacher; choose another --out.")
    torch.set_num_threads(1)
    vector = vector_env(spec, config.rows, config.seed)
    model = AdaptivePPO(
        PrivilegedPolicy,
        vector,
        n_steps=config.rollout,
        batch_size=config.rows * config.rollout // 4,
        n_epochs=5,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range_vf=0.2,
        ent_coef=ENTROPY,
        vf_coef=1.0,
        max_grad_norm=1.0,
        target_kl=2.0 * KL,
        seed=config.seed,
        device="cpu",
        policy_kwargs={"units": config.units, "blind": config.blind},
    )
    model.set_logger(Logger(None, []))
    make_folder(folder)
    with locked(folder / "lock", lambda by: SamiError(f"{folder} is in use by {by}; wait for it to end, or stop it.")):
        seconds = _restore(folder, config, model)
        vector.share = changed_share(config, model.num_timesteps)  # the first episodes begin before the first rollout
        keeper = _TeacherKeeper(folder, config, every, seconds, on_measured)
        with on_stop_signals(keeper.ask_to_stop):
            model.learn(max(0, steps - model.num_timesteps), keeper, reset_num_timesteps=False)
        keeper.keep()
    return Teacher(config, model.policy, model.num_timesteps)


def changed_share(config: TeacherConfig, steps: int) -> float:
    """Return the fraction of new episodes in a training task after some steps; see `TeacherConfig.easy_steps`."""
    cripples = any(isinstance(feature, Crippled) for feature in environment(config.env).tasks.features)
    return min(1.0, max(0.0, steps / config.easy_steps - 1.0)) if cripples and config.easy_steps else 1.0


def load_teacher(folder: Path, env: str | None = None) -> Teacher:
    """Return the teacher in a folder; raise SamiError if there is no teacher, or not one of the environment `env`."""
    config, facts, tensors = read_teacher(folder)
    if env not in (None, config.env):
        raise SamiError(f"{folder} was trained in {config.env!r}; give{by_name(config.env) or ' no --env'}.")
    vector = vector_env(environment(config.env), 2, 0)
    spaces = vector.observation_space, vector.action_space
    policy = PrivilegedPolicy(*spaces, lambda _: 0.0, units=config.units, blind=config.blind)
    try:
        policy.load_state_dict(tensors_of(tensors, "policy."))
    except RuntimeError as error:
        raise SamiError(f"{folder} reads other numbers than {config.env} gives now; train a new teacher.") from error
    return Teacher(config, policy.eval(), facts["steps"])


def measure_teacher(env: str, act: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> dict[str, dict[str, float]]:
    """Return mean return and metrics by task set, and for `nominal`, over the episodes that `MEASURED` describes."""
    spec = environment(env)
    tasks: list[tuple[str, Task]] = [("nominal", nominal_task(spec))] * MEASURED
    for name, of_set in spec.tasks.sets.items():
        count = 2 * MEASURED if name in spec.tasks.drawn else MEASURED
        tasks += [(name, of_set[k % len(of_set)]) for k in range(count)]
    batch = training_batch(spec, len(tasks))
    observation = batch.reset(range(seeds.EVALUATION, seeds.EVALUATION + len(tasks)), [task for _, task in tasks])
    running = np.ones(len(tasks), bool)
    measured: dict[str, np.ndarray] = {"return": np.zeros(len(tasks))}
    for _ in range(spec.episode_steps):
        observation, rewards = batch.step(batch.command(act(observation, batch.privileged())))
        measured["return"] += rewards * running
        for name, values in batch.metrics.items():
            measured.setdefault(name, np.zeros(len(tasks)))[running] = values[running]
        running &= ~batch.terminated
    names = np.array([name for name, _ in tasks])
    return {
        of_set: {name: float(values[names == of_set].mean()) for name, values in measured.items()}
        for of_set in dict.fromkeys(names.tolist())
    }


class _TeacherKeeper(BaseCallback):
    """Callback that measures and saves the teacher every `every` steps, and stops the training on request."""

    model: AdaptivePPO

    def __init__(
        self, folder: Path, config: TeacherConfig, every: int, seconds: float, on_measured: OnMeasured
    ) -> None:
        super().__init__()
        self.folder, self.config, self.every, self.on_measured = folder, config, every, on_measured
        self._before, self._start_time, self._stop, self._next = seconds, time.perf_counter(), False, 0

    @property
    def seconds(self) -> float:
        """Training time of the teacher so far [s]."""
        return self._before + time.perf_counter() - self._start_time

    def ask_to_stop(self, *_: Any) -> None:
        """Stop after the next step."""
        self._stop = True

    def keep(self) -> None:
        """Write the teacher to its folder."""
        model = self.model
        tensors = {f"policy.{name}": tensor.clone() for name, tensor in model.policy.state_dict().items()}
        for i, moments in model.policy.optimizer.state_dict()["state"].items():
            tensors |= {f"moments.{i}.{name}": value.clone() for name, value in moments.items()}
        facts = {"steps": model.num_timesteps, "seconds": self.seconds, "rate": model.rate}
        text = json.dumps({"config": asdict(self.config), "numbers": environment(self.config.env).numbers, **facts})
        with unfinished(self.folder / FILE) as temporary:
            safetensors.torch.save_file(tensors, temporary, {METADATA: text})
        (self.folder / "teacher.json").unlink(missing_ok=True)  # of an older version

    def _on_training_start(self) -> None:
        self._next = self.num_timesteps + self.every

    def _on_rollout_start(self) -> None:
        share = changed_share(self.config, self.num_timesteps)
        self.training_env.set_attr("share", share)
        self.model.ent_coef = ENTROPY if share < 1.0 else 0.0

    def _on_rollout_end(self) -> None:
        if self.num_timesteps < self._next:
            return
        self._next += self.every
        teacher = Teacher(self.config, self.model.policy, self.num_timesteps)
        recent = list(self.model.ep_info_buffer or ())
        line = {
            "steps": self.num_timesteps,
            "seconds": round(self.seconds, 1),
            "return": float(np.mean([info["r"] for info in recent])) if recent else None,
            "deviation": float(teacher.policy.log_std.detach().exp().mean()),
            "rate": self.model.rate,
            "sets": measure_teacher(self.config.env, teacher.act),
        }
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.keep()
        self.on_measured(line)

    def _on_step(self) -> bool:
        return not self._stop


def _restore(folder: Path, config: TeacherConfig, model: AdaptivePPO) -> float:
    """Load a folder's teacher into a model, and return its training time [s]; 0 if the folder has no teacher."""
    if not (folder / FILE).is_file():
        return 0.0
    stored, facts, tensors = read_teacher(folder)
    if stored != config:
        other = [f"{name}={value}" for name, value in asdict(stored).items() if asdict(config)[name] != value]
        advice = "give the same option to continue it, or another --out."
        raise SamiError(f"the teacher in {folder} was trained with {', '.join(other)}; {advice}")
    model.policy.load_state_dict(tensors_of(tensors, "policy."))
    optimiser = model.policy.optimizer
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors_of(tensors, "moments.").items():
        number, _, moment = name.partition(".")
        state.setdefault(int(number), {})[moment] = tensor
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
    model.num_timesteps, model.rate = facts["steps"], facts["rate"]
    return float(facts["seconds"])


def read_teacher(folder: Path) -> tuple[TeacherConfig, dict[str, Any], dict[str, torch.Tensor]]:
    """Return the configuration, progress and tensors of a folder's teacher; SamiError if there is none, or damaged."""
    path = folder / FILE
    if not path.is_file():
        raise SamiError(f"{folder} has no {FILE}; make one: sami teach --out {in_shell(folder)}")
    try:
        with safetensors.safe_open(path, "pt") as file:
            names, text = list(file.keys()), (file.metadata() or {}).get(METADATA)
            tensors = {name: file.get_tensor(name) for name in names}
        facts = json.loads(text) if text else read_json(folder / "teacher.json")  # of an older version
        require_same_numbers(folder, facts["config"]["env"], facts)
        return TeacherConfig(**facts["config"]), facts, tensors
    except (OSError, safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise SamiError(f"{path} is damaged: {error}. Copy it again, or train with another --out.") from error


def tensors_of(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Return the tensors whose names have a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
