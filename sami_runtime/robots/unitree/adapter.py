"""Adapter of a Unitree Go2: it commands the motors directly, without Unitree's own motion service."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Executed, Observation
from sami_runtime.clock import Clock
from sami_runtime.errors import AdapterError, SafetyStop
from sami_runtime.model.contract import Contract
from sami_runtime.robots.kit import ClockSync, Latest
from sami_runtime.robots.kit.commands import CommandSource, Steering, command_of
from sami_runtime.robots.kit.faults import refuse
from sami_runtime.robots.kit.motion import eased
from sami_runtime.robots.unitree.link import POLL_S, MotorLink, mode_of, release_mode
from sami_runtime.robots.unitree.mapping import Go2Mapping
from sami_runtime.robots.unitree.messages import Go2Reading, Setpoint
from sami_runtime.robots.unitree.settings import REMOTE, UnitreeSettings
from sami_runtime.robots.unitree.stop import KIND
from sami_runtime.safety.watchdog import instruct_watchdogs, release_watchdogs

STANDING_S = 1.0
"""Time [s] for which a robot that stood up keeps standing if no loop reads."""
STAND_TOLERANCE_RAD = 0.35
"""Largest distance of a joint from the stance after standing up [rad]."""
TUCKED = np.array([0.0, 2.6, -2.65] * 4)
"""Hip, thigh and calf of each leg [rad], tucked so that the hip turns freely; `way_up` keeps the hip's own angle."""
FOLDED = np.array([0.0, 1.36, -2.65] * 4)
"""Hip, thigh and calf of each leg [rad], with trunk and feet on the ground, from which a Go2 stands up."""
LYING_DEG = 33.0
"""Largest tilt of the trunk [degrees] from which a lying robot gets up; beyond it, simulated robots may tip over."""
DOUBLED = "two robots publish rt/lowstate in this domain, and both obey what is sent: turn one off"
RIVAL = "another adapter can command this robot, which would obey both: end it (a killed one counts for about 10 s)"
LISTENING_S = 0.5
"""How long [s] the adapter listens for a second robot or adapter before it connects."""
RAMP_S = 0.02
RELEASED_S = 15.0
"""Longest time [s] for the sport mode to release the motors."""
REST_S, STILL = 3.0, 0.2
"""Longest time [s] that `close` damps a moving robot, and the speed below which a joint rests [rad/s]."""


