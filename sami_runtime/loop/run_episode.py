"""The control loop: read, step, gate, write, record; and stop on every way out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sami_runtime.adapters.base import Adapter, require_compatible
from sami_runtime.errors import SafetyStop, SamiError
from sami_runtime.loop.episode import EpisodeReport, OnStep, RunningEpisode, latch
from sami_runtime.loop.handover import Handover
from sami_runtime.loop.settings import LoopSettings
from sami_runtime.loop.stopping import stopped_after
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.session.session import Session
from sami_runtime.session.telemetry import Telemetry


def run_episode(
    session: Session,
    adapter: Adapter,
    seed: int | None = None,
    max_steps: int | None = None,
    settings: LoopSettings | None = None,
    *,
    on_step: OnStep | None = None,
    gate: SafetyGate | None = None,
    telemetry: Telemetry | None = None,
    handover: Handover | None = None,
    **changes: Any,
) -> EpisodeReport:
    """Run one episode, and stop the adapter however it ends.

    Args:
        session: The policy, with a batch of 1.
        adapter: What it drives.
        seed: For the adapter's reset.
        max_steps: Most steps; the contract's `episode_steps` if None.
        settings: How the loop runs.
        on_step: Called after each tick, with all that is known about it.
        gate: Owns the write. If None, one with the default limits.
        telemetry: Reads the contexts, for the record of each tick, and for the gate where its limits set
            `stop_on_alarm`. If None, a new one does, where `on_step` listens or the gate heeds alarms.
        handover: By which another session may take over between two ticks. This one drives it, and it has begun.
        changes: Settings by their names, such as `clock=`; see `LoopSettings`.

    Raises:
        SamiError: An argument or a setting is invalid.
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
    settings = replace(settings or LoopSettings(), **changes)
    settings.period(session.contract.rate_hz)  # raises before anything moves
    guard = gate or SafetyGate(adapter, session.contract)

    def drive() -> EpisodeReport:
        require_compatible(session.contract, adapter.observation, adapter.action, type(adapter).__name__)
        if guard.adapter is not adapter:
            raise SamiError("the gate writes to another adapter than the loop reads. Make it with this adapter.")
        read = on_step is not None or guard.limits.stop_on_alarm is not None or "ood" in guard.guards
        reader = telemetry or (Telemetry(session.contract) if read else None)
        episode = RunningEpisode(session, adapter, guard, settings, limit, reader, on_step, handover)
        episode.begin(seed)
        while episode.next_tick():
            episode.turn()
        return episode.report()

    try:
        report = stopped_after(adapter, drive, settings.watchdog)
    except Exception as error:
        latch(guard, settings.watchdog)
        dog = settings.watchdog
        if dog and dog.fired and "the watchdog" not in str(error):
            raise SafetyStop(f"{dog.fault()}. Then the loop ended: {type(error).__name__}: {error}") from error
        raise
    finally:
        latch(guard, settings.watchdog)
    if settings.watchdog:
        guard.require_armed()
    return report
