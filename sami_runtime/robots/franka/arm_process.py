"""What runs beside the loop and speaks to the arm, 1000 times a second, whatever the loop does.

It owns the arm: it alone moves it, within limits, stops it where the loop falls silent, and never recovers unasked.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any

import numpy as np

from sami_runtime.robots.franka.generator import JointGenerator
from sami_runtime.robots.franka.link import (
    FAULT,
    FOLLOW,
    GO,
    QUIT,
    READY,
    RECOVER,
    REFUSED,
    STOP,
    ArmPhase,
    ArmState,
    now,
    pack_arm,
    unpack_joints,
)
from sami_runtime.robots.franka.settings import FrankaSettings
from sami_runtime.safety.watchdog_process import come_first

TELL_EVERY = 4
"""Cycles of the robot from one state told to the loop to the next."""
IDLE_S = 0.01
"""How often a resting arm is read [s]."""
SETTLED = 100
"""Cycles of a motion after which the robot's success rate tells of this motion alone."""

LATE_S = 2e-3
"""Time between two states [s] after which the second one is not answered."""
SETTLING = 3
"""States that are not answered then; after 20 the robot stops by itself."""


class ArmProcess:
    """Moves an arm as it is told, and stops it where nobody tells.

    Args:
        link: To the loop's process.
        settings: Of the robot.
        bell: Whatever arrives there stops the arm.
    """

    def __init__(self, link: socket.socket, settings: FrankaSettings, bell: socket.socket) -> None:
        import pylibfranka  # of the extra: this module can be looked at without

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
        """Connect, set what the robot's own controller is to do, and return what is known of it; nothing moves."""
        enforced = self._settings.realtime == "enforce"
        config = self._franka.RealtimeConfig.kEnforce if enforced else self._franka.RealtimeConfig.kIgnore
        self._robot = self._franka.Robot(self._settings.robot, config)
        state = self._robot.read_once()
        if state.robot_mode == self._franka.RobotMode.Idle:
            self._set_up()
        self._send_state(state)
        return {"mode": state.robot_mode.name, "errors": str(state.last_motion_errors), "positions": list(state.q)}

    def run(self) -> None:
        """Do as told, until told to end or until nobody is left to tell."""
        gc.collect()
        gc.freeze()
        gc.disable()  # a collection takes milliseconds
        while not self._quit:
            try:
                if self._command is not None:
                    self._move()
                else:
                    self._rest()
            except Exception as error:  # libfranka's, which are of several kinds
                self._fail(self._explained(error))

    def _rest(self) -> None:
        """Read the resting arm, until there is something to do."""
        self._send_state(self._robot.read_once())
        select.select([source for source in (self._link, self._bell) if source is not None], [], [], IDLE_S)
        self._listen()

    def _move(self) -> None:
        """Move as told, until the arm rests."""
        control = self._robot.start_joint_position_control(self._franka.ControllerMode.JointImpedance)
        generator: JointGenerator | None = None
        start, last, bad, why = self._cycles, time.perf_counter(), 0, ""
        while True:
            state, duration = control.readOnce()
            passed = duration.to_sec()
            if generator is not None and (time.perf_counter() - last > LATE_S or not generator.is_at(state.q_d)):
                # A command came late, or this answer would: the robot has gone on by itself, and may yet take what is
                # on its way. Some states later it is settled where it went on to.
                for _ in range(SETTLING):
                    state, duration = control.readOnce()
                    passed += duration.to_sec()
            at = time.perf_counter()
            if generator is None:
                generator, cycles, start = JointGenerator(self._settings.motion.limits, state.q_d), 1, self._cycles
            else:
                missed = generator.synchronise(state.q_d, state.dq_d, state.ddq_d)
                cycles = max(1, round(1e3 * passed))
                self._lost_cycles += max(missed, cycles - 1)
                self._worst = max(self._worst, at - last)
            last = at
            self._cycles += cycles
            self._listen()
            if self._cycles - start > SETTLED:
                self._rate = state.control_command_success_rate
                bad = bad + 1 if self._rate < self._settings.least_success else 0
            why = why or self._reason(generator, bad)
            self._steer(generator, stop=bool(why))
            generator.leash(state.q)
            # The first command is where the robot is: it measures speeds from there.
            positions = generator.positions if self._cycles == start + 1 else generator.step()
            command = self._franka.JointPositions(positions.tolist())
            command.motion_finished = done = self._phase is ArmPhase.STOPPING and generator.at_rest
            control.writeOnce(command)
            self._arrived = generator.arrived
            if done:
                break
            if self._cycles % TELL_EVERY < cycles:
                self._send_state(state)
        self._command, self._phase = None, ArmPhase.IDLE
        del control
        if why:
            self._fail(why)

    def _reason(self, generator: JointGenerator, bad: int) -> str:
        """Return why the arm has to be stopped; empty while it need not."""
        silent = now() - self._message_time
        if silent > self._settings.stale_s and self._phase is ArmPhase.FOLLOWING and not generator.at_rest:
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
        """Tell the generator what is wanted now."""
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
        """Take what came."""
        with suppress(BlockingIOError):
            while True:
                message = self._link.recv(256)
                kind, self._message_time = message[:1], now()
                if kind in (b"", QUIT):  # the loop's process is gone, or wants no more
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
                else:  # nobody holds the other end: no watchdog, or none any more
                    self._bell.close()
                    self._bell = None

    def _set_up(self) -> None:
        """Set what the robot's own controller is to do; a robot in a fault refuses that."""
        limits = self._settings.compliance
        self._robot.set_collision_behavior(
            list(limits.lower_torque), list(limits.upper_torque), list(limits.lower_force), list(limits.upper_force)
        )
        self._robot.set_joint_impedance(list(limits.joint_impedance))

    def _recover(self) -> None:
        """Leave a fault; only ever because somebody asked for it."""
        if self._robot.read_once().robot_mode == self._franka.RobotMode.Reflex:
            self._robot.automatic_error_recovery()
            self._set_up()
        self._phase, self._command = ArmPhase.IDLE, None

    def _send_state(self, state: Any) -> None:
        state_now = ArmState(
            self._phase,
            now(),
            np.array(state.q),
            np.array(state.dq),
            self._arrived,
            self._rate,
            self._cycles,
            self._lost_cycles,
            self._worst,
        )
        with suppress(OSError):  # the loop hears nothing now, or never again
            self._link.send(pack_arm(state_now))

    def _fail(self, why: str) -> None:
        """Stay still, and say why."""
        self._phase, self._command, self._rate = ArmPhase.FAULT, None, 1.0
        with suppress(OSError):
            self._link.send(FAULT + why.encode()[:4000])

    def _explained(self, error: Exception) -> str:
        reason = str(error).strip().removeprefix("libfranka: ").replace("\n", "; ")
        if isinstance(error, self._franka.NetworkException):
            self._quit = True  # there is nothing left to speak to
            return f"the connection to the robot is lost: {reason}"
        return f"the robot stopped by itself: {reason}"


def main(settings: dict[str, Any], descriptor: int, bell: int) -> None:
    """Connect, tell the loop's process whether that worked, and run."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # who ends the loop ends this, by the link or by dying
    link = socket.socket(fileno=descriptor)
    try:
        process = ArmProcess(link, FrankaSettings.model_validate(settings), socket.socket(fileno=bell))
        facts = process.connect()
    except Exception as error:
        link.sendall(REFUSED + f"{type(error).__name__}: {error}".encode())
        sys.exit(1)
    come_first()
    link.sendall(READY + json.dumps(facts).encode())
    process.run()
    with suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
    os._exit(0)  # libfranka's threads wait for nobody
