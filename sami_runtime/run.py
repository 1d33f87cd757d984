"""`Run` composes session, adapter, gate, watchdog and recording, and runs episodes of one policy."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol

import numpy as np

from sami_runtime.adapters.around import DryRun, Gapped, Slowed
from sami_runtime.adapters.base import Adapter, optional_method, require_compatible
from sami_runtime.adapters.scene import scene_of
from sami_runtime.clock import Clock, ManualClock
from sami_runtime.errors import AdapterError, SafetyWarning, SamiError, UnknownName
from sami_runtime.gap.profile import GapProfile
from sami_runtime.loop.episode import EpisodeReport, Lateness, OnStep, run_episode
from sami_runtime.loop.handover import Handover, require_swap
from sami_runtime.loop.pauses import short_pauses
from sami_runtime.loop.pilot import Ending
from sami_runtime.loop.settings import LoopSettings
from sami_runtime.loop.stopping import LoopWatchdog, fatal_signals_raise
from sami_runtime.loop.tick import LoopReport, StepRecord, Swapped
from sami_runtime.model.contract import Contract
from sami_runtime.recording.format import RecordedEpisode
from sami_runtime.recording.recorder import Recorder
from sami_runtime.safety.bias_calibration import BiasCalibration
from sami_runtime.safety.gate import Controller, SafetyGate
from sami_runtime.safety.limits import Limits
from sami_runtime.safety.watch import active_guards, guards_without
from sami_runtime.session.admission import Admission
from sami_runtime.session.session import Session
from sami_runtime.session.telemetry import Telemetry


def _compose(
    adapter: Adapter,
    contract: Contract,
    settings: LoopSettings,
    gap: GapProfile | None,
    limits: Limits | None,
    dry_run: bool,
    simulator: bool,
) -> Adapter:
    """Wrap an adapter for the loop: sim-to-real profile, dry run, time scaling, then sensor-bias calibration."""
    wrapped = adapter if gap is None else Gapped(adapter, gap, contract.rate_hz, settings.loop_hz)
    wrapped = DryRun(wrapped) if dry_run else wrapped
    wrapped = wrapped if settings.slower == 1 else Slowed(wrapped, settings.slower)
    if limits is None or not limits.known:
        return wrapped
    limits.require_fit(contract)
    clock = None if simulator else settings.clock  # a simulator's observations do not age
    return BiasCalibration(wrapped, limits.known, limits.known_readings, clock, 1.0 / contract.rate_hz)


def _require_for_robot(settings: LoopSettings, gap: GapProfile | None) -> None:
    """Raise SamiError if there is no clock and `enforce_timing` is not set, or the profile changes actions."""
    if settings.clock is None and settings.enforce_timing is None:
        raise SamiError(
            "the run of a robot has no clock, so nothing keeps its rate or measures the age of its observations. Pass "
            "the clock that stamps them, or enforce_timing=False if the adapter's read() keeps the rate, or "
            "simulator=True if the adapter is a simulator."
        )
    if gap is not None and gap.on_actions:
        raise SamiError(
            "the gap has action_latency_s, actuator_lag_s or another key that changes actions; on a robot it would "
            "write actions that the gate did not allow. Remove these keys from the gap: they are for simulators."
        )


def _warn_of_missing(
    contract: Contract, limits: Limits | None, watchdog: LoopWatchdog | None, guards: Collection[str], guards_only: bool
) -> None:
    """Issue a `SafetyWarning` for each protection that a robot's run lacks and the caller did not turn off."""
    whole, name = not guards_only, contract.name
    missing = {
        "no watchdog: nothing stops the robot if this process hangs or is killed. Set watchdog_s in the robot's file "
        "(Run(watchdog=...)).": whole and watchdog is None,
        "no limits: only the contract's bounds limit what is written. Set limits in the robot's file "
        "(Run(limits=...)).": whole and limits is None,
        "no neutral action: while the policy gives no new action, its last one stays in force until the robot is "
        "stopped. Set rest in the limits, such as rest = 0.0.": whole and (limits is None or limits.rest is None),
        f"no training ranges in {name!r}: nothing compares observations with the ranges of training. Add them with: "
        "sami describe FILE": "ranges" in guards and contract.training_ranges is None,
        f"no in-distribution reference in {name!r}: nothing stops the robot out of distribution. Add it: sami atlas "
        "FILE": "ood" in guards and contract.atlas is None and contract.context is not None,
    }
    for text, is_missing in missing.items():
        if is_missing:
            warnings.warn(text, SafetyWarning, stacklevel=3)


