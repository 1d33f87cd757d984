"""The hand-over: what leads a robot to where its policy takes over, and away again; `[handover]` of a robot.toml."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sami_runtime.adapters.base import Adapter, Observation, require_observation
from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.loop.episode import RunningEpisode, latch
from sami_runtime.loop.pilot import Ending
from sami_runtime.model.contract import Contract
from sami_runtime.robots.body.settings import BodySettings, by_name
from sami_runtime.robots.kit.motion import eased
from sami_runtime.robots.kit.settings import RobotTable, checked_table
from sami_runtime.safety.gate import Ruling, SafetyGate
from sami_runtime.safety.limits import Limits
from sami_runtime.safety.watch import Rest
from sami_runtime.signals import Number, Positive, finite_numbers, number_at

DAMP, POLICY = "damp", "policy"
OWN_WAYS = ("home", "stand")
"""Stages in which the adapter moves the robot in its own way: its `reset` before the policy, the method of that name
after it."""
PAGE = "docs/reference/handover.md lists the keys"
GAIN = 0.25
"""Share of the way to where a pose's element should be by now that is made up for in a period."""
BLEND = 5
"""Periods in which a stage goes over from the action before it."""
WARM = 3
"""Steps on copies, of which the quickest says whether the model is warm."""

Array = NDArray[np.float32]


class PoseKeys(RobotTable):
    """`[handover.poses.NAME]`: where the policy's own action leads the robot, through the gate."""

    at: Annotated[dict[str, Number], Field(min_length=1)]
    """By element of the action: where that is to be which the element moves [m, rad]. The others rest."""
    seconds: Positive = 3.0
    """How long the way takes [s]."""
    within: Positive = 0.02
    """How near it has to come [m, rad]."""


class HandoverSettings(RobotTable):
    """What is declared of a hand-over."""

    stages: Annotated[tuple[str, ...], Field(min_length=1)] = (DAMP, "home")
    """Before the policy, in this order: `damp`, then `home` or `stand`, then names of `poses`."""
    recover: str = DAMP
    """After the policy's end: `damp`, `home`, `stand` or a pose; the robot is damped after each. Whatever stops the
    robot damps it at once."""
    velocity: dict[str, Positive] = {}
    """By observation signal, the highest speed at which the next stage begins [m/s, rad/s]."""
    damp_s: Annotated[float, Field(ge=0, le=60)] = 0.5
    """How long it is damped before the next stage [s]."""
    wait_s: Annotated[float, Field(gt=0, le=60)] = 2.0
    """How long a stage may wait for the next one's conditions [s]; then the robot is stopped, with the reason."""
    poses: dict[str, PoseKeys] = {}

    @classmethod
    def of(cls, document: Mapping[str, Any], where: str = "[handover]") -> HandoverSettings:
        """Return checked settings.

        Args:
            document: Values by key.
            where: Where they are written, for messages.

        Raises:
            UnknownName: There is no such key or stage.
            SamiError: A value is wrong, or does not fit the others.
        """
        settings = checked_table(cls, document, "key of [handover]", where, PAGE)
        for stage in (*settings.stages, settings.recover):
            if stage not in (DAMP, *OWN_WAYS, *settings.poses):
                raise UnknownName("stage", stage, (DAMP, *OWN_WAYS, *settings.poses), f"It is in {where}.")
        if fault := settings._fault():
            raise SamiError(f"{where}: {fault} The page {PAGE}.")
        return settings

    def __str__(self) -> str:
        """Return the sequence, for people."""
        timed = [f"{name} ({self.poses[name].seconds:g} s)" if name in self.poses else name for name in self.stages]
        after = [self.recover, DAMP] if self.recover != DAMP else [DAMP]
        return " - ".join([*timed, POLICY, *after])

    def _fault(self) -> str:
        """Return what does not fit together, a sentence; empty if all does."""
        named = ", ".join(self.stages)
        if len(set(self.stages)) != len(self.stages):
            return f"stages names one twice: {named}. Name each once."
        ways = [at for at, stage in enumerate(self.stages) if stage in OWN_WAYS]
        if len(ways) != 1:
            return f"stages are {named}; exactly one of them is home or stand, the adapter's own way to its beginning."
        if DAMP in self.stages[ways[0] :] or set(self.stages[: ways[0]]) - {DAMP}:
            return f"stages are {named}; before {self.stages[ways[0]]} comes damp or nothing, and after it, poses."
        for name in self.poses:
            if name in (DAMP, POLICY, *OWN_WAYS):
                return f"a pose is called {name}, which is a stage already. Choose another name."
            if name not in (*self.stages, self.recover):
                return f"no stage uses the pose {name}. Name it in stages or in recover, or leave it out."
        return ""


class StageChange(NamedTuple):
    """One hand-over."""

    time: float
    """[s], by the loop's clock."""
    before: str
    """The stage that ends; empty at the beginning."""
    after: str
    """The stage that begins."""
    reason: str = ""
    """Why the robot is damped, where it was not the sequence's end."""


