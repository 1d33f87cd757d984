"""The process that controls the arm, 1000 times a second, independently of the loop.

Only this process moves the arm, within limits. It stops the arm if the loop falls silent, and recovers only on request.
"""

from __future__ import annotations

import gc
import select
import socket
import time
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from sami_runtime.robots.franka.generator import JointGenerator
from sami_runtime.robots.franka.link import (
    FAULT,
    FOLLOW,
    GO,
    QUIT,
    RECOVER,
    STOP,
    ArmPhase,
    ArmState,
    control_part,
    now,
    pack_arm,
    unpack_joints,
)
from sami_runtime.robots.franka.settings import FrankaSettings
from sami_runtime.safety.watchdog_process import come_first

STATE_EVERY = 4
"""Cycles of the robot between two states that are sent to the loop."""
IDLE_S = 0.01
"""Time between two reads of a resting arm [s]."""
SETTLED = 100
"""Cycles of a motion after which the robot's success rate covers this motion only."""

LATE_S = 2e-3
"""Time between two states [s] above which the second state is not answered by a command."""
SETTLING = 3
"""Number of states in a row that are not answered then; after 20 the robot stops by itself."""


class ArmProcess:
    """Moves an arm by commands of the loop over `link`; stops it if they cease, or at any message of `bell`."""

    def __init__(self, link: socket.socket, settings: FrankaSettings, bell: socket.socket) -> None:
        import pylibfranka  # of an extra: this module can be imported without it

        self._franka = pylibfranka
        self._link, self._settings = link, settings
        self._link.setblocking(False)
        self._bell: socket.socket | None = bell
        bell.setblocking(False)
        self._phase, self._message_time, self._quit = ArmPhase.IDLE, 0.0, False
        self._command: tuple[bytes, tuple[float, ...]] | None = None
        self._rate, self._cycles, self._lost_cycles, self._worst = 1.0, 0, 0, 0.0
        self._arrived = False
        self._robot: Any = None

    def connect(self) -> dict[str, Any]:
        """Connect, configure the robot's controller, return mode, errors and positions (7,) [rad]; nothing moves."""
        enforced = self._settings.realtime == "enforce"
        config = self._franka.RealtimeConfig.kEnforce if enforced else self._franka.RealtimeConfig.kIgnore
        self._robot = self._franka.Robot(self._settings.robot, config)
        state = self._robot.read_once()
        if state.robot_mode == self._franka.RobotMode.Idle:
            self._set_up()
        self._send_state(state)
        come_first()
        return {"mode": state.robot_mode.name, "errors": str(state.last_motion_errors), "positions": list(state.q)}

    def run(self) -> None:
        """Execute commands until the loop's process ends, or asks to quit."""
        gc.collect()
        gc.freeze()
        gc.disable()  # a collection takes milliseconds
        while not self._quit:
            try:
                if self._command is not None:
                    self._move()
                else:
                    self._rest()
            except Exception as error:  # libfranka raises several kinds
                self._fail(self._explained(error))

    def _rest(self) -> None:
        """Report the state of the resting arm, and wait briefly for a command."""
        self._send_state(self._robot.read_once())
        select.select([source for source in (self._link, self._bell) if source is not None], [], [], IDLE_S)
        self._listen()

    def _move(self) -> None:
        """Execute commands in one motion, until the arm rests again."""
        control = self._robot.start_joint_position_control(self._franka.ControllerMode.JointImpedance)
        generator: JointGenerator | None = None
        start, last, bad, reason = self._cycles, time.perf_counter(), 0, ""
        while True:
            state, duration = control.readOnce()
            seconds = duration.to_sec()
            if generator is not None and (time.perf_counter() - last > LATE_S or not generator.is_at(state.q_d)):
                # A command was late, or the next one would be: the robot extrapolated, and may still receive a command
                # that is on its way. Its reference is known again after some states without a command.
                for _ in range(SETTLING):
                    state, duration = control.readOnce()
                    seconds += duration.to_sec()
            at = time.perf_counter()
            if generator is None:
                generator, cycles, start = JointGenerator(self._settings.motion.limits, state.q_d), 1, self._cycles
            else:
                missed = generator.synchronise(state.q_d, state.dq_d, state.ddq_d)
                cycles = max(1, round(1e3 * seconds))
                self._lost_cycles += max(missed, cycles - 1)
                self._worst = max(self._worst, at - last)
            last = at
            self._cycles += cycles
            self._listen()
            if self._cycles - start > SETTLED:
                self._rate = state.control_command_success_rate
                bad = bad + 1 if self._rate < self._settings.least_success else 0
            reason = reason or self._reason(generator, bad)
            self._steer(generator, stop=bool(reason))
            generator.leash(state.q)
            # The first command repeats the robot's position, from which the robot computes speeds.
            positions = generator.positions if self._cycles == start + 1 else generator.step()
            command = self._franka.JointPositions(positions.tolist())
            command.motion_finished = is_finished = self._phase is ArmPhase.STOPPING and generator.at_rest
            control.writeOnce(command)
            self._arrived = generator.arrived
            if is_finished:
                break
            if self._cycles % STATE_EVERY < cycles:
                self._send_state(state)
        self._command, self._phase = None, ArmPhase.IDLE
        del control
        if reason:
            self._fail(reason)

    def _reason(self, generator: JointGenerator, bad: int) -> str:
        """Return why the arm has to be stopped; empty if it may go on."""
        silent = now() - self._message_time
        is_driven = self._command is not None and not (generator.at_rest or generator.arrived)
        if silent > self._settings.stale_s and is_driven:
            return (
                f"no command came for {silent:.3g} s, allowed are {self._settings.stale_s:g} s (stale_s): the policy "
                "or its host stalled, and the arm was stopped"
            )
        if bad > 3:
            return (
                f"of the last 100 commands {100 * self._rate:.0f} % reached the robot in time, allowed are "
                f"{100 * self._settings.least_success:g} % (least_success): packets are lost, and the arm was stopped"
            )
        return ""

    def _steer(self, generator: JointGenerator, stop: bool) -> None:
        """Pass the present command to the generator."""
        if stop or self._command is None or self._quit:
            self._phase = ArmPhase.STOPPING
            generator.halt()
            return
        kind, values = self._command
        if kind == GO:
            self._phase = ArmPhase.POSITIONING
            generator.go(values, self._settings.motion.home_speed)
        else:
            self._phase = ArmPhase.FOLLOWING
            generator.follow(values)

    def _listen(self) -> None:
        """Handle all messages of the loop and of the emergency stop."""
        with suppress(BlockingIOError):
            while True:
                message = self._link.recv(256)
                kind, self._message_time = message[:1], now()
                if kind in (b"", QUIT):  # the loop's process is gone, or asks to quit
                    self._command, self._quit = None, True
                    break
                if kind == STOP:
                    self._command = None
                elif kind == RECOVER:
                    self._recover()
                elif kind in (FOLLOW, GO) and self._phase is not ArmPhase.FAULT:
                    self._command = (kind, unpack_joints(message))
        with suppress(BlockingIOError):
            while self._bell is not None:
                if self._bell.recv(16):
                    self._command = None
                else:  # the other end is closed: no watchdog has it
                    self._bell.close()
                    self._bell = None

    def _set_up(self) -> None:
        """Configure the robot's own controller; a robot in a fault refuses this."""
        limits = self._settings.compliance
        self._robot.set_collision_behavior(
            list(limits.lower_torque), list(limits.upper_torque), list(limits.lower_force), list(limits.upper_force)
        )
        self._robot.set_joint_impedance(list(limits.joint_impedance))

    def _recover(self) -> None:
        """Leave a fault, on request only."""
        if self._robot.read_once().robot_mode == self._franka.RobotMode.Reflex:
            self._robot.automatic_error_recovery()
            self._set_up()
        self._phase, self._command = ArmPhase.IDLE, None

    def _send_state(self, state: Any) -> None:
        motion = now(), np.array(state.q), np.array(state.dq), self._arrived
        state_now = ArmState(self._phase, *motion, self._rate, self._cycles, self._lost_cycles, self._worst)
        with suppress(OSError):  # the loop's process is busy or gone
            self._link.send(pack_arm(state_now))

    def _fail(self, reason: str) -> None:
        """Accept no motion until a recovery, and report why."""
        self._phase, self._command, self._rate = ArmPhase.FAULT, None, 1.0
        with suppress(OSError):
            self._link.send(FAULT + reason.encode()[:4000])

    def _explained(self, error: Exception) -> str:
        reason = str(error).strip().removeprefix("libfranka: ").replace("\n", "; ")
        if isinstance(error, self._franka.NetworkException):
            self._quit = True  # there is no connection left
            return f"the connection to the robot is lost: {reason}"
        return f"the robot stopped by itself: {reason}"


main = partial(control_part, ArmProcess)
