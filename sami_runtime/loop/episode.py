"""The control loop of one episode: read, step, gate, write, record; it stops the adapter however the episode ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Adapter, Observation, require_compatible, require_observation
from sami_runtime.clock import ManualClock, Pace
from sami_runtime.errors import NonFiniteError, SafetyStop, SamiError, SignalError
from sami_runtime.loop.handover import Handover
from sami_runtime.loop.pilot import Ending, Request, request_of
from sami_runtime.loop.settings import LoopSettings
from sami_runtime.loop.stopping import LoopWatchdog, stopped_after
from sami_runtime.loop.tick import STEPPED, LoopReport, Outcome, SectionTimes, StepRecord
from sami_runtime.model.contract import Contract
from sami_runtime.safety.gate import Ruling, SafetyGate
from sami_runtime.session.session import Session
from sami_runtime.session.telemetry import Telemetry
from sami_runtime.signals import number_in

Age = float | Mapping[str, float]
"""Observation age [periods of the policy]: one number for all signals, or one by signal."""
DIGITS = 6
"""Ages are rounded to this many digits of a period."""


class Lateness:
    """Computes the age of observations: time since their stamps, plus the command delay, which no stamp contains.

    In a simulator, which waits for the next write, only a sim-to-real profile makes an observation older. Its stamps do
    not count: a simulator's adapter stamps an observation when it steps, a period before `read`.

    Args:
        adapter: Provides the observations.
        rate_hz: Of the contract [1/s].
        settings: Without enforced timing, every observation counts as measured now. Their `command_delay_s` is the
            time [s] from the write of an action to its effect; the adapter's own value if None.

    Raises:
        SamiError: The delay is negative or not finite.
    """

    def __init__(self, adapter: Adapter, rate_hz: float, settings: LoopSettings) -> None:
        own_delay_s = float(getattr(adapter, "command_delay_s", 0.0))
        self.command_delay_s = own_delay_s if settings.command_delay_s is None else settings.command_delay_s
        if not 0.0 <= self.command_delay_s < float("inf"):
            raise SamiError(f"command_delay_s is {self.command_delay_s}; it must be a finite time [s], at least 0.")
        self.waits = bool(getattr(adapter, "waits", False))
        self._rate_hz, self._slower, self._stamped = rate_hz, settings.slower, settings.enforced

    def age(self, observation: Observation, now: float) -> Age:
        """Return the age [periods of the policy] of an observation at a time [s] of the loop's clock."""
        if self.waits:
            late = observation.late
            if isinstance(late, Mapping):
                return {name: self._in_periods(0.0, periods) for name, periods in late.items()}
            return self._in_periods(0.0, late)
        if not self._stamped:
            return self._in_periods(0.0)
        if observation.times is None:
            return self._in_periods(now - observation.time)
        return {name: self._in_periods(now - observation.measured(name)) for name in observation.values}

    def _in_periods(self, seconds: float, periods: float = 0.0) -> float:
        late = (max(0.0, seconds) + self.command_delay_s) * self._rate_hz + periods
        return round(late / self._slower, DIGITS)


def too_old(age: Age, contract: Contract) -> str:
    """Return why a policy with lookahead cannot act on an observation of this age; an empty text if it can."""
    if contract.lookahead is None:
        return ""
    most, changing = contract.lookahead.steps, contract.lookahead.changing
    ages = {key: age[key] for key in age if key in changing} if isinstance(age, Mapping) else {"the observation": age}
    for name, periods in ages.items():
        if periods > most:
            return f"age: {name} is {periods:.3g} periods old, and the policy looks {most} ahead"
    return ""


Array = NDArray[np.float32]

OnStep = Callable[[StepRecord], None]


@dataclass(frozen=True)
class EpisodeReport:
    """The result of an episode of T steps; a step is a tick at which the policy was due."""

    steps: int
    """T."""
    done: bool
    """Whether the world ended the episode, rather than the number of steps."""
    info: Mapping[str, Any]
    """The adapter's last `Executed.info`."""
    contexts: Array
    """(T, C): the context at each step; at a step without an output of the policy, the context of the step before."""
    loop: LoopReport
    """Counts and times of every tick."""
    ended: Ending = Ending.STEPS
    """What ended the episode."""

    @property
    def success(self) -> bool | None:
        """Whether the episode succeeded: a person's verdict, else the adapter's `info["is_success"]`, else None."""
        if self.ended in (Ending.SUCCESS, Ending.FAILURE):
            return self.ended is Ending.SUCCESS
        success = number_in(self.info, "is_success")
        return None if success is None else bool(success)


