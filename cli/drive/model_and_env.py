"""Which environment a model file is run in, and which file an environment is run with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sami_runtime.model.contract import Contract
    from sami_train.envs.spec import EnvironmentSpec

DEFAULT = "panda"
"""Environment where neither a model nor an environment is named."""


def environment_of(contract: Contract, env: str | None) -> EnvironmentSpec:
    """The environment of that name, or the one that the model was trained in.

    Raises:
        SamiError: none is named, and the model does not say; or it cannot run in the one that is named.
        UnknownName: there is no such environment.
    """
    from sami_runtime.errors import SamiError
    from sami_train.envs.catalog import environment

    own = contract.training.get("env")
    name = own if env is None else env
    if name is None:
        raise SamiError(f"model {contract.name!r} does not say what it was trained in; name it with --env.")
    spec = environment(str(name))
    signals = {signal.name for signal in spec.signals}
    if own not in (None, name) and not {signal.name for signal in contract.observation} <= signals:
        raise SamiError(
            f"model {contract.name!r} was trained in {own}, and --env {name} does not have the signals that it reads. "
            "Leave out --env, or name another model."
        )
    return spec


def model_and_environment(model: Path | None, env: str | None) -> tuple[Path, EnvironmentSpec]:
    """A model file and its environment, where what was left out follows from what was given.

    Raises:
        SamiError: the model cannot be read, or there is none of that environment; else see `environment_of`.
    """
    from sami_runtime.errors import SamiError
    from sami_runtime.model.artifact import read_artifact
    from sami_train.envs.catalog import environment

    if model is not None:
        return model, environment_of(read_artifact(model).contract, env)
    spec = environment(DEFAULT if env is None else env)
    path = Path("models") / f"{spec.name}-satesac.onnx"
    if not path.exists():
        there = ", ".join(sorted(str(each) for each in Path("models").glob("*.onnx"))) or "none"
        raise SamiError(
            f"{path} does not exist here. Name a file with --model, or make one: sami train --env {spec.name}, "
            f"then sami export. Models that are there: {there}."
        )
    return path, spec


def task_set_names(tasks: str) -> list[str]:
    """Names of task sets, comma-separated.

    Raises:
        SamiError: there is none.
    """
    from sami_runtime.errors import SamiError

    names = list(dict.fromkeys(name.strip() for name in tasks.split(",") if name.strip()))
    if not names:
        raise SamiError("no task set was given; name at least one, e.g. --tasks training,moderate,extreme.")
    return names
