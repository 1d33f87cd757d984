"""The control loop: read, step, gate, write, record; and stop on every way out."""

from __future__ import annotations

import numpy as np

from sami_runtime.adapters.base import Adapter, require_compatible
from sami_runtime.clock import Clock, ManualClock
from sami_runtime.errors import SafetyStop, SamiError
from sami_runtime.loop.episode import Episode, EpisodeReport, OnStep, Timing, latch
from sami_runtime.loop.handover import Handover
from sami_runtime.loop.lateness import Lateness
from sami_runtime.loop.pilot import Pilot
from sami_runtime.loop.stopping import stopped_after
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.watchdog.watchdog import Watchdog
from sami_runtime.session.session import Session
from sami_runtime.session.telemetry import Telemetry


def run_episode(
    session: Session,
    adapter: Adapter,
    seed: int | None = None,
    max_steps: int | None = None,
    clock: Clock | None = None,
    on_step: OnStep | None = None,
    gate: SafetyGate | None = None,
    loop_hz: float | None = None,
    slower: int = 1,
    prewarm_s: float = 0.0,
    enforce_timing: bool | None = None,
    telemetry: Telemetry | None = None,
    watchdog: Watchdog | None = None,
    pilot: Pilot | None = None,
    handover: Handover | None = None,
    command_delay_s: float | None = None,
) -> EpisodeReport:
    """Run one episode, and stop the adapter however it ends.

    Args:
        session: The policy, with a batch of 1.
        adapter: What it drives.
        seed: For the adapter's reset.
        max_steps: Most steps; the contract's `episode_steps` if None.
        clock: Keeps the rate. If None, the loop runs as fast as the adapter allows, and its time is counted in
            periods.
        on_step: Called after each tick, with all that is known about it.
        gate: Owns the write. If None, one with the default limits.
        loop_hz: Rate of the loop [1/s], a multiple of the contract's, which is taken if None. The policy is asked at
            its own rate only; in between its last action stands.
        slower: How many of its periods each of the policy's steps takes, for a robot that is so many times as slow as
            the one that it learned on. Its actions stand for as long; speeds must be told to it as at its own pace,
            which `Run` sees to by `Slowed`. The gate still judges an observation in every period, and counts the
            periods without an action, so that limits hold in real seconds; a policy that could not act is asked again
            in the next period.
        prewarm_s: How long [s] before the policy is due it makes a step on copies, so that the caches are warm; 0.0007
            is enough for `models/`, best with a clock that stays awake from then on. A tick whose turn ended too late
            for that goes without. 0 never.
        enforce_timing: Whether an observation can be too old and an answer too late, as the gate's limits say. It
            needs a clock, the one that stamps the adapter's observations; False is for an adapter that stamps with
            another. If None, timing is enforced where a clock is given.
        telemetry: Reads the contexts, for the record of each tick, and for the gate where its limits set
            `stop_on_alarm`. If None, a new one does, where `on_step` listens or the gate heeds alarms.
        watchdog: Stops the robot where this process cannot, from the adapter's reset to its stop; it is running
            already. Once it fired, the gate is latched.
        pilot: A person's way in. Commands count at the policy's ticks; a pause and an end, at every tick.
        handover: By which another session may take over between two ticks. This one drives it, and it has begun.
        command_delay_s: How long an action takes from its write to its effect [s], for a policy that looks ahead; as
            the adapter says if None.

    Raises:
        SamiError: An argument is none that could be run with.
        AdapterError: The policy and the adapter do not fit, or the adapter failed.
        SignalError: An observation lacks a signal, or has one of another shape.
        SafetyStop: The gate stopped the robot, or is latched.
    """
    limit = session.contract.episode_steps if max_steps is None else max_steps
    if session.batch != 1 or limit < 1:
        raise SamiError(
            f"run_episode() got a session of batch {session.batch} and max_steps {limit}; "
            "expected a batch of 1 and at least 1 step."
        )
    if enforce_timing and clock is None:
        raise SamiError(
            "enforce_timing is True, and there is no clock to tell ages by. Pass the one that stamps the adapter's "
            "observations, or leave enforce_timing out."
        )
    if slower < 1:
        raise SamiError(f"slower is {slower}; a step takes at least 1 of the policy's periods.")
    substeps = substeps_of(loop_hz, session.contract.rate_hz)
    period = 1.0 / (session.contract.rate_hz * substeps)
    if not 0.0 <= prewarm_s < period:
        raise SamiError(
            f"prewarm_s is {prewarm_s}; it must be at least 0 and less than the loop's period, {period:g} s."
        )

    guard = gate or SafetyGate(adapter, session.contract)

    def drive() -> EpisodeReport:
        require_compatible(session.contract, adapter.observation, adapter.action, type(adapter).__name__)
        if guard.adapter is not adapter:
            raise SamiError("the gate writes to another adapter than the loop reads. Make it with this adapter.")
        judged = clock is not None if enforce_timing is None else enforce_timing
        read = on_step is not None or guard.limits.stop_on_alarm is not None or "ood" in guard.guards
        reader = telemetry or (Telemetry(session.contract) if read else None)
        lateness = Lateness(adapter, session.contract.rate_hz, judged, command_delay_s)
        timing = Timing(clock or ManualClock(), judged, period, substeps, slower, prewarm_s, lateness)
        episode = Episode(session, adapter, guard, limit, timing, reader, on_step, watchdog, pilot, handover)
        episode.begin(seed)
        while episode.next_tick():
            episode.turn()
        return episode.report()

    try:
        report = stopped_after(adapter, drive, watchdog)
    except Exception as error:
        latch(guard, watchdog)
        if watchdog and watchdog.fired and "the watchdog" not in str(error):
            raise SafetyStop(f"{watchdog.fault()}. Then the loop ended: {type(error).__name__}: {error}") from error
        raise
    finally:
        latch(guard, watchdog)
    if watchdog:
        guard.require_armed()
    return report


def substeps_of(loop_hz: float | None, rate_hz: float) -> int:
    """Return the ticks of the loop for each of the policy's.

    Raises:
        SamiError: The loop's rate is no multiple of the policy's.
    """
    ratio = 1.0 if loop_hz is None else loop_hz / rate_hz
    whole = max(1, round(ratio)) if np.isfinite(ratio) else 1
    if not abs(ratio - whole) <= 1e-6 * whole:
        raise SamiError(
            f"loop_hz is {loop_hz}, but this policy was trained at {rate_hz:g} Hz and means something else at any "
            f"other rate. Take a multiple of it, such as {whole * rate_hz:g}."
        )
    return whole
