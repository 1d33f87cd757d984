"""What `sami run` and `sami drive` drive: a simulator with hidden tasks, or a robot of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .load_adapter import load_adapter

if TYPE_CHECKING:
    from sami_runtime.adapters import Adapter
    from sami_runtime.clock import Clock
    from sami_runtime.model.contract import Contract
    from sami_train.envs.skills import Skill
    from sami_train.envs.spec import EnvironmentSpec
    from sami_train.envs.tasks import Task, TaskSpace


class Target(NamedTuple):
    """What a policy is run in."""

    name: str
    """As recordings tell it."""
    make: Callable[[Clock, Contract], Adapter]
    """Its adapter, whose observations the clock stamps, for a model."""
    features: list[str]
    """Of its tasks; none where nobody knows them."""
    success: bool
    """Whether its episodes are judged by success, else by the return."""
    skills: tuple[Skill, ...]
    """That it tells apart, see `EnvironmentSpec.skills`."""
    real: bool
    """Whether its time is that of the world, and observations age while nothing is written."""
    engine: str | None = None
    """Physics engine, where the environment exists in several."""


def robot(name: str, config: Mapping[str, Any] | None = None) -> Target:
    """Return the robot whose adapter MODULE:FACTORY makes, with the user's settings."""

    def driven(clock: Clock, contract: Contract) -> Adapter:
        return load_adapter(name, clock, contract, None if config is None else dict(config))

    return Target(name, driven, [], success=True, skills=(), real=True)


def simulator(spec: EnvironmentSpec, tasks: str, fixed: Mapping[str, Any], render_mode: str | None) -> Target:
    """Return an environment, with a task drawn in each episode.

    Args:
        spec: the environment.
        tasks: a task set, or all.
        fixed: features and the values that they have in every task; None where they are drawn.
        render_mode: Gymnasium's.

    Raises:
        UnknownName, TaskError: there is no such task set, or no such task.
    """
    from sami_train.envs.make import make, make_adapter
    from sami_train.envs.measure import SUCCESS

    chosen = _tasks(spec.tasks, tasks, fixed)
    features = [feature.name for feature in spec.tasks.features]

    def driven(clock: Clock, _: Contract) -> Adapter:
        return make_adapter(spec, make(spec, tasks=chosen, render_mode=render_mode), clock)

    return Target(spec.name, driven, features, spec.measure is SUCCESS, spec.skills, real=False, engine=spec.engine)


def refuse_simulator_options(options: Mapping[str, Any]) -> None:
    """Refuse options that mean nothing on a robot; those that were left out are None.

    Raises:
        SamiError: with the first that was given.
    """
    _refuse(options, "simulators; --adapter drives a robot. Leave one of them out.")


def refuse_robot_options(options: Mapping[str, Any]) -> None:
    """Refuse options that mean nothing in a simulator; those that were left out are None.

    Raises:
        SamiError: with the first that was given.
    """
    _refuse(options, "robots, which `sami drive robot.toml` drives; leave it out.")


def _refuse(options: Mapping[str, Any], meant_for: str) -> None:
    from sami_runtime.errors import SamiError

    for option, value in options.items():
        if value is not None:
            value = " ".join(value) if isinstance(value, list) else value
            raise SamiError(f"--{option} {value} is for {meant_for}")


def fixed(texts: Sequence[str] | None) -> dict[str, Any]:
    """Return the features that are given as NAME=VALUE; text that is no number is left for the task's own check.

    Raises:
        SamiError: there is no `=`.
    """
    from sami_runtime.errors import SamiError

    pairs = [text.partition("=") for text in texts or ()]
    if wrong := ["".join(pair) for pair in pairs if not (pair[0].strip() and pair[1])]:
        raise SamiError(f"--fix {wrong[0]} is not NAME=VALUE, e.g. --fix length=0.8.")
    return {name.strip(): _value_of(name.strip(), value.strip()) for name, _, value in pairs}


def parts(text: str | None) -> Any:
    """Numbers of crippled parts; text that is none is left for the task's own check to refuse."""
    if text is None or text == "none":
        return text and []
    try:
        return [int(number) for number in text.replace("+", ",").split(",")]
    except ValueError:
        return text


def _value_of(name: str, text: str) -> Any:
    if name == "crippled":
        return parts(text)
    try:
        return float(text)
    except ValueError:
        return text


def _tasks(space: TaskSpace, name: str, fixed: Mapping[str, Any]) -> Sequence[Task]:
    """Return the tasks to draw from: a set's (or all sets'), with some features fixed."""
    from sami_runtime.errors import UnknownName

    if name not in (*space.sets, "all"):
        raise UnknownName("task set", name, [*space.sets, "all"])
    names = list(space.sets) if name == "all" else [name]
    tasks = [task for part in names for task in space.resolve(part)]
    pinned = {feature: value for feature, value in fixed.items() if value is not None}
    return [space.check({**task, **pinned}) for task in tasks]
