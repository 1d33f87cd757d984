"""The limits of one robot's body, applied to each command: first its joints, then its points, then its shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sami_runtime.errors import SamiError
from sami_runtime.robots.body.geometry import CLEAR, Geometry, Near, by_hand
from sami_runtime.robots.body.joints import (
    FAR,
    Array,
    BodyState,
    Drive,
    Interval,
    JointRule,
    PositionLimit,
    Prediction,
    SoftTargets,
    StiffTargets,
    Then,
    TorqueLimit,
    Velocities,
    VelocityLimit,
    bounded,
)
from sami_runtime.robots.body.settings import BodySettings

ROUNDING = 1e-6
"""Relative change of a command, speed or distance that counts as rounding: actions are float32."""
HALF = 0.5
"""Share of a command that is tried if the whole command comes too close, before the robot stands still."""
TRIES = 6
"""Number of shares of a command that are tried if a point is too fast, before the robot stands still."""
SHORTEST = 1e-9
"""Least braking time [s], which avoids a division by 0 for a joint at rest."""
SWEEP, SWEEPS, JUMPS = 0.1, 6, 60
"""Largest joint motion [rad, m] between two poses in which shapes are compared, and the largest numbers of poses on
the way to rest and within the period, which take precedence."""
LEADS = [1.0 - np.sqrt(1.0 - np.linspace(0.0, 1.0, poses)[:, None]) for poses in range(SWEEPS + 1)]
"""By number of poses, (poses, 1): share of the braking time at each pose, such that a joint moves in equal steps."""


class BodyRuling(NamedTuple):
    """The decision of the body's limits about a command."""

    command: Array
    """The command that may be executed, in the unit and shape of the command that was asked for."""
    limited_by: tuple[str, ...] = ()
    """Every limit that changed the command, as `"body velocity joint1"`."""
    reasons: tuple[Reason, ...] = ()
    """The reason of each entry of `limited_by`; `str()` gives it with numbers."""
    stop: str = ""
    """Why the robot has to be stopped; empty if it need not be."""


class Reason(NamedTuple):
    """Why a limit changed a command."""

    value: float
    """The value that the command would have caused."""
    low: float
    high: float
    unit: str
    between: str = ""
    """The two parts, if the value is a distance; else empty."""

    def __str__(self) -> str:
        if self.between:
            return f"{self.between} would be {self.value:.3g} m apart, allowed are {self.low:g}"
        return f"{self.value:.4g} {self.unit} was asked for, allowed are {self.low:.4g} to {self.high:.4g}"


Change = tuple[str, Reason, Then]
"""Name, reason and consequence of a limit that changed a command."""


@dataclass(frozen=True)
class PointSpeed:
    """Limits the speed of a point of the robot, as predicted for the end of the period."""

    point: str
    place: tuple[str, int]
    most: float
    """Highest speed [m/s]."""
    then: Then

    @property
    def name(self) -> str:
        """Name of the limit in `limited_by`."""
        return f"body speed {self.point}"

    def share(self, standing: float, moving: float) -> float:
        """Return how far a command may go from standing still to moving, by the point's speeds under both [m/s].

        The highest speed is convex: between the two commands it stays below the linear interpolation.
        """
        return max(0.0, (self.most - standing) / (moving - standing)) if moving > standing else 0.0


