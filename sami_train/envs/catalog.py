"""Every environment that there is, and how one is found."""

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
"""Those that are built in, by name; `sami_train.envs` registers them."""
GROUP = "sami.environments"
"""Entry points by which installed packages bring theirs: a name, and MODULE:SPEC."""
ROBOT_FILE = "sami_train.envs.mjcf.robot:load_robot"
"""What reads a robot's `.toml` file; it needs MuJoCo, so it is loaded by name."""
OWN_ENVIRONMENT = "Your own: MODULE:SPEC, e.g. my_robots:ARM, or the .toml file of a robot."

_of_users: dict[tuple[str, ...], EnvironmentSpec] = {}
"""Those of users that were found, by name and what else decides what that is: the folder, and when it was written."""


added: dict[str, EnvironmentSpec] = {}
"""Those that a command made, which `environment` finds in this process; other processes get them as they are."""


def environment(name: str) -> EnvironmentSpec:
    """Find an environment.

    Args:
        name: of the catalogue, or its Gymnasium id; of an entry point in the group `sami.environments`; MODULE:SPEC, an
            `EnvironmentSpec` in a module that is installed or lies in the current folder; or the path of a robot's
            `.toml` file.

    Raises:
        UnknownName: there is none; lists those that there are.
        SamiError: the module or file cannot be read, or holds something else; or it is code that no user named, see
            `only_named`.
    """
    for spec in (*added.values(), *ENVIRONMENTS.values()):
        if name in (spec.name, spec.id):
            return spec
    if is_code(name):
        require_named(name, "environment")
    path = Path(name)
    written = str(path.stat().st_mtime_ns) if path.suffix == ".toml" and path.is_file() else ""
    key = (name, str(Path.cwd()), written)
    if key not in _of_users:
        spec = dataclasses.replace(_find(name), name=name)
        if spec.plain is not None:  # whose id is only that of what it is made of
            spec = dataclasses.replace(spec, id=f"sami/{spec.short_name}-v0")
        make_known(spec)
        _of_users[key] = spec
    return _of_users[key]


def is_code(name: str) -> bool:
    """Whether a name is a path or MODULE:SPEC, which whoever wrote it chose, and not one that something installed has.

    An entry point's may hold a colon, and nobody but the user installs one.
    """
    return (name.endswith(".toml") or ":" in name) and name not in {entry.name for entry in entry_points(group=GROUP)}


def by_name(*names: str) -> str:
    """Return the option that a command needs for runs in these environments: ` --env NAME`, or nothing."""
    code_names = list(dict.fromkeys(name for name in names if is_code(name)))
    return f" --env {in_shell(','.join(code_names))}" if code_names else ""


def is_found(spec: EnvironmentSpec) -> bool:
    """Whether `environment` finds this very one by its name."""
    return any(spec is known for known in (*ENVIRONMENTS.values(), *_of_users.values()))


def spec_of(env: Any) -> EnvironmentSpec | None:
    """Return the specification of an environment that was made; None where it has none: agents also learn on such."""
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
    """Return a specification: a model file names its environment, and what a file names must not be called."""
    if not isinstance(thing, EnvironmentSpec):
        raise SamiError(
            f"{name} is a {type(thing).__name__}; it must be an EnvironmentSpec, e.g. what "
            "EnvironmentSpec.from_gymnasium returns."
        )
    return thing


def _reduce(spec: EnvironmentSpec) -> Any:
    """Cross processes and files by name where the name finds it: not every function of a user's could."""
    return (environment, (spec.name,)) if is_found(spec) else object.__reduce_ex__(spec, 2)


copyreg.pickle(EnvironmentSpec, _reduce)


def make_known(spec: EnvironmentSpec) -> None:
    """Let `gymnasium.make` make an environment by its id."""
    registry[spec.id] = spec.for_gymnasium