class PoseDrive:
    """Leads the elements of a pose along smooth ways, by actions of the policy's kind.

    Args:
        name: Of the pose.
        keys: Where to.
        contract: Whose action it is, and what its elements move.
        limits: They say what rest is.
        body: What an action of joints commands; None without.

    Raises:
        UnknownName, SamiError: Nothing says what an element moves.
    """

    def __init__(
        self, name: str, keys: PoseKeys, contract: Contract, limits: Limits, body: BodySettings | None
    ) -> None:
        self.name, self.keys, self._action, self._limits = name, keys, contract.action, limits
        self._period = 1.0 / contract.rate_hz
        elements = self._action.elements
        for element in keys.at:
            if element not in elements:
                raise UnknownName("element of the action", element, elements, f"The pose {name} names it.")
        self._at = np.array([elements.index(element) for element in keys.at])
        self._end = np.array([*keys.at.values()], np.float64)
        self._targets = body is not None and body.command == "joint_positions"
        """Whether actions are where to go, rather than how far or how fast."""
        moved = [self._moved(element, contract, body) for element in keys.at]
        self._sources = [source for source, _, _ in moved]
        """Signal and index of what each element moves."""
        self._unit, self._zero = np.array([numbers for _, *numbers in moved]).T

    def begin(self, now: float, observation: Observation, before: Array | None, slower: int) -> None:
        """Go out from where the robot is, and from the action that was executed last."""
        self._start_time, self._before, self._slower, self._ticks = now, before, slower, 0
        self._start = self._positions(observation)
        if self._targets and before is not None:
            self._start = self._zero + self._unit * before[self._at]

    def action(self, observation: Observation, now: float) -> Array:
        """Return the next action (A,)."""
        target, later = self._where(now), self._where(now + self._period)
        rest = Rest(self._limits, self._action)
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
        """Return what has not arrived; empty if all has."""
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

    def _moved(
        self, element: str, contract: Contract, body: BodySettings | None
    ) -> tuple[tuple[str, int], float, float]:
        """Return what an element moves, by how much an action of 1 does in a period or where it leads, and offset."""
        joints = (body.elements or body.joints) if body and body.command != "hand" else ()
        if body is not None and element in joints:
            at = joints.index(element)
            scale, offset = (float(by_name(table, joints, 0.0)[at]) for table in (body.scale, body.offset))
            if body.command == "joint_positions":
                return (body.positions, at), scale, offset
            return (body.positions, at), scale * self._period, offset / scale
        if not self._targets and (moved := (contract.action.moves or {}).get(element)):
            signal_name, _, part = moved.element.rpartition(".")
            signals = {signal.name: signal for signal in contract.observation}
            if signal_name in signals:
                return (signal_name, signals[signal_name].elements.index(part)), float(moved.scale), 0.0
        raise SamiError(
            f"the pose {self.name} names {element}, and nothing says what that moves: {contract.name!r} does not, and "
            "there is no [body] whose command is joint_positions or joint_velocities and has it. Add [body], or leave "
            "the pose out and let the adapter move the robot (home)."
        )