class RunningEpisode:
    """The state of a running episode, and its ticks."""

    def __init__(
        self,
        session: Session,
        adapter: Adapter,
        gate: SafetyGate,
        settings: LoopSettings,
        limit: int,
        telemetry: Telemetry | None,
        on_step: OnStep | None,
        handover: Handover | None,
    ) -> None:
        self.session, self.adapter, self.gate, self.limit = session, adapter, gate, limit
        self.telemetry, self.on_step, self.handover = telemetry, on_step, handover
        self.watchdog, self.pilot, self.sequence = settings.watchdog, settings.pilot, settings.sequence
        self.clock, self.enforced = settings.clock or ManualClock(), settings.enforced
        self.slower, self.prewarm_s = settings.slower, settings.prewarm_s
        rate_hz = session.contract.rate_hz
        self.substeps, self.period = settings.substeps(rate_hz), settings.period(rate_hz)
        self.lateness = Lateness(adapter, rate_hz, settings)
        self.deadline = gate.limits.deadline_s or self.period
        self.names = [signal.name for signal in session.contract.signal_inputs.values()]
        self.context = np.zeros(session.contract.context_size, np.float32)
        self.extra: Mapping[str, Array] = {}
        self.contexts: list[Array] = []
        self.proposed: Array | None = None
        self.standing: Array | None = None
        self.request = Request()
        self.ending: Ending | None = None
        self.done, self.info = False, {}  # type: bool, Mapping[str, Any]
        self.due, self.missed = True, 0
        self.answered, self.in_report, self.turned = -1, -1, -1
        """Indices: the last step of the policy that is over, the last step in the report, and the last period in which
        a tick ran."""
        self.age: Age = 0.0
        self.counts = LoopReport()

    def begin(self, seed: int | None, closing: ExitStack) -> None:
        """Begin the episode: gate, watchdog, adapter, session, pilot, telemetry, and last the pace."""
        self.gate.begin(self.period)
        if self.watchdog:
            self.watchdog.rearm()  # a watchdog that fired latched the gate, and somebody re-armed the gate since
            self.watchdog.begin()
        if self.sequence:
            closing.enter_context(self.sequence(self, seed))
        else:
            self.adapter.reset(seed)
        self.session.reset()
        if self.pilot:
            self.pilot.reset()
        if self.telemetry:
            self.telemetry.reset()
        self.pace = Pace(self.clock, self.period)

    def next_tick(self) -> bool:
        """Sleep until the next tick; return False if the episode is over."""
        over = len(self.contexts) >= self.limit
        if self.done or (over and self._due(self.pace.tick + 1)):
            return False
        if self.handover and (session := self.handover.take(self.telemetry)):
            self.session = session
        if self.counts.ticks:
            warm = self.prewarm_s > 0.0 and self._due(self.pace.tick + 1)
            self.missed = self.pace.wait(self.prewarm_s, self.session.prewarm if warm else None)
        self.due = self._due(self.pace.tick)
        self.request = request_of(self.pilot, self.standing)
        self.ending = self.request.end
        return not (over and self.due) and self.ending is None

    def turn(self) -> None:
        """Run one tick: read, step, gate, write, record."""
        start_time, laps = self.clock.now(), [time.perf_counter()]
        policy_due, periods, step = self.due and not self.request.pause, self._periods(), self._step(self.pace.tick)
        # Read in every period, even if a step takes several: a dead sensor must be noticed within the limits' seconds.
        looks = self._in_period(self.pace.tick) > self.turned and not self.request.pause
        observation = require_observation(self.adapter.read(), self.adapter) if looks else None
        laps.append(time.perf_counter())
        outcome, reason, periods = self._ask_policy(observation, start_time, periods)
        observation = None if outcome is Outcome.STANDING else observation
        stepped = outcome in STEPPED
        laps.append(time.perf_counter())
        ruling = self._rule(outcome, reason)
        outcome = Outcome.FALLBACK if ruling.fallback else outcome
        laps.append(time.perf_counter())
        result, error = None, None
        try:
            self._beat()
            result = self.gate.write(ruling)
        except (
            SafetyStop
        ) as stop:  # another thread tripped the gate, or the adapter stopped: record the tick before it ends
            error = stop
        latch(self.gate, self.watchdog)  # the watchdog may have fired while the write hung
        laps.append(time.perf_counter())
        if result is not None:
            self.session.executed(result.action)
            self.standing = np.array(result.action, np.float32)
            self.done, self.info = result.done, result.info
        self.turned = self._in_period(self.pace.tick)
        if policy_due and step == self.in_report:
            self.contexts[-1] = self.context
        elif policy_due:
            self.contexts.append(self.context)
            self.in_report = step
        if self.due:
            self.answered = step if stepped or self.slower == 1 else step - 1  # if not, ask again in the next period
        elif outcome is not Outcome.STANDING and not self.request.pause:
            self.answered = self.in_report = step - 1  # a hold between two steps ends the current step
        if self.telemetry and stepped:  # after the write, so that telemetry does not delay it
            self.gate.record_telemetry(self.telemetry.update(self.context, self.extra))
        record = StepRecord(
            step=self.counts.ticks,
            outcome=outcome,
            observation=observation,
            action=self.proposed,
            executed=None if result is None else result.action,
            context=self.context,
            info=self.info,
            times=SectionTimes(*(end - start for start, end in pairwise(laps))),
            reason=ruling.reason or (f"trip: {self.gate.tripped or error}" if error else reason),
            limited_by=self.gate.changed(ruling, result),
            time=start_time,
            age=self.age,
            passed=periods,
            lag=start_time - self.pace.due,
            missed=self.missed,
            extra=self.extra,
            telemetry=self.telemetry.now if self.telemetry else None,
            state=self.session.digest if self.on_step else "",
            swapped=self.handover.swapped() if self.handover else None,
        )
        self.counts.add(record)
        if self.on_step:
            self.on_step(record)
        self.gate.require_armed()
        if error:
            raise error

    def report(self) -> EpisodeReport:
        """Return the report of the episode so far."""
        contexts = np.array(self.contexts, np.float32).reshape(len(self.contexts), self.session.contract.context_size)
        ending = self.ending or (Ending.WORLD if self.done else Ending.STEPS)
        return EpisodeReport(len(self.contexts), self.done, self.info, contexts, self.counts, ending)

    def _ask_policy(self, observation: Observation | None, start_time: float, periods: int) -> tuple[Outcome, str, int]:
        """Run the policy `periods` steps after it was due last; return outcome, why it did not act, steps passed."""
        before = max(0, periods - 1)  # missed steps
        self.session.elapse(before)
        outcome, reason = self._answer(observation, start_time)
        if outcome not in STEPPED:
            periods = periods if self.slower == 1 else before  # with `slower`, the next period may still run this step
            self.session.elapse(periods - before)
        return outcome, reason, periods

    def _answer(self, observation: Observation | None, start_time: float) -> tuple[Outcome, str]:
        if observation is None:
            return Outcome.PAUSED if self.request.pause else Outcome.STANDING, ""
        fault = self.gate.fault(observation, self.clock.now() if self.enforced else None)
        if not (self.due or fault):
            return Outcome.STANDING, ""
        self.proposed = None
        self.age = self.lateness.age(observation, self.clock.now())
        if fault := fault or too_old(self.age, self.session.contract):
            return Outcome.HELD, fault
        try:
            answer = self.session.step(observation.pick(self.names), self.age)
        except NonFiniteError as error:
            return Outcome.REFUSED, f"refused: {error}"
        except SignalError:
            raise  # a missing or misshapen signal is an error of the adapter, and waiting does not help
        except SamiError as error:
            return Outcome.REFUSED, f"refused: {error}"
        self.proposed = answer.action
        elapsed = self.clock.now() - start_time
        if self.enforced and elapsed > self.deadline + 1e-6 * self.period:
            self.session.undo()
            allowed = f"allowed are {self.deadline:.3g} s (deadline_s)"
            return Outcome.LATE, f"late: read and inference took {elapsed:.3g} s, {allowed}"
        self.context, self.extra = answer.context, answer.extra
        return Outcome.ACTED if self.request.command is None else Outcome.PILOTED, ""

    def _rule(self, outcome: Outcome, reason: str) -> Ruling:
        now, ticks = self.clock.now(), self._in_period(self.pace.tick) - self.turned
        if outcome is Outcome.ACTED and self.proposed is not None:
            return self.gate.propose(self.proposed, now, ticks)
        if outcome is Outcome.PILOTED and self.request.command is not None:
            return self.gate.command(self.request.command, now)
        if outcome is Outcome.PAUSED:
            return self.gate.rest(now)
        if outcome is Outcome.STANDING:
            return self.gate.stand(now)
        return self.gate.hold(reason, now, ticks)

    def _beat(self) -> None:
        """Beat just before the write, so that no command stays in force for longer than the watchdog allows."""
        if self.watchdog:
            try:
                self.watchdog.beat()
            except SafetyStop as stop:
                self.gate.trip(str(stop))

    def _periods(self) -> int:
        """Return the steps of the policy since it was due last; 0 if it is not due. A world that waits misses none."""
        steps = self._step(self.pace.tick) - self.answered if self.due else 0
        return min(steps, 1) if self.lateness.waits else steps

    def _due(self, tick: int) -> bool:
        """Whether the policy has to make a step at a tick of the loop, or should have made one at a missed tick."""
        return self._step(tick) > self.answered and self._in_period(tick) > self.turned

    def _step(self, tick: int) -> int:
        """Return the step of the policy that a tick of the loop belongs to."""
        return self._in_period(tick) // self.slower

    def _in_period(self, tick: int) -> int:
        """Return the period of the policy that a tick of the loop belongs to."""
        return tick // self.substeps


