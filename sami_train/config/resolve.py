"""Resolves a preset, overrides and weights to start from into one configuration, with a reason for each value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sami_runtime.errors import UnknownName
from sami_runtime.files import toml_value
from sami_train.config.methods import METHODS, method
from sami_train.config.preset import Derivation, load_preset
from sami_train.config.schema import ENV, METHOD, ConfigError, NetworkConfig, TrainConfig, defaults, keys, present_names
from sami_train.config.weights import WeightsHeader, flat_signals, read_weights, sha256_of, unlike, weights_file
from sami_train.envs.catalog import environment
from sami_train.envs.spec import EnvironmentSpec

FINE_TUNING_RATE = 0.1
"""Learning rates of networks with trained weights, as a fraction of the preset's."""
COOLING = 0.25
"""Initial temperature if the weights have none, as a fraction of the preset's: about where runs end."""
CRITIC_UPDATES = 2_000
"""Updates that train new critics alone."""
ANCHOR = 2.0
"""`InitConfig.anchor` of a trained actor with new critics."""
WARMUP_SHARE = 0.1
"""Longest warm-up of fine-tuning, as a fraction of the run."""


class Resolved(NamedTuple):
    """A configuration, and the reasons for its values that depend on the environment, the weights or an override."""

    config: TrainConfig
    derivations: tuple[Derivation, ...]
    """In the order of the configuration's keys."""


def resolve(preset: str, overrides: Mapping[str, Any] | None = None) -> TrainConfig:
    """Return a preset's configuration, adapted to the environment, with overrides applied.

    Overrides are values by dotted key, e.g. `{"env": "hopper", "learning.discount": 0.97}`.

    Raises:
        ConfigError, UnknownName: a key or value is invalid, or the run is too short for an update.
    """
    return explain(preset, overrides).config


def explain(preset: str, overrides: Mapping[str, Any] | None = None) -> Resolved:
    """Return a preset's configuration with the reasons for its values; arguments and errors as `resolve`."""
    overrides = present_names(overrides or {})
    shorter = overrides.get("collection.episode_steps")
    shorter = shorter if isinstance(shorter, int) and shorter >= 0 else None  # `from_dict` rejects other values
    spec = environment(str(overrides.get("env", ENV)))
    base, derivations = load_preset(preset, spec, shorter)
    if overrides.get("init.source"):
        derivations += fine_tuned(base, {"method": METHOD, **overrides}, spec)
        base |= {follow.key: follow.value for follow in derivations}
    values: dict[str, Any] = {}
    for key, value in {**base, "preset": preset, **overrides}.items():
        section, _, name = key.rpartition(".")
        if section and not isinstance(values.setdefault(section, {}), dict):
            raise UnknownName("config key", key, keys())
        (values[section] if section else values)[name] = value
    config = from_dict(values)
    _require_updates(config)
    resolved, reasons = config.by_key(), {follow.key: follow.why for follow in derivations}
    without = {**defaults(), **base, "preset": preset}
    reasons |= {key: "given" for key, value in overrides.items() if value != without.get(key)}
    return Resolved(config, tuple(Derivation(key, resolved[key], reasons[key]) for key in keys() if key in reasons))


def from_dict(values: Mapping[str, Any]) -> TrainConfig:
    """Return the configuration of plain values, as `to_dict` returns them; raises as `resolve` does."""
    return TrainConfig.model_validate(present_names(values))


def _require_updates(config: TrainConfig) -> None:
    """Raise ConfigError if the run ends before its first update of the policy."""
    steps, warmup, critics = config.steps, config.exploration.warmup_steps, config.init.critic_updates
    after = config.learning.train_every * (critics // config.learning.gradient_steps + 1)
    if steps >= warmup + after:
        return
    shorter = f", or an exploration.warmup_steps of at most {steps - after:,}" if steps >= after else ""
    critics_only = f", {critics:,} updates of the critics alone (init.critic_updates)" if critics else ""
    raise ConfigError(
        f"steps is {steps:,} and exploration.warmup_steps {warmup:,}: the run would learn nothing, since the policy's "
        f"first update comes after {warmup + after:,} steps (the warm-up{critics_only}, then learning.train_every). "
        f"Set steps to at least that{shorter}."
    )


def parse_override(text: str) -> tuple[str, Any]:
    """Split `"learning.discount=0.97"` into key and value (TOML syntax; bare words are strings); else ConfigError."""
    key, equals, raw = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"override {text!r} is not KEY=VALUE, e.g. learning.discount=0.97.")
    return key.strip(), toml_value(raw)


