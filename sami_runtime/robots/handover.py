"""The hand-over: stages that move a robot to where its policy starts, and away later; `[handover]` of robot.toml."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sami_runtime.adapters.base import Adapter, Observation, require_observation
from sami_runtime.errors import SamiError, UnknownName, require_known
from sami_runtime.files import checked_table
from sami_runtime.loop.episode import RunningEpisode, latch
from sami_runtime.loop.pilot import Ending
from sami_runtime.model.contract import Contract
from sami_runtime.robots.body.settings import BodySettings, by_name
from sami_runtime.robots.kit.motion import eased
from sami_runtime.robots.kit.settings import RobotTable
from sami_runtime.safety.gate import Ruling
from sami_runtime.safety.limits import Limits
from sami_runtime.safety.watch import Neutral
from sami_runtime.signals import Number, Positive, finite_numbers, number_at

DAMP, POLICY = "damp", "policy"
ADAPTER_STAGES = ("home", "stand")
"""Stages in which the adapter moves the robot: by its `reset` before the policy, by its method of the stage's name
after the policy."""
PAGE = "docs/reference/handover.md lists the keys"
GAIN = 0.25
"""Share of the position error of a pose's element that an action corrects in one period."""
BLEND = 5
"""Periods over which a pose blends from the action that was executed before it to its own actions."""
WARM = 3
"""Most steps on copies of the session's state; the model is warm if one of them meets the deadline."""

Array = NDArray[np.float32]


class PoseKeys(RobotTable):
    """`[handover.poses.NAME]`: a pose, to which actions of the policy's kind move the robot through the gate."""

    at: Annotated[dict[str, Number], Field(min_length=1)]
    """By element of the action, the target of what it moves [m, rad]. Other elements take the neutral action."""
    seconds: Positive = 3.0
    """How long the motion takes [s]."""
    within: Positive = 0.02
    """Largest distance from the target at the end [m, rad]."""


class HandoverSettings(RobotTable):
    """The table `[handover]` of a robot.toml."""

    stages: Annotated[tuple[str, ...], Field(min_length=1)] = (DAMP, "home")
    """Stages before the policy, in this order: `damp` (optional), `home` or `stand`, then names of `poses`."""
    recover: str = DAMP
    """Stage after the policy: `damp`, `home`, `stand` or a pose, always followed by damp. A stopped robot is damped at
    once."""
    velocity: dict[str, Positive] = {}
    """By observation signal, the highest speed at which the next stage begins [m/s, rad/s]."""
    damp_s: Annotated[float, Field(ge=0, le=60)] = 0.5
    """How long the stage `damp` takes [s]."""
    wait_s: Annotated[float, Field(gt=0, le=60)] = 2.0
    """How long to wait for the conditions of the next stage [s], before the robot is stopped with the reason."""
    poses: dict[str, PoseKeys] = {}

    @classmethod
    def of(cls, document: Mapping[str, Any], where: str = "[handover]") -> HandoverSettings:
        """Return checked settings; messages say `where` they are written.

        Raises:
            UnknownName: A stage does not exist.
            SamiError: A key does not exist, a value is invalid, or contradicts another.
        """
        settings = checked_table(cls, document, where, PAGE)
        valid = (DAMP, *ADAPTER_STAGES, *settings.poses)
        require_known("stage", (*settings.stages, settings.recover), valid, f"It is in {where}.")
        if fault := settings._fault():
            raise SamiError(f"{where}: {fault} The page {PAGE}.")
        return settings

    def __str__(self) -> str:
        """Return the sequence of stages as text."""
        timed = [f"{name} ({self.poses[name].seconds:g} s)" if name in self.poses else name for name in self.stages]
        after = [self.recover, DAMP] if self.recover != DAMP else [DAMP]
        return " - ".join([*timed, POLICY, *after])

    def _fault(self) -> str:
        """Return a sentence about stages or poses that do not fit together; empty if all do."""
        stages = ", ".join(self.stages)
        if len(set(self.stages)) != len(self.stages):
            return f"stages names one twice: {stages}. Name each once."
        ways = [at for at, stage in enumerate(self.stages) if stage in ADAPTER_STAGES]
        if len(ways) != 1:
            return f"stages are {stages}; exactly one of them is home or stand, the adapter's own way to its beginning."
        if DAMP in self.stages[ways[0] :] or set(self.stages[: ways[0]]) - {DAMP}:
            return f"stages are {stages}; before {self.stages[ways[0]]} comes damp or nothing, and after it, poses."
        for name in self.poses:
            if name in (DAMP, POLICY, *ADAPTER_STAGES):
                return f"a pose is called {name}, which is a stage already. Choose another name."
            if name not in (*self.stages, self.recover):
                return f"no stage uses the pose {name}. Name it in stages or in recover, or leave it out."
        return ""


