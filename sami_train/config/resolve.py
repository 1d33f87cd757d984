"""Presets and overrides, resolved into a configuration."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from sami_runtime.errors import UnknownName
from sami_train.config.schema import ConfigError, TrainConfig, keys
from sami_train.envs.catalog import environment

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PRESETS = files("sami_train.config").joinpath("presets")


def presets(family: str) -> list[str]:
    """Return the names of the presets that come with the package for a family of environments."""
    return sorted(p.name[: -len(".toml")] for p in _PRESETS.joinpath(family).iterdir() if p.name.endswith(".toml"))


def load_preset(name: str, env: str, episode_steps: int | None = None) -> dict[str, Any]:
    """Return the values of a preset for an environment.

    Args:
        name: of the preset.
        env: the environment.
        episode_steps: as `CollectionConfig.episode_steps`, if it is not to be the preset's; how many episodes a buffer
            holds follows from it.

    Raises:
        UnknownName: there is no such environment, or no such preset for it; lists those that there are.
    """
    spec = environment(env)
    if name not in presets(spec.family):
        raise UnknownName("preset", name, presets(spec.family))
    values = tomllib.loads(_PRESETS.joinpath(spec.family, f"{name}.toml").read_text(encoding="utf-8"))
    follows, own = values.pop("follows", None), values.pop("environments", {}).get(spec.name, {})
    for key, value in own.items():
        values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
    if follows:
        if episode_steps is None:
            episode_steps = values["collection"].get("episode_steps", 0)
        values["learning"]["buffer_episodes"] = follows["buffer_transitions"] // (episode_steps or spec.episode_steps)
        values["learning"]["target_entropy"] = follows["entropy_per_motor"] * spec.action.size
    return values


def resolve(preset: str, overrides: Mapping[str, Any] | None = None) -> TrainConfig:
    """Return a preset's configuration with overrides by dotted key.

    Args:
        preset: its name.
        overrides: values by dotted key, e.g. `{"env": "hopper", "learning.discount": 0.97}`.

    A preset means what suits the family of the environment: `fast-cpu` is one thing for Panda, another for MuJoCo.

    Raises:
        ConfigError, UnknownName: a key or value is not valid.
    """
    overrides = overrides or {}
    shorter = overrides.get("collection.episode_steps")
    shorter = shorter if isinstance(shorter, int) and shorter >= 0 else None  # what else it may be is refused below
    values = load_preset(preset, str(overrides.get("env", TrainConfig().env)), shorter)
    values["preset"] = preset
    for key, value in overrides.items():
        section, _, name = key.rpartition(".")
        if section and not isinstance(values.setdefault(section, {}), dict):
            raise UnknownName("config key", key, keys())
        (values[section] if section else values)[name] = value
    return from_dict(values)


def from_dict(values: Mapping[str, Any]) -> TrainConfig:
    """Return the configuration of plain values, as `to_dict` gives them.

    Raises:
        ConfigError, UnknownName: as `resolve`.
    """
    return TrainConfig.model_validate(values)


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
