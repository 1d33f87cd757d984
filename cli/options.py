"""Options that several commands share, and the parsing of `--set KEY=VALUE`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from .model_file import model_file

MODEL_HELP = "Model file, or the name of one that `sami models` lists"
Model = Annotated[Path, typer.Argument(metavar="MODEL", help=f"{MODEL_HELP}.", callback=model_file)]
ModelOfRobot = Annotated[Path, typer.Option(help=f"{MODEL_HELP}, to drive the robot.", callback=model_file)]
OptionalModel = Annotated[
    Path | None, typer.Option(help=f"{MODEL_HELP}; ENV-satesac if left out.", callback=model_file)
]
ModelEnvironment = Annotated[str | None, typer.Option(help="Environment; the model's own if left out.")]
OwnEnvironment = Annotated[
    str | None,
    typer.Option(
        "--env",
        metavar="NAME,...",
        help="Your own environments that these files name, MODULE:SPEC or ROBOT.toml: their code is imported only if "
        "you repeat the name here.",
    ),
]
"""The option of commands that run environments named in files; `app.Command` reads it."""
Provider = Annotated[str, typer.Option(help="Execution provider: cpu, cuda, ... They round differently.")]

FORCE: ContextVar[bool] = ContextVar("force", default=False)
"""Whether existing outputs are replaced: `--force`, an option of `sami` itself, valid anywhere on the line."""
JSON: ContextVar[bool] = ContextVar("json", default=False)
"""Whether a command prints JSON instead of text: `--json`, an option of `sami` itself, valid anywhere on the line."""


class Key(NamedTuple):
    """A key of `--set`: its type, its help, and its range."""

    kind: type
    """bool, int, float or str."""
    help: str
    low: float = 0
    """Smallest allowed value of a number."""


def keys_option(text: str, metavar: str = "KEY=VALUE") -> Any:
    """Return the option `--set` with this help."""
    return typer.Option("--set", metavar=metavar, help=text)


def set_option(keys: Mapping[str, Key]) -> Any:
    """Return the option `--set`, with the keys in its help."""
    listed = "; ".join(f"{name}: {key.help}" for name, key in keys.items())
    return keys_option(f"May be given often. {listed}.")


def set_values(keys: Mapping[str, Key], texts: Sequence[str] | None) -> dict[str, Any]:
    """Return the values of `--set` by key; raise SamiError for an invalid one, UnknownName for an unknown key."""
    from sami_runtime.errors import SamiError, UnknownName
    from sami_runtime.files import toml_value

    values: dict[str, Any] = {}
    for text in texts or ():
        name, raw = split_pair(text, "--set", "atlas_episodes=0" if "atlas_episodes" in keys else "episodes=20")
        if name not in keys:
            raise UnknownName("key of --set", name, keys)
        key, value = keys[name], toml_value(raw)
        if key.kind is str:
            value = raw
        elif key.kind is float and type(value) is int:
            value = float(value)
        # Compare types exactly: in Python a bool is an int.
        if type(value) is not key.kind or (isinstance(value, (int, float)) and not key.low <= value < float("inf")):
            number = f"{'an integer' if key.kind is int else 'a number'} of at least {key.low:g}"
            raise SamiError(f"--set {text} must be {'true or false' if key.kind is bool else number}: {key.help}.")
        values[name] = value
    return values


def require_unchanged(model: Path, has_part: bool, refusal: str) -> None:
    """Raise SamiError before a model file is changed if it is shipped, or has the part already; --force allows both.

    `refusal` is the sentence about a file that has the part, without its name. A write-protected folder is refused.
    """
    from sami_runtime.distribution import shipped_models
    from sami_runtime.errors import SamiError
    from sami_runtime.files import require_output

    require_output(model, force=True)
    if FORCE.get():
        return
    if model in shipped_models().values():
        raise SamiError(f"{model} is a shipped model, which --force changes. Copy it, and name the copy's path.")
    if has_part:
        raise SamiError(f"{model} {refusal}")


def split_pair(text: str, option: str, example: str) -> tuple[str, str]:
    """Return the two sides of NAME=VALUE; raise SamiError, with an example of the option, if one is missing."""
    from sami_runtime.errors import SamiError

    name, _, value = (part.strip() for part in text.partition("="))
    if not (name and value):
        form = "NAME=VALUE" if option == "--fix" else "KEY=VALUE"
        raise SamiError(f"{option} {text} is not {form}, such as {option} {example}.")
    return name, value


def run_values(texts: Sequence[str] | None) -> dict[str, Any]:
    """Return a run's values of `--set` by key; files of limits and settings are read, other values parsed as TOML."""
    from sami_runtime.files import read_document, toml_value
    from sami_runtime.safety.limits import Limits

    values: dict[str, Any] = {}
    for text in texts or ():
        key, raw = split_pair(text, "--set", "provider=cuda")
        if key == "limits":
            values[key] = Limits.load(raw)
        elif key == "settings":
            values[key] = read_document(Path(raw), "settings")
        elif key == "unguarded":
            values[key] = [name.strip() for name in raw.split(",")]
        else:
            values[key] = toml_value(raw)
    return values