@dataclass(frozen=True)
class Collision:
    """Keeps the margin [m] between parts, and to boxes, during the period and until the robot has braked to rest."""

    geometry: Geometry
    margin: float
    acceleration: Array
    """(J,) deceleration with which the joints brake [rad/s^2, m/s^2]."""
    then: Then
    sags: bool
    """Whether joints sag while they stand still; then pairs within their margin must be able to part one by one."""

    def near(self, now: Array, motion: Prediction) -> Near:
        """Return the closest forbidden pair on the path from the joints' positions (J,) to rest; `CLEAR` if none.

        Shapes are compared in one pose for every `SWEEP` of the longest joint motion: in at most `JUMPS` within the
        period, and `SWEEPS` from its end on. All joints start to brake then, each until it rests. A pair that is within
        its margin now may part, as long as no other pair comes closer; if joints sag, as long as no other pair comes
        from outside its margin to less than half of it.
        """
        ends = abs(motion.velocities) / self.acceleration
        braking = 0.5 * motion.velocities * ends
        way = abs(motion.positions + braking - now).max()
        braked = LEADS[2]  # one pose at the end of the period, one with all at rest
        if way > 2.0 * SWEEP:
            lead = LEADS[min(SWEEPS, math.ceil(way / SWEEP))]
            braked = np.minimum(lead * ends.max() / np.maximum(ends, SHORTEST), 1.0)
        steps = min(JUMPS, math.ceil(abs(motion.positions - now).max() / SWEEP))
        period = [now + step / steps * (motion.positions - now) for step in range(1, steps)]
        poses = [*period, *(motion.positions + braking * (braked * (2.0 - braked)))]
        close = [near for pose in poses for near in self.geometry.all_near(pose)]
        if not close:
            return CLEAR
        least, present = math.inf, dict[tuple[str, str], float]()
        for least, pair in sorted(self.geometry.all_near(now), reverse=True):
            present[pair] = -math.inf if self.sags else least - ROUNDING * self.margin  # its closest contact is last
        other = HALF * self.margin if self.sags else math.inf
        return min(
            (near for near in close if near.distance <= least or near.distance < present.get(near.pair, other)),
            default=CLEAR,
        )