def _warn_of_narrower(contract: Contract, limits: Limits | None, adapter: Adapter) -> None:
    """Issue a `SafetyWarning` if the adapter takes a narrower range of actions than the policy's."""
    (low, high), (least, most) = (limits or Limits()).bounds(contract.action), Limits().bounds(adapter.action)
    beyond = low < least - 1e-6 * np.abs(least), high > most + 1e-6 * np.abs(most)  # rounding is no difference
    narrower = np.isfinite(low) & beyond[0] | np.isfinite(high) & beyond[1]
    if narrower.any():
        at = int(narrower.argmax())
        text = f"model {contract.name!r} acts from {low[at]:g} to {high[at]:g} at {contract.action.elements[at]}, but "
        text += f"the adapter takes only {least[at]:g} to {most[at]:g} and clips the rest."
        warnings.warn(text, SafetyWarning, stacklevel=3)


class Follower(Protocol):
    """A second model that is stepped on the same observations and never acts, such as `Shadow`."""

    comparison: Any
    """Comparison of its actions with the applied ones, over all episodes."""
    episode: Any
    """The same comparison over the last episode alone."""

    def require_fit(self, contract: Contract) -> None:
        """Raise a SamiError if it cannot follow a driving model of this contract."""

    def __call__(self, record: StepRecord) -> None:
        """Step the second model on the observation of one tick."""


REPEAT_S = 0.05
"""Time [s] between two emergency stops while the loop hangs."""


