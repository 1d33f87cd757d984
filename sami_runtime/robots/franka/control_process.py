"""The loop's side of the processes that control arm and hand."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from sami_runtime.child import python_command
from sami_runtime.errors import AdapterError, SafetyStop
from sami_runtime.robots.franka.link import FAULT, QUIT, READY, REFUSED, STATE

State = TypeVar("State")

START_S = 20.0
"""Longest time [s] for the process to connect."""
QUIT_S = 3.0
"""Longest time [s] for the process to bring its part to rest and end."""


class ControlProcess(Generic[State]):
    """A separate process that controls a part of the robot, and that survives a crash of the loop's process.

    Args:
        part: `"arm"` or `"hand"`.
        settings: Of the robot, as JSON.
        unpack: Reads its states.
        bell: Socket of the emergency stop, of which the process gets a copy; None if there is none.

    Raises:
        AdapterError: The process could not connect; nothing was moved.
    """

    def __init__(
        self, part: str, settings: dict[str, Any], unpack: Callable[[bytes], State], bell: socket.socket | None = None
    ) -> None:
        self.part, self._unpack = part, unpack
        self._link, peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        module = f"sami_runtime.robots.franka.{part}_process"
        descriptors = [end.fileno() for end in (peer, bell) if end is not None]
        self._process = subprocess.Popen(
            python_command(module, settings, *descriptors),
            stdin=subprocess.DEVNULL,
            stdout=2,
            pass_fds=descriptors,
            start_new_session=True,  # Ctrl-C and Ctrl-Z at the terminal do not reach it
        )
        peer.close()
        self._fault = ""
        self._state: State | None = None
        try:
            self.facts: dict[str, Any] = self._ready()
        except BaseException:
            self.close()
            raise
        self._link.setblocking(False)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, message: bytes) -> None:
        """Send a message, from any thread. If the process is gone, nothing is raised here, but by `state`."""
        with suppress(OSError):
            self._link.send(message)

    @property
    def fault(self) -> str:
        """Why the robot was stopped; empty if it was not."""
        self._hear()
        return self._fault

    @property
    def state(self) -> State:
        """The newest state.

        Raises:
            SafetyStop: The robot was stopped, or the process is gone.
            AdapterError: No state has arrived yet.
        """
        self._hear()
        if self._fault:
            raise SafetyStop(self._fault)
        if self._state is None:
            raise AdapterError(f"the {self.part} has reported nothing since it was connected.")
        return self._state

    @property
    def last(self) -> State | None:
        """The newest state, even if the robot was stopped; None before the first."""
        self._hear()
        return self._state

    def forget_fault(self) -> None:
        """Clear the fault, for a robot that is about to recover."""
        self._hear()
        self._fault = ""

    def close(self) -> None:
        """Bring the part to rest, and end the process. May be called twice."""
        self.send(QUIT)
        try:
            self._process.wait(QUIT_S)
        except subprocess.TimeoutExpired:  # it hangs in a library; without packets the robot stops by itself
            self._process.kill()
            self._process.wait()
        self._link.close()

    def _hear(self) -> None:
        """Handle all messages that have arrived."""
        while True:
            try:
                message = self._link.recv(8192)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if message[:1] == STATE:
                self._state = self._unpack(message)
            elif message[:1] == FAULT:
                self._fault = self._fault or message[1:].decode()
            elif not message:
                self._fault = self._fault or (
                    f"the process that speaks to the {self.part} is gone (exit code {self._process.poll()}); the robot "
                    "stops by itself when packets cease"
                )
                return

    def _ready(self) -> dict[str, Any]:
        deadline = time.monotonic() + START_S
        while True:
            self._link.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                message = self._link.recv(65536)
            except TimeoutError:
                raise AdapterError(f"the {self.part} could not be reached within {START_S:g} s.") from None
            if message[:1] == READY:
                return dict(json.loads(message[1:]))
            if message[:1] == STATE:
                self._state = self._unpack(message)
                continue
            reason = message[1:].decode() if message[:1] == REFUSED else f"its process ended ({self._process.wait()})"
            raise AdapterError(f"the {self.part} could not be connected to: {reason}")
