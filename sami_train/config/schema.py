"""The configuration of a run: immutable settings, from a preset (TOML) and overrides; config.json stores them resolved.

A key that every preset sets has no default here, so that its value is written in one place only.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic.functional_validators import ModelWrapValidatorHandler

from sami_runtime.errors import SamiError, UnknownName, excerpt
from sami_runtime.gap.profile import GapProfile
from sami_runtime.model.atlas import label
from sami_train.config.methods import method
from sami_train.envs.catalog import environment
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.task_numbers import standardised
from sami_train.envs.tasks import Task
from sami_train.episodes.exploration import Exploration, WithProfile
from sami_train.seeds import EPISODES
from sami_train.settings import Count, Layers, Natural, NotNegative, Numbers, Positive, Settings, Share, Texts, Whole

ENV, METHOD, PRESET = "panda", "tesac", "fast-cpu"
"""Environment, method and preset if the user names none."""

FORMER_NAMES = {
    "behind_gap": "with_profile",
    "true_goals": "privileged_goals",
    "true_critic": "privileged_critic",
    "spared": "clean_share",
    "collectors": "workers",
}
"""Present name of each renamed table or key, by the former name, which older configurations use."""
RETIRED = (("stretch", 0),)
"""Former keys that are ignored, at the values that had no effect."""
UpdateRate = Annotated[float, Field(gt=0, le=1, description="be above 0 and at most 1")]


class ConfigError(SamiError):
    """An invalid configuration."""


def present_key(key: str) -> str:
    """Return the present name of a dotted key."""
    return ".".join(FORMER_NAMES.get(part, part) for part in key.split("."))


def present_names(values: Any) -> Any:
    """Return settings, in tables or by dotted key, with present names; ConfigError if one is given by two names."""
    if not isinstance(values, Mapping):
        return values
    result = {present_key(key): present_names(value) for key, value in values.items() if (key, value) not in RETIRED}
    for name in result:
        if len(names := [key for key in values if present_key(key) == name]) > 1:
            raise ConfigError(f"{' and '.join(names)} are two names of {name}; give {name} alone.")
    return result


class NetworkConfig(Settings):
    """Shapes of the networks."""

    hidden_size: Count = 128
    """LSTM units (paper: 128)."""
    context_size: Count = 6
    """Numbers in the context embedding (paper: 6)."""
    encoder_units: Layers = (200, 200, 200)
    """Units of the hidden layers of PEARL's encoder (PEARL's paper: three of 200)."""
    history_steps: Annotated[Whole, Field(ge=2, description="be at least 2")] = 10
    """Steps that the method sac-history concatenates: each an observation and the previous executed action."""
    net_arch: Layers
    """Units of the hidden layers of actor and critics."""
    layer_norm: bool
    """LayerNorm in the critics."""
    normalize: bool
    """Normalise observations by running mean and standard deviation."""
    encoder_reads_goal: bool
    """Whether the encoder reads the goal; must be false with hindsight."""
    relative_goal: bool
    """Whether actor and critics read (desired - achieved goal) instead of the achieved goal."""


class LearningConfig(Settings):
    """Soft actor-critic on whole episodes."""

    discount: Share
    actor_rate: Positive
    """Adam's learning rate of the actor."""
    critic_rate: Positive
    encoder_rate: Positive
    temperature_rate: Positive
    decay_from: Share
    """Fraction of the run after which all learning rates fall linearly; with 1 they never fall."""
    decay_to: Share = 0.1
    """Learning rates at the end of the run, as a fraction of their initial values."""
    encoder_clip: NotNegative
    """Largest norm of the encoder's gradient; 0 does not clip."""
    critic_target_rate: UpdateRate
    """Soft-update rate of the target critics."""
    momentum_rate: UpdateRate
    """Soft-update rate m of the momentum encoder (paper, equation of the appendix)."""
    aux_dynamics: NotNegative = 0.0
    """Weight of a loss that makes the context identify the task: a linear regression from the context to the training
    tasks' features, each with standard deviation 1. 0 has no such loss; the paper's contexts use no task labels."""
    divergence_coefficient: NotNegative = 0.1
    """Weight of the KL divergence of PEARL's context from its prior (PEARL's paper: 0.1)."""
    target_entropy: float
    """Target entropy of SAC's temperature [nats]; presets set it by the size of the action."""
    initial_temperature: Positive
    minimum_temperature: NotNegative
    batch_episodes: Count
    """Episodes (or windows of episodes) that one update runs through the encoder."""
    batch_transitions: Natural
    """Transitions to draw from these windows for each gradient step; 0 takes all."""
    steps_per_draw: Count = 1
    """Gradient steps of actor and critics on one draw of windows, each with newly drawn transitions; the encoder takes
    one step, because running it over long windows costs more than the other steps."""
    window: Natural = 0
    """Longest window of an episode, in steps, that the encoder runs over at once; 0 takes whole episodes."""
    burn_in: Natural = 0
    """First steps of a window that no loss counts; see `buffer.WindowPlan`."""
    reward_offset: float = 0.0
    """Subtracted from every reward while learning. If no episode ends early, the optimal policy stays the same, and
    critics need not learn a constant reward, such as a robot's bonus for being alive."""
    reward_scale: Positive = 1.0
    """Factor of the reward, after the offset, while learning: critics learn values of many thousands slowly."""
    hindsight: Share
    """Probability of a hindsight goal."""
    return_steps: Count = 1
    """Steps n of an n-step return: r_t + ... + gamma^n Q(s_t+n)."""
    clip_targets: bool
    """Clip target values to [-1 / (1 - discount), 0], the range for rewards of -1 or 0 a step."""
    train_every: Count
    """Environment steps for each `gradient_steps` updates (an update is one draw of windows)."""
    gradient_steps: Count
    buffer_episodes: Count
    """Episodes in the buffer; presets set it by the length of an episode."""
    bf16: bool
    """Run actor and critics in bfloat16 while learning (the encoder and the critics' last layer stay in float32).
    On CPUs faster only with bfloat16 instructions (avx512_bf16, amx_bf16); several times slower without."""

    @model_validator(mode="after")
    def _leave_something_to_learn(self) -> LearningConfig:
        if self.burn_in and self.burn_in >= self.window:
            raise ConfigError(
                f"learning.burn_in is {self.burn_in} and learning.window {self.window}: the burn-in must be shorter "
                "than the window, or no step is left to learn from. Whole episodes (window 0) need burn_in 0."
            )
        if self.clip_targets and self.discount == 1.0:
            raise ConfigError(
                f"learning.discount is {self.discount}; with learning.clip_targets it must be below 1, since targets "
                "are clipped to at least -1 / (1 - discount)."
            )
        if self.clip_targets and (self.reward_scale, self.reward_offset) != (1.0, 0.0):
            raise ConfigError(
                f"learning.reward_scale is {self.reward_scale} and learning.reward_offset {self.reward_offset}; "
                "learning.clip_targets needs rewards of -1 or 0, so leave them at 1 and 0, or set it to false."
            )
        return self


