"""Configuration: frozen settings, filled from a preset (TOML) and overrides; resolved in the run folder.

A key that every preset sets has no default here: its value is written in one place.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import Field, ValidationError, model_validator
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
from sami_train.episodes.exploration import BehindGap, Exploration
from sami_train.seeds import EPISODES
from sami_train.settings import Count, Layers, Natural, NotNegative, Numbers, Positive, Settings, Share, Texts, Whole

ENV, METHOD, PRESET = "panda", "tesac", "fast-cpu"
"""What is trained where nothing else is asked for."""


FORMER_KEYS = {"behind_gap.spared": "behind_gap.clean_share"}
"""What keys are called today, by their names in older configurations, which stay readable."""


class ConfigError(SamiError):
    """A configuration that cannot be used."""


class NetworkConfig(Settings):
    """Shapes of the networks."""

    hidden_size: Count = 128
    """LSTM units (paper: 128)."""
    context_size: Count = 6
    """Numbers in the context embedding (paper: 6)."""
    encoder_units: Layers = (200, 200, 200)
    """Units of the hidden layers of PEARL's encoder (its authors: three of 200)."""
    history_steps: Annotated[Whole, Field(ge=2, description="be at least 2")] = 10
    """Steps that the method sac-history stacks: observations, each with the action executed before it."""
    net_arch: Layers
    """Units of the hidden layers of actor and critics."""
    layer_norm: bool
    """LayerNorm in the critics."""
    normalize: bool
    """Normalise observations by running mean and deviation."""
    encoder_reads_goal: bool
    """Whether the encoder sees the goal; hindsight needs that it does not."""
    relative_goal: bool
    """Give actor and critics (goal - cube) instead of the achieved goal."""


class LearningConfig(Settings):
    """Soft actor-critic on whole episodes."""

    discount: Share
    actor_rate: Positive
    """Adam's learning rate of the actor."""
    critic_rate: Positive
    encoder_rate: Positive
    temperature_rate: Positive
    decay_from: Share
    """Share of the run after which all learning rates fall linearly; 1 never."""
    decay_to: Share = 0.1
    """Share of the learning rates that is left at the end of the run."""
    encoder_clip: float
    """Largest norm of the encoder's gradient; 0 does not clip."""
    critic_target_rate: Positive
    """Soft-update rate of the critics' targets."""
    momentum_rate: Positive
    """Soft-update rate m of the momentum encoder (paper, equation of the appendix)."""
    aux_dynamics: NotNegative = 0.0
    """Weight of a loss by which the context learns to carry the task: a linear regression from it to the features of
    the training tasks, each of deviation 1. 0 has none. Not in the paper, whose contexts owe nothing to labels."""
    divergence_coefficient: NotNegative = 0.1
    """Weight of the KL divergence of PEARL's context from its prior (its authors: 0.1)."""
    target_entropy: float
    """Entropy that SAC's temperature steers towards; presets set it by the size of actions."""
    initial_temperature: Positive
    minimum_temperature: float
    batch_episodes: Count
    """Episodes (or windows of them) that one update runs through the encoder."""
    batch_transitions: Natural
    """Transitions of them that it learns from; 0 takes all."""
    steps_per_draw: Count = 1
    """Gradient steps of actor and critics on one draw of windows, each on transitions of its own; the encoder takes
    one. Running an encoder over long windows costs more than those steps."""
    window: Natural = 0
    """Longest stretch of an episode, in steps, that the encoder runs over at once; 0 takes whole episodes."""
    burn_in: Natural = 0
    """First steps of a window that are not learned from; see `buffer.WindowPlan`."""
    reward_offset: float = 0.0
    """Subtracted from every reward while learning. Where no episode ends early this changes no policy, and critics need
    not learn what is always paid, such as a robot's bonus for being alive."""
    reward_scale: Positive = 1.0
    """What is left of a reward is multiplied by this while learning: critics take long to climb to values of many
    thousands."""
    hindsight: Share
    """Probability of a hindsight goal."""
    return_steps: Count = 1
    """Steps n of a return before the critics' estimate takes over: r_t + ... + gamma^n Q(s_t+n)."""
    clip_targets: bool
    """Keep target values in what a reward of -1 or 0 a step can give, [-1 / (1 - discount), 0]."""
    train_every: Count
    """Environment steps that `gradient_steps` updates wait for (an update is one draw of windows)."""
    gradient_steps: Count
    buffer_episodes: Count
    """Episodes kept; presets set it by how many transitions an episode has."""
    bf16: bool
    """Actor and critics in bfloat16 while learning on a CPU (the encoder and the critics' last layer stay in float32).
    Faster only on CPUs that multiply it (avx512_bf16, amx); three times slower on others."""

    @model_validator(mode="after")
    def _leave_something_to_learn(self) -> LearningConfig:
        if self.burn_in and self.burn_in >= self.window:
            raise ConfigError(
                f"learning.burn_in is {self.burn_in} and learning.window {self.window}: the burn-in must be shorter "
                "than the window, or nothing is left to learn from. Whole episodes (window 0) need none."
            )
        if self.clip_targets and self.discount == 1.0:
            raise ConfigError(
                f"learning.discount is {self.discount}; with learning.clip_targets it must be below 1, since targets "
                "are kept above -1 / (1 - discount)."
            )
        if self.clip_targets and (self.reward_scale, self.reward_offset) != (1.0, 0.0):
            raise ConfigError(
                f"learning.reward_scale is {self.reward_scale} and learning.reward_offset {self.reward_offset}; "
                "learning.clip_targets counts on rewards of -1 or 0, so leave them at 1 and 0, or set it to false."
            )
        return self


