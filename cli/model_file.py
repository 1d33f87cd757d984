"""Model files as users name them, and the environments that they run in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sami_runtime.model.contract import Contract
    from sami_runtime.session.admission import Admission
    from sami_train.envs.spec import EnvironmentSpec

DEFAULT = "panda"
"""Environment if the user names neither a model nor an environment."""


def model_file(path: Path | None) -> Path | None:
    """Return the file at this path, else the shipped model of this name; raise UnknownName if there is neither."""
    if path is None or path.is_file() or path.name != str(path) or path.suffix:
        return path
    from sami_runtime.distribution import shipped_models
    from sami_runtime.errors import UnknownName

    shipped = shipped_models()
    if path.name in shipped:
        return shipped[path.name]
    if not path.exists():
        raise UnknownName("model", path.name, shipped, "Or give the path of a file, NAME.onnx.")
    return path


def named_file(name: str) -> Path:
    """Return the model file that a robot's file names; see `model_file`."""
    path = Path(name)
    return model_file(path) or path


def environment_of(contract: Contract, env: str | None) -> EnvironmentSpec:
    """Return the environment `env`, or the model's training environment; raise SamiError if it does not fit."""
    from sami_runtime.errors import SamiError
    from sami_runtime.user_code import require_named
    from sami_train.envs.catalog import environment, is_code

    if env is not None and (scene := _scene(contract, env)):
        return scene
    trained_in = contract.training.get("env")
    name = trained_in if env is None else env
    if name is None:
        raise SamiError(
            f"model {contract.name!r} does not name its training environment; name one with --env. "
            "To drive a robot with it, use sami drive."
        )
    if is_code(str(name)):
        advice = "; a model also runs in another environment with the same signals, named by --env"
        require_named(str(name), f"model {contract.name!r}", advice)
    try:
        spec = environment(str(name))
    except SamiError as error:
        if env is not None:
            raise
        raise SamiError(
            f"model {contract.name!r} was trained in {name}, which is not found here: {error} Change to its folder or "
            "install it, or name an environment with the same signals with --env."
        ) from error
    signals = {signal.name for signal in spec.signals}
    if trained_in not in (None, name) and not {signal.name for signal in contract.observation} <= signals:
        raise SamiError(
            f"model {contract.name!r} was trained in {trained_in}, but --env {name} does not have the signals that it "
            "reads. Leave out --env, or name another model."
        )
    return spec


def _scene(contract: Contract, name: str) -> EnvironmentSpec | None:
    """Return the environment of an adopted policy on an MJCF file, or on TOML with a key `scene`; else None."""
    from sami_runtime.files import read_document
    from sami_train.envs.catalog import of_commands

    by_toml = (
        name.endswith(".toml") and "adopted" in contract.training and "scene" in read_document(Path(name), "robots")
    )
    if Path(name).suffix != ".xml" and not by_toml:
        return None
    from sami_train.studies.play.env import play_environment

    of_commands[name] = play_environment(contract, name)
    return of_commands[name]


def model_and_environment(
    model: Path | None, env: str | None, admission: Admission | None = None
) -> tuple[Path, EnvironmentSpec]:
    """Return a model file and its environment; the one that is None follows from the other.

    The file is admitted before any name in it is used; `admission` None admits every valid file. An environment without
    a model gets the shipped model ENV-satesac, ENV-tesac or ENV-student, never a file of the current folder.
    """
    from sami_runtime.distribution import shipped_models
    from sami_runtime.errors import SamiError
    from sami_runtime.session.admission import Admission
    from sami_train.envs.catalog import environment

    if model is not None:
        artifact = (admission or Admission(rehearsed=False)).admit(model)
        return model, environment_of(artifact.contract, env)
    spec = environment(DEFAULT if env is None else env)
    shipped, name = shipped_models(), spec.original or spec.name
    files = [shipped[model] for model in (f"{name}-satesac", f"{name}-tesac", f"{name}-student") if model in shipped]
    if not files:
        raise SamiError(
            f"no model of {name} is shipped. Name a file with --model, or make one: sami train --env {spec.name}, then "
            f"sami export. Shipped models: {', '.join(shipped) or 'none'}."
        )
    return files[0], spec


def engine_line(env: str, engine: str | None) -> str:
    """Return a line that names the physics engine; empty if the environment exists in only one."""
    from sami_runtime.distribution import installed_version

    if engine is None:
        return ""
    names = {"pybullet": "PyBullet", "mujoco": "MuJoCo"}
    versions = [f"{names[name]} {installed_version(name) or '(not installed)'}" for name in engine.split(" and ")]
    missing = "; PyBullet is not installed" if env == "panda" and engine == "mujoco" else ""
    return f"{env} runs in {' and '.join(versions)}{missing}"


def task_set_names(tasks: str | None, spec: EnvironmentSpec) -> list[str]:
    """Parse comma-separated names of task sets, all if None; raise SamiError or UnknownName for an invalid one."""
    from sami_runtime.errors import SamiError, require_known

    if tasks is None:
        return list(spec.tasks.sets)
    names = list(dict.fromkeys(name.strip() for name in tasks.split(",") if name.strip()))
    if not names:
        raise SamiError("no task set was given; name at least one, e.g. --tasks training,moderate,extreme.")
    require_known("task set", names, spec.tasks.sets)
    return names