class Run:
    """Episodes of one policy with one safety gate, telemetry, recording and shadow; `sami run` uses it.

    The constructor raises where the parts do not fit together: before anything moves and before any file is written.
    `with` opens the run:

        with Run(session, robot, clock, limits=Limits.load("limits.toml"), record="run.mcap") as run:
            for number in range(3):
                report = run.episode(seed=number)
        print(run.total)

    Inside the block, in the main thread, signals that would kill the process raise SystemExit. Each episode stops the
    adapter at its end; the end of the block completes the recording. The caller closes session, adapter and shadow.
    Another thread ends a run by `run.stop("reason")`, even if the loop hangs, and replaces the model by
    `run.swap("newer.onnx")`.

    Args:
        session: The policy, with a batch of 1.
        adapter: The simulator or robot that the policy drives.
        clock: Keeps the rate; the adapter stamps its observations by it. Without a clock, the loop never waits.
        simulator: Whether the adapter's world waits for each write. Then only `gap` ages observations, `gap` may change
            actions, and the clock may be None. False means a robot: all guards judge its observations.
        limits: What the gate allows; the default limits if None.
        unguarded: Names of guards to turn off on a robot: `ranges`, `ood`, `frozen`; see `GUARDS`.
        gap: Sim-to-real profile (latency, noise, ...) that is simulated between the adapter and the loop.
        dry_run: Whether the loop does everything except write to the adapter.
        record: A new file, NAME.mcap, that stores every tick; None stores nothing.
        facts: Facts to store in the recording, such as the environment and the seed.
        shadow: A second model that reads the same observations and never acts, such as `Shadow`.
        fallback: Controller that acts when the policy has been held too long; see `SafetyGate`.
        admission: Which files `swap` accepts; if None, any file that is safe to load.
        gate: Function that builds the gate, such as `partial(BodyGate, settings=...)`.
        changes: Settings of the loop by their names: `loop_hz`, `slower`, `prewarm_s`, `enforce_timing`,
            `command_delay_s`, `watchdog`, `pilot`, `sequence`; see `LoopSettings`.

    Raises:
        AdapterError: The policy and the adapter do not fit.
        UnknownName, SamiError: Limits, profile or settings are invalid for this policy, adapter or robot, or
            `unguarded` has an unknown name.

    Warns:
        SafetyWarning: A robot has no watchdog, limits or neutral action, or the model file lacks a guard's reference;
            or the policy's actions are from a wider range than the adapter takes.
    """

    def __init__(
        self,
        session: Session,
        adapter: Adapter,
        clock: Clock | None = None,
        *,
        simulator: bool = False,
        limits: Limits | None = None,
        unguarded: Collection[str] = (),
        gap: GapProfile | None = None,
        dry_run: bool = False,
        record: str | Path | None = None,
        facts: Mapping[str, Any] | None = None,
        shadow: Follower | None = None,
        fallback: Controller | None = None,
        admission: Admission | None = None,
        gate: Callable[..., SafetyGate] = SafetyGate,
        **changes: Any,
    ) -> None:
        contract, guards = session.contract, guards_without(unguarded)
        settings = LoopSettings(clock, **changes)
        watchdog = settings.watchdog
        if simulator:
            guards = ()
        else:
            _require_for_robot(settings, gap)
        period = settings.period(contract.rate_hz)
        if watchdog is not None:
            watchdog.require_rate(1.0 / period)
        self.shadow = shadow
        self.adapter = _compose(adapter, contract, settings, gap, limits, dry_run, simulator)
        """The adapter as the loop uses it: with sim-to-real profile, dry run, time scaling and bias calibration."""
        require_compatible(contract, self.adapter.observation, self.adapter.action, type(self.adapter).__name__)
        _warn_of_narrower(contract, limits, self.adapter)
        allowed = (limits or Limits()).in_simulator(gap is not None) if simulator else limits
        self.gate = gate(self.adapter, contract, allowed, fallback, guards)
        """The only writer to the adapter. Once tripped, it stays latched until its `rearm` is called."""
        self.telemetry = Telemetry(contract)
        """Readings of the contexts in the running episode, or in the last one."""
        self.total = LoopReport()
        """Counts and times of every tick so far, including episodes that ended in an error."""
        self._handover, self._swapping = Handover(session, adapter), threading.Lock()
        self._judged_by = session  # the gate uses this session's contract
        self._settings = settings
        self._timed = clock is not None and not isinstance(clock, ManualClock)
        self._watched_by = optional_method(adapter, "watch")
        self._watchdog, self._admission = watchdog, admission or Admission(rehearsed=False)
        self._resting = threading.Event()
        self._resting.set()
        self._repeated: threading.Event | None = None
        self._record = record
        self._facts = {**(facts or {}), "dry_run": dry_run, "simulator": simulator, "gap": gap and gap.to_dict()}
        self._facts |= {"slower": settings.slower} if settings.slower != 1 else {}
        delay = Lateness(self.adapter, contract.rate_hz, settings).command_delay_s
        self._facts |= {"command_delay_s": delay} if delay else {}
        if judging := active_guards(contract, guards):
            self._facts["guards"] = list(judging)
        if not simulator:
            _warn_of_missing(contract, limits, watchdog, guards, dry_run)
        if fallback is not None:
            self._facts["fallback"] = type(fallback).__name__
        self._recorder: Recorder | None = None
        self._ticked = False
        self._closing: ExitStack | None = None

    def episode(
        self, seed: int | None = None, max_steps: int | None = None, on_step: OnStep | None = None
    ) -> EpisodeReport:
        """Run the next episode, and stop the adapter however it ends.

        Args:
            seed: For the adapter's reset, and for the noise and delays of the profile.
            max_steps: Most steps; the contract's `episode_steps` if None.
            on_step: Called after each tick with its record, after the recording and the shadow.

        Raises:
            SamiError: The run is not open, or an episode is running; or an error of `run_episode`.
            RecordingError: The recording cannot be written.
        """
        if self._closing is None:
            raise SamiError("the run is not open; nothing was driven. Call episode() inside `with Run(...) as run:`.")
        watching = [*self._watching, *([on_step] if on_step else [])]

        def watch(record: StepRecord) -> None:
            for watcher in watching:
                watcher(record)

        self._handover.begin()
        self._resting = resting = threading.Event()  # one event per episode: a waiter never waits for the next one
        try:
            if self.session is not self._judged_by:  # a swap may have changed the session since
                self.gate.change_contract(self.session.contract)
                self.telemetry.take(Telemetry(self.session.contract))
                self._judged_by = self.session
            judging: dict[str, Any] = {"gate": self.gate, "telemetry": self.telemetry, "handover": self._handover}
            report = run_episode(self.session, self.adapter, seed, max_steps, self._settings, on_step=watch, **judging)
        finally:
            self._handover.end()
            resting.set()
            self._ticked = False
        self._ticked = report.loop.ticks > 0
        self.conclude(report.ended, report.success)
        return report

    def stop(self, reason: str, within_s: float = 0.2) -> None:
        """Stop the robot from another thread, and latch the gate until its `rearm` is called.

        The loop calls the adapter's `stop()` as soon as it can. If it hangs in a read or a write for `within_s`, this
        thread fires the watchdog and calls the adapter's `emergency_stop()`. A new thread repeats `emergency_stop()`
        until the episode has ended, because a write that hung may still send its command. If the loop's own thread
        calls this, such as in `on_step`, the loop stops the robot at the end of the tick.

        Args:
            reason: Text of the error that ends the episode.
            within_s: Longest time [s] to wait for the loop.

        Raises:
            AdapterError: The loop did not stop the robot, and neither `emergency_stop()` nor the watchdog did.
        """
        self.gate.trip(reason)
        resting = self._resting
        if self._handover.thread == threading.get_ident() or resting.wait(within_s):
            return
        if self._watchdog is not None:
            self._watchdog.fire()
        failed = "the adapter has no emergency_stop()"
        if by_adapter := optional_method(self.adapter, "emergency_stop"):
            if self._repeated is not resting:  # only once per episode
                self._repeated = resting
                with suppress(RuntimeError):  # no thread can be started: it is stopped once
                    threading.Thread(target=_repeat, args=(by_adapter, resting), name="sami-stop", daemon=True).start()
            try:
                by_adapter()
                return
            except Exception as error:
                failed = f"its emergency_stop() failed: {error}"
        if self._watchdog is not None and self._watchdog.fire(self._watchdog.stop_s):
            return
        raise AdapterError(
            f"the loop did not stop the robot within {within_s:g} s, and {failed}. It may still move: press its "
            "emergency stop."
        )

    def conclude(self, ended: Ending, success: bool | None) -> None:
        """Record how the last episode ended. `episode` calls it; call it again if a person corrects the result.

        It does nothing for an episode without a tick, or one that ended by an error.

        Raises:
            RecordingError: The recording cannot be written.
        """
        if self._recorder is not None and self._ticked:
            self._recorder.conclude(RecordedEpisode(ended, success))

    @property
    def session(self) -> Session:
        """The policy that drives; see `swap`."""
        return self._handover.session

    def swap(
        self, model: str | Path | Session, when: Literal["episode", "now"] = "episode", timeout_s: float = 30.0
    ) -> Swapped:
        """Replace the driving model without missing a tick. Call it from a thread other than the loop's.

        The calling thread reads, checks and builds the new model; the loop replaces the old one between two ticks. If
        this raises, the old model continues. It warns, as the constructor does, of the adapter's range and of missing
        references.

        Args:
            model: A model file, to run on the execution provider of the driving model; or a session with a batch of 1,
                which belongs to the run from then on.
            when: `"episode"`: the next episode begins with the new model, and this returns as soon as it is ready.
                `"now"`: the new model, which must have the same weights, takes over within the running episode and
                continues from the old model's state; this returns when it drives. If the episode ends before that, or
                no episode is running, the next episode begins with the new model.
            timeout_s: Longest time [s] to wait, with `"now"`, until the loop uses the new model.

        Raises:
            ArtifactError, ContractError, ProviderError: The file is rejected, as by `Session.load`.
            AdapterError, UnknownName, SamiError: The model does not fit the adapter, the limits, the rate or the
                shadow; or, with `"now"`, it has other weights or signals, or the loop did not adopt it in time.
        """
        if when not in ("episode", "now"):
            raise UnknownName("time of a swap", when, ("episode", "now"))
        by_loop = self._handover.thread == threading.get_ident()  # for which another thread's swap may wait
        with nullcontext() if by_loop else self._swapping:
            driving = self.session
            session = model if isinstance(model, Session) else self._admission.load(model, driving.active_providers[0])
            require_swap(session, driving, self.adapter, self.gate)
            for part in (self.shadow, self._settings.sequence):
                getattr(part, "require_fit", lambda contract: None)(session.contract)
            _warn_of_narrower(session.contract, self.gate.limits, self.adapter)
            _warn_of_missing(session.contract, None, None, self.gate.guards, guards_only=True)
            return self._handover.give(session, driving, when == "now", timeout_s)

    @property
    def recorded(self) -> bool:
        """Whether there is a recording and all ticks so far were written."""
        return self._recorder is not None and self._recorder.error is None

    def __enter__(self) -> Run:
        """Begin the recording, handle fatal signals that have no handler, and keep pauses of the loop short.

        Raises:
            RecordingError: The file exists or cannot be written, or the package mcap is missing.
        """
        self._watching: list[OnStep] = [self.total.add]
        with ExitStack() as opening:
            opening.enter_context(fatal_signals_raise())
            if self._timed:
                opening.enter_context(short_pauses())
            if self._record is not None:
                scene = scene_of(self.adapter)
                self._recorder = Recorder(self._record, self.session, self.gate.limits, self._facts, scene)
                self._watching.append(opening.enter_context(self._recorder))
            if self.shadow is not None:
                self._watching.append(self.shadow)
            if self._watched_by is not None:
                self._watching.append(self._watched_by)
            self._closing = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Complete the recording, restore signal handlers; RecordingError only if the block itself raised nothing."""
        closing, self._closing = self._closing, None
        if closing is not None:
            closing.__exit__(kind, error, trace)


def _repeat(stop: Callable[[], object], resting: threading.Event) -> None:
    """Call `stop` every `REPEAT_S` until the episode has ended, and ignore what the calls raise."""
    while not resting.wait(REPEAT_S):
        with suppress(Exception):
            stop()
