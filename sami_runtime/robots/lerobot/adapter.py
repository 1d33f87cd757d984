"""Adapter of a robot of LeRobot."""

from __future__ import annotations

import fcntl
import inspect
import math
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Executed, Observation
from sami_runtime.clock import Clock
from sami_runtime.errors import AdapterError, SamiError
from sami_runtime.model.contract import Contract
from sami_runtime.robots.kit import Differentiator
from sami_runtime.robots.kit.faults import refuse
from sami_runtime.robots.lerobot.mapping import Affine, faults_of_mapping, picked
from sami_runtime.robots.lerobot.settings import HOLD, LeRobotSettings


class LeRobotAdapter:
    """Connects a robot of LeRobot, and drives it by `get_observation` and `send_action`. It never calibrates.

    It has no emergency stop, because LeRobot's robots do not support calls from two threads or two processes.

    Raises:
        AdapterError: Something does not match (all points listed); the robot does not connect, or is not calibrated.
    """

    def __init__(self, clock: Clock, contract: Contract, settings: LeRobotSettings, robot: Any) -> None:
        refuse(faults_of_mapping(settings, contract, robot))
        self.observation, self.action = contract.observation, contract.action
        self.settings, self.clock, self.robot = settings, clock, robot
        sources = settings.observation
        self._read_by = {name: Affine.of(source, len(source.keys)) for name, source in sources.items() if source.keys}
        self._write_by = Affine.of(settings.action, contract.action.size)
        self._velocities = {
            name: Differentiator(source.window_s) for name, source in sources.items() if source.velocity_of
        }
        self._observation: Mapping[str, Any] = {}
        self._beginning: Mapping[str, Any] = {}
        self._goals = np.zeros(contract.action.size)
        self._moves = False
        self._ports = ExitStack()
        try:
            self._lock_ports()
            self._connect()
        except BaseException:
            self.close()
            raise

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode at the robot's present pose; nothing moves.

        Raises:
            AdapterError: The robot is no longer connected.
        """
        self._require_connected()
        for velocity in self._velocities.values():
            velocity.reset()
        self._observation, self._beginning = {}, {}

    def read(self) -> Observation:
        """Return the robot's observation, stamped with the time before the call of `get_observation`.

        Raises:
            AdapterError: A key that the robot's features promise is missing, or the robot is no longer connected.
        """
        self._require_connected()
        measured = self.clock.now()
        self._observation = self.robot.get_observation()
        self._beginning = self._beginning or self._observation
        values: dict[str, NDArray[np.float64]] = {}
        for name, source in self.settings.observation.items():
            if source.constant is not None:
                values[name] = np.array(source.constant)
            elif source.keys:
                by = self._read_by[name]
                values[name] = picked(self._observation, source.keys, "get_observation") * by.factor + by.offset
        for name, velocity in self._velocities.items():
            place = values[self.settings.observation[name].velocity_of or ""]
            # Pass on values that are not finite: the gate then holds the robot.
            values[name] = velocity(place, measured) if np.isfinite(place).all() else np.full(place.size, math.nan)
        return Observation({name: value.astype(np.float32) for name, value in values.items()}, measured)

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Send an action (A,), and return the action that the robot executes.

        Raises:
            AdapterError: Nothing was read, a goal is not finite, the robot returned no action, or it is not connected.
        """
        self._require_connected()
        if not self._observation:
            raise AdapterError("nothing was read yet, so no key can be held. Call read() first.")
        table, by = self.settings.action, self._write_by
        base = by.offset
        if table.mode == "relative":
            base = base + picked(self._observation, table.keys, "get_observation")
        goals = base + np.asarray(action, np.float64) * by.factor
        applied = self._applied_goals(self._send(goals), goals)
        # A number that the robot did not change must equal the action's exactly.
        executed = np.where(applied == goals, action, (applied - base) / by.factor)
        return Executed(executed.astype(np.float32))

    def stop(self) -> None:
        """Hold the robot at its position, or send the numbers of `standing`; do nothing if no action was sent."""
        if not self._moves:  # without a connection, sending fails, so that nobody takes the robot for stopped
            return
        table = self.settings.action
        if table.standing == HOLD:
            place = self._goals
            for read in (lambda: self._observation, self.robot.get_observation):
                with suppress(Exception):  # a driver that fails to read may still be able to write
                    place = picked(read(), table.keys, "get_observation")
            goals = np.where(np.isfinite(place), place, self._goals)
        else:
            goals = np.broadcast_to(np.asarray(table.standing, np.float64), len(table.keys))
        self._send(goals)
        self._moves = False

    def close(self) -> None:
        """Stop the robot if it was driven, and disconnect. May be called twice."""
        with self._ports:
            if self.robot.is_connected:
                try:
                    self.stop()
                finally:
                    self.robot.disconnect()

    def _send(self, goals: NDArray[np.float64]) -> object:
        """Send goals (A,) in the robot's units, with all other keys; return the result of `send_action`."""
        table = self.settings.action
        command = {
            key: float(picked(self._beginning, (key,), "get_observation")[0] if value == HOLD else value)
            for key, value in table.others.items()
        }
        command |= dict(zip(table.keys, goals.tolist(), strict=True))
        if not np.isfinite([*command.values()]).all():  # the gate judges only signals that the model reads
            raise AdapterError(f"nothing was sent, because it was not finite: {command}. Check the robot's readings.")
        self._goals, self._moves = goals, True
        return self.robot.send_action(command)

    def _applied_goals(self, returned: object, goals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the goals (A,) that the robot reports as sent, in its units."""
        if returned is None:  # some plugins return nothing
            return goals
        if not isinstance(returned, Mapping):
            raise AdapterError(
                f"send_action of {self.settings.type} returned {type(returned).__name__}; LeRobot's interface is a "
                "dictionary of what was sent. Check the robot's driver."
            )
        applied = picked(returned, self.settings.action.keys, "send_action")
        if not np.isfinite(applied).all():
            raise AdapterError(
                f"send_action of {self.settings.type} returned {applied.tolist()}, and was to send {goals.tolist()}. "
                "Check the robot's driver."
            )
        return applied

    def _lock_ports(self) -> None:
        """Lock the robot's serial ports, as LeRobot's drivers do not; AdapterError if another program has."""
        for path in _ports(self.settings.config):
            with suppress(OSError):  # there is no such port, which LeRobot reports
                port = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
                self._ports.callback(os.close, port)
                try:
                    fcntl.flock(port, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    refuse([f"another program drives {self.settings.type}: it has locked {path}. End it first"])

    def _connect(self) -> None:
        """Connect the robot with its existing calibration."""
        robot, kind = self.robot, self.settings.type
        # A plugin's connect() may lack `calibrate` and calibrate on its own, for which a person has to move the arm.
        robot.calibrate = self._require_calibrated
        options = {"calibrate": False} if "calibrate" in inspect.signature(robot.connect).parameters else {}
        try:
            robot.connect(**options)
        except SamiError:
            raise
        except Exception as error:  # whatever a driver raises
            raise AdapterError(
                f"{kind} does not connect: {type(error).__name__}: {error}. Is it on, and does settings.config name "
                "its port or address?"
            ) from error
        self._require_calibrated()

    def _require_calibrated(self) -> None:
        if self.robot.is_calibrated:
            return
        kind, config = self.settings.type, self.settings.config
        options = {"type": kind, **{name: value for name, value in config.items() if isinstance(value, (str, int))}}
        arguments = " ".join(shlex.quote(f"--robot.{name}={value}") for name, value in options.items())
        raise AdapterError(
            f"{kind} is not calibrated: LeRobot finds no calibration that its motors have, for the id "
            f"{config.get('id')!r}. Nothing was moved. Calibrate it by hand: lerobot-calibrate {arguments}"
        )

    def _require_connected(self) -> None:
        if not self.robot.is_connected:
            raise AdapterError(
                f"{self.settings.type} is not connected: the adapter was closed, or the connection broke. Check the "
                "cable, and make a new adapter."
            )


def _ports(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values of the keys of a robot's configuration that name a serial port, such as `left_arm_port`."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _ports(value)
        elif key.endswith("port") and isinstance(value, str):
            yield value
