"""The catalogue of environments: built-in, installed by other packages, or a user's own, found by name."""

from __future__ import annotations

import copyreg
import dataclasses
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from gymnasium.envs.registration import load_env_creator, registry

from sami_runtime.errors import SamiError, UnknownName, in_shell
from sami_runtime.user_code import load_named, require_named
from sami_train.envs.spec import EnvironmentSpec

ENVIRONMENTS: dict[str, EnvironmentSpec] = {}
"""The built-in environments by name; `sami_train.envs` registers them."""
GROUP = "sami.environments"
"""Group of entry points by which installed packages add environments: a name, and MODULE:SPEC."""
ROBOT_FILE = "sami_train.envs.mjcf.robot:load_robot"
"""The function that reads a robot's `.toml` file; imported by name, because it needs MuJoCo."""
OWN_ENVIRONMENT = "Your own: MODULE:SPEC, e.g. my_robots:ARM, or the .toml file of a robot."

_of_users: dict[tuple[str, ...], EnvironmentSpec] = {}
"""Users' environments that were loaded, by name, current folder, and modification time of a `.toml` file."""


of_commands: dict[str, EnvironmentSpec] = {}
"""Environments that a command created, by name; only this process finds them, and pickles them by value."""


def environment(name: str) -> EnvironmentSpec:
    """Return an environment's specification.

    Args:
        name: a built-in name or its Gymnasium id; the name of an entry point in the group `sami.environments`;
            MODULE:SPEC, an `EnvironmentSpec` in a module that is installed or in the current folder; or the path of a
            robot's `.toml` file.

    Raises:
        UnknownName: no environment has this name; the message lists the known ones.
        SamiError: the module or file cannot be read, or has no EnvironmentSpec; or a file, not the user, names the
            code, see `only_named`.
    """
    for spec in (*of_commands.values(), *ENVIRONMENTS.values()):
        if name in (spec.name, spec.id):
            return spec
    if is_code(name):
        require_named(name)
    path = Path(name)
    stamp = str(path.stat().st_mtime_ns) if path.suffix == ".toml" and path.is_file() else ""
    key = (name, str(Path.cwd()), stamp)
    if key not in _of_users:
        spec = dataclasses.replace(_find(name), name=name)
        if spec.plain is not None:  # the id of a user's environment does not contain its name yet
            spec = dataclasses.replace(spec, id=f"sami/{spec.short_name}-v0")
        add_environment(spec)
        _of_users[key] = spec
    return _of_users[key]


def is_code(name: str) -> bool:
    """Return whether a name is a path or MODULE:SPEC, whose code only the user may choose to run.

    The name of an installed entry point may contain a colon, but the user has installed it, so that it is safe.
    """
    return (name.endswith(".toml") or ":" in name) and name not in {entry.name for entry in entry_points(group=GROUP)}


def by_name(*names: str) -> str:
    """Return the option that commands need for runs in users' environments: ` --env NAME,...`, or an empty text."""
    code_names = list(dict.fromkeys(name for name in names if is_code(name)))
    return f" --env {in_shell(','.join(code_names))}" if code_names else ""


def is_registered(spec: EnvironmentSpec) -> bool:
    """Return whether `environment` finds this very specification by its name."""
    return any(spec is other for other in (*ENVIRONMENTS.values(), *_of_users.values()))


def spec_of(env: Any) -> EnvironmentSpec | None:
    """Return the specification of a Gymnasium environment; None if it has none (agents can train without one)."""
    carried = getattr(env.unwrapped, "environment", None)
    if isinstance(carried, EnvironmentSpec):
        return carried
    entry = env.spec
    for spec in () if entry is None else (*ENVIRONMENTS.values(), *_of_users.values()):
        if entry.id == spec.id and all(entry.kwargs.get(key) == value for key, value in spec.arguments.items()):
            return spec
    return None


def _find(name: str) -> EnvironmentSpec:
    if name.endswith(".toml"):
        load_robot: Any = load_env_creator(ROBOT_FILE)
        robot: EnvironmentSpec = load_robot(Path(name))
        return robot
    installed: dict[str, EntryPoint] = {point.name: point for point in entry_points(group=GROUP)}
    if name in installed:
        return _spec(installed[name].load(), f"entry point {name}")
    if ":" in name:
        return _spec(load_named(name, "environment", "my_robots:ARM"), name)
    raise UnknownName("environment", name, [*ENVIRONMENTS, *installed], OWN_ENVIRONMENT)


def _spec(thing: Any, name: str) -> EnvironmentSpec:
    """Return `thing` if it is a specification; never call it, because a model file may have named it."""
    if not isinstance(thing, EnvironmentSpec):
        raise SamiError(
            f"{name} is a {type(thing).__name__}; it must be an EnvironmentSpec, e.g. the result of "
            "EnvironmentSpec.from_gymnasium."
        )
    return thing


def _reduce(spec: EnvironmentSpec) -> Any:
    """Pickle a specification by its name if `environment` finds it: a user's functions may not be picklable."""
    return (environment, (spec.name,)) if is_registered(spec) else object.__reduce_ex__(spec, 2)


copyreg.pickle(EnvironmentSpec, _reduce)


def add_environment(spec: EnvironmentSpec) -> None:
    """Register an environment with Gymnasium, under its id."""
    registry[spec.id] = spec.for_gymnasium