Ranking = Literal["return", "advantage", "value", "shuffled", "recency"]
RANKINGS: tuple[str, ...] = get_args(Ranking)


EARLIER: Mapping[str, Any] = {"keys": "momentum"}
"""What a configuration without a key of the contrast means: it was written before the key existed."""
RETIRED = (("stretch", 0),)
"""Keys of the contrast that are no more, at the values that mean what goes without them."""


class ContrastConfig(Settings):
    """The contrastive loss (methods that have one)."""

    coefficient: NotNegative
    """Weight alpha of the contrastive loss in the critics' step; without effect where `rate` gives it its own."""
    rate: NotNegative = 0.0
    """Learning rate of an Adam of its own, which takes a step of the encoder for every loss, unclipped; 0 adds the loss
    to the critics', whose gradient and whose clip are then its own."""
    trajectories: Annotated[Whole, Field(ge=4, description="be at least 4")]
    """Trajectories that one loss compares: half queries and positive keys, half negatives (K is half of it plus 1)."""
    pairing: Literal["last", "prefix", "one_age"] = "last"
    """Where trajectories are compared: at their "last" step, at a random "prefix" of each, or all at "one_age", a step
    drawn for all of a loss, so that counting steps tells nothing. Where episodes are learned from in windows, a
    trajectory is a random window of its episode, and its last step is that window's."""
    ranking: Ranking = "return"
    """What tells good skills from bad: the "return", the "advantage" (return less what start, goal and the policy's age
    explain), the "value" that the critic gives to what was done; "shuffled" and "recency" are controls that know
    nothing of skills, see `sampling.rank_by`."""
    hardness: NotNegative = 0.0
    """How much more those negatives weigh that resemble the query; 0 weighs all alike."""
    temperature: Positive
    """beta."""
    keys: Literal["momentum", "encoder"]
    """Which network embeds positives and negatives: the "momentum" encoder psi*, as in the paper, without gradient; or
    the "encoder" psi itself, so that the loss moves both sides apart."""
    every: Count
    """Updates between contrastive losses."""
    patience: Natural = 0
    """Losses in a row that may teach nothing, with a mean bound of at most 0.01 nats, before the run goes on without;
    0 never ends them."""
    unit_length: bool = True
    """Contrast embeddings scaled to unit length."""

    @model_validator(mode="before")
    @classmethod
    def _read_earlier_versions(cls, values: Any) -> Any:
        """Add a key that earlier versions did not write, and leave out one that did nothing."""
        if not isinstance(values, Mapping):
            return values
        return {**EARLIER, **{key: value for key, value in values.items() if (key, value) not in RETIRED}}