def way_up(angles: NDArray[np.float64], stance: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return the sequence of joint angles by which a Go2 gets up, the stance last, each (12,) [rad].

    A robot that neither stands nor has folded legs first tucks and then folds them: damped legs may come to rest
    anywhere, even beneath the trunk, and a robot that stood up from there might tip over.
    """
    if any(np.allclose(angles, pose, rtol=0.0, atol=STAND_TOLERANCE_RAD) for pose in (stance, FOLDED)):
        return [stance]
    return [np.where(np.arange(len(angles)) % 3 == 0, angles, TUCKED), FOLDED, stance]


class UnitreeAdapter:
    """Drives a Go2 by position targets for its motors, which are repeated at `settings.hz` (100 to 500 Hz).

    `reset` makes the robot stand up; `stop` damps the motors, so that it sinks down. If the robot tilts too far, if L2
    and B are pressed, or if no action comes in time, the motors are damped and the next read or write raises.

    Raises:
        AdapterError: Contract, settings and robot do not match, in all points listed; nothing was sent.
    """

    def __init__(self, clock: Clock, contract: Contract, settings: UnitreeSettings) -> None:
        self.observation, self.action = contract.observation, contract.action
        self.settings, self.clock = settings, clock
        self._mapping = Go2Mapping(settings, contract)
        self._command = self._source()
        self._latest, self._sync = Latest(self.observation, clock, note=lambda: self._link.fault), ClockSync()
        self._last_action, self._received_at = np.zeros(contract.action.size, np.float32), clock.now()
        self._start_time, self._is_driven, self._is_standing, self._open = clock.now(), False, False, True
        self._is_halted = False  # set by `emergency_stop` until the next reset
        self._link = MotorLink(settings.domain, settings.network, settings.hz, settings.damp_kd, self._hear)
        try:
            self._require_robot()
            refuse([*self._conflicts(), *([RIVAL] if self._link.has_rival else [])], "sent")
            keys = {"domain", "network", "hz", "damp_kd", "heard_s"}
            instruct_watchdogs(self, KIND, settings.model_dump(include=keys))
        except BaseException:
            self.close()
            raise

    @property
    def steering(self) -> Steering | None:
        """The command that a person's hotkeys change; None if the command comes from elsewhere."""
        return self._command if isinstance(self._command, Steering) else None

    @property
    def reading(self) -> Go2Reading:
        """The robot's newest reading."""
        assert self._link.reading is not None
        return self._link.reading

    def reset(self, seed: int | None = None) -> None:
        """Make the robot stand up, whether it is on its feet or its belly.

        Raises:
            AdapterError: Unitree's sport mode is on and was not released, there is a second robot, or the robot does
                not get up.
            SafetyStop: The robot was stopped on the way.
        """
        self._require_open()
        self._is_halted = False
        refuse(self._conflicts(), "sent")
        if self.settings.release_sport_mode:
            release_mode(self._link, RELEASED_S)
        self.damp()
        self._link.expired = False
        self.stand()
        self._latest.reset()
        self._last_action = np.zeros(self.action.size, np.float32)
        self._start_time = self.clock.now()

    def damp(self) -> None:
        """Damp all motors until the next command, from any thread; a standing robot sinks down."""
        self._is_standing = False
        if self._open and self._is_driven:
            self._link.damp()

    def stand(self) -> None:
        """Move the joints to the stance by `way_up`, each step in `stand_s`, or up to twice that if they lag.

        Raises:
            AdapterError: The robot is tilted too far to get up, or its joints do not reach the stance.
            SafetyStop: The robot was stopped on the way.
        """
        self._require_open()
        self._require_upright()
        way = way_up(self.reading.angles, self._mapping.stand)
        if len(way) > 1 and self._tilt() > LYING_DEG:
            raise AdapterError(
                f"the robot lies tilted by {self._tilt():.0f} degrees, and gets up from {LYING_DEG:g} at most. "
                "Lay it on its belly, with its feet under it."
            )
        for angles in way:
            self._lead_to(angles)
        if (distance := float(abs(self.reading.angles - way[-1]).max())) > STAND_TOLERANCE_RAD:
            self.damp()
            raise AdapterError(
                f"the robot did not stand up: a joint is {distance:.2g} rad from the stance after "
                f"{2.0 * self.settings.stand_s:g} s. Is something in its way, or its battery empty?"
            )
        self._is_standing = True

    def read(self) -> Observation:
        """Return the newest value of each signal.

        Raises:
            SafetyStop: The robot was stopped, with the reason.
            AdapterError: A signal never arrived, or the adapter was closed.
        """
        self._require_open()
        if self._is_driven:
            self._require_upright()
        if self._is_standing:  # in a dry run, and before the first write
            self._stand_at(self._mapping.stand)
        command = self._velocity()
        values: dict[str, Any] = {
            name: [command.get(element, 0.0) for element in elements]
            for name, elements in self._mapping.commands.items()
        }
        if self._mapping.last_action:
            values[self._mapping.last_action] = self._last_action
        self._latest.always(**values)
        return self._latest.observation()

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Send the motors' targets for an action (A,); they are damped `hold_s` later if no other follows.

        Raises:
            SafetyStop: The robot was stopped, with the reason; no targets were sent.
        """
        self._require_open()
        self._require_upright(STANDING_S)  # a person's pause reads nothing that the gate could judge
        self._is_standing, self._is_driven = False, True
        self._link.hold(self._mapping.setpoint(action), self.settings.hold_s)
        self._last_action = np.array(action, np.float32)
        return Executed(self._last_action.copy())

    def stop(self) -> None:
        """Damp the motors, if they were driven."""
        self.damp()

    def emergency_stop(self) -> None:
        """Damp the motors until the next reset, from any thread; `stand` and `write` raise SafetyStop until then."""
        self._is_halted = True
        self.damp()

    def close(self) -> None:
        """Damp driven motors until the robot rests, and disconnect. May be called twice."""
        if not self._open:
            return
        self.damp()
        end = time.monotonic() + REST_S
        while self._is_driven and time.monotonic() < end and abs(self.reading.velocities).max() > STILL:
            time.sleep(POLL_S)
        self._open = False
        release_watchdogs(self)
        self._link.close()

    def _lead_to(self, angles: NDArray[np.float64]) -> None:
        """Move the joints to angles (12,) [rad] in `stand_s`, and wait as long again for joints that lag."""
        self._is_driven = True
        start, start_time, share = self.reading.angles.copy(), self.clock.now(), 0.0
        while share < 1.0 or (share < 2.0 and abs(self.reading.angles - angles).max() > STAND_TOLERANCE_RAD):
            self._require_upright(self.settings.hold_s)
            share = (self.clock.now() - start_time) / self.settings.stand_s
            self._stand_at(start + eased(share) * (angles - start))
            self.clock.sleep_until(self.clock.now() + RAMP_S)

    def _tilt(self) -> float:
        """Return the tilt of the trunk [degrees]."""
        return math.degrees(math.acos(float(np.clip(-self.reading.gravity[2], -1.0, 1.0))))

    def _stand_at(self, angles: NDArray[np.float64]) -> None:
        gains = (np.full(angles.size, gain) for gain in (self.settings.stand_kp, self.settings.stand_kd))
        self._link.hold(Setpoint(angles, *gains), STANDING_S)

    def _hear(self, reading: Go2Reading) -> None:
        self._received_at = self.clock.now()
        stamp = 1e-9 * reading.sample_info.source_timestamp  # 0 from a robot that sends none
        sent_at = self._sync.local_time(stamp, self._received_at) if stamp > 0.0 else self._received_at
        self._latest.put(sent_at, **self._mapping.observed(reading))

    def _source(self) -> CommandSource | None:
        """Return the source of the command; None for the remote control, or if the policy reads no command."""
        rest = {element: 0.0 for elements in self._mapping.commands.values() for element in elements}
        if self.settings.command == REMOTE or not (rest or self.settings.command):
            return None
        return command_of(self.settings.command or f"{next(iter(rest))}=0", rest)

    def _velocity(self) -> dict[str, float]:
        if self._command is not None:
            return dict(self._command.at(self.clock.now() - self._start_time))
        velocity = np.clip(self.reading.sticks, -1.0, 1.0) * self.settings.fastest
        return dict(zip(("forward", "left", "turn"), velocity.tolist(), strict=True))

    def _require_robot(self) -> None:
        """Wait for a reading and a subscriber of commands (else AdapterError); listen for a second robot or adapter."""
        deadline = time.monotonic() + self.settings.heard_s
        while not (self._link.reading and self._link.has_listener) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        faults = []
        if not self._link.reading:
            reason = self._link.fault or "nothing came"
            faults.append(f"no rt/lowstate that can be used came in {self.settings.heard_s:g} s: {reason}")
        if not self._link.has_listener:
            faults.append(f"nobody heard rt/lowcmd in {self.settings.heard_s:g} s")
        if faults:
            where = self.settings.network or "the interface of CYCLONEDDS_URI"
            faults.append(f"is the robot on, and {where} in its network (192.168.123.x)?")
        refuse(faults, "sent")
        end = time.monotonic() + LISTENING_S
        while not self._link.is_doubled and time.monotonic() < end:
            time.sleep(POLL_S)
        while self._link.has_rival and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def _conflicts(self) -> list[str]:
        if not self.settings.release_sport_mode and (mode := mode_of(self._link, self.settings.heard_s)):
            return [
                f"Unitree's sport mode is on ({mode!r}) and drives the motors, too. Lay the robot down and turn it off "
                "in Unitree's app, or set release_sport_mode = true, which does both when an episode begins"
            ]
        return [DOUBLED] if self._link.is_doubled else []

    def _require_upright(self, longest_s: float = math.inf) -> None:
        """Damp the motors and raise SafetyStop if the robot must not move, or was silent for longer than a time [s]."""
        tilt, silent, fault = self._tilt(), self.clock.now() - self._received_at, ""
        if self.reading.stop_pressed:
            fault = "L2 and B of the remote control were pressed"
        elif not tilt < self.settings.fallen_deg:
            fault = f"the robot has fallen: its trunk is tilted by {tilt:.0f} degrees"
        elif self._link.is_doubled:
            fault = DOUBLED
        elif silent > longest_s:
            fault = f"the robot reported nothing for {silent:.2g} s"
        elif self._is_halted:
            fault = "emergency_stop() was called"
        elif self._link.expired and self._is_driven:
            fault = f"no action came within {self.settings.hold_s:g} s of the last one"
        if fault:
            self.damp()
            raise SafetyStop(f"{fault}. The motors are damped.")

    def _require_open(self) -> None:
        if not self._open:
            raise AdapterError("the adapter was closed. Make a new one.")