class BodyLimits:
    """Limits the commands of one robot. Use it from one thread, and call `begin` before each episode.

    In a loop of your own, one line between the command and the robot:

        body = BodyLimits(BodySettings.load("body.toml"))
        body.begin()
        command = body.limit(command, positions, velocities, period).command

    Raises:
        UnknownName, SamiError: The settings do not fit the model, or they limit nothing.
    """

    def __init__(self, settings: BodySettings) -> None:
        self.settings, joints = settings, settings.joints
        self.geometry = Geometry(settings.model, joints, settings.home) if settings.model else None
        unlimited = np.full(len(joints), np.inf)
        bounds = self.geometry.limits() if self.geometry else None
        low, high, speed, torque = bounds or (-unlimited, unlimited, unlimited, unlimited)
        by_joint = settings.by_joint
        self.low, self.high = by_joint(settings.position.low, low), by_joint(settings.position.high, high)
        self.velocity, self.torque = by_joint(settings.velocity.most, speed), by_joint(settings.torque.most, torque)
        self.gains = (by_joint(settings.kp, np.nan), by_joint(settings.kd, np.nan)) if settings.kp else None
        inertia = self.geometry.inertia() if self.geometry and self.gains else np.nan
        self.inertia = by_joint(settings.inertia, inertia)
        stops = 0.25 * self.torque / self.inertia if self.gains else np.inf  # no soft motor stops a joint at once
        self.acceleration = by_joint(settings.acceleration, stops)
        self._require()
        self._hand = (
            self.geometry.require_place(settings.hand)
            if self.geometry and settings.hand and settings.command == "hand"
            else None
        )
        self.size = 3 if settings.command == "hand" else len(joints)
        """Number of elements of a command: 3 for a hand, else J."""
        self.drive: Drive = Velocities(self.acceleration)
        if settings.command == "joint_positions":
            self.drive = SoftTargets(*self.gains, self.inertia) if self.gains else StiffTargets()
        rules: list[JointRule] = []
        if np.isfinite(self.low).any() or np.isfinite(self.high).any():
            ends = np.minimum([-self.low, self.high], FAR)
            rules.append(PositionLimit(ends, self.acceleration, settings.position.then))
        if np.isfinite(self.velocity).any():
            rules.append(VelocityLimit(self.velocity, settings.velocity.then))
        if self.gains:
            rules.append(TorqueLimit(self.torque, settings.torque.then))
        self._joint_rules = [(rule, [f"body {rule.name} {joint}" for joint in joints]) for rule in rules]
        self._unit = "rad" if self.drive.targets else "rad/s"
        self._points: list[PointSpeed] = []
        self._collision: Collision | None = None
        if self.geometry:
            for name, point in settings.points.items():
                place = self.geometry.require_place(name)
                self._points.append(PointSpeed(name, place, point.most, point.then))
            shapes = settings.collision
            if shapes or settings.boxes:
                inner, margin = (shapes.self, shapes.margin) if shapes else (False, 0.01)
                self.geometry.watch(settings.boxes, inner, margin, shapes.ignore if shapes else ())
                then, sags = shapes.then if shapes else "scale", isinstance(self.drive, SoftTargets)
                self._collision = Collision(self.geometry, margin, self.acceleration, then, sags)
        self._places = [rule.place for rule in self._points]
        if not (self._joint_rules or self._points or self._collision):
            raise SamiError("the body limits nothing: neither the settings nor the model has a limit. Set one.")
        self.begin()

    def begin(self, reference: ArrayLike | None = None) -> None:
        """Begin an episode.

        Args:
            reference: (J,) or (3,) the command that is executed now; if None, the joints' positions or zero speed.

        Raises:
            SamiError: The reference has another shape or is not finite; the episode has not begun.
        """
        executed = None if reference is None else np.array(reference, np.float64)
        if executed is not None and (executed.shape != (self.size,) or not np.isfinite(executed).all()):
            raise SamiError(
                f"the body begins with the command {executed.tolist()}, expected {self.size} finite numbers. Correct "
                "it, or leave it out."
            )
        self._reference, self._is_first = executed, True

    def limit(
        self, command: ArrayLike, positions: ArrayLike, velocities: ArrayLike | None, period: float
    ) -> BodyRuling:
        """Return the allowed part of a command, which from then on counts as the executed command.

        Args:
            command: (J,) joint positions [rad, m] or velocities [rad/s, m/s], or (3,) velocity of the hand [m/s].
            positions: (J,) measured [rad, m]; or (2, J), the closest to the low and to the high ends.
            velocities: (J,) or (2, J) measured [rad/s, m/s]; 0 if None.
            period: Time until the next command takes effect [s].

        Raises:
            SamiError: A shape is wrong, a number is not finite, or the robot begins within a margin or in degrees.
        """
        target, at = np.asarray(command, np.float64), np.asarray(positions, np.float64)
        speeds = np.zeros_like(at) if velocities is None else np.asarray(velocities, np.float64)
        self._require_numbers(target, at, speeds, period)
        hands, ends = self._hands(target, at, speeds, period), (at, speeds)
        if at.ndim == 2:  # a command of joints moves each closer to one end only
            at, speeds = (x.mean(0) if hands is not None else np.where(target > 0.0, x[1], x[0]) for x in ends)
            ends = (at, speeds) if self.drive.targets else ends
        if self._is_first:
            self._require_start(at)
        first = at if self.drive.targets else np.zeros(self.size)
        reference = first if self._reference is None else self._reference
        ruling = self._ruled(target, BodyState(at, speeds, reference, period), ends, hands)
        joint_speeds = ruling.command[None] if hands is None else hands @ ruling.command  # of commands of velocities
        self.joint_speeds = np.array([joint_speeds.min(0), joint_speeds.max(0)])
        self._reference, self._is_first = ruling.command.copy(), False  # a copy, since the caller may modify the result
        return ruling

    def _hands(self, target: Array, positions: Array, velocities: Array, period: float) -> Array | None:
        """Return the joint speeds (K, J, 3) that move the hand: now, after the period and, if late, at both ends.

        Near a stretched arm they differ, and the joints that the robot moves may be at any of these. None without hand.
        """
        if self.geometry is None or self._hand is None:
            return None
        ends, speeds = np.atleast_2d(positions, velocities)
        at = ends.mean(0)
        now = by_hand(self.geometry.jacobian(at, self._hand))
        speed = now @ target
        speed = speed * min(1.0, float((self.velocity / np.maximum(abs(speed), SHORTEST)).min()))
        later = self.drive.predicted(BodyState(at, speeds.mean(0), speed, period), speed).positions
        poses = [later, *ends[: len(ends) // 2 * 2]]  # both ends or none
        return np.array([now, *[by_hand(self.geometry.jacobian(pose, self._hand)) for pose in poses]])

    def _ruled(self, target: Array, state: BodyState, ends: tuple[Array, Array], hands: Array | None) -> BodyRuling:
        between = state._replace(positions=ends[0], velocities=ends[1])
        allowed, intervals, changes = self._by_joints(target, between, hands)

        def stand() -> Array:
            standing = self.drive.standing(state) if hands is None else np.zeros(3)
            if self.drive.targets:
                for low, high in intervals:
                    standing = bounded(standing, low, high)
            return standing

        if any(then == "hold" for *_, then in changes):
            allowed = stand()
        if self._points or self._collision:
            poses = [(state, None if hands is None else hands[0])]
            for at_end, row in enumerate([] if hands is None else hands[2:]):
                poses.append((state._replace(positions=ends[0][at_end], velocities=ends[1][at_end]), row))
            allowed = self._by_geometry(allowed, stand, poses, changes)
        stop = next((f"{name}: {reason}" for name, reason, then in changes if then == "stop"), "")
        names, reasons, _ = zip(*changes, strict=True) if changes else ((), (), ())
        return BodyRuling(allowed, names, reasons, stop)

    def _by_joints(
        self, allowed: Array, state: BodyState, hands: Array | None
    ) -> tuple[Array, list[Interval], list[Change]]:
        """Return a command within the limits of the joints, the interval of each limit, and the changes."""
        changes, intervals = list[Change](), list[Interval]()
        for rule, of_joint in self._joint_rules:
            low, high = rule.interval(state, self.drive)  # type: ignore[arg-type]  # torque: of soft targets only
            intervals.append((low, high))
            before = allowed if hands is None else hands @ allowed
            after = bounded(before, low, high)
            if after.tobytes() == before.tobytes():
                continue
            beyond = abs(after - before) > ROUNDING * (1e-3 + abs(before))
            if 1 not in beyond.tobytes():
                continue
            if hands is None:
                allowed = np.where(beyond, after, before)
            else:
                allowed = allowed * float(np.min(after[beyond] / before[beyond]))
                before, beyond = before[abs(after - before).argmax(0), np.arange(len(low))], np.array(beyond.any(0))
            spans = list(zip(before.tolist(), low.tolist(), high.tolist(), strict=True))  # faster than indexing arrays
            for at in np.flatnonzero(beyond).tolist():
                changes.append((of_joint[at], Reason(*spans[at], self._unit), rule.then))
        return allowed, intervals, changes

    def _by_geometry(
        self,
        allowed: Array,
        stand: Callable[[], Array],
        poses: list[tuple[BodyState, Array | None]],
        changes: list[Change],
    ) -> Array:
        """Return a command, scaled back towards standing still as far as the limits of points and shapes require."""
        geometry = self.geometry
        assert geometry is not None

        def command(share: float) -> Array:
            return allowed if share == 1.0 else stand() + share * (allowed - stand())

        def motions(share: float) -> list[tuple[Array, Prediction]]:
            target = command(share)
            moves = [(pose, target if hand is None else hand @ target) for pose, hand in poses]
            return [(pose.positions, self.drive.predicted(pose, move)) for pose, move in moves]

        def fastest(share: float) -> Array:
            moves = [(at, motion.speeds) for now, motion in motions(share) for at in (now, motion.positions)]
            return np.max([geometry.speeds(at, *speeds, self._places) for at, speeds in moves], axis=0)

        share = 1.0
        if self._points:
            share, speeds = self._slower(fastest)
            for at, speed in sorted(speeds.items()):
                rule = self._points[at]
                changes.append((rule.name, Reason(speed, 0.0, rule.most, "m/s"), rule.then))
        if collision := self._collision:

            def near(share: float) -> Near:
                return min(collision.near(now, motion) for now, motion in motions(share))

            if (closest := near(share)) is not CLEAR:
                share *= HALF if collision.then != "hold" and near(share * HALF) is CLEAR else 0.0
                reason = Reason(closest.distance, collision.margin, math.inf, "m", " and ".join(closest.pair))
                changes.append((f"body collision {' '.join(closest.pair)}", reason, collision.then))
        return command(share)

    def _slower(self, fastest: Callable[[float], Array]) -> tuple[float, dict[int, float]]:
        """Return a share of a command, and the speeds [m/s] of the points that were too fast for more, by their index.

        `fastest(share)` is the highest speed [m/s] of each point; as it depends on poses, a share can be too large.
        """
        share, slow, too_fast = 1.0, None, dict[int, float]()
        for attempt in range(1 + TRIES):
            speeds = fastest(share)
            beyond = [at for at, rule in enumerate(self._points) if speeds[at] > rule.most * (1 + ROUNDING)]
            if share == 0.0 or not beyond:
                break
            slow = fastest(0.0) if slow is None else slow
            too_fast = {at: speeds[at] for at in beyond} | too_fast
            rules = [(self._points[at], slow[at], speeds[at]) for at in beyond]
            shares = [0.0 if rule.then == "hold" else rule.share(*ends) for rule, *ends in rules]
            share *= min(shares) if attempt < TRIES else 0.0
        return share, too_fast

    def _require(self) -> None:
        names = np.array(self.settings.joints)
        if (wrong := self.low >= self.high).any():
            at = int(np.flatnonzero(wrong)[0])
            raise SamiError(
                f"position of {names[at]} must be at least {self.low[at]:g} and at most {self.high[at]:g}, which "
                "leaves nothing. Exchange low and high, or correct them."
            )
        if self.gains and np.isnan(self.gains).any():
            raise SamiError(
                f"kp or kd is missing for {names[np.isnan(self.gains).any(0)][0]}. Give both for each joint."
            )
        if self.gains and (unknown := ~np.isfinite(self.torque) | (self.torque <= 0.0)).any():
            raise SamiError(
                f"kp and kd are set, and nothing says how much torque {names[unknown][0]} has. Set "
                "torque.most, or leave the gains out."
            )
        if self.gains and np.isnan(self.inertia).any():
            joint = names[np.isnan(self.inertia)][0]
            raise SamiError(f"kp and kd are set, and the inertia of {joint} is not known. Set inertia, or model.")
        home = self.geometry.home if self.geometry else self.settings.home
        if home is not None:
            outside = (np.array(home) < self.low - 1e-9) | (np.array(home) > self.high + 1e-9)
            if outside.any():
                at = int(np.flatnonzero(outside)[0])
                raise SamiError(
                    f"{names[at]} is {home[at]:g} at home, and its range is {self.low[at]:g} to {self.high[at]:g}. Set "
                    "home to where an episode begins, or correct position."
                )

    def _require_start(self, positions: Array) -> None:
        """Raise SamiError if the robot cannot or must not begin at these positions (J,)."""
        beyond = np.maximum(self.low - positions, positions - self.high)
        if beyond[at := int(beyond.argmax())] > math.tau:
            raise SamiError(
                f"{self.settings.joints[at]} begins at {positions[at]:.4g}, far from its range, {self.low[at]:.4g} to "
                f"{self.high[at]:.4g}. Give {self.settings.positions} in rad, not degrees (in m, not mm, if it slides)."
            )
        if self._collision and (near := self._collision.geometry.clearance(positions)).pair[0]:
            raise SamiError(
                f"the robot begins with {near.pair[0]} {near.distance:.3g} m from {near.pair[1]}, within its margin of "
                f"{self._collision.margin:g} m. Move it away by its own controls, or home in the adapter's reset. If "
                "it is not so close, correct the order of the joints, the model, the boxes or the margin."
            )

    def _require_numbers(self, command: Array, positions: Array, velocities: Array, period: float) -> None:
        joints = len(self.settings.joints)
        fits = command.shape == (self.size,) and velocities.shape == positions.shape in ((joints,), (2, joints))
        if not fits or not math.isfinite(command.sum() + positions.sum() + velocities.sum()):
            raise SamiError(
                f"the command {command.tolist()}, positions {positions.tolist()} and velocities {velocities.tolist()} "
                f"of the body must be {self.size}, {joints} and {joints} finite numbers. Correct what gives them."
            )
        if not 0.0 < period < math.inf:
            raise SamiError(f"the period of a command is {period} s; it must be above 0.")