class CollectionConfig(Settings):
    """How episodes are collected."""

    collectors: Natural
    """Processes that collect beside the learner; 0 collects in step with learning (deterministic)."""
    envs: Count = 6
    """Environments that each collector process steps side by side; collection in step uses those of the agent."""
    publish_every: Count
    """Updates between new weights for the collectors."""
    tasks: Numbers = ()
    """Which of the environment's training tasks to learn from, by number from 0; empty takes them all."""
    recordings: Texts = ()
    """Recordings of `sami run --record` whose episodes are in the buffer from the beginning."""
    draws: Natural = 32
    """How many tasks to learn from where the training set has no end (ranges, a function): drawn once, by the seed, and
    visited in turn. 0 draws a new one in each episode; a method that compares episodes of one task cannot."""
    episode_steps: Natural = 0
    """Longest episode to learn from; 0 is the environment's own length, which every evaluation has. A robot that falls
    and cannot get up, as an ant on its back, teaches little after it: shorter episodes begin anew more often. Up to ten
    times as long, for a robot that is slower than its simulator."""
    reward: str
    end_on_fall: bool
    """End an episode when the cube has fallen off the table (in training only)."""


class InitConfig(Settings):
    """What a run starts from, if not from nothing; see `resolve.fine_tuned`."""

    source: str = ""
    """A run, a checkpoint, a file of weights or a model, as `--init` names it; empty starts from nothing."""
    sha256: str = ""
    """Of the file that is meant."""
    critic_updates: Natural = 0
    """First updates that train the critics alone: where these begin anew, they would teach the actor nonsense."""
    keep_encoder: bool = False
    """Leave the encoder as it was for the whole run: contexts mean what they meant. There is no contrastive loss."""
    anchor: NotNegative = 0.0
    """What the actor pays for the squared distance between its action and the one it would have taken at first: without
    it an actor is soon no better than what its critics have learned in the meantime."""
    keep_statistics: bool = True
    """Leave the statistics that normalise observations as they were: moving them changes what a trained policy does."""

    @property
    def keeps_statistics(self) -> bool:
        """Whether observations change no statistics."""
        return bool(self.source) and self.keep_statistics