def fine_tuned(values: Mapping[str, Any], overrides: Mapping[str, Any], spec: EnvironmentSpec) -> list[Derivation]:
    """Return the changes of a preset's values for a run that starts from weights (fine-tuning).

    The networks' sizes are those of the weights. The policy acts in the warm-up, at most a tenth of the run; no reach
    is scripted, and greedy episodes have their full share at once. Trained networks learn at a tenth of the
    preset's learning rates, as at the end of a run; new critics at the preset's.

    Both mappings are by dotted key. The overrides must have `init.source` and `method`; the caller applies them later.

    Raises:
        ConfigError: the weights are for other signals, another kind of encoder, or other network sizes than overrides.
        SamiError: the weights cannot be read.
    """
    file = weights_file(str(overrides["init.source"]))
    weights = read_weights(file)
    _require_fit(weights.header, str(overrides["method"]), spec, str(file))
    network = NetworkConfig(**weights.header.network).model_dump(mode="json")
    for key, value in overrides.items():
        table, _, name = key.partition(".")
        plain = list(value) if isinstance(value, tuple) else value
        if table == "network" and name in network and network[name] != plain:
            raise ConfigError(f"{key} is {value!r}, but the weights {file} have {network[name]!r}: leave {key} out.")
    has_critics = any(name.startswith("critic.") for name in weights.arrays)
    changes = [Derivation(f"network.{name}", value, "of the weights") for name, value in network.items()]
    changes += _learning(values, weights.header.temperature, has_critics)
    changes += _exploration(values, overrides.get("steps", values["steps"]))
    return [*changes, Derivation("init.sha256", sha256_of(file), f"of {file.name}")]


def _require_fit(header: WeightsHeader, choice: str, spec: EnvironmentSpec, file: str) -> None:
    if difference := unlike(header.observation, header.actions, spec):
        raise ConfigError(
            f"{file} is of environment {header.env!r} and has other signals than {spec.name!r}: {difference}. "
            "Weights fit only environments with the same signals."
        )
    if list(header.observation) != list(flat_signals(spec)):
        raise ConfigError(f"{file} has the signals of {spec.name!r} in another order: {', '.join(header.observation)}.")
    kind = method(header.method).encoder
    if method(choice).encoder != kind:
        names = ", ".join(name for name, candidate in METHODS.items() if candidate.encoder == kind)
        raise ConfigError(
            f"{file} was trained by {header.method}, but {choice} has another kind of encoder; choose one of: {names}."
        )


def _learning(values: Mapping[str, Any], temperature: float | None, has_critics: bool) -> Iterator[Derivation]:
    rates = ["actor_rate", "encoder_rate", "temperature_rate", *(["critic_rate"] if has_critics else [])]
    for name in rates:
        key = f"learning.{name}"
        yield Derivation(key, values[key] * FINE_TUNING_RATE, f"{FINE_TUNING_RATE:g} of the preset's, as runs end")
    start, lowest = values["learning.initial_temperature"] * COOLING, values["learning.minimum_temperature"]
    reason = "of the weights" if temperature else f"{COOLING:g} of the preset's: the weights have none"
    yield Derivation("learning.initial_temperature", max(temperature or start, lowest), reason)
    if not has_critics:
        reason = "the weights have no critics, so new ones are trained"
        yield Derivation("init.critic_updates", CRITIC_UPDATES, reason)
        yield Derivation("init.keep_encoder", True, reason)
        yield Derivation("init.anchor", ANCHOR, reason)


def _exploration(values: Mapping[str, Any], steps: Any) -> Iterator[Derivation]:
    most = int(steps * WARMUP_SHARE) if isinstance(steps, int | float) else 0  # `from_dict` rejects other values
    reason = "the policy is already trained"
    warmup = min(values["exploration.warmup_steps"], most)
    yield Derivation("exploration.warmup_by_policy", True, reason)
    yield Derivation("exploration.warmup_steps", warmup, f"at most {WARMUP_SHARE:g} of the run")
    yield Derivation("exploration.reach_episodes", 0.0, reason)
    yield Derivation("exploration.greedy_from", 1, reason)
