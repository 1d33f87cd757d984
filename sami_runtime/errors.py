"""Every error a user of SaMI can meet, with the exit code that the command line gives it.

A message states the fact, the offending value, what would be valid, and what to do, in this order.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from typing import Any


class SamiError(Exception):
    """Base of all errors that the `sami` command prints as a message, without a traceback."""

    exit_code: int = 1
    """What the `sami` command returns for this error."""


class SafetyWarning(UserWarning):
    """A protection that a robot should have is missing; the run goes on without it."""


class ContractError(SamiError):
    """The contract of a model cannot be read, is inconsistent, or belongs to another version."""


class ArtifactError(SamiError):
    """A model file cannot be read, is not safe to load, or its graph does not match its own contract."""


class ProviderError(SamiError):
    """onnxruntime or the requested execution provider is missing or failed. The runtime uses no other in its place."""


class SignalError(SamiError):
    """An input or output of a session is missing, misshapen or not finite."""

    def __init__(self, message: str, signal: str | None = None) -> None:
        super().__init__(message)
        self.signal = signal
        """Name of the offending signal, where there is exactly one."""


class NonFiniteError(SignalError):
    """NaN or infinity in an observation or an output; it may be momentary, so the loop holds and tries again."""


class AdapterError(SamiError):
    """An adapter failed, returned a wrong type or shape, or does not fit the model that should drive it."""


class SafetyStop(SamiError):  # noqa: N818 - it reports a stop that worked, not a fault of the program
    """A limit was exceeded and the robot was stopped."""

    exit_code = 3
    report: Any = None
    """`EpisodeReport` of the episode until the stop, whose `ended` does not count; None outside of an episode."""


class RecordingError(SamiError):
    """A recording cannot be written, or a file cannot be read as a recording."""


class SignalExit(SystemExit):
    """A signal ends the program, with a code of 128 plus its number; a driver's `sys.exit()` is a SystemExit alone."""


class CheckFailed(SamiError):  # noqa: N818 - the check itself worked; its result is negative
    """A check (`verify`, `replay`, `check-adapter`) found a difference."""

    exit_code = 4


def enumeration(words: Sequence[str], most: int = 6) -> str:
    """Return words with commas between them: at most `most`, and the number of the others."""
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def quantity(count: int, noun: str) -> str:
    """Return a number with its noun: `1 episode`, `2 episodes`."""
    return f"{count} {noun}{'s' * (count != 1)}"


class UnknownName(SamiError):  # noqa: N818 - named after what the user typed
    """A name that the user gave is not among those that exist.

    Args:
        kind: What was looked up, in the user's words: `"environment"`, `"method"`, `"config key"`.
        name: What the user gave.
        valid: The names that exist.
        hint: What to do about it, as a sentence; optional.
    """

    def __init__(self, kind: str, name: str, valid: Iterable[str], hint: str = "") -> None:
        self.kind, self.name, self.hint = kind, name, hint
        self.valid = tuple(sorted(valid))
        # The arguments, not the message: an exception is rebuilt from them when it crosses a process.
        super().__init__(kind, name, self.valid, hint)

    def __str__(self) -> str:
        near = nearest(self.name, self.valid)
        guess = f" Did you mean {near!r}?" if near else ""
        valid: Iterable[str] = self.valid
        if len(self.valid) > 40:  # too many to list: the keys of the same section, else the names of the sections
            within = [name for name in self.valid if name.startswith(self.name.partition(".")[0] + ".")]
            valid = within or sorted({re.sub(r"\..*", ".*", name) for name in self.valid})
        hint = f" {self.hint}" if self.hint else ""
        return f"unknown {self.kind} {self.name!r}.{guess} Valid: {', '.join(valid) or 'none'}.{hint}"


def require_known(kind: str, names: Iterable[str], valid: Collection[str], hint: str = "") -> None:
    """Raise UnknownName for the first of some names that does not exist; see its arguments."""
    for name in names:
        if name not in valid:
            raise UnknownName(kind, str(name), valid, hint)


def text_of(error: BaseException) -> str:
    """Return an error's message, or its class name if the message is empty, as that of MemoryError."""
    return str(error) or type(error).__name__


def excerpt(value: object) -> str:
    """Return the `repr` of a value, cut off after 80 characters: a wrong value may be as long as its whole document."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def in_shell(name: object) -> str:
    """Return a path or another name, quoted for a shell."""
    return shlex.quote(str(name))


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name most like `name`, or None when nothing comes close."""
    by_lower = {candidate.lower(): candidate for candidate in valid}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None
