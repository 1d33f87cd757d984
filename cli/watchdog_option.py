"""The watchdog that is asked for, and warnings of missing protections."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sami_runtime.safety.watchdog import Watchdog


def watchdog_of(adapter: str | None, within_s: float | None, emergency_stop: str | None) -> Watchdog | None:
    """Return a watchdog that is not running yet; None where none is asked for.

    Args:
        adapter: MODULE:FACTORY of the robot's adapter; None in a simulator.
        within_s: Longest time [s] from one beat to the next.
        emergency_stop: MODULE:FACTORY of what stops the robot; `emergency_stop` of the adapter's module if None.

    Raises:
        SamiError: Something that it needs was left out.
    """
    from sami_runtime.errors import SamiError
    from sami_runtime.safety.watchdog import Watchdog

    if within_s is None:
        if emergency_stop is not None:
            raise SamiError(
                f"--emergency-stop {emergency_stop} is for the watchdog; say how soon by --watchdog SECONDS."
            )
        return None
    if adapter is None:
        raise SamiError(f"--watchdog {within_s:g} watches over a robot; drive one with --adapter, or leave it out.")
    return Watchdog(emergency_stop or f"{adapter.partition(':')[0]}:emergency_stop", within_s)


@contextmanager
def safety_warnings_shown() -> Iterator[None]:
    """Print each warning of a missing protection as one line of standard error."""
    from sami_runtime.errors import SafetyWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SafetyWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, SafetyWarning):
            print(f"warning: {warning.message}", file=sys.stderr)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
