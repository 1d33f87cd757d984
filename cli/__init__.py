"""The `sami` command."""

import sys


def main() -> None:
    """Run the command; Ctrl-C prints one line and exits with code 130, also during the imports at the start."""
    try:
        from .app import main as command

        command()
    except (KeyboardInterrupt, SystemExit) as error:
        cause: BaseException | None = error  # typer turns an interruption into an exit with 130
        while not (cause is None or isinstance(cause, KeyboardInterrupt)):
            cause = cause.__context__
        if cause is None or getattr(error, "code", 130) != 130:  # an error on the way out has its own code
            raise
        from .output import print_text

        print_text(f"sami: {str(cause) or 'interrupted'}", error=True)
        sys.exit(130)