class TrainConfig(Settings):
    """One training run, resolved."""

    env: str = ENV
    method: str = METHOD
    preset: str = PRESET
    """Where the values came from; kept for the record."""
    seed: Natural = 0
    steps: Count
    """Environment steps."""
    checkpoint_every: Count
    """Environment steps between checkpoints."""
    device: str = "auto"
    gap: str = ""
    """The gap to reality that training goes on behind: a `GapProfile` as JSON, so that the run needs no other file."""
    init: InitConfig = InitConfig()
    network: NetworkConfig
    learning: LearningConfig
    contrast: ContrastConfig
    collection: CollectionConfig
    exploration: Exploration = Exploration()
    behind_gap: BehindGap = BehindGap()

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
            raise ConfigError(f"seed {self.seed} begins the episodes that judge policies; train by another seed.")
        if self.learning.hindsight > 0 and self.network.encoder_reads_goal:
            raise ConfigError(
                "learning.hindsight is on and network.encoder_reads_goal is true: hindsight changes goals of single "
                "transitions, which an encoder that reads goals would have seen. Set one of them off."
            )
        if self.learning.hindsight > 0 and self.collection.reward != "sparse":
            raise ConfigError(
                f"learning.hindsight is on and collection.reward is {self.collection.reward!r}: hindsight writes "
                "rewards of -1 and 0. Set collection.reward=sparse or learning.hindsight=0."
            )
        if self.collection.end_on_fall and not self.learning.clip_targets:
            raise ConfigError(
                "collection.end_on_fall is true and learning.clip_targets false: only clipped targets give a lost "
                "episode the worst value, without them falling would end all further cost. Set one the other way."
            )
        return self

    @property
    def gap_profile(self) -> GapProfile | None:
        """The gap to reality that training goes on behind; None without one."""
        return GapProfile.loads(self.gap) if self.gap else None

    def updates_after(self, steps: int) -> int:
        """Return how many updates so many environment steps owe: none before the warm-up ends."""
        past_warmup = max(0, steps - self.exploration.warmup_steps)
        return past_warmup // self.learning.train_every * self.learning.gradient_steps

    def training_tasks(self) -> list[Task]:
        """Return the tasks that the run learns from."""
        space = environment(self.env).tasks
        # Where each episode has a new one, those that stand for the set.
        tasks = space.sets["training"] if self.new_tasks else space.training_tasks(self.collection.draws, self.seed)
        return [tasks[number] for number in self.collection.tasks or range(len(tasks))]

    @property
    def new_tasks(self) -> bool:
        """Whether a new task is drawn in each episode."""
        return "training" in environment(self.env).tasks.drawn and not self.collection.draws

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as they are written to config.json."""
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
    """Return the values of the keys that no preset needs to set, by dotted key."""
    return {key: field.default for key, field in _fields(TrainConfig) if not field.is_required()}


def explained(error: ValidationError, values: Mapping[str, Any]) -> SamiError:
    """Return what is wrong with a configuration: its first wrong key, the value there, and what would be valid."""
    problem = error.errors(include_url=False)[0]
    # Numbers in it count within a list, which is shown as a whole.
    names = [name for name in problem["loc"] if isinstance(name, str)]
    key = ".".join(names)
    fields = FORMER_KEYS.get(key, key).split(".")
    if problem["type"] == "extra_forbidden":
        return UnknownName("config key", key, keys())
    if problem["type"] == "missing" and problem["loc"][-1] == names[-1]:
        return ConfigError(
            f"{key} is missing; a configuration that is written by hand holds every key that presets set. Begin with "
            "a preset: sami_train.config.resolve(PRESET, {KEY: VALUE})."
        )
    kind: Any = TrainConfig
    value: Any = values
    valid = ""
    for name, current in zip(names, fields, strict=False):
        field = kind.model_fields[current]
        kind, value, valid = field.annotation, value[name], field.description
    if problem["type"] == "literal_error":
        return UnknownName(key, str(value), get_args(kind))
    if hasattr(kind, "model_fields"):
        valid = "be a table of values"
    elif problem["type"].endswith("_type"):
        of = "texts" if get_args(kind)[:1] == (str,) else "whole numbers"
        valid = f"be a list of {of}" if get_origin(kind) is tuple else f"be of type {kind.__name__}"
    elif kind is float:
        value = float(value)  # out of range, as it would have been held
    return ConfigError(f"{key or 'the configuration'} is {excerpt(value)}; it must {valid}.")


LEAST_COMPARED = 4
"""Episodes of a task of which a contrastive loss can make two sides: two queries, and something to tell them from."""
LONGER = 10
"""How many times as long as the environment's own an episode to learn from may be: a slow robot takes its time."""