Ranking = Literal["return", "advantage", "value", "shuffled", "recency"]
RANKINGS: tuple[str, ...] = get_args(Ranking)


EARLIER: Mapping[str, Any] = {"keys": "momentum"}
"""Values of contrast keys that a configuration lacks because it was written before these keys existed."""


class ContrastConfig(Settings):
    """The contrastive loss (methods that have one)."""

    coefficient: NotNegative
    """Weight alpha of the contrastive loss in the critics' loss; it has no effect if `rate` is above 0."""
    rate: NotNegative = 0.0
    """Learning rate of a separate Adam for the contrastive loss, which takes one unclipped step of the encoder for each
    loss. With 0 the loss is added to the critics' loss, and shares its optimiser and gradient clip."""
    trajectories: Annotated[Whole, Field(ge=4, description="be at least 4")]
    """Trajectories in one loss: half queries and positive keys, half negatives (K is half of it plus 1)."""
    pairing: Literal["last", "prefix", "one_age"] = "last"
    """At which step trajectories are compared: the "last", after a random "prefix" of each, or "one_age", a step drawn
    for all trajectories, so that counting steps cannot separate them. If training uses windows, a trajectory is a
    random window of its episode, and "last" is the window's last step."""
    ranking: Ranking = "return"
    """What ranks trajectories as good or bad: their "return", their "advantage" (the return that start, goal and the
    policy's age do not explain), or the critics' mean "value" of their actions. "shuffled" and "recency" are controls
    without information about skills, see `sampling.rank_by`."""
    hardness: NotNegative = 0.0
    """Extra weight of negatives that resemble the query; 0 weights all negatives equally."""
    temperature: Positive
    """Temperature beta of the similarities."""
    keys: Literal["momentum", "encoder"]
    """Which network embeds positives and negatives: the "momentum" encoder psi*, as in the paper, without gradient; or
    the "encoder" psi itself, so that the loss moves both sides apart."""
    every: Count
    """Updates for each contrastive loss."""
    patience: Natural = 0
    """Number of losses in a row, with a mean bound of at most 0.01 nats, after which the run drops the contrastive
    loss; 0 never drops it."""
    unit_length: bool = True
    """Whether embeddings are scaled to unit length before they are compared."""

    @model_validator(mode="before")
    @classmethod
    def _add_missing(cls, values: Any) -> Any:
        """Add keys that earlier versions did not write."""
        return {**EARLIER, **values} if isinstance(values, Mapping) else values


