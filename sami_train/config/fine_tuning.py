"""What changes in a preset where a run starts from weights that were trained before.

Networks are those of the weights. The warm-up acts with the policy, which it need not find out about at random, and is
a tenth of the run at most; nothing is scripted any more, and greedy episodes have their full share at once. What was
trained goes on at a tenth of the preset's learning rates, as runs end; critics that begin anew learn at all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sami_train.config.preset import Follows
from sami_train.config.refusal import ConfigError
from sami_train.config.schema import NetworkConfig
from sami_train.config.warm_start.alike import flat_signals, unlike
from sami_train.config.warm_start.find import load_weights, weights_file
from sami_train.config.warm_start.weights import WeightsHeader, sha256_of
from sami_train.envs.spec import EnvironmentSpec
from sami_train.methods.methods import METHODS, method

RATE = 0.1
"""Share of the preset's learning rates for what was trained before."""
COOLER = 0.25
"""Share of the preset's initial temperature where the weights do not tell one: runs end about there."""
CRITIC_UPDATES = 2_000
"""Updates for critics that begin anew."""
ANCHOR = 2.0
"""What an actor pays for leaving what it did, where its critics begin anew."""
WARMUP_SHARE = 0.1
"""Longest warm-up, as a share of the run."""


def fine_tuned(chosen: Mapping[str, Any], overrides: Mapping[str, Any], spec: EnvironmentSpec) -> list[Follows]:
    """Return what changes in a preset's values for a run that starts from weights.

    Args:
        chosen: the preset's values by dotted key.
        overrides: by dotted key, with `init.source` and `method` among them; they are applied later, and win.
        spec: the environment.

    Raises:
        ConfigError: the weights are of other signals, another kind of encoder, or other networks than asked for.
        SamiError: they cannot be read.
    """
    file = weights_file(str(overrides["init.source"]))
    weights = load_weights(file)
    _require_fit(weights.header, str(overrides["method"]), spec, str(file))
    network = NetworkConfig(**weights.header.network).model_dump(mode="json")
    for key, value in overrides.items():
        table, _, name = key.partition(".")
        wanted = list(value) if isinstance(value, tuple) else value
        if table == "network" and name in network and network[name] != wanted:
            raise ConfigError(f"{key} is {value!r}, and {file} has {network[name]!r}: leave it out.")
    changes = [Follows(f"network.{name}", value, "of the weights") for name, value in network.items()]
    changes += _learning(chosen, weights.header.temperature, weights.has_critics)
    changes += _exploration(chosen, overrides.get("steps", chosen["steps"]))
    return [*changes, Follows("init.sha256", sha256_of(file), f"of {file.name}")]


def _require_fit(header: WeightsHeader, wanted: str, spec: EnvironmentSpec, file: str) -> None:
    if difference := unlike(header.observation, header.actions, spec):
        raise ConfigError(
            f"{file} is of environment {header.env!r} and has other signals than {spec.name!r}: {difference}. "
            "Weights go on in environments with the same signals only."
        )
    if list(header.observation) != list(flat_signals(spec)):
        raise ConfigError(f"{file} has the signals of {spec.name!r} in another order: {', '.join(header.observation)}.")
    kind = method(header.method).encoder
    if method(wanted).encoder != kind:
        alike = ", ".join(name for name, candidate in METHODS.items() if candidate.encoder == kind)
        raise ConfigError(
            f"{file} was trained by {header.method}, and {wanted} has another kind of encoder; go on with: {alike}."
        )


def _learning(chosen: Mapping[str, Any], temperature: float | None, has_critics: bool) -> Iterator[Follows]:
    trained = ["actor_rate", "encoder_rate", "temperature_rate", *(["critic_rate"] if has_critics else [])]
    for name in trained:
        key = f"learning.{name}"
        yield Follows(key, chosen[key] * RATE, f"{RATE:g} of the preset's, as runs end")
    start, lowest = chosen["learning.initial_temperature"] * COOLER, chosen["learning.minimum_temperature"]
    why = "of the weights" if temperature else f"{COOLER:g} of the preset's: the weights tell none"
    yield Follows("learning.initial_temperature", max(temperature or start, lowest), why)
    if not has_critics:
        why = "the weights have no critics: they begin anew"
        yield Follows("init.critic_updates", CRITIC_UPDATES, why)
        yield Follows("init.keep_encoder", True, why)
        yield Follows("init.anchor", ANCHOR, why)


def _exploration(chosen: Mapping[str, Any], steps: Any) -> Iterator[Follows]:
    most = int(steps * WARMUP_SHARE) if isinstance(steps, int | float) else 0  # what else it may be is refused later
    known = "the policy was trained before"
    warmup = min(chosen["exploration.warmup_steps"], most)
    yield Follows("exploration.warmup_by_policy", True, known)
    yield Follows("exploration.warmup_steps", warmup, f"at most {WARMUP_SHARE:g} of the run")
    yield Follows("exploration.reach_episodes", 0.0, known)
    yield Follows("exploration.greedy_from", 1, known)
