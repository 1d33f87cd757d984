"""Presets and overrides, resolved into a configuration."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from sami_runtime.errors import UnknownName
from sami_train.config.fine_tuning import fine_tuned
from sami_train.config.preset import Follows, load_preset
from sami_train.config.refusal import FORMER_KEYS, ConfigError
from sami_train.config.schema import ENV, METHOD, TrainConfig, defaults, keys
from sami_train.envs.catalog import environment

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Resolved(NamedTuple):
    """A configuration, and what in it is not the same for every environment."""

    config: TrainConfig
    follows: tuple[Follows, ...]
    """In the order of the configuration's keys."""


def resolve(preset: str, overrides: Mapping[str, Any] | None = None) -> TrainConfig:
    """Return a preset's configuration with overrides by dotted key.

    Args:
        preset: its name.
        overrides: values by dotted key, e.g. `{"env": "hopper", "learning.discount": 0.97}`.

    A preset means what suits the environment: what follows from its fields, and what it asks for itself.

    Raises:
        ConfigError, UnknownName: a key or value is not valid, or nothing would be learned in so few steps.
    """
    return explain(preset, overrides).config


def explain(preset: str, overrides: Mapping[str, Any] | None = None) -> Resolved:
    """Return a preset's configuration with the reasons for its values; arguments and errors as `resolve`."""
    overrides = {FORMER_KEYS.get(key, key): value for key, value in (overrides or {}).items()}
    shorter = overrides.get("collection.episode_steps")
    shorter = shorter if isinstance(shorter, int) and shorter >= 0 else None  # what else it may be is refused below
    spec = environment(str(overrides.get("env", ENV)))
    chosen, follows = load_preset(preset, spec, shorter)
    if overrides.get("init.source"):
        follows += fine_tuned(chosen, {"method": METHOD, **overrides}, spec)
        chosen |= {follow.key: follow.value for follow in follows}
    values: dict[str, Any] = {}
    for key, value in {**chosen, "preset": preset, **overrides}.items():
        section, _, name = key.rpartition(".")
        if section and not isinstance(values.setdefault(section, {}), dict):
            raise UnknownName("config key", key, keys())
        (values[section] if section else values)[name] = value
    config = from_dict(values)
    _require_updates(config)
    held, reasons = config.by_key(), {follow.key: follow.why for follow in follows}
    else_held = {**defaults(), **chosen, "preset": preset}
    reasons |= {key: "given" for key, value in overrides.items() if value != else_held.get(key)}
    return Resolved(config, tuple(Follows(key, held[key], reasons[key]) for key in keys() if key in reasons))


def from_dict(values: Mapping[str, Any]) -> TrainConfig:
    """Return the configuration of plain values, as `to_dict` gives them.

    Raises:
        ConfigError, UnknownName: as `resolve`.
    """
    return TrainConfig.model_validate(values)


def _require_updates(config: TrainConfig) -> None:
    """Refuse a run that is over before its first update; one is the least that a run may have.

    Raises:
        ConfigError: it is.
    """
    if config.updates_after(config.steps) > 0:
        return
    steps, warmup, every = config.steps, config.exploration.warmup_steps, config.learning.train_every
    shorter = f", or an exploration.warmup_steps of at most {steps - every:,}" if steps >= every else ""
    raise ConfigError(
        f"steps is {steps:,} and exploration.warmup_steps {warmup:,}: this would teach nothing, for the first update "
        f"comes after {warmup + every:,} steps (the warm-up, then learning.train_every). Give at least that{shorter}."
    )


def parse_override(text: str) -> tuple[str, Any]:
    """Part `"learning.discount=0.97"` into key and value (TOML syntax; bare words are strings).

    Raises:
        ConfigError: there is no `=`.
    """
    key, equals, raw = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"override {text!r} is not KEY=VALUE, e.g. learning.discount=0.97.")
    try:
        value = tomllib.loads(f"v = {raw}")["v"]
    except tomllib.TOMLDecodeError:
        value = raw.strip()
    return key.strip(), value