class StageChange(NamedTuple):
    """A change from one stage to the next."""

    time: float
    """[s], by the loop's clock."""
    before: str
    """The stage that ends; empty at the beginning."""
    after: str
    """The stage that begins."""
    reason: str = ""
    """Why the robot is damped before the sequence is complete; else empty."""


class PoseDrive:
    """Moves what the elements of a pose drive along smooth paths, by actions of the policy's kind.

    Args:
        name: Of the pose.
        keys: Targets, duration and tolerance.
        contract: Defines the action, and in `moves` what its elements move.
        limits: Define the neutral action (`rest`).
        body: Defines what an action of joints commands; None if there is no `[body]`.

    Raises:
        UnknownName, SamiError: The action has no such element, or it is not known what the element moves.
    """

    def __init__(
        self, name: str, keys: PoseKeys, contract: Contract, limits: Limits, body: BodySettings | None
    ) -> None:
        self.name, self.keys, self._action, self._limits = name, keys, contract.action, limits
        self._period = 1.0 / contract.rate_hz
        elements = self._action.elements
        require_known("element of the action", keys.at, elements, f"The pose {name} names it.")
        self._at = np.array([elements.index(element) for element in keys.at])
        self._end = np.array([*keys.at.values()], np.float64)
        self._targets = body is not None and body.command == "joint_positions"
        """Whether actions are target positions, rather than displacements or velocities."""
        targets = [self._target_of(element, contract, body) for element in keys.at]
        self._sources = [source for source, _, _ in targets]
        """For each element, the signal of the position that it moves, and the index in this signal."""
        self._unit, self._zero = np.array([numbers for _, *numbers in targets]).T

    def begin(self, now: float, observation: Observation, before: Array | None, slower: int) -> None:
        """Start at the robot's positions, or its last targets; blend from `before` (A,), the last executed action."""
        self._start_time, self._before, self._slower, self._ticks = now, before, slower, 0
        self._start = self._positions(observation)
        if self._targets and before is not None:
            self._start = self._zero + self._unit * before[self._at]

    def action(self, observation: Observation, now: float) -> Array:
        """Return the action (A,) for the time `now` [s]; raise SamiError if the neutral action is not known."""
        target, later = self._where(now), self._where(now + self._period)
        rest = Neutral(self._limits, self._action)
        rest.learn(observation)
        command = rest.require().astype(np.float64)
        if self._targets:
            command[self._at] = (later - self._zero) / self._unit
        else:
            step = later - target + GAIN * (target - self._positions(observation))
            command[self._at] = step * self._slower / self._unit - self._zero
        self._ticks += 1
        if self._before is not None and self._ticks < BLEND:
            command = self._before + self._ticks / BLEND * (command - self._before)
        return command.astype(np.float32)

    def fault(self, observation: Observation) -> str:
        """Return why the pose is not reached; empty if it is."""
        for (name, _), element, is_at, end in zip(
            self._sources, self.keys.at, self._positions(observation), self._end, strict=True
        ):
            if not abs(is_at - end) <= self.keys.within:
                return (
                    f"pose: what {element} moves, of {name}, is at {is_at:.3g}; {end:g} within {self.keys.within:g} "
                    "is wanted"
                )
        return ""

    def _where(self, now: float) -> NDArray[np.float64]:
        share = eased((now - self._start_time) / self.keys.seconds)
        return np.asarray(self._start + share * (self._end - self._start))

    def _positions(self, observation: Observation) -> NDArray[np.float64]:
        return np.array([observation.values[name][at] for name, at in self._sources], np.float64)

    def _target_of(
        self, element: str, contract: Contract, body: BodySettings | None
    ) -> tuple[tuple[str, int], float, float]:
        """Return the signal and index an element moves, u, z: a target is z + u a, a motion per period u (a + z)."""
        joints = (body.elements or body.joints) if body and body.command != "hand" else ()
        if body is not None and element in joints:
            at = joints.index(element)
            scale, offset = (float(by_name(table, joints, 0.0)[at]) for table in (body.scale, body.offset))
            if body.command == "joint_positions":
                return (body.positions, at), scale, offset
            return (body.positions, at), scale * self._period, offset / scale
        if not self._targets and (entry := (contract.action.moves or {}).get(element)):
            signal_name, _, part = entry.element.rpartition(".")
            signals = {signal.name: signal for signal in contract.observation}
            if signal_name in signals:
                return (signal_name, signals[signal_name].elements.index(part)), float(entry.scale), 0.0
        raise SamiError(
            f"the pose {self.name} names {element}, and nothing says what that moves: {contract.name!r} does not, and "
            "there is no [body] whose command is joint_positions or joint_velocities and has it. Add [body], or leave "
            "the pose out and let the adapter move the robot (home)."
        )