class CollectionConfig(Settings):
    """How episodes are collected."""

    workers: Natural
    """Processes that collect in parallel to the learner; with 0 the learner collects by itself (deterministic)."""
    envs: Count = 6
    """Environments that each rollout worker steps together; without rollout workers the agent's environments count."""
    publish_every: Count
    """Updates between two transfers of new weights to the rollout workers."""
    tasks: Numbers = ()
    """Which of the environment's training tasks to learn from, by number from 0; empty takes all."""
    recordings: Texts = ()
    """Recordings of `sami run --record` whose episodes are in the buffer from the start."""
    draws: Natural = 32
    """Number of tasks to draw once, by the seed, if the training set is given by ranges or a function; the run visits
    them in turn. 0 draws a new task for each episode, which methods with a contrastive loss do not support."""
    episode_steps: Natural = 0
    """Longest training episode, in steps; 0 is the environment's length, which evaluations always use. Shorter episodes
    help a robot that cannot get up after a fall, such as an ant on its back. Up to ten times the environment's length,
    for a robot that is slower than its simulator."""
    reward: str
    end_on_fall: bool
    """Whether an episode ends when the cube falls off the table; in training only."""


class InitConfig(Settings):
    """Weights to start from (fine-tuning); see `resolve.fine_tuned`."""

    source: str = ""
    """A run, a checkpoint, a file of weights or a model, as `--init` names it; empty starts from random weights."""
    sha256: str = ""
    """SHA-256 of the file of weights."""
    critic_updates: Natural = 0
    """Number of first updates that train the critics alone: untrained critics would spoil the actor."""
    keep_encoder: bool = False
    """Freeze the encoder for the whole run, so that contexts keep their meaning; without a contrastive loss."""
    anchor: NotNegative = 0.0
    """Weight of the squared distance between the actor's action and the initial actor's, in the actor's loss: it
    protects a trained actor while its critics are still untrained."""
    keep_statistics: bool = True
    """Freeze the statistics that normalise observations: changing them changes what a trained policy does."""

    @property
    def keeps_statistics(self) -> bool:
        """Whether new observations leave the normalising statistics unchanged."""
        return bool(self.source) and self.keep_statistics


