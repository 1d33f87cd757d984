"""Train, evaluate, export and run policies that adapt within one episode. Begin with `sami demo`.

Commands import their dependencies when they run, so that `sami --help` and `sami run` load no torch.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from .commands import (
    adapter,
    adopt,
    atlas,
    audit,
    bench,
    demo,
    describe,
    diagnose,
    doctor,
    drive,
    export,
    inspect,
    models,
    play,
    recording,
    robustness,
    run,
    train,
    verify,
    verify_log,
)
from .commands import eval as evaluate
from .commands.studies import adapt, compare, contrast, fit_gap, fit_robot, probe, report, skills, sweep, teach
from .options import FORCE, JSON
from .output import print_text

EXTRAS = {
    **dict.fromkeys(("gymnasium", "panda_gym", "pybullet", "PIL"), "panda"),
    **dict.fromkeys(("arch", "jinja2", "matplotlib", "scipy", "sklearn", "umap"), "report"),
    "mujoco": "mujoco",
    "mink": "ik",
    "cryptography": "sign",
    **{command: command for command in ("demo", "train")},
}
"""The extra that installs a missing module or a command's modules; any other module is in `train`."""

app = typer.Typer(
    name="sami",
    help=__doc__.splitlines()[0] if __doc__ else None,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(flag: bool) -> None:
    if flag:
        from sami_runtime.distribution import installed_version

        print_text(f"sami {installed_version('sami') or 'of a checkout that is not installed'}")
        raise typer.Exit()


@app.callback()
def options(
    force: Annotated[
        bool, typer.Option("--force", help="Replace output files, not folders or inputs. Valid anywhere on the line.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON only; run and drive print one line per episode.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print tracebacks. Valid anywhere on the line.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Skill-aware policies that adapt within one episode: train, evaluate, export, run."""
    FORCE.set(force)
    JSON.set(json)


class Command(TyperCommand):
    """A command that imports users' code only if the command line names it: `--env` for a user's own environment."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override] # typer.Context is the one of typer's click
        """Run the command."""
        if JSON.get() and self.name in TEXT_ONLY:
            raise typer.BadParameter(f"sami {self.name} prints text only; leave out --json")
        from sami_runtime.user_code import only_named

        env = ctx.params.get("env") or ""
        with only_named({env, *env.split(",")}):
            return super().invoke(ctx)


PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Train": {"train": train.train, "sweep": sweep.sweep, "teach": teach.teach, "distil": teach.distil},
    "Judge": {
        "eval": evaluate.evaluate,
        "robustness": robustness.robustness,
        "gather": compare.gather,
        "compare": compare.compare,
        "contrast": contrast.contrast,
        "adapt": adapt.adapt,
        "report": report.report,
        "skills": skills.skills,
    },
    "Model file": {
        "export": export.export,
        "adopt": adopt.adopt,
        "diagnose": diagnose.diagnose,
        "audit": audit.audit,
        "atlas": atlas.atlas,
        "probe": probe.probe,
        "describe": describe.describe,
        "inspect": inspect.inspect,
        "verify": verify.verify,
        "sign": verify.sign,
        "models": models.models,
    },
    "Robot": {
        "demo": demo.demo,
        "run": run.run,
        "play": play.play,
        "drive": drive.drive,
        "new-adapter": adapter.new_adapter,
        "check-adapter": adapter.check_adapter,
        "replay": recording.replay,
        "convert": recording.convert,
        "view": recording.view,
        "verify-log": verify_log.verify_log,
        "fit-gap": fit_gap.fit_gap,
        "fit-robot": fit_robot.fit_robot,
        "bench": bench.bench,
        "doctor": doctor.doctor,
    },
}
"""Every command, by its panel in the help."""
LONGEST_MESSAGE = 4_000
"""Largest number of characters of a printed message: names in a hostile file may have millions."""
TEXT_ONLY = {
    *("teach", "distil", "gather", "export", "adopt", "probe", "describe", "sign"),
    *("demo", "new-adapter", "convert", "view"),
}
"""Commands that print no JSON."""
ANYWHERE = "--force (replace output files, not folders) and --debug are valid anywhere on the line."
"""The end of each command's help."""
for panel, commands in PANELS.items():
    for name, command in commands.items():
        end = ANYWHERE if name in TEXT_ONLY else f"--json (print JSON only), {ANYWHERE}"
        paragraphs = [" ".join(paragraph.split()) for paragraph in (command.__doc__ or "").split("\n\n")]
        app.command(name, cls=Command, help="\n\n".join(paragraphs), rich_help_panel=panel, epilog=end)(command)


def _name_every_path() -> None:
    """Restart this process in Python's UTF-8 mode if the locale cannot decode an argument."""
    unnamed = any("\udc80" <= character <= "\udcff" for character in "".join(sys.argv))
    if unnamed and not sys.flags.utf8_mode and os.environ.get("PYTHONUTF8") != "1":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONUTF8": "1"})


@cache
def _all_commands() -> Callable[..., Any]:
    """Return all commands, built from the annotations above; slow, therefore cached."""
    return get_command(app)


def main() -> None:
    """Run the command; turn errors into one message and an exit code."""
    _name_every_path()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a character that the terminal lacks must not end a run
    debug = "--debug" in sys.argv
    # Options that are valid anywhere belong to `sami` itself: move them before the command's name.
    arguments = [argument for argument in sys.argv[1:] if argument not in ("--debug", "--force", "--json")]
    arguments = [option for option in ("--force", "--json") if option in sys.argv] + arguments
    try:
        _all_commands()(arguments, prog_name="sami")
    except Exception as error:
        if debug:
            raise
        code = getattr(error, "exit_code", None)
        if code is None:
            from sami_runtime.factories import user_line

            line = user_line(error)
            hint = f"in {line}; --debug shows the way there" if line else "--debug shows where"
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                hint = "the disk of standard output or of another file is full; make room there"
            if isinstance(error, ModuleNotFoundError):
                from sami_runtime.distribution import install_hint

                module = str(error.name).partition(".")[0]
                extra = EXTRAS.get(next((word for word in arguments if word in ("demo", "train")), module), "train")
                hint = f"install it with: {install_hint(extra)}"
            print_text(f"sami: {type(error).__name__}: {error} ({hint})", error=True)
            sys.exit(1)
        text = str(error)
        more = len(text) - LONGEST_MESSAGE
        print_text(f"sami: {text[:LONGEST_MESSAGE]}{f' ... ({more} more characters)' if more > 0 else ''}", error=True)
        sys.exit(code)