class HandoverSequence:
    """Runs the stages of `[handover]`, and reports each change: `Run(..., sequence=HandoverSequence(...))`.

    After `home`, `stand` and each pose, the next stage begins only once the pose is reached, the gate accepts the
    observation, and no signal is faster than `velocity`. The policy also needs joints within `[body.start]` and a warm
    model. If that takes too long, if the connection breaks or if the sensors fail, the adapter's `stop()` ends the run,
    with the reason.

    Args:
        settings: The table `[handover]`.
        adapter: The robot's adapter, the same as the run's.
        contract: Of the model.
        limits: The run's limits, which must set `rest` and `blend_in_s`.
        body: The run's `[body]`; None if there is none.

    Raises:
        UnknownName, SamiError: The arguments do not fit together; nothing moves.
    """

    def __init__(
        self,
        settings: HandoverSettings,
        adapter: Adapter,
        contract: Contract,
        limits: Limits | None,
        body: BodySettings | None = None,
    ) -> None:
        self.settings, self._adapter, self._body = settings, adapter, body
        self.listen: Callable[[StageChange], None] = lambda change: None
        """Called with each change."""
        self.stage = ""
        """The present stage, or `policy`; empty before the first stage."""
        if limits is None or not limits.blend_in_s or limits.rest is None:
            raise SamiError(
                "[handover] needs limits with rest and blend_in_s, by which the policy's first actions go out from "
                "what was before. Set both in the limits, such as rest = 0.0 and blend_in_s = 0.2."
            )
        self._limits = limits
        if settings.recover in ADAPTER_STAGES and not callable(getattr(adapter, settings.recover, None)):
            raise SamiError(
                f'recover of [handover] is "{settings.recover}", and {type(adapter).__name__} has no '
                f"{settings.recover}() that moves it there. Name a pose, or damp."
            )
        self._signals = signals = {signal.name: signal for signal in adapter.observation}
        for name in settings.velocity:
            if name not in signals:
                raise UnknownName("signal", name, signals, "The key velocity of [handover] names it.")
            if not signals[name].unit.endswith("/s"):
                raise SamiError(f"velocity of [handover] names {name}, whose unit is {signals[name].unit}: no speed.")
        self.require_fit(contract)

    @contextmanager
    def __call__(self, loop: RunningEpisode, seed: int | None) -> Iterator[None]:
        """Run the stages before the policy, let the policy drive, and run the stage after it; see `LoopSettings`."""
        self.stage, reason = "", ""
        try:
            self._lead_in(loop, seed)
            yield
            reason = self._lead_out(loop)
        except BaseException as error:
            self._change(loop, DAMP, str(error) or type(error).__name__)
            raise
        self._change(loop, DAMP, reason)

    def _lead_in(self, loop: RunningEpisode, seed: int | None) -> None:
        """Run the stages before the policy.

        Raises:
            SafetyStop: The conditions of a stage were not met in time, or the robot was stopped.
        """
        poses, stages = self.require_fit(loop.session.contract), self.settings.stages
        for stage, after in zip(stages, (*stages[1:], POLICY), strict=True):
            self._change(loop, stage)
            if stage == DAMP:
                getattr(self._adapter, DAMP, self._adapter.stop)()
                self._pass_time(loop, self.settings.damp_s)
                continue
            if stage in ADAPTER_STAGES:
                loop.adapter.reset(seed)
            if reason := self._settle(loop, poses.get(stage), after):
                loop.gate.trip(f"handover: {stage} to {after} is refused: {reason}")
                loop.gate.require_armed()
        self._change(loop, POLICY)

    def _lead_out(self, loop: RunningEpisode) -> str:
        """Run the stage after the policy; return why it was skipped, empty if it was not. Raises as `_lead_in`."""
        recover = self.settings.recover
        if recover == DAMP:
            return ""
        if loop.ending is Ending.STOP:
            return f"handover: policy to {recover} is refused: a person ended the run"
        loop.gate.require_armed()  # somebody may have stopped the robot since its last tick
        self._change(loop, recover)
        if recover in ADAPTER_STAGES:
            if loop.watchdog:
                loop.watchdog.begin()  # no heartbeats until it returns; the robot still stops if this process ends
            getattr(self._adapter, recover)()
            loop.gate.require_armed()
            return ""
        if loop.ending is None:  # else the loop has waited for the tick at which a person ended the episode
            loop.pace.wait()
        if reason := self._settle(loop, self.require_fit(loop.session.contract)[recover], DAMP):
            loop.gate.trip(f"handover: {recover} did not come to its end: {reason}")
            loop.gate.require_armed()
        return ""

    def _settle(self, loop: RunningEpisode, pose: PoseDrive | None, after: str) -> str:
        """Move to the pose, if there is one, and wait until the stage `after` may begin; return why it may not.

        Raises:
            SafetyStop: The gate tripped, for example because the sensors failed or another thread tripped it.
        """
        clock, gate = loop.clock, loop.gate
        start_time = due = clock.now()
        longest = pose.keys.seconds if pose else 0.0
        is_moving = False
        while True:
            observation = require_observation(loop.adapter.read(), loop.adapter)
            now = clock.now()
            fault = gate.fault(observation, now if loop.enforced else None)
            outside = str(gate.outside()) if hasattr(gate, "outside") else ""  # of a `BodyGate`
            fault = (fault if fault != outside else "") or _not_finite(loop.session.contract, observation)
            if pose is not None:
                if not is_moving and not fault:
                    pose.begin(now, observation, loop.standing, loop.slower)
                    start_time, is_moving = now, True
                hold = gate.hold(f"{self.stage}: {fault}", now) if fault else None
                self._write(loop, hold or gate.command(pose.action(observation, now), now))
            gate.require_armed()
            is_ready = False
            if now - start_time >= longest:
                reason = fault or (pose.fault(observation) if pose else "") or self._too_fast(observation, loop.slower)
                if after == POLICY:
                    reason = reason or outside or _cold(loop)
                if reason and now - start_time >= longest + self.settings.wait_s:
                    return reason
                is_ready = not reason
            for tick in range(loop.substeps):  # also if it is ready: the next stage must not write at the same time
                if tick and pose is not None:  # the loop writes more often than the pose acts
                    self._write(loop, gate.stand(clock.now()))
                due = max(due + loop.period, clock.now())
                clock.sleep_until(due)
            if is_ready:
                return ""

    def _write(self, loop: RunningEpisode, ruling: Ruling) -> None:
        if loop.watchdog:
            loop.watchdog.beat()
        result = loop.gate.write(ruling)
        latch(loop.gate, loop.watchdog)
        loop.standing = loop.standing if result is None else np.array(result.action, np.float32)

    def _too_fast(self, observation: Observation, slower: int) -> str:
        """Return which signal is too fast for the next stage to begin; empty if none is."""
        for name, most in self.settings.velocity.items():
            signal = self._signals[name]
            for at, element in enumerate(signal.elements):
                speed = abs(number_at(observation.values, name, at)) / slower
                if not speed <= most:
                    return f"velocity: {name}.{element} is {speed:.3g} {signal.unit}, allowed are {most:g}"
        return ""

    def _pass_time(self, loop: RunningEpisode, seconds: float) -> None:
        """Wait for so many seconds; raise SafetyStop as soon as the gate is tripped."""
        end = loop.clock.now() + seconds
        while (now := loop.clock.now()) < end:
            loop.gate.require_armed()
            loop.clock.sleep_until(min(end, now + loop.period))
        loop.gate.require_armed()

    def require_fit(self, contract: Contract) -> dict[str, PoseDrive]:
        """Return the drive of each pose with this contract's actions; raise as `PoseDrive` if one does not fit."""
        drives = self.settings.poses.items()
        return {name: PoseDrive(name, keys, contract, self._limits, self._body) for name, keys in drives}

    def _change(self, loop: RunningEpisode, after: str, reason: str = "") -> None:
        before, self.stage = self.stage, after
        self.listen(StageChange(loop.clock.now(), before, after, reason))


def _not_finite(contract: Contract, observation: Observation) -> str:
    """Return which input signal of the policy is missing, misshapen or not finite; empty if none is."""
    for signal in contract.observation:
        reading = observation.values.get(signal.name)
        if finite_numbers(reading, signal.size) is None:
            return f"refused: {signal.name} is {reading}, expected {signal.size} finite numbers"
    return ""


def _cold(loop: RunningEpisode) -> str:
    """Return why the model would miss its deadline; empty if it is warm, or if the loop enforces no deadline."""
    if not loop.enforced:
        return ""
    seconds = []
    for _ in range(WARM):
        start = time.perf_counter()
        loop.session.prewarm()
        seconds.append(time.perf_counter() - start)
        if seconds[-1] <= loop.deadline:
            return ""
    return f"warm: a step of the model takes {min(seconds):.3g} s, allowed are {loop.deadline:.3g} s (deadline_s)"
