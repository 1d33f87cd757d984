"""Checks an adapter against the rules that the loop relies on, before a policy drives it.

Most errors between simulation and robot are errors of the adapter: a signal in another order or unit, a buffer that is
overwritten after `read` returned it, stamps of another clock, a reported action that was not sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sami_runtime.adapters.base import Adapter
from sami_runtime.checks import rules
from sami_runtime.checks.judge_response import response_fault
from sami_runtime.checks.rules import Rule, Trial, accustomed
from sami_runtime.clock import Clock
from sami_runtime.errors import AdapterError, SamiError, SignalExit
from sami_runtime.factories import cause_of
from sami_runtime.loop.stopping import stopped_after
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import Limits


class Verdict(NamedTuple):
    """Whether an adapter passes a check."""

    law: str
    """The rule that is checked, as a predicate of "an adapter"."""
    fault: str = ""
    """How the adapter breaks the rule, with the offending value; empty if it obeys."""
    note: str = ""
    """Further facts about an adapter that obeys the rule."""
    unproven: str = ""
    """What could not be judged, and what to do about it. The adapter passes only if this is empty, too."""


def check_adapter(
    adapter: Adapter,
    contract: Contract,
    clock: Clock,
    limits: Limits | None = None,
    ticks: int = 25,
    write: bool = False,
    excite: bool = False,
    on_verdict: Callable[[Verdict], None] | None = None,
) -> list[Verdict]:
    """Check an adapter rule by rule; stop and close it at the end, whatever happens.

    Args:
        adapter: The adapter to check. It is reset, read, stopped and closed.
        contract: Of the model that shall drive it.
        clock: The loop's clock, from which the adapter's stamps must come.
        limits: The gate's limits; `rest` is the action that is written, `max_age_s` the largest age of observations.
        ticks: Number of ticks of the policy at which the adapter is read, and written if `write`.
        write: Whether the neutral action is written at each tick; if False, nothing is written.
        excite: Whether each element of the action is also moved to both sides of the neutral action, within the limits
            and after a reset for each move, to compare the responses with those in simulation. This moves the robot, as
            far as `judge_response.plan` says; a fault ends the moves, and they end at the start pose.
        on_verdict: Called with each verdict as soon as it is known.

    Returns:
        A verdict for each rule; after a broken rule that others build on, the others are left out. An adapter passes if
        no verdict has a `fault` or is `unproven`.

    Raises:
        SamiError: `write` or `excite` is set, but the limits set no `rest`; or `excite` is set, but the contract has no
            responses of the simulation.
    """
    limits = limits or Limits()
    write = write or excite
    if excite and (contract.training_ranges is None or contract.training_ranges.responses is None):
        raise SamiError(
            f"model {contract.name!r} has no responses of observations to actions in simulation, with which to compare "
            "the robot's. sami describe FILE measures them, but not for an adopted file: check it without --excite"
        )
    if write and limits.rest is None:
        raise SamiError(
            "to write something, the check needs the neutral action, which moves nothing, and the limits set no rest. "
            "Set rest = 0.0 if the action is a displacement, or the name of the signal of the measured position."
        )
    trial, verdicts = Trial(adapter, contract, clock, limits, ticks, write), []

    def report(verdict: Verdict) -> None:
        verdicts.append(verdict)
        if on_verdict:
            on_verdict(verdict)

    def judge(rule: Rule) -> bool:
        fault, note, trial.unproven = "", None, ""
        try:
            note = rule.check(trial)
        except SignalExit:
            raise
        except SamiError as error:
            fault = str(error)
        except (Exception, SystemExit) as error:  # a driver that leaves the process is broken, too
            fault = cause_of(error)
        report(Verdict(rule.sentence, fault, note or "", trial.unproven))
        return not fault

    def body() -> None:
        if all(judge(rule) for rule in FOUNDATIONS):
            ranges = RANGE_RULES if contract.training_ranges is not None else ()
            for rule in (*READING, *ranges, *(WRITING if write else ()), *(MOVING if excite else ()), STOPPING):
                judge(rule)

    try:
        stopped_after(adapter, body)
    except AdapterError as error:  # the adapter could not be stopped; all other errors are verdicts already
        report(Verdict("is stopped at the end", str(error)))
    finally:
        judge(CLOSING)
    return verdicts


FOUNDATIONS = (
    Rule("declares the signals that the model reads and writes, before it is reset", rules.fits),
    Rule("stops from any state, also before its first episode, and twice", rules.stops),
    Rule("begins an episode, and is read and written tick by tick", rules.runs),
    Rule("gives every signal that it declares, of its size, finite", rules.complete),
)
"""Rules that the others build on, in their order."""
READING = (
    Rule("stays within the bounds that the model was trained with", rules.bounded),
    Rule("begins fresh: the first observation of an episode was measured after its reset", rules.begins_anew),
    Rule("measures anew: stamps never go back, and do not stand still", rules.forward),
    Rule("stamps observations with the loop's clock, when they were measured", rules.clocked),
    Rule("returns new arrays: a later read or write does not change an earlier observation", rules.keeps_buffers),
    Rule("leaves time for the policy: reading and writing take less than half a period, at the median", rules.quick),
)
RANGE_RULES = (Rule("gives numbers like those of training: same frame, same units", accustomed),)
"""Rules that need a model file with training ranges."""
WRITING = (Rule("returns the applied action, within the action's bounds", rules.reports_executed),)
"""Rules that need `write`."""
MOVING = (Rule("responds to each element of the action as in simulation: the same way, about as far", response_fault),)
"""Rules that need `excite`."""
STOPPING = Rule("stops in the middle of an episode, and twice", rules.stops)
CLOSING = Rule("closes, and twice", rules.closes)
RULES = (*FOUNDATIONS, *READING, *RANGE_RULES, *WRITING, *MOVING, STOPPING, CLOSING)
