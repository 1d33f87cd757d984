"""What a run drives: an adapter, behind whatever lies between it and the loop."""

from __future__ import annotations

import warnings
from collections.abc import Collection

from sami_runtime.adapters.around import DryRun, Gapped, Slowed
from sami_runtime.adapters.base import Adapter
from sami_runtime.errors import SafetyWarning, SamiError
from sami_runtime.gap.profile import GapProfile
from sami_runtime.loop.settings import LoopSettings
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import Limits
from sami_runtime.safety.watchdog.watchdog import Watchdog
from sami_runtime.safety.zeroed import Zeroed


def compose(
    adapter: Adapter,
    contract: Contract,
    settings: LoopSettings,
    gap: GapProfile | None,
    limits: Limits | None,
    dry_run: bool,
    simulator: bool,
) -> Adapter:
    """Return an adapter as the loop sees it: behind the gap, without its write in a dry run, its known values zeroed.

    Args:
        adapter: Simulator or robot.
        contract: Of the policy.
        settings: Of the loop. Its clock paces the readings that zeroing takes, but in a simulator, which waits.
        gap: What is simulated between both.
        limits: What is known at rest stands in them.
        dry_run: Whether to write nothing.
        simulator: Whether the adapter's world stands still while nothing is written.

    Raises:
        UnknownName, SamiError: The gap or what is known does not fit.
    """
    behind = adapter if gap is None else Gapped(adapter, gap, contract.rate_hz, settings.loop_hz)
    behind = DryRun(behind) if dry_run else behind
    behind = behind if settings.slower == 1 else Slowed(behind, settings.slower)
    if limits is None or not limits.known:
        return behind
    limits.require_fit(contract)
    clock = None if simulator else settings.clock
    return Zeroed(behind, limits.known, limits.known_readings, clock, 1.0 / contract.rate_hz)


def require_for_robot(settings: LoopSettings, gap: GapProfile | None) -> None:
    """Refuse what is for simulators alone.

    Raises:
        SamiError: With what to do instead.
    """
    if settings.clock is None and settings.enforce_timing is None:
        raise SamiError(
            "the run of a robot has no clock, so nothing keeps its rate or tells the age of what it sees. Pass the "
            "clock that stamps its observations, or enforce_timing=False if its read() keeps the rate; or "
            "simulator=True, if it is one."
        )
    if gap is not None and gap.on_actions:
        raise SamiError(
            "a gap with action_latency_s, actuator_lag_s or another key of actions would write to the robot what the "
            "gate did not allow; leave them out of the gap, they are for simulators."
        )


def warn_of_missing(
    contract: Contract, limits: Limits | None, watchdog: Watchdog | None, guards: Collection[str], dry_run: bool
) -> None:
    """Warn, by a `SafetyWarning` each, of the protections that a robot's run goes without.

    Args:
        contract: Of the policy.
        limits: What the gate allows; None if nobody set any.
        watchdog: Stops the robot where this process cannot.
        guards: Those that are wanted; what was turned off by name is no surprise.
        dry_run: Whether nothing is written, so that only what judges observations matters.
    """
    missing = []
    if not dry_run and watchdog is None:
        missing.append(
            "no watchdog: nothing stops the robot if this process hangs or is killed. Set watchdog_s in the "
            "robot's file (Run(watchdog=...))."
        )
    if not dry_run and limits is None:
        missing.append(
            "no limits: only the contract's bounds limit what is written. Set limits in the robot's file "
            "(Run(limits=...))."
        )
    if not dry_run and (limits is None or limits.rest is None):
        missing.append(
            "no neutral action: while no new action comes, the last one stands until the robot is stopped. Set rest in "
            "the limits, such as rest = 0.0."
        )
    if "ranges" in guards and contract.seen is None:
        missing.append(
            f"no training ranges in {contract.name!r}: observations are not judged against what training saw. Add them "
            "with: sami describe FILE"
        )
    if "ood" in guards and contract.atlas is None and contract.context is not None:
        missing.append(
            f"no in-distribution reference in {contract.name!r}: unknown dynamics do not stop the robot. Add it with: "
            "sami atlas FILE"
        )
    for text in missing:
        warnings.warn(text, SafetyWarning, stacklevel=3)
