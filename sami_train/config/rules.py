"""What a configuration must keep: ranges of single values, and values that do not go together."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.gap.profile import GapProfile
from sami_train.envs.catalog import environment
from sami_train.envs.tasks import label

if TYPE_CHECKING:
    from sami_train.config.schema import TrainConfig


class ConfigError(SamiError):
    """A configuration that cannot be used."""


_LOWEST: dict[str, int] = {
    "seed": 0,
    "steps": 1,
    "checkpoint_every": 1,
    "network.hidden_size": 1,
    "network.context_size": 1,
    "learning.batch_episodes": 1,
    "learning.batch_transitions": 0,
    "learning.steps_per_draw": 1,
    "learning.window": 0,
    "learning.burn_in": 0,
    "learning.train_every": 1,
    "learning.gradient_steps": 1,
    "learning.buffer_episodes": 1,
    "contrast.every": 1,
    "contrast.trajectories": 4,
    "collection.envs": 1,
    "collection.collectors": 0,
    "collection.publish_every": 1,
    "collection.episode_steps": 0,
    "exploration.warmup_steps": 0,
    "exploration.reach_until": 1,
    "exploration.greedy_from": 1,
}
"""Smallest whole number that a key takes."""
_POSITIVE = (
    *(f"learning.{name}_rate" for name in ("actor", "critic", "encoder", "temperature", "critic_target", "momentum")),
    "learning.initial_temperature",
    "contrast.temperature",
)
_SHARES = (
    *("learning.discount", "learning.hindsight", "learning.decay_from", "learning.decay_to"),
    *(f"exploration.{name}" for name in ("random_action", "reach_episodes", "greedy_episodes")),
)
_NOT_NEGATIVE = ("contrast.coefficient", "contrast.hardness", "learning.divergence_coefficient")
_CHOICES = {"contrast.pairing": ("last", "prefix", "all_steps"), "contrast.ranking": ("return", "value")}
_SPANS = ("exploration.random_hold", "exploration.reach_steps")


def check(config: TrainConfig) -> None:
    """Refuse what would end a run in its middle, make it do nothing, or teach it something wrong.

    Raises:
        ConfigError: with the key, its value, and what would be valid.
    """
    _check_numbers(config)
    _check_tasks(config)
    _check_together(config)
    if config.gap:
        GapProfile.loads(config.gap).require_fit(environment(config.env).signals)


def _check_numbers(config: TrainConfig) -> None:

    def value(key: str) -> Any:
        return functools.reduce(getattr, key.split("."), config)

    for key, low in _LOWEST.items():
        if value(key) < low:
            raise ConfigError(f"{key} is {value(key)}; it must be at least {low}.")
    for key in _POSITIVE:
        if not 0.0 < value(key) < math.inf:
            raise ConfigError(f"{key} is {value(key)}; it must be a number greater than 0.")
    for key in _NOT_NEGATIVE:
        if not 0.0 <= value(key) < math.inf:
            raise ConfigError(f"{key} is {value(key)}; it must be a number of at least 0.")
    for key, choices in _CHOICES.items():
        if value(key) not in choices:
            raise UnknownName(key, value(key), choices)
    for key in _SHARES:
        if not 0.0 <= value(key) <= 1.0:
            raise ConfigError(f"{key} is {value(key)}; it must lie between 0 and 1.")
    for key in _SPANS:
        span = value(key)
        if len(span) != 2 or not 1 <= span[0] <= span[1]:
            raise ConfigError(f"{key} is {list(span)}; it must be [shortest, longest], each at least 1.")
    for key in ("network.net_arch", "network.encoder_units"):
        if not value(key) or min(value(key)) < 1:
            raise ConfigError(f"{key} is {list(value(key))}; it must list at least one layer's units.")


def _check_tasks(config: TrainConfig) -> None:
    chosen = config.collection.tasks
    known = environment(config.env).tasks.sets["training"]
    if len(set(chosen)) < len(chosen) or not all(0 <= number < len(known) for number in chosen):
        numbered = ", ".join(f"{number} ({label(task)})" for number, task in enumerate(known))
        raise ConfigError(
            f"collection.tasks is {list(chosen)}; it must list training tasks of {config.env} by number, each once. "
            f"There are {numbered}."
        )


def _check_together(config: TrainConfig) -> None:
    if config.collection.episode_steps > (longest := environment(config.env).episode_steps):
        raise ConfigError(
            f"collection.episode_steps is {config.collection.episode_steps}; an episode of {config.env} has {longest} "
            f"steps, so give one from 1 to {longest}, or 0 for all of them."
        )
    if environment(config.env).goal is None:
        cost_to_go = {
            "learning.hindsight": config.learning.hindsight > 0,
            "learning.clip_targets": config.learning.clip_targets,
            "collection.end_on_fall": config.collection.end_on_fall,
        }
        wrong = [key for key, on in cost_to_go.items() if on]
        if wrong:
            raise ConfigError(
                f"{', '.join(wrong)}: for environments with goals, and {config.env} has none. "
                "Leave them as its presets have them: 0, false and false."
            )
    if config.learning.reward_offset and environment(config.env).ends_early:
        raise ConfigError(
            f"learning.reward_offset is {config.learning.reward_offset}, and episodes of {config.env} end early: it "
            "would change what is worth ending them for. Set learning.reward_offset=0."
        )
    if config.learning.burn_in and config.learning.burn_in >= config.learning.window:
        raise ConfigError(
            f"learning.burn_in is {config.learning.burn_in} and learning.window {config.learning.window}: the burn-in "
            "must be shorter than the window, or nothing is left to learn from. Whole episodes (window 0) need none."
        )
    if config.learning.hindsight > 0 and config.network.encoder_reads_goal:
        raise ConfigError(
            "learning.hindsight is on and network.encoder_reads_goal is true: hindsight changes goals of single "
            "transitions, which an encoder that reads goals would have seen. Set one of them off."
        )
    if config.learning.hindsight > 0 and config.collection.reward != "sparse":
        raise ConfigError(
            f"learning.hindsight is on and collection.reward is {config.collection.reward!r}: hindsight "
            "rewrites rewards as -1 or 0, so it needs the sparse reward. Set collection.reward=sparse "
            "or learning.hindsight=0."
        )
    if config.learning.clip_targets and config.learning.discount == 1.0:
        raise ConfigError(
            f"learning.discount is {config.learning.discount}; with learning.clip_targets it must be below 1, since "
            "targets are kept above -1 / (1 - discount)."
        )
    if config.collection.end_on_fall and not config.learning.clip_targets:
        raise ConfigError(
            "collection.end_on_fall is true and learning.clip_targets false: only clipped targets give a lost "
            "episode the worst value, without them falling would end all further cost. Set one the other way."
        )