def misfits(config: TrainConfig, spec: EnvironmentSpec) -> Iterator[str]:
    """Yield what in a configuration does not suit its environment; later checks count on the earlier ones."""
    env, collection, learning, behind = config.env, config.collection, config.learning, config.behind_gap
    chosen = method(config.method)
    if config.new_tasks and chosen.estimator is not None:
        yield (
            f"collection.draws is 0, and {chosen.title} compares episodes of one task with one another: give it "
            "a number of tasks to learn from, or take a method without a contrastive loss, e.g. tesac."
        )
    known = () if config.new_tasks else spec.tasks.training_tasks(collection.draws, config.seed)
    if len(set(collection.tasks)) < len(collection.tasks) or not set(collection.tasks) <= set(range(len(known))):
        numbered = ", ".join(f"{number} ({label(task)})" for number, task in enumerate(known))
        yield (
            f"collection.tasks is {list(collection.tasks)}; it must list training tasks of {env} by number, "
            f"each once. There are {numbered or 'none, since each episode draws a new one'}."
        )
    tasks = 0 if config.new_tasks else len(config.training_tasks())
    if chosen.estimator is not None and learning.buffer_episodes < LEAST_COMPARED * tasks:
        yield (
            f"learning.buffer_episodes is {learning.buffer_episodes}, and {env} has {tasks} training tasks: with fewer "
            f"than {LEAST_COMPARED} episodes of each, {config.method} has nothing to compare. Set "
            f"learning.buffer_episodes to at least {LEAST_COMPARED * tasks} (contrast.trajectories in full need "
            f"{config.contrast.trajectories * tasks}), or take fewer tasks by collection.tasks."
        )
    if collection.episode_steps > (most := LONGER * spec.episode_steps):
        yield (
            f"collection.episode_steps is {collection.episode_steps}; an episode of {env} has "
            f"{spec.episode_steps} steps, so give one from 1 to {most}, or 0 for all of them."
        )
    if spec.goal is None:
        cost_to_go = {
            "learning.hindsight": learning.hindsight > 0,
            "learning.clip_targets": learning.clip_targets,
            "collection.end_on_fall": collection.end_on_fall,
        }
        if wrong := [key for key, on in cost_to_go.items() if on]:
            yield (
                f"{', '.join(wrong)}: for environments with goals, and {env} has none. "
                "Leave them as its presets have them: 0, false and false."
            )
    elif collection.end_on_fall and "end_on_fall" not in spec.training_options:
        yield (
            f"collection.end_on_fall is true, and {env} has no fall that could end an episode. "
            "Set collection.end_on_fall=false."
        )
    if config.exploration.reach_episodes and spec.reach is None:
        yield (
            f"exploration.reach_episodes is {config.exploration.reach_episodes}, and {env} has no scripted "
            "reach. Set exploration.reach_episodes=0."
        )
    if learning.reward_offset and spec.ends_early:
        yield (
            f"learning.reward_offset is {learning.reward_offset}, and episodes of {env} end early: it would "
            "change what is worth ending them for. Set learning.reward_offset=0."
        )
    if weight := learning.aux_dynamics:
        if chosen.encoder not in ("lstm", "gaussians"):
            yield (
                f"learning.aux_dynamics is {weight}, and {chosen.title} infers no context that could carry the task. "
                "Set it to 0, or take another --method, e.g. satesac."
            )
        if config.new_tasks:
            yield (
                f"learning.aux_dynamics is {weight} and collection.draws 0: it learns from a number of training tasks. "
                "Give collection.draws one."
            )
        if not standardised(spec.tasks.features, config.training_tasks()).size:
            yield (
                f"learning.aux_dynamics is {weight}, and the training tasks of {env} do not differ by any feature "
                "that a context could carry. Set it to 0."
            )
    if behind.true_goals and spec.goal is None:
        yield f"behind_gap.true_goals is true, and {env} has no goal; leave it false."
    if behind.estimate > 0 and chosen.encoder != "lstm":
        yield (
            f"behind_gap.estimate is {behind.estimate}, and only an LSTM encoder estimates the present, which "
            f"{chosen.title} has not. Set behind_gap.estimate=0, or take another --method, e.g. satesac."
        )
    if behind.full_from and not config.gap:
        yield f"behind_gap.full_from is {behind.full_from}, and there is no gap that could grow. Give one by --gap."
    if behind.clean_share and not config.gap:
        yield f"behind_gap.clean_share is {behind.clean_share}, and there is no gap to leave out. Give one by --gap."
    if behind.keeps_truth and collection.recordings:
        yield (
            "collection.recordings do not tell the true state, which behind_gap.true_goals, true_critic and estimate "
            "learn from. Leave the recordings or these switches out."
        )