def latch(gate: SafetyGate, watchdog: LoopWatchdog | None) -> None:
    """Trip the gate if the watchdog fired, or could not stop the robot."""
    if watchdog and (fault := watchdog.fault()):
        gate.trip(fault)


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
        adapter: The simulator or robot that the policy drives.
        seed: For the adapter's reset.
        max_steps: Most steps; the contract's `episode_steps` if None.
        settings: How the loop runs; the default settings if None.
        on_step: Called after each tick with its record.
        gate: The only writer to the adapter; if None, a gate with the default limits.
        telemetry: Reads the contexts for the records, and for the gate's `stop_on_alarm` and `time_to_adapt`. If None,
            a new one is made where `on_step` or the gate needs it.
        handover: Lets another session take over between two ticks. It has begun, and `session` is its session.
        changes: Settings by their names, such as `clock=`; see `LoopSettings`.

    Raises:
        SamiError: An argument or a setting is invalid.
        AdapterError: The policy and the adapter do not fit, or the adapter failed.
        SignalError: An observation lacks a signal, or has one of another shape.
        SafetyStop: The gate or the watchdog stopped the robot, or the gate is latched; see its `report`.
    """
    limit = session.contract.episode_steps if max_steps is None else max_steps
    if session.batch != 1 or limit < 1:
        raise SamiError(
            f"run_episode() got a session of batch {session.batch} and max_steps {limit}; "
            "expected a batch of 1 and at least 1 step."
        )
    settings = replace(settings or LoopSettings(), **changes)
    settings.period(session.contract.rate_hz)  # raises before anything moves
    guard, dog = gate or SafetyGate(adapter, session.contract), settings.watchdog
    episode: RunningEpisode | None = None

    def drive() -> EpisodeReport:
        nonlocal episode
        require_compatible(session.contract, adapter.observation, adapter.action, type(adapter).__name__)
        if guard.adapter is not adapter:
            raise SamiError("the gate writes to another adapter than the loop reads. Make it with this adapter.")
        needs_telemetry = guard.limits.longest_alarm(guard.guards) is not None or guard.limits.time_to_adapt is not None
        reader = telemetry or (Telemetry(session.contract) if on_step is not None or needs_telemetry else None)
        episode = RunningEpisode(session, adapter, guard, settings, limit, reader, on_step, handover)
        with ExitStack() as closing:
            episode.begin(seed, closing)
            while episode.next_tick():
                episode.turn()
        return episode.report()

    try:
        report = stopped_after(adapter, drive, dog)
        latch(guard, dog)
        if dog:
            guard.require_armed()
        return report
    except Exception as error:
        partial = episode and episode.report()
        if dog and dog.fired and "the watchdog" not in str(error):
            stop = SafetyStop(f"{dog.fault()}. Then the loop ended: {type(error).__name__}: {error}")
            stop.report = partial
            raise stop from error
        if isinstance(error, SafetyStop):
            guard.trip(str(error).rstrip("."))  # also if the adapter stopped the robot by itself
            error.report = partial
        raise
    finally:
        latch(guard, dog)
