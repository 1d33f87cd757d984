"""What every adapter owes to the loop, checked on the adapter itself before a policy drives it.

Most of what goes wrong between simulation and a robot goes wrong here: a signal in another order or unit, a buffer that
is overwritten after it was given away, stamps of another clock, an action that is not what was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sami_runtime.adapters.base import Adapter
from sami_runtime.checks import laws
from sami_runtime.checks.judge_response import response_fault
from sami_runtime.checks.laws import Law, Trial, accustomed
from sami_runtime.clock import Clock
from sami_runtime.errors import AdapterError, SamiError
from sami_runtime.loop.stopping import stopped_after
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import Limits


class Verdict(NamedTuple):
    """Whether an adapter keeps a law."""

    law: str
    """What it owes."""
    fault: str = ""
    """How it breaks it, with the offending value; empty where it keeps it."""
    note: str = ""
    """What is worth knowing of an adapter that keeps it."""
    unproven: str = ""
    """What could not be judged, and what to do about it; empty where all was. Such an adapter did not pass."""


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
    """Check an adapter law by law, and stops and closes it however that ends.

    Args:
        adapter: What is checked. It is reset, read, stopped and closed.
        contract: Of the model that is to drive it.
        clock: The loop's, which the adapter's stamps must be times of.
        limits: What will be allowed; `rest` is what is written, and `max_age_s` how old an observation may be.
        ticks: How many ticks of the policy are read, and written.
        write: Whether rest, the action that moves nothing, is written at each tick. Else nothing is written at all.
        excite: Whether each element of the action is also moved to both sides of rest, within the limits, after a reset
            for each move: what answers, which way and how far, is compared with the simulation. It moves the robot, as
            far as `judge_response.plan` says; a fault ends it, and it ends at the start pose.
        on_verdict: Called with each verdict as soon as it is known.

    Returns:
        A verdict for each law; none after a broken one that the others build on. An adapter passed where no verdict
        has a fault, and none is unproven.

    Raises:
        SamiError: Something is to be written, and the limits do not say what moves nothing; or the robot is to be
            moved, and the contract does not tell what answered in simulation.
    """
    limits = limits or Limits()
    write = write or excite
    if excite and (contract.seen is None or contract.seen.responses is None):
        raise SamiError(
            f"model {contract.name!r} does not tell how observations answered to the action in simulation, so there is "
            "nothing to compare a robot's with. Measure it with: sami describe FILE"
        )
    if write and limits.rest is None:
        raise SamiError(
            "to write something, the check has to know the action that moves nothing, and the limits have no rest. Set "
            "it, such as rest = 0.0 where the action is a displacement, or to the signal of the measured position."
        )
    trial, verdicts = Trial(adapter, contract, clock, limits, ticks, write), []

    def report(verdict: Verdict) -> None:
        verdicts.append(verdict)
        if on_verdict:
            on_verdict(verdict)

    def judge(law: Law) -> bool:
        fault, note, trial.unproven = "", None, ""
        try:
            note = law.check(trial)
        except SamiError as error:
            fault = str(error)
        except (Exception, SystemExit) as error:  # a driver that leaves the process is broken, too
            fault = f"{type(error).__name__}: {error}"
        report(Verdict(law.sentence, fault, note or "", trial.unproven))
        return not fault

    def body() -> None:
        if all(judge(law) for law in FOUNDATIONS):
            for law in laws_of(contract, write, excite):
                judge(law)

    try:
        stopped_after(adapter, body)
    except AdapterError as error:  # that it could not be stopped: all else is a verdict already
        report(Verdict("is stopped at the end", str(error)))
    finally:
        judge(CLOSING)
    return verdicts


def laws_of(contract: Contract, write: bool, excite: bool) -> tuple[Law, ...]:
    """Return the laws that are judged once the foundations hold, in their order."""
    seen = contract.seen is not None
    return (*READING, *(SEEING if seen else ()), *(WRITING if write else ()), *(MOVING if excite else ()), STOPPING)


FOUNDATIONS = (
    Law("declares the signals that the model reads and writes, before it is reset", laws.fits),
    Law("stops from any state, also before its first episode, and twice", laws.stops),
    Law("begins an episode, and is read and written tick by tick", laws.runs),
    Law("gives every signal that it declares, of its size, finite", laws.complete),
)
"""Laws that the others build on, in their order."""
READING = (
    Law("stays within the bounds that the model was trained with", laws.bounded),
    Law("begins fresh: the first observation of an episode was measured after its reset", laws.begins_anew),
    Law("measures anew: stamps never go back, and do not stand still", laws.forward),
    Law("stamps observations with the loop's clock, when they were measured", laws.clocked),
    Law("returns new arrays: a later read or write does not change an earlier observation", laws.keeps_buffers),
    Law("leaves time for the policy: reading and writing take less than half a period, at the median", laws.quick),
)
SEEING = (Law("gives numbers like those of training: same frame, same units", accustomed),)
"""Laws that nobody can judge where the model file does not tell what training saw."""
WRITING = (Law("returns the applied action, within the action's bounds", laws.reports_executed),)
"""Laws that nobody can judge who writes nothing."""
MOVING = (Law("responds to each element of the action as in simulation: the same way, about as far", response_fault),)
"""Laws that nobody can judge who moves nothing."""
STOPPING = Law("stops in the middle of an episode, and twice", laws.stops)
CLOSING = Law("closes, and twice", laws.closes)
LAWS = (*FOUNDATIONS, *READING, *SEEING, *WRITING, *MOVING, STOPPING, CLOSING)