class TrainConfig(Settings):
    """One training run, resolved. `env` names a robot's file without `./`, so that both spellings are one."""

    env: Annotated[str, AfterValidator(lambda name: str(Path(name)) if name.endswith(".toml") else name)] = ENV
    method: str = METHOD
    preset: str = PRESET
    """The preset that the values came from; informative only."""
    seed: Natural = 0
    steps: Count
    """Environment steps."""
    checkpoint_every: Count
    """Environment steps between checkpoints."""
    device: str = "auto"
    gap: str = ""
    """The sim-to-real profile to train with: a `GapProfile` as JSON, so that the run depends on no other file."""
    init: InitConfig = InitConfig()
    network: NetworkConfig
    learning: LearningConfig
    contrast: ContrastConfig
    collection: CollectionConfig
    exploration: Exploration = Exploration()
    with_profile: WithProfile = WithProfile()

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, values: Any, handler: ModelWrapValidatorHandler[TrainConfig]) -> TrainConfig:
        try:
            return handler(values)
        except ValidationError as error:
            raise explained(error, values) from None

    @model_validator(mode="after")
    def _suit_the_environment(self) -> TrainConfig:
        spec = environment(self.env)
        if problem := next(misfits(self, spec), None):
            raise ConfigError(problem)
        if self.gap_profile is not None:
            self.gap_profile.require_fit(spec.signals, spec.action.elements)
        return self

    @model_validator(mode="after")
    def _go_together(self) -> TrainConfig:
        method(self.method)
        if self.seed in EPISODES:
            raise ConfigError(f"seed {self.seed} is reserved for episodes that judge policies; choose another seed.")
        if self.learning.hindsight > 0 and self.network.encoder_reads_goal:
            raise ConfigError(
                "learning.hindsight is above 0 and network.encoder_reads_goal is true: hindsight changes the goals of "
                "single transitions, but the context has already read the original goal. Set one of them to 0 or false."
            )
        if self.learning.hindsight > 0 and self.collection.reward != "sparse":
            raise ConfigError(
                f"learning.hindsight is above 0 and collection.reward is {self.collection.reward!r}: hindsight writes "
                "rewards of -1 and 0. Set collection.reward=sparse or learning.hindsight=0."
            )
        if self.init.anchor and not self.init.source:
            raise ConfigError(f"init.anchor is {self.init.anchor} without --init, so there is no policy to stay near.")
        if self.collection.end_on_fall and not self.learning.clip_targets:
            raise ConfigError(
                "collection.end_on_fall is true and learning.clip_targets false: only clipped targets give a failed "
                "episode the worst value; without them, falling would end all further cost. Change one of them."
            )
        return self

    @property
    def gap_profile(self) -> GapProfile | None:
        """The sim-to-real profile to train with, or None."""
        return GapProfile.loads(self.gap) if self.gap else None

    def updates_after(self, steps: int) -> int:
        """Return how many updates are due in all after `steps` environment steps: none during the warm-up."""
        past_warmup = max(0, steps - self.exploration.warmup_steps)
        return past_warmup // self.learning.train_every * self.learning.gradient_steps

    def training_tasks(self) -> list[Task]:
        """Return the run's training tasks; if each episode draws a new task, the listed examples of the set."""
        space = environment(self.env).tasks
        tasks = space.sets["training"] if self.new_tasks else space.training_tasks(self.collection.draws, self.seed)
        return [tasks[number] for number in self.collection.tasks or range(len(tasks))]

    @property
    def new_tasks(self) -> bool:
        """Whether each episode draws a new task."""
        return "training" in environment(self.env).tasks.drawn and not self.collection.draws

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for config.json."""
        return self.model_dump()

    def by_key(self) -> dict[str, Any]:
        """Return every value by its dotted key, e.g. `learning.discount`."""
        return {key: functools.reduce(getattr, key.split("."), self) for key in keys()}


def _fields(table: Any, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in table.model_fields.items():
        if hasattr(field.annotation, "model_fields"):
            yield from _fields(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name, field


def keys() -> list[str]:
    """Return every dotted key of the configuration."""
    return [key for key, _ in _fields(TrainConfig)]


def defaults() -> dict[str, Any]:
    """Return the default values, by dotted key, of the keys that have one."""
    return {key: field.default for key, field in _fields(TrainConfig) if not field.is_required()}


def explained(error: ValidationError, values: Mapping[str, Any]) -> SamiError:
    """Return the error for a configuration's first invalid key: its name, its value, and what would be valid."""
    problem = error.errors(include_url=False)[0]
    # Numbers in `loc` are positions in a list; the message shows the whole list.
    names = [name for name in problem["loc"] if isinstance(name, str)]
    key = ".".join(names)
    if problem["type"] == "extra_forbidden":
        return UnknownName("config key", key, keys())
    if problem["type"] == "missing" and problem["loc"][-1] == names[-1]:
        return ConfigError(
            f"{key} is missing; a configuration written by hand needs every key that presets set. Start from a "
            "preset: sami_train.config.resolve(PRESET, {KEY: VALUE})."
        )
    kind: Any = TrainConfig
    value: Any = values
    valid = ""
    for name in names:
        field = kind.model_fields[name]
        kind, value, valid = field.annotation, value[name], field.description or "be a finite number"
    if problem["type"] == "literal_error":
        return UnknownName(key, str(value), get_args(kind))
    if hasattr(kind, "model_fields"):
        valid = "be a table of values"
    elif problem["type"].endswith("_type"):
        of = "texts" if get_args(kind)[:1] == (str,) else "whole numbers"
        valid = f"be a list of {of}" if get_origin(kind) is tuple else f"be of type {kind.__name__}"
    elif kind is float:
        value = float(value)  # as the configuration would have stored it
    return ConfigError(f"{key or 'the configuration'} is {excerpt(value)}; it must {valid}.")


LEAST_COMPARED = 4
"""Least number of a task's episodes for a contrastive loss: two queries, and negatives."""
LONGER = 10
"""Longest training episode, as a multiple of the environment's own: a robot may be slower than its simulator."""