class HandoverSequence:
    """Leads a robot through the declared stages, and logs each change: `Run(..., sequence=HandoverSequence(...))`.

    Before each stage but the first two, the stage before has to have arrived, sensors have to be fresh and accepted by
    the guards, and nothing may be faster than `velocity`. The policy takes over only within `[body.start]`, and with a
    model that is warm. A stage that waits in vain for that, a connection that dies, sensors that cease: each ends in
    the adapter's `stop()`, with the reason.

    Args:
        settings: What is declared.
        adapter: The robot's, as it is given to the run.
        contract: Of the model.
        limits: The run's.
        body: The run's, where the body has limits.

    Raises:
        UnknownName, SamiError: They do not fit together; nothing moves.
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
        """Hears each change."""
        self.stage = ""
        """Where the robot is: a stage, or `policy`; empty before the first."""
        if limits is None or not limits.blend_in_s or limits.rest is None:
            raise SamiError(
                "[handover] needs limits with rest and blend_in_s, by which the policy's first actions go out from "
                "what was before. Set both in the limits, such as rest = 0.0 and blend_in_s = 0.2."
            )
        self._limits = limits
        if settings.recover in OWN_WAYS and not callable(getattr(adapter, settings.recover, None)):
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
        self._poses(contract)

    @contextmanager
    def __call__(self, loop: RunningEpisode, seed: int | None) -> Iterator[None]:
        """Lead the robot to where the policy takes over, let it drive, and lead the robot away; see `LoopSettings`."""
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
        """Go through the stages before the policy.

        Raises:
            SafetyStop: One may not begin, or the robot was stopped.
        """
        poses, stages = self._poses(loop.session.contract), self.settings.stages
        for stage, after in zip(stages, (*stages[1:], POLICY), strict=True):
            self._change(loop, stage)
            if stage == DAMP:
                getattr(self._adapter, DAMP, self._adapter.stop)()
                self._pass_time(loop, self.settings.damp_s)
                continue
            if stage in OWN_WAYS:
                loop.adapter.reset(seed)
            if why := self._settle(loop, poses.get(stage), after):
                loop.gate.trip(f"handover: {stage} to {after} is refused: {why}")
                loop.gate.require_armed()
        self._change(loop, POLICY)

    def _lead_out(self, loop: RunningEpisode) -> str:
        """Go through what follows the policy; return why it was left out or did not come to its end."""
        recover = self.settings.recover
        if recover == DAMP:
            return ""
        if loop.ended is Ending.STOP:
            return f"handover: policy to {recover} is refused: a person ended the run"
        loop.gate.require_armed()  # somebody may have stopped the robot since its last tick
        self._change(loop, recover)
        if recover in OWN_WAYS:
            if loop.watchdog:
                loop.watchdog.begin()  # nothing beats meanwhile; the end of this process still stops the robot
            getattr(self._adapter, recover)()
            loop.gate.require_armed()
            return ""
        why = self._settle(loop, self._poses(loop.session.contract)[recover], DAMP)
        return f"handover: {recover} did not come to its end: {why}" if why else ""

    def _settle(self, loop: RunningEpisode, pose: PoseDrive | None, after: str) -> str:
        """Go to a pose, or wait where the adapter led, until the next stage may begin; return why it may not.

        Raises:
            SafetyStop: The gate stopped the robot meanwhile: sensors ceased, somebody tripped it, ...
        """
        clock, gate = loop.clock, loop.gate
        start_time = due = clock.now()
        longest = pose.keys.seconds if pose else 0.0
        moving = False
        while True:
            observation = require_observation(loop.adapter.read(), loop.adapter)
            now = clock.now()
            fault = gate.fault(observation, now if loop.enforced else None)
            outside = _outside(gate)
            fault = (fault if fault != outside else "") or _not_finite(loop.session.contract, observation)
            if pose is not None:
                if not moving and not fault:
                    pose.begin(now, observation, loop.standing, loop.slower)
                    start_time, moving = now, True
                if fault or not moving:
                    ruling = gate.hold(f"{self.stage}: {fault}", now)
                else:
                    ruling = gate.command(pose.action(observation, now), now)
                self._write(loop, ruling)
            gate.require_armed()
            if now - start_time >= longest:
                why = fault or (pose.fault(observation) if pose else "") or self._too_fast(observation, loop.slower)
                if after == POLICY:
                    why = why or outside or _cold(loop)
                if not why or now - start_time >= longest + self.settings.wait_s:
                    return why
            for tick in range(loop.substeps):
                if tick and pose is not None:  # between two of its actions, as often as the loop writes
                    self._write(loop, gate.stand(clock.now()))
                due = max(due + loop.period, clock.now())
                clock.sleep_until(due)

    def _write(self, loop: RunningEpisode, ruling: Ruling) -> None:
        if loop.watchdog:
            loop.watchdog.beat()
        sent = loop.gate.write(ruling)
        latch(loop.gate, loop.watchdog)
        loop.standing = loop.standing if sent is None else np.array(sent.action, np.float32)

    def _too_fast(self, observation: Observation, slower: int) -> str:
        """Return what is faster than the next stage may begin with; empty if nothing is."""
        for name, most in self.settings.velocity.items():
            signal = self._signals[name]
            for at, element in enumerate(signal.elements):
                speed = abs(number_at(observation.values, name, at)) / slower
                if not speed <= most:
                    return f"velocity: {name}.{element} is {speed:.3g} {signal.unit}, allowed are {most:g}"
        return ""

    def _pass_time(self, loop: RunningEpisode, seconds: float) -> None:
        """Wait, for as long as nobody trips the gate."""
        end = loop.clock.now() + seconds
        while (now := loop.clock.now()) < end:
            loop.gate.require_armed()
            loop.clock.sleep_until(min(end, now + loop.period))
        loop.gate.require_armed()

    def _poses(self, contract: Contract) -> dict[str, PoseDrive]:
        drives = self.settings.poses.items()
        return {name: PoseDrive(name, keys, contract, self._limits, self._body) for name, keys in drives}

    def _change(self, loop: RunningEpisode, after: str, reason: str = "") -> None:
        before, self.stage = self.stage, after
        self.listen(StageChange(loop.clock.now(), before, after, reason))


def _not_finite(contract: Contract, observation: Observation) -> str:
    """Return which signal of the policy is missing or not finite; empty if none is."""
    for signal in contract.observation:
        reading = observation.values.get(signal.name)
        if finite_numbers(reading, signal.size) is None:
            return f"refused: {signal.name} is {reading}, expected {signal.size} finite numbers"
    return ""


def _outside(gate: SafetyGate) -> str:
    """Return why the policy may not take over where the joints are, as a gate that knows the body says it."""
    outside = getattr(gate, "outside", None)
    return str(outside()) if outside else ""


def _cold(loop: RunningEpisode) -> str:
    """Return why the model would answer too late; empty where it is warm, or no time is kept."""
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
