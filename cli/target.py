"""The target that `sami run` and `sami drive` control: a simulator with hidden tasks, or the adapter of a robot."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .options import split_pair

if TYPE_CHECKING:
    from sami_runtime.adapters import Adapter
    from sami_runtime.clock import Clock
    from sami_runtime.model.contract import Contract
    from sami_runtime.robots.kit.commands import CommandSource
    from sami_runtime.safety.gate import Controller
    from sami_train.envs.measure import Skill
    from sami_train.envs.spec import EnvironmentSpec
    from sami_train.envs.tasks import Task, TaskSpace

PARTS = ("observation", "action", "reset", "read", "write", "stop", "close")
"""Attributes that an adapter must have."""
Settings = dict[str, Any]


class Target(NamedTuple):
    """A simulator or a robot that a policy controls."""

    name: str
    make: Callable[[Clock, Contract], Adapter]
    """Creates the adapter for a model's contract; the clock stamps its observations."""
    features: list[str]
    """Names of the features of its tasks; empty for a robot, whose task is unknown."""
    success: bool
    """Whether episodes are judged by success; otherwise by the return."""
    skills: tuple[Skill, ...]
    real: bool
    """Whether the target is a robot, whose time does not wait for the loop."""
    engine: str | None = None
    """Physics engine, if the environment exists in several."""
    tracks: str | None = None
    """Unit of the tracking error, see `EnvironmentSpec.tracks`."""


def robot(name: str, config: Mapping[str, Any] | None = None) -> Target:
    """Return a robot as a target; MODULE:FACTORY creates its adapter, with the user's settings."""

    def adapter(clock: Clock, contract: Contract) -> Adapter:
        return load_adapter(name, clock, contract, None if config is None else dict(config))

    return Target(name, adapter, [], success=True, skills=(), real=True)


def simulator(
    spec: EnvironmentSpec,
    tasks: str,
    fixed: Mapping[str, Any],
    render_mode: str | None,
    source: CommandSource | None = None,
) -> Target:
    """Return a simulator as a target, with a task drawn for each episode; `source` replaces the task's command."""
    from sami_train.envs.adapter import make_adapter
    from sami_train.envs.make import make
    from sami_train.envs.measure import SUCCESS

    selection = _tasks(spec.tasks, tasks, fixed)
    features = [feature.name for feature in spec.tasks.features]

    def adapter(clock: Clock, _: Contract) -> Adapter:
        env = make(spec, tasks=selection, render_mode=render_mode)
        if source is not None:
            env.unwrapped.source = source
        return make_adapter(spec, env, clock)

    has_success = spec.measure is SUCCESS
    return Target(spec.name, adapter, features, has_success, spec.skills, False, spec.engine, spec.tracks)


def task_features(texts: Sequence[str]) -> dict[str, Any]:
    """Parse features of a task from texts NAME=VALUE; `TaskSpace.check` checks them later."""
    from sami_train.envs.tasks import parse_value

    pairs = dict(split_pair(text, "--fix", "length=0.8") for text in texts)
    return {name: parse_value(name, value) for name, value in pairs.items()}


def _tasks(space: TaskSpace, name: str, fixed: Mapping[str, Any]) -> Sequence[Task]:
    """Return the tasks to draw from: a set's (or all sets'), with some features fixed."""
    from sami_runtime.errors import UnknownName

    if name not in (*space.sets, "all"):
        raise UnknownName("task set", name, [*space.sets, "all"])
    names = list(space.sets) if name == "all" else [name]
    return [space.check({**task, **fixed}) for part in names for task in space.resolve(part)]


def load_adapter(name: str, clock: Clock, contract: Contract, config: Settings | None = None) -> Adapter:
    """Create an adapter by `FACTORY(clock)` of `MODULE`, which is installed or in the current folder; or SamiError.

    A factory that declares `contract` or `config` gets them as keyword arguments.
    """
    from sami_runtime.errors import SamiError
    from sami_runtime.factories import load_factory
    from sami_runtime.signals import Signal

    factory = load_factory(name, "adapter", "my_arm:make for make(clock) in my_arm.py")
    adapter: Adapter = _make(name, "an adapter", factory, clock, _keywords(name, factory, contract, config), PARTS)
    declared = (*adapter.observation, adapter.action) if isinstance(adapter.observation, (tuple, list)) else ("",)
    if not all(isinstance(signal, Signal) for signal in declared):
        raise SamiError(
            f"{name}(clock) made a {type(adapter).__name__} whose observation is {adapter.observation!r:.80} and whose "
            f"action is {adapter.action!r:.80}; they must be a tuple of Signals and a Signal; "
            "see docs/how-to/write-an-adapter.md."
        )
    return adapter


def load_fallback(name: str, clock: Clock, contract: Contract, config: Settings | None = None) -> Controller:
    """Create a fallback controller like an adapter; its factory need not accept the adapter's settings."""
    from sami_runtime.factories import load_factory

    factory = load_factory(name, "fallback", "my_arm:retreat for retreat(clock) in my_arm.py")
    keywords = _keywords(name, factory, contract, config, shared=True)
    fallback: Controller = _make(name, "a fallback", factory, clock, keywords, ("reset", "act"))
    return fallback


def _keywords(
    name: str, factory: Callable[..., Any], contract: Contract, config: Settings | None, shared: bool = False
) -> dict[str, Any]:
    """Return the contract and settings as keyword arguments, as far as a factory accepts them; or SamiError."""
    from sami_runtime.errors import SamiError

    try:
        _, *declared = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # it has no parameters, or no signature
        declared = []
    parameters = {arg.name: arg for arg in declared if arg.kind in (arg.POSITIONAL_OR_KEYWORD, arg.KEYWORD_ONLY)}
    accepts_keywords = any(arg.kind is arg.VAR_KEYWORD for arg in declared)
    if config is None and "config" in parameters and parameters["config"].default is inspect.Parameter.empty:
        raise SamiError(
            f"{name} needs settings (config), but none were given. Set settings in the robot's file, or give "
            "--adapter-config."
        )
    if config is not None and not ("config" in parameters or accepts_keywords or shared):
        raise SamiError(
            f"{name} takes no settings, but some were given. Declare them, as in make(clock, config), or leave out "
            "settings in the robot's file, or --adapter-config."
        )
    keywords = {"contract": contract, "config": config}
    return {
        key: value for key, value in keywords.items() if value is not None and (key in parameters or accepts_keywords)
    }


def _make(
    name: str, kind: str, factory: Callable[..., Any], clock: Clock, keywords: Settings, parts: Sequence[str]
) -> Any:
    """Return the object that a factory creates; raise SamiError if it lacks one of these attributes."""
    from sami_runtime.errors import SamiError
    from sami_runtime.factories import call_factory

    result = call_factory(name, factory, clock, signature="clock", **keywords)
    missing = [part for part in parts if getattr(result, part, None) is None]
    if missing:
        page = "intervene" if kind == "a fallback" else "write-an-adapter"
        raise SamiError(
            f"{name}(clock) made a {type(result).__name__}, which lacks {', '.join(missing)}. {kind.capitalize()} has "
            f"{', '.join(parts)}; see docs/how-to/{page}.md."
        )
    return result
