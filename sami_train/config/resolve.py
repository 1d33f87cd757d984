"""Presets and overrides, resolved into a configuration."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from sami_runtime.errors import UnknownName
from sami_train.config.rules import ConfigError
from sami_train.config.schema import TrainConfig, keys
from sami_train.envs.catalog import environment

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PRESETS = files("sami_train.config").joinpath("presets")


def presets(family: str) -> list[str]:
    """Names of the presets that come with the package for a family of environments."""
    return sorted(p.name[: -len(".toml")] for p in _PRESETS.joinpath(family).iterdir() if p.name.endswith(".toml"))


def load_preset(name: str, env: str, episode_steps: int | None = None) -> dict[str, Any]:
    """Values of a preset for an environment.

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
    """The configuration of a preset with overrides by dotted key, e.g. `{"env": "hopper", "learning.discount": 0.97}`.

    A preset means what suits the family of the environment: `fast-cpu` is one thing for Panda, another for MuJoCo.

    Raises:
        ConfigError, UnknownName: a key or value is not valid.
    """
    overrides = overrides or {}
    shorter = overrides.get("collection.episode_steps")
    shorter = shorter if isinstance(shorter, int) and shorter >= 0 else None  # what else it may be is refused below
    values = load_preset(preset, str(overrides.get("env", TrainConfig.env)), shorter)
    values["preset"] = preset
    for key, value in overrides.items():
        section, _, name = key.rpartition(".")
        if section and not isinstance(values.setdefault(section, {}), dict):
            raise UnknownName("config key", key, keys())
        (values[section] if section else values)[name] = value
    return from_dict(values)


def from_dict(values: Mapping[str, Any]) -> TrainConfig:
    """A configuration from plain values, as `to_dict` gives them.

    Raises:
        ConfigError, UnknownName: as `resolve`.
    """
    return _build(TrainConfig, values, "")


def parse_override(text: str) -> tuple[str, Any]:
    """`"learning.discount=0.97"` to its key and value (TOML syntax; bare words are strings).

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


def _build(kind: Any, values: Mapping[str, Any], prefix: str) -> Any:
    hints = typing.get_type_hints(kind)
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if name not in hints:
            raise UnknownName("config key", prefix + name, keys())
        arguments[name] = _convert(hints[name], value, prefix + name)
    return kind(**arguments)


def _convert(hint: Any, value: Any, key: str) -> Any:
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{key} is {value!r}; it must be a table of values.")
        return _build(hint, value, key + ".")
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, Sequence) or isinstance(value, str) or not all(type(v) is int for v in value):
            raise ConfigError(f"{key} is {value!r}; it must be a list of whole numbers.")
        return tuple(value)
    if hint is float and type(value) in (int, float):
        return float(value)
    if hint is int and type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not hint:
        raise ConfigError(f"{key} is {value!r}; it must be of type {hint.__name__}.")
    return value
