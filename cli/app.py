"""The `sami` command: train, evaluate, export and run skill-aware policies.

Commands import what they need when they run, so that `sami --help` and `sami run` load no torch.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from .commands import (
    atlas,
    bench,
    check_adapter,
    convert,
    demo,
    describe,
    doctor,
    drive,
    export,
    inspect,
    models,
    new_adapter,
    replay,
    robustness,
    run,
    sign,
    train,
    verify,
    view,
)
from .commands import eval as evaluate
from .commands.studies import adapt, compare, contrast, fit_gap, gather, probe, report, skills, sweep

EXTRAS = {
    **dict.fromkeys(("gymnasium", "panda_gym", "pybullet", "PIL"), "panda"),
    **dict.fromkeys(("arch", "jinja2", "matplotlib", "scipy", "sklearn", "umap"), "report"),
    "mujoco": "mujoco",
    "mink": "ik",
    "cryptography": "sign",
}
"""The extra that brings a module; those not named here come with `train`."""

app = typer.Typer(
    name="sami",
    help=__doc__.splitlines()[0] if __doc__ else None,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from sami_runtime.distribution import installed_version

        print(f"sami {installed_version('sami') or 'of a checkout that is not installed'}")
        raise typer.Exit()


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error. May stand anywhere.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Tell the version.")
    ] = False,
) -> None:
    """Skill-aware policies that adapt within one episode: train, evaluate, export, run."""


class Command(TyperCommand):
    """A command that imports no code which only a file names: an environment of a user's own is named by `--env`."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override] # typer.Context is the one of typer's click
        """Run the command."""
        from sami_runtime.factories import only_named

        named = ctx.params.get("env") or ""
        with only_named({named, *named.split(",")}):
            return super().invoke(ctx)


PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Train": {"train": train.train, "sweep": sweep.sweep},
    "Judge": {
        "eval": evaluate.evaluate,
        "robustness": robustness.robustness,
        "gather": gather.gather,
        "compare": compare.compare,
        "contrast": contrast.contrast,
        "adapt": adapt.adapt,
        "report": report.report,
        "skills": skills.skills,
    },
    "Model file": {
        "export": export.export,
        "atlas": atlas.atlas,
        "probe": probe.probe,
        "describe": describe.describe,
        "inspect": inspect.inspect,
        "verify": verify.verify,
        "sign": sign.sign,
        "models": models.models,
    },
    "Robot": {
        "demo": demo.demo,
        "run": run.run,
        "drive": drive.drive,
        "new-adapter": new_adapter.new_adapter,
        "check-adapter": check_adapter.check_adapter,
        "replay": replay.replay,
        "convert": convert.convert,
        "view": view.view,
        "fit-gap": fit_gap.fit_gap,
        "bench": bench.bench,
        "doctor": doctor.doctor,
    },
}
"""Every command, under what it is for."""
for panel, commands in PANELS.items():
    for name, command in commands.items():
        app.command(name, cls=Command, rich_help_panel=panel)(command)


def _name_every_path() -> None:
    """Begin again in Python's UTF-8 mode where the locale cannot name what was given."""
    unnamed = any("\udc80" <= character <= "\udcff" for character in "".join(sys.argv))
    if unnamed and not sys.flags.utf8_mode and os.environ.get("PYTHONUTF8") != "1":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONUTF8": "1"})


def main() -> None:
    """Run the command; turn errors into one message and an exit code."""
    _name_every_path()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a bar that a terminal lacks must not end a run
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        app(arguments, prog_name="sami")
    except Exception as error:
        if debug:
            raise
        code = getattr(error, "exit_code", None)
        if code is None:
            from sami_runtime.factories import own_line

            line = own_line(error)
            hint = f"in {line}; --debug shows the way there" if line else "--debug shows where"
            if isinstance(error, ModuleNotFoundError):
                from sami_runtime.distribution import install_hint

                extra = EXTRAS.get(str(error.name).partition(".")[0], "train")
                hint = f"install it with: {install_hint(extra)}"
            print(f"sami: {type(error).__name__}: {error} ({hint})", file=sys.stderr)
            sys.exit(1)
        print(f"sami: {error}", file=sys.stderr)
        sys.exit(code)
