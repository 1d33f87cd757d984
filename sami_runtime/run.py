"""A run: episodes of one policy, with all that belongs around them, put together and closed in the right order."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol

from sami_runtime.adapters.around import DryRun, Gapped, Slowed
from sami_runtime.adapters.base import Adapter, emergency_stop_of, require_compatible, watch_of
from sami_runtime.adapters.scene import scene_of
from sami_runtime.clock import Clock, ManualClock
from sami_runtime.errors import AdapterError, SafetyWarning, SamiError, UnknownName
from sami_runtime.gap.profile import GapProfile
from sami_runtime.loop.episode import EpisodeReport, Lateness, OnStep, run_episode
from sami_runtime.loop.garbage import short_collections
from sami_runtime.loop.handover import Handover, require_swap
from sami_runtime.loop.pilot import Ending
from sami_runtime.loop.settings import LoopSettings
from sami_runtime.loop.stopping import LoopWatchdog, fatal_signals_raise
from sami_runtime.loop.tick import LoopReport, StepRecord, Swapped
from sami_runtime.model.contract import Contract
from sami_runtime.recording.format import RecordedEpisode
from sami_runtime.recording.recorder import Recorder
from sami_runtime.safety.gate import Controller, SafetyGate
from sami_runtime.safety.limits import Limits
from sami_runtime.safety.watch import active_guards, guards_without
from sami_runtime.safety.zeroed import Zeroed
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
    """Return an adapter as the loop sees it: behind the gap, without its write in a dry run, its known values zeroed.

    Raises:
        UnknownName, SamiError: The gap or what is known does not fit.
    """
    behind = adapter if gap is None else Gapped(adapter, gap, contract.rate_hz, settings.loop_hz)
    behind = DryRun(behind) if dry_run else behind
    behind = behind if settings.slower == 1 else Slowed(behind, settings.slower)
    if limits is None or not limits.known:
        return behind
    limits.require_fit(contract)
    clock = None if simulator else settings.clock  # a simulator waits
    return Zeroed(behind, limits.known, limits.known_readings, clock, 1.0 / contract.rate_hz)


def _require_for_robot(settings: LoopSettings, gap: GapProfile | None) -> None:
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


def _warn_of_missing(
    contract: Contract, limits: Limits | None, watchdog: LoopWatchdog | None, guards: Collection[str], dry_run: bool
) -> None:
    """Warn, by a `SafetyWarning` each, of the protections that a robot's run goes without.

    Guards that were turned off by name are no surprise; in a dry run only what judges observations matters.
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
            f"no in-distribution reference in {contract.name!r}: nothing stops the robot out of distribution. Add it: "
            "sami atlas FILE"
        )
    for text in missing:
        warnings.warn(text, SafetyWarning, stacklevel=3)


class Follower(Protocol):
    """A second model on the same stream, as `Shadow` is one."""

    comparison: Any
    """What came of all episodes."""
    episode: Any
    """What came of the last one."""

    def require_fit(self, contract: Contract) -> None:
        """Refuse a model that takes over and that this one cannot follow."""

    def __call__(self, record: StepRecord) -> None:
        """Follow one tick."""


REPEAT_S = 0.05
"""Time [s] from one emergency stop of a loop that hangs to the next."""


