"""Whether a person attends a run, and what happens between two of its episodes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sami_runtime.loop.episode import EpisodeReport
    from sami_runtime.loop.pilot import Excitation
    from sami_runtime.model.contract import Contract
    from sami_runtime.run import Run
    from sami_runtime.safety.limits import Limits

    from .keyboard import Keyboard


def listens(keys: bool | None, usual: bool) -> bool:
    """Return whether a run listens to keys: if it is told to, else where that is usual and somebody may press them.

    Raises:
        SamiError: it is told to, and nobody can press any.
    """
    from sami_runtime.errors import SamiError

    from .terminal import Terminal

    there = Terminal.there()
    if keys and not there:
        raise SamiError(
            "--keys needs a terminal as standard input, in the foreground. Run it there, or leave the option out."
        )
    return usual and there if keys is None else keys


def keyboard(closing: ExitStack, contract: Contract, limits: Limits | None) -> Keyboard:
    """Take the terminal's keys until `closing` closes, and say what they do."""
    from sami_runtime.safety.limits import Limits

    from .keyboard import Keyboard
    from .terminal import Terminal

    pilot = Keyboard(closing.enter_context(Terminal()), contract, limits or Limits())
    _say(pilot.keys)
    return pilot


def excitation(
    person: Keyboard | None, contract: Contract, limits: Limits | None, real: bool, loop_hz: float | None, seed: int
) -> Excitation:
    """Return what drives in the policy's place, so that a recording tells the gap; a person's keys come first.

    Raises:
        SamiError: the limits do not say what rest is; in a simulator it is 0.
    """
    from sami_runtime.loop.pilot import Excitation
    from sami_runtime.safety.limits import Limits

    limits = limits or Limits()
    if not real and limits.rest is None:
        limits = limits.model_copy(update={"rest": 0.0})
    every = max(1, round((loop_hz or contract.rate_hz) / contract.rate_hz))
    return Excitation(contract, limits, seed=seed, every=every, person=person)


def status_of(pilot: Keyboard | None) -> Callable[[], str]:
    """Return what tells who drives."""
    return lambda: pilot.status if pilot else ""


def between(
    driving: Run, report: EpisodeReport, pilot: Keyboard | None, wait_s: float | None, last: bool
) -> tuple[EpisodeReport, bool]:
    """Wait for the next episode, if there is one; return what is now said of the one before, and whether to go on.

    Args:
        driving: the run, whose recording is told.
        report: of the episode before.
        pilot: whose keys count; None where nobody attends.
        wait_s: how long [s]; until Enter if None.
        last: whether there is no next episode, unless this one is to be done again.
    """
    from sami_runtime.loop.pilot import Ending

    if report.ended is Ending.STOP:
        return report, False
    if last and report.ended is not Ending.REDO:
        return report, True
    if pilot is None:
        time.sleep(wait_s or 0.0)
        return report, True
    if wait_s is None or wait_s > 0.0:
        when = "Enter begins" if wait_s is None else f"in {wait_s:g} s, or at Enter, begins"
        _say(f"{when} the next episode; of this one: s success, f failure, r redo; q stop")
    ending = pilot.between(wait_s)
    if ending is Ending.STOP:
        return report, False
    if ending is not None:
        report = replace(report, ended=ending)
        driving.conclude(ending, report.success)
    return report, True


def _say(text: str) -> None:
    """Tell a person; standard output may be read by a program."""
    print(text, file=sys.stderr, flush=True)