def misfits(config: TrainConfig, spec: EnvironmentSpec) -> Iterator[str]:
    """Yield an error message for each value that does not suit the environment; each check assumes the earlier ones."""
    env, collection, learning, rules = config.env, config.collection, config.learning, config.with_profile
    learner, values = method(config.method), config.by_key()
    if config.new_tasks and learner.estimator is not None:
        yield (
            f"collection.draws is 0, but {learner.title} compares episodes of the same task: set collection.draws to a "
            "number of tasks, or choose a method without a contrastive loss, e.g. tesac."
        )
    listed = () if config.new_tasks else spec.tasks.training_tasks(collection.draws, config.seed)
    if len(set(collection.tasks)) < len(collection.tasks) or not set(collection.tasks) <= set(range(len(listed))):
        numbered = ", ".join(f"{number} ({label(task)})" for number, task in enumerate(listed))
        yield (
            f"collection.tasks is {list(collection.tasks)}; it must list training tasks of {env} by number, "
            f"each once. There are {numbered or 'none, since each episode draws a new one'}."
        )
    tasks = 0 if config.new_tasks else len(config.training_tasks())
    if learner.estimator is not None and learning.buffer_episodes < LEAST_COMPARED * tasks:
        yield (
            f"learning.buffer_episodes is {learning.buffer_episodes}, and {env} has {tasks} training tasks: with fewer "
            f"than {LEAST_COMPARED} episodes of each, {config.method} has nothing to compare. Set "
            f"learning.buffer_episodes to at least {LEAST_COMPARED * tasks} (all contrast.trajectories need "
            f"{config.contrast.trajectories * tasks}), or choose fewer tasks with collection.tasks."
        )
    if collection.episode_steps > (most := LONGER * spec.episode_steps):
        yield (
            f"collection.episode_steps is {collection.episode_steps}; an episode of {env} has "
            f"{spec.episode_steps} steps, so set it from 1 to {most}, or to 0 for {spec.episode_steps}."
        )
    if spec.goal is None:
        of_goals = ("learning.hindsight", "learning.clip_targets", "collection.end_on_fall")
        if wrong := [key for key in (*of_goals, "with_profile.privileged_goals") if values[key]]:
            yield f"{', '.join(wrong)}: only for environments with a goal, and {env} has none. Set them to 0 or false."
    elif collection.end_on_fall and "end_on_fall" not in spec.training_options:
        yield (f"collection.end_on_fall is true, but {env} does not detect falls. Set collection.end_on_fall=false.")
    if config.exploration.reach_episodes and spec.reach is None:
        yield (
            f"exploration.reach_episodes is {config.exploration.reach_episodes}, but {env} has no scripted "
            "reach. Set exploration.reach_episodes=0."
        )
    if learning.reward_offset and spec.ends_early:
        yield (
            f"learning.reward_offset is {learning.reward_offset}, but episodes of {env} can end early: an offset "
            "would change how much an early end is worth. Set learning.reward_offset=0."
        )
    if weight := learning.aux_dynamics:
        if learner.encoder not in ("lstm", "gaussians"):
            yield (
                f"learning.aux_dynamics is {weight}, but {learner.title} infers no context. "
                "Set it to 0, or choose another --method, e.g. satesac."
            )
        if config.new_tasks:
            yield (
                f"learning.aux_dynamics is {weight} and collection.draws 0: it needs a fixed number of training tasks. "
                "Set collection.draws above 0."
            )
        if not standardised(spec.tasks.features, config.training_tasks()).size:
            yield (
                f"learning.aux_dynamics is {weight}, but the training tasks of {env} do not differ in any feature "
                "that a context could identify. Set it to 0."
            )
    for key in ("with_profile.estimate", "learning.aux_dynamics"):
        if values[key] and config.init.keep_encoder:
            yield f"{key} is {values[key]}, but the encoder is kept as it is. Set it to 0, or init.keep_encoder=false."
    if (entropy := learning.target_entropy) >= spec.action.size * math.log(2.0):
        yield f"learning.target_entropy is {entropy:g} nats; {spec.action.size} elements have less. Set it below 0."
    if rules.estimate > 0 and learner.encoder != "lstm":
        yield (
            f"with_profile.estimate is {rules.estimate}, but only an LSTM encoder estimates the present, and "
            f"{learner.title} has none. Set with_profile.estimate=0, or choose another --method, e.g. satesac."
        )
    for key in ("with_profile.full_from", "with_profile.clean_share"):
        if values[key] and not config.gap:
            yield f"{key} is {values[key]}, but there is no sim-to-real profile. Give one by --gap."
    if rules.keeps_true_state and collection.recordings:
        yield (
            "collection.recordings lack the true state, which with_profile.privileged_goals, privileged_critic and "
            "estimate need. Remove the recordings, or leave these three keys at their defaults."
        )