class Run:
    """Episodes behind one gate, watched by one telemetry, one recording and one shadow; what `sami run` does.

    Making a run refuses what does not fit together, before anything moves and before a file is begun. `with` opens it:

        with Run(session, robot, clock, limits=Limits.load("limits.toml"), record="run.mcap") as run:
            for number in range(3):
                report = run.episode(seed=number)
        print(run.total)

    Inside, and in the main thread, signals that would have killed the process raise SystemExit. However the block ends,
    the recording is completed; the adapter was stopped at the end of its episode. Session, adapter and shadow are the
    caller's: they are not closed. Another thread ends a run by `run.stop("reason")`, also where the loop hangs, and
    gives it another model by `run.swap("newer.onnx")`.

    Args:
        session: The policy, with a batch of 1.
        adapter: What it drives.
        clock: Keeps the rate, and stamps the adapter's observations. Without one, the loop waits for nothing.
        simulator: Whether the adapter's world stands still while nothing is written: then observations age only behind
            a gap, a gap may lie on the actions, and it may run without a clock. A robot's world does not, and all
            guards judge its observations.
        limits: What the gate allows; the default limits if None.
        unguarded: Names of guards that are turned off on a robot: `ranges`, `ood`, `frozen`; see `GUARDS`.
        gap: A gap to reality between the adapter and the loop.
        dry_run: Whether everything is done but writing.
        record: A file, NAME.mcap, for every tick; none if None.
        facts: What a reader of the recording should know, such as the environment and the seed.
        shadow: A second model that follows, such as `Shadow`.
        fallback: Acts where the policy has been held too long; see `SafetyGate`.
        admission: Which files `swap` lets in; any that are safe to load if None.
        gate: What makes the gate, such as `partial(BodyGate, settings=...)`.
        changes: Settings of the loop by their names: `loop_hz`, `slower`, `prewarm_s`, `enforce_timing`,
            `command_delay_s`, `watchdog`, `pilot`, `sequence`; see `LoopSettings`.

    Raises:
        AdapterError: The policy and the adapter do not fit.
        UnknownName, SamiError: Limits or gap do not fit them, or would make no sense on a robot; no guard has such a
            name.

    Warns:
        SafetyWarning: A robot has no watchdog, no limits or no neutral action, or the file lacks a guard's numbers.
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
        """The adapter as the loop sees it: behind the gap, without its write in a dry run, its known values zeroed."""
        require_compatible(contract, self.adapter.observation, self.adapter.action, type(self.adapter).__name__)
        allowed = (limits or Limits()).in_simulator(gap is not None) if simulator else limits
        self.gate = gate(self.adapter, contract, allowed, fallback, guards)
        """Owns the write. Tripped, it stays latched until somebody calls its `rearm`."""
        self.telemetry = Telemetry(contract)
        """Reads the contexts of the episode that runs, or ran last."""
        self.total = LoopReport()
        """Counts and times of every tick so far, also of an episode that did not end well."""
        self._handover, self._swapping = Handover(session), threading.Lock()
        self._judged_by = session  # whose contract the gate has
        self._run_episode = partial(
            run_episode,
            adapter=self.adapter,
            settings=settings,
            gate=self.gate,
            telemetry=self.telemetry,
            handover=self._handover,
        )
        self._timed = clock is not None and not isinstance(clock, ManualClock)
        self._watched_by = watch_of(adapter)
        self._watchdog, self._admission = watchdog, admission or Admission(rehearsed=False)
        self._resting = threading.Event()
        self._resting.set()
        self._repeated: threading.Event | None = None
        self._thread: int | None = None
        self._record = record
        self._facts = {**(facts or {}), "dry_run": dry_run, "simulator": simulator, "gap": gap and gap.to_dict()}
        delay = Lateness(self.adapter, contract.rate_hz, settings.enforced, settings.command_delay_s).command_delay_s
        self._facts |= {"command_delay_s": delay} if delay else {}
        if judging := active_guards(contract, guards):
            self._facts["guards"] = list(judging)
        if not simulator:
            _warn_of_missing(contract, limits, watchdog, guards, dry_run)
        if fallback is not None:
            self._facts["fallback"] = type(fallback).__name__
        self._recorder: Recorder | None = None
        self._ticked = False
        self._watching: list[OnStep] = []
        self._closing: ExitStack | None = None

    def episode(
        self, seed: int | None = None, max_steps: int | None = None, on_step: OnStep | None = None
    ) -> EpisodeReport:
        """Run the next episode, and stop the adapter however it ends.

        Args:
            seed: For the adapter's reset, and for the gap.
            max_steps: Most steps; the contract's `episode_steps` if None.
            on_step: Called after each tick, when everything else of the run has had its record.

        Raises:
            SamiError: The run is not open, or an episode is under way; or what `run_episode` raises.
            RecordingError: The recording cannot be written.
        """
        if self._closing is None:
            raise SamiError(
                "the run is not open, so nothing was driven. Call episode() inside `with Run(...) as run:`."
            )
        watching = [*self._watching, *([on_step] if on_step else [])]

        def watch(record: StepRecord) -> None:
            for watcher in watching:
                watcher(record)

        self._handover.begin()
        self._thread = threading.get_ident()
        self._resting = resting = threading.Event()  # of this episode: whoever waits for one does not take the next
        try:
            if self.session is not self._judged_by:  # also where it took over in the middle of the last episode
                self.gate.change_contract(self.session.contract)
                self.telemetry.take(Telemetry(self.session.contract))
                self._judged_by = self.session
            report = self._run_episode(self.session, seed=seed, max_steps=max_steps, on_step=watch)
        finally:
            self._handover.end()
            self._thread = None
            resting.set()
            self._ticked = False
        self._ticked = report.loop.ticks > 0
        self.conclude(report.ended, report.success)
        return report

    def stop(self, reason: str, within_s: float = 0.2) -> None:
        """Stop the robot from another thread, and latch the gate until somebody calls its `rearm`.

        The loop stops it by the adapter's `stop()` as soon as it can. Where it has not done so in time, because it sits
        in a read or a write, this thread calls the adapter's `emergency_stop()`, and the watchdog's is called as well.
        Another thread repeats it until the loop rests: a write that hung may still send its command. In the loop's own
        thread, as from `on_step`, the robot is stopped at the end of the tick.

        Args:
            reason: Why, for whoever reads the error that ends the episode.
            within_s: How long [s] the loop has for it.

        Raises:
            AdapterError: The loop did not, and there is neither an `emergency_stop()` that works nor a watchdog.
        """
        self.gate.trip(reason)
        resting = self._resting
        if self._thread == threading.get_ident() or resting.wait(within_s):
            return
        if self._watchdog is not None:
            self._watchdog.fire()
        failed = "the adapter has no emergency_stop()"
        if by_adapter := emergency_stop_of(self.adapter):
            if self._repeated is not resting:  # once an episode
                self._repeated = resting
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
        """Have the recording say what came of the episode that ran last. `episode` does; a person may know better.

        An episode that ended before its first tick, or by an error, is left alone: there is nothing to say it of.

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
        """Let another model drive, without a tick being missed. For a thread other than the loop's.

        All that takes time is done by the thread that calls: reading, checking and building the model. The loop takes
        it between two ticks. Whatever is refused changes nothing.

        Args:
            model: A model file, run by what runs the one that drives; or a session with a batch of 1, which is the
                run's from then on.
            when: `"episode"`: the next episode begins with it; this returns when it is ready. `"now"`: it takes over
                in the episode that runs, and goes on with the state of the model that drives, whose weights it must
                have; this returns when it drives. If the episode ends before that, or none runs, the next one begins
                with it.
            timeout_s: How long [s] the loop may take to take over a model that is ready.

        Raises:
            ArtifactError, ContractError, ProviderError: The file is refused, as by `Session.load`.
            AdapterError, UnknownName, SamiError: It does not fit the adapter, the limits, the rate or the shadow; or,
                in the middle of an episode, it has other weights or signals.
        """
        if when not in ("episode", "now"):
            raise UnknownName("time of a swap", when, ("episode", "now"))
        with self._swapping:
            driving = self.session
            session = model
            if not isinstance(session, Session):
                session = self._admission.load(session, driving.active_providers[0])
            require_swap(session, driving, self.adapter, self.gate.limits)
            if self.shadow:
                self.shadow.require_fit(session.contract)
            return self._handover.give(session, driving, when == "now", timeout_s)

    @property
    def recorded(self) -> bool:
        """Whether there is a recording, and it could be written so far."""
        return self._recorder is not None and self._recorder.error is None

    def __enter__(self) -> Run:
        """Begin the recording, take over the signals that nobody handles, and keep garbage collections short.

        Raises:
            RecordingError: The file exists or cannot be written, or the package mcap is missing.
        """
        self._watching = [self.total.add]
        with ExitStack() as opening:
            opening.enter_context(fatal_signals_raise())
            if self._timed:
                opening.enter_context(short_collections())
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
        """Complete the recording, and give the signals back.

        Raises:
            RecordingError: The file cannot be written, and nothing worse has happened.
        """
        closing, self._closing = self._closing, None
        if closing is not None:
            closing.__exit__(kind, error, trace)


def _repeat(stop: Callable[[], object], resting: threading.Event) -> None:
    """Stop the robot again and again until its loop rests, whatever the tries raise."""
    while not resting.wait(REPEAT_S):
        with suppress(Exception):
            stop()
