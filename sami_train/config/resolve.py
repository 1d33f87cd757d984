"""Presets, overrides and weights to start from, resolved into a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sami_runtime.errors import UnknownName
from sami_runtime.files import toml_value
from sami_train.config.methods import METHODS, method
from sami_train.config.preset import Derivation, load_preset
from sami_train.config.schema import ENV, FORMER_KEYS, METHOD, ConfigError, NetworkConfig, TrainConfig, defaults, keys
from sami_train.config.weights import WeightsHeader, flat_signals, read_weights, sha256_of, unlike, weights_file
from sami_train.envs.catalog import environment
from sami_train.envs.spec import EnvironmentSpec

FINE_TUNING_RATE = 0.1
"""Share of the preset's learning rates for what was trained before."""
COOLING = 0.25
"""Share of the preset's initial temperature where the weights do not tell one: runs end about there."""
CRITIC_UPDATES = 2_000
"""Updates for critics that begin anew."""
ANCHOR = 2.0
"""What an actor pays for leaving what it did, where its critics begin anew."""
WARMUP_SHARE = 0.1
"""Longest warm-up, as a share of the run."""


class Resolved(NamedTuple):
    """A configuration, and what in it is not the same for every environment."""

    config: TrainConfig
    derivations: tuple[Derivation, ...]
    """In the order of the configuration's keys."""


