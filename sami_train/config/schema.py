"""Configuration: frozen dataclasses, filled from a preset (TOML) and overrides; resolved in the run folder."""

from __future__ import annotations

import dataclasses
import functools
import typing
from dataclasses import dataclass, field
from typing import Any

from sami_train.config.rules import check
from sami_train.envs.catalog import environment
from sami_train.envs.tasks import Task
from sami_train.episodes.exploration import Exploration
from sami_train.methods.methods import method


@dataclass(frozen=True)
class NetworkConfig:
    """Shapes of the networks."""

    hidden_size: int = 128
    """LSTM units (paper: 128)."""
    context_size: int = 6
    """Numbers in the context embedding (paper: 6)."""
    encoder_units: tuple[int, ...] = (200, 200, 200)
    """Units of the hidden layers of PEARL's encoder (its authors: three of 200)."""
    net_arch: tuple[int, ...] = (256, 256)
    """Units of the hidden layers of actor and critics."""
    layer_norm: bool = True
    """LayerNorm in the critics."""
    normalize: bool = True
    """Normalise observations by running mean and deviation."""
    encoder_reads_goal: bool = False
    """Whether the encoder sees the goal; hindsight needs that it does not."""
    relative_goal: bool = True
    """Give actor and critics (goal - cube) instead of the achieved goal."""


@dataclass(frozen=True)
class LearningConfig:
    """Soft actor-critic on whole episodes."""

    discount: float = 0.95
    actor_rate: float = 1e-3
    """Adam's learning rate of the actor."""
    critic_rate: float = 1e-3
    encoder_rate: float = 3e-4
    temperature_rate: float = 3e-4
    decay_from: float = 1.0
    """Share of the run after which all learning rates fall linearly; 1 never."""
    decay_to: float = 0.1
    """Share of the learning rates that is left at the end of the run."""
    encoder_clip: float = 1.0
    """Largest norm of the encoder's gradient; 0 does not clip."""
    critic_target_rate: float = 0.02
    """Soft-update rate of the critics' targets."""
    momentum_rate: float = 0.05
    """Soft-update rate m of the momentum encoder (paper, equation of the appendix)."""
    divergence_coefficient: float = 0.1
    """Weight of the KL divergence of PEARL's context from its prior (its authors: 0.1)."""
    target_entropy: float = -2.0
    """Entropy that SAC's temperature steers towards; presets for MuJoCo set it by the number of motors."""
    initial_temperature: float = 0.135
    minimum_temperature: float = 0.005
    batch_episodes: int = 16
    """Episodes (or windows of them) that one update runs through the encoder."""
    batch_transitions: int = 512
    """Transitions of them that it learns from; 0 takes all."""
    steps_per_draw: int = 1
    """Gradient steps of actor and critics on one draw of windows, each on transitions of its own; the encoder takes
    one. Running an encoder over long windows costs more than those steps."""
    window: int = 0
    """Longest stretch of an episode, in steps, that the encoder runs over at once; 0 takes whole episodes."""
    burn_in: int = 0
    """First steps of a window that are not learned from; see `buffer.WindowPlan`."""
    reward_offset: float = 0.0
    """Subtracted from every reward while learning. Where no episode ends early this changes no policy, and critics need
    not learn what is always paid, such as a robot's bonus for being alive."""
    hindsight: float = 0.8
    """Probability of a hindsight goal."""
    clip_targets: bool = True
    """Keep target values in what a reward of -1 or 0 a step can give, [-1 / (1 - discount), 0]."""
    train_every: int = 16
    """Environment steps that `gradient_steps` updates wait for (an update is one draw of windows)."""
    gradient_steps: int = 1
    buffer_episodes: int = 24_000
    """Episodes kept; presets for MuJoCo set it by how many transitions an episode has."""
    bf16: bool = True
    """Actor and critics in bfloat16 while learning on a CPU (the encoder stays in float32)."""


@dataclass(frozen=True)
class ContrastConfig:
    """The contrastive loss (methods that have one)."""

    coefficient: float = 0.05
    """Weight alpha of the contrastive loss."""
    trajectories: int = 64
    """Trajectories that one loss compares: half queries and positive keys, half negatives (K is half of it plus 1)."""
    pairing: str = "last"
    """Where trajectories are compared: at their "last" step, at a random "prefix" of each, or at "all_steps"."""
    ranking: str = "return"
    """What tells good skills from bad: the "return", or the "value" that the critic gives to what was done."""
    hardness: float = 0.0
    """How much more those negatives weigh that resemble the query; 0 weighs all alike."""
    temperature: float = 0.1
    """beta."""
    every: int = 4
    """Updates between contrastive losses."""
    unit_length: bool = True
    """Contrast embeddings scaled to unit length."""


@dataclass(frozen=True)
class CollectionConfig:
    """How episodes are collected."""

    collectors: int = 1
    """Processes that collect beside the learner; 0 collects in step with learning (deterministic)."""
    envs: int = 6
    """Environments that each collector process steps side by side; collection in step uses those of the agent."""
    publish_every: int = 50
    """Updates between new weights for the collectors."""
    tasks: tuple[int, ...] = ()
    """Which of the environment's training tasks to learn from, by number from 0; empty takes them all."""
    episode_steps: int = 0
    """Longest episode to learn from; 0 is the environment's own length, which every evaluation has. A robot that falls
    and cannot get up, as an ant on its back, teaches little after it: shorter episodes begin anew more often."""
    reward: str = "sparse"
    end_on_fall: bool = True
    """End an episode when the cube has fallen off the table (in training only)."""


@dataclass(frozen=True)
class TrainConfig:
    """One training run, resolved."""

    env: str = "panda"
    method: str = "satesac"
    preset: str = "fast-cpu"
    """Where the values came from; kept for the record."""
    seed: int = 0
    steps: int = 800_000
    """Environment steps."""
    checkpoint_every: int = 100_000
    """Environment steps between checkpoints."""
    device: str = "auto"
    gap: str = ""
    """The gap to reality that training goes on behind: a `GapProfile` as JSON, so that the run needs no other file."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    contrast: ContrastConfig = field(default_factory=ContrastConfig)
    collection: CollectionConfig = field(default_factory=CollectionConfig)
    exploration: Exploration = field(default_factory=Exploration)

    def __post_init__(self) -> None:
        environment(self.env)
        method(self.method)
        check(self)

    def training_tasks(self) -> list[Task]:
        """The tasks that the run learns from."""
        tasks = environment(self.env).tasks.sets["training"]
        return [tasks[number] for number in self.collection.tasks or range(len(tasks))]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they are written to config.json."""
        return dataclasses.asdict(self)

    def by_key(self) -> dict[str, Any]:
        """Every value by its dotted key, e.g. `learning.discount`."""
        return {key: functools.reduce(getattr, key.split("."), self) for key in keys()}


def keys(kind: Any = TrainConfig, prefix: str = "") -> list[str]:
    """Every dotted key of the configuration."""
    found: list[str] = []
    hints = typing.get_type_hints(kind)
    for item in dataclasses.fields(kind):
        hint = hints[item.name]
        found += keys(hint, f"{prefix}{item.name}.") if dataclasses.is_dataclass(hint) else [prefix + item.name]
    return found
