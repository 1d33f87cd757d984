"""Presets: hyperparameters that adapt to the environment, each with the reason for its value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from typing import Any, NamedTuple

from sami_runtime.errors import UnknownName
from sami_runtime.files import tomllib
from sami_train.config.schema import present_names
from sami_train.envs.spec import EnvironmentSpec

_PRESETS = files("sami_train.config").joinpath("presets")
_FORESIGHT = (10, 100)
"""Shortest and longest horizon of a discount, 1 / (1 - discount), in steps."""
SHORT = 200
"""Steps of the longest episode that counts as short. On whole episodes of 200 steps a gradient step costs as much as on
windows, and needs no stored state; on episodes of 400 steps it takes 1.6 times as long."""


class Condition(NamedTuple):
    """A property of an environment, but never its name, so that presets also suit a user's own environment."""

    holds: Callable[[EnvironmentSpec], bool]
    wording: str
    """How messages name it, after "the environment has"; may contain `{episode_steps}`."""


CONDITIONS = {
    "goal": Condition(lambda spec: spec.goal is not None, "a goal"),
    "no goal": Condition(lambda spec: spec.goal is None, "no goal"),
    "short episodes": Condition(lambda spec: spec.episode_steps <= SHORT, "{episode_steps} steps an episode"),
    "long episodes": Condition(lambda spec: spec.episode_steps > SHORT, "{episode_steps} steps an episode"),
    "ends early": Condition(lambda spec: spec.ends_early, "episodes that may end early"),
    "scripted reach": Condition(lambda spec: spec.reach is not None, "a scripted reach"),
    "ends on a fall": Condition(lambda spec: "end_on_fall" in spec.training_options, "episodes that a fall may end"),
    "native batch": Condition(lambda spec: spec.batch_entry_point is not None, "a native batch"),
    "no native batch": Condition(lambda spec: spec.batch_entry_point is None, "no native batch"),
}
"""Conditions by the names that presets use in `when`."""


def describe_conditions(spec: EnvironmentSpec, *names: str) -> str:
    """Return conditions in words, e.g. `a goal, 50 steps an episode`; without names, all that the environment meets."""
    conditions = names or [name for name, condition in CONDITIONS.items() if condition.holds(spec)]
    return ", ".join(CONDITIONS[name].wording.format(episode_steps=f"{spec.episode_steps:,}") for name in conditions)


class Derivation(NamedTuple):
    """A value that depends on the environment, the weights or an override, with the reason for it."""

    key: str
    """Dotted key of the configuration."""
    value: Any
    why: str
    """The reason, in words."""


def presets() -> list[str]:
    """Return the names of the built-in presets."""
    return sorted(file.name.removesuffix(".toml") for file in _PRESETS.iterdir() if file.name.endswith(".toml"))


def load_preset(
    name: str, spec: EnvironmentSpec, episode_steps: int | None = None
) -> tuple[dict[str, Any], list[Derivation]]:
    """Return a preset's values for an environment by dotted key, and the reasons for those that depend on it.

    `episode_steps` overrides the preset's `CollectionConfig.episode_steps`, by which the buffer's size is computed.
    UnknownName, with a list of all presets, if there is none of this name.
    """
    if name not in presets():
        raise UnknownName("preset", name, presets())
    table = tomllib.loads(_PRESETS.joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    parts = table.pop("part", [])
    values = dict(_by_key(table))
    derivations: dict[str, Derivation] = {}

    def take(changes: Mapping[str, Any], why: str) -> None:
        values.update(changes)
        derivations.update({key: Derivation(key, value, why) for key, value in changes.items()})

    for part in parts:
        when, why = part.pop("when"), part.pop("why")
        if all(CONDITIONS[condition].holds(spec) for condition in when):
            take(dict(_by_key(part)), f"{describe_conditions(spec, *when)}: {why}")
    own_preset = present_names(spec.hyperparameters.get(name, {}))
    take(own_preset, f"what {spec.name} asks for")
    if episode_steps is None:
        episode_steps = values.get("collection.episode_steps", 0)
    inputs = {key: values.pop(key) for key in list(values) if key.startswith("follows.")}
    worked_out = _worked_out(inputs, spec, episode_steps or spec.episode_steps, values["contrast.trajectories"])
    for key, value, why in worked_out:
        if key not in own_preset:
            take({key: value}, why)
    return values, [follow for key, follow in derivations.items() if key in values]


def _worked_out(
    inputs: Mapping[str, Any], spec: EnvironmentSpec, learned_steps: int, compared: int
) -> Iterator[Derivation]:
    """Compute the values that depend on numbers of the environment, by the preset's table `follows`.

    Training episodes have `learned_steps`, evaluation episodes the spec's; a loss compares `compared` trajectories.
    """
    transitions, entropy = inputs["follows.buffer_transitions"], inputs["follows.entropy_per_motor"]
    episodes = max(1, transitions // learned_steps)
    why = f"{transitions:,} transitions, {learned_steps:,} steps an episode"
    tasks = len(spec.tasks.sets["training"])
    if tasks > 1 and episodes < tasks * compared:
        episodes, why = tasks * compared, f"{compared} trajectories of each of {tasks} tasks, for a contrast to compare"
    yield Derivation("learning.buffer_episodes", episodes, why)
    why = f"{entropy:g} for each number of an action, of which there are {spec.action.size}"
    yield Derivation("learning.target_entropy", entropy * spec.action.size, why)
    if share := inputs.get("follows.foresight"):
        steps = min(max(share * spec.episode_steps, _FORESIGHT[0]), _FORESIGHT[1])
        why = f"looks {steps:g} steps ahead: {share:g} of an episode, from {_FORESIGHT[0]} to {_FORESIGHT[1]}"
        yield Derivation("learning.discount", round(1.0 - 1.0 / steps, 4), why)


def _by_key(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _by_key(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