def resolve(preset: str, overrides: Mapping[str, Any] | None = None) -> TrainConfig:
    """Return a preset's configuration: what follows from the environment's fields, and what it asks for itself.

    Overrides are values by dotted key, e.g. `{"env": "hopper", "learning.discount": 0.97}`.

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
    chosen, derivations = load_preset(preset, spec, shorter)
    if overrides.get("init.source"):
        derivations += fine_tuned(chosen, {"method": METHOD, **overrides}, spec)
        chosen |= {follow.key: follow.value for follow in derivations}
    values: dict[str, Any] = {}
    for key, value in {**chosen, "preset": preset, **overrides}.items():
        section, _, name = key.rpartition(".")
        if section and not isinstance(values.setdefault(section, {}), dict):
            raise UnknownName("config key", key, keys())
        (values[section] if section else values)[name] = value
    config = from_dict(values)
    _require_updates(config)
    held, reasons = config.by_key(), {follow.key: follow.why for follow in derivations}
    else_held = {**defaults(), **chosen, "preset": preset}
    reasons |= {key: "given" for key, value in overrides.items() if value != else_held.get(key)}
    return Resolved(config, tuple(Derivation(key, held[key], reasons[key]) for key in keys() if key in reasons))


def from_dict(values: Mapping[str, Any]) -> TrainConfig:
    """Return the configuration of plain values, as `to_dict` gives them; errors as `resolve`."""
    return TrainConfig.model_validate(values)


def _require_updates(config: TrainConfig) -> None:
    """Refuse a run that is over before its first update; one is the least that a run may have."""
    if config.updates_after(config.steps) > 0:
        return
    steps, warmup, every = config.steps, config.exploration.warmup_steps, config.learning.train_every
    shorter = f", or an exploration.warmup_steps of at most {steps - every:,}" if steps >= every else ""
    raise ConfigError(
        f"steps is {steps:,} and exploration.warmup_steps {warmup:,}: this would teach nothing, for the first update "
        f"comes after {warmup + every:,} steps (the warm-up, then learning.train_every). Give at least that{shorter}."
    )


def parse_override(text: str) -> tuple[str, Any]:
    """Part `"learning.discount=0.97"` into key and value (TOML syntax; bare words are strings)."""
    key, equals, raw = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"override {text!r} is not KEY=VALUE, e.g. learning.discount=0.97.")
    return key.strip(), toml_value(raw)


def fine_tuned(chosen: Mapping[str, Any], overrides: Mapping[str, Any], spec: EnvironmentSpec) -> list[Derivation]:
    """Return what changes in a preset's values for a run that starts from weights.

    Networks are those of the weights. The warm-up acts with the policy, which it need not find out about at random, and
    is a tenth of the run at most; nothing is scripted any more, and greedy episodes have their full share at once. What
    was trained goes on at a tenth of the preset's learning rates, as runs end; critics that begin anew learn at all of
    them.

    Both mappings are by dotted key; the overrides, with `init.source` and `method` among them, are applied later.

    Raises:
        ConfigError: the weights are of other signals, another kind of encoder, or other networks than asked for.
        SamiError: they cannot be read.
    """
    file = weights_file(str(overrides["init.source"]))
    weights = read_weights(file)
    _require_fit(weights.header, str(overrides["method"]), spec, str(file))
    network = NetworkConfig(**weights.header.network).model_dump(mode="json")
    for key, value in overrides.items():
        table, _, name = key.partition(".")
        plain = list(value) if isinstance(value, tuple) else value
        if table == "network" and name in network and network[name] != plain:
            raise ConfigError(f"{key} is {value!r}, and {file} has {network[name]!r}: leave it out.")
    has_critics = any(name.startswith("critic.") for name in weights.arrays)
    changes = [Derivation(f"network.{name}", value, "of the weights") for name, value in network.items()]
    changes += _learning(chosen, weights.header.temperature, has_critics)
    changes += _exploration(chosen, overrides.get("steps", chosen["steps"]))
    return [*changes, Derivation("init.sha256", sha256_of(file), f"of {file.name}")]


def _require_fit(header: WeightsHeader, chosen: str, spec: EnvironmentSpec, file: str) -> None:
    if difference := unlike(header.observation, header.actions, spec):
        raise ConfigError(
            f"{file} is of environment {header.env!r} and has other signals than {spec.name!r}: {difference}. "
            "Weights go on in environments with the same signals only."
        )
    if list(header.observation) != list(flat_signals(spec)):
        raise ConfigError(f"{file} has the signals of {spec.name!r} in another order: {', '.join(header.observation)}.")
    kind = method(header.method).encoder
    if method(chosen).encoder != kind:
        alike = ", ".join(name for name, candidate in METHODS.items() if candidate.encoder == kind)
        raise ConfigError(
            f"{file} was trained by {header.method}, and {chosen} has another kind of encoder; go on with: {alike}."
        )


def _learning(chosen: Mapping[str, Any], temperature: float | None, has_critics: bool) -> Iterator[Derivation]:
    trained = ["actor_rate", "encoder_rate", "temperature_rate", *(["critic_rate"] if has_critics else [])]
    for name in trained:
        key = f"learning.{name}"
        yield Derivation(key, chosen[key] * FINE_TUNING_RATE, f"{FINE_TUNING_RATE:g} of the preset's, as runs end")
    start, lowest = chosen["learning.initial_temperature"] * COOLING, chosen["learning.minimum_temperature"]
    why = "of the weights" if temperature else f"{COOLING:g} of the preset's: the weights tell none"
    yield Derivation("learning.initial_temperature", max(temperature or start, lowest), why)
    if not has_critics:
        why = "the weights have no critics: they begin anew"
        yield Derivation("init.critic_updates", CRITIC_UPDATES, why)
        yield Derivation("init.keep_encoder", True, why)
        yield Derivation("init.anchor", ANCHOR, why)


def _exploration(chosen: Mapping[str, Any], steps: Any) -> Iterator[Derivation]:
    most = int(steps * WARMUP_SHARE) if isinstance(steps, int | float) else 0  # what else it may be is refused later
    known = "the policy was trained before"
    warmup = min(chosen["exploration.warmup_steps"], most)
    yield Derivation("exploration.warmup_by_policy", True, known)
    yield Derivation("exploration.warmup_steps", warmup, f"at most {WARMUP_SHARE:g} of the run")
    yield Derivation("exploration.reach_episodes", 0.0, known)
    yield Derivation("exploration.greedy_from", 1, known)
