"""The emergency stop of a Go2 in a watchdog's process."""

from __future__ import annotations

import time
from typing import Any

from sami_runtime.errors import AdapterError
from sami_runtime.robots.unitree.link import POLL_S, MotorLink
from sami_runtime.safety.watchdog_process import take_instructions

KIND = "unitree"
"""Name by which the adapter addresses its emergency stop in a watchdog's process."""


class EmergencyDamping:
    """Emergency stop in a watchdog's process: it connects when the adapter asks for it, and a call damps the motors."""

    def __init__(self) -> None:
        self._link: MotorLink | None = None
        take_instructions(KIND, self._take)

    def __call__(self) -> None:
        """Send one command that damps the motors; the watchdog repeats the call until the loop is armed again.

        Raises:
            AdapterError: Nothing was sent, because no adapter has connected.
        """
        if self._link is None:
            raise AdapterError("nothing was sent: no adapter has connected to a robot.")
        self._link.damp_once()

    def _take(self, document: dict[str, Any], _: list[int]) -> None:
        """Join the robot's domain; until this has succeeded, a call raises AdapterError."""
        before, self._link = self._link, None
        if before is not None:
            before.close()
        # No receiving thread: without the watchdog's priority, it could hold Python's lock when the watchdog fires.
        link = MotorLink(document["domain"], document["network"], document["hz"], document["damp_kd"], None)
        end = time.monotonic() + document["heard_s"]
        while not link.has_listener:
            if time.monotonic() > end:
                link.close()
                raise AdapterError(f"nobody heard rt/lowcmd in {document['heard_s']:g} s.")
            time.sleep(POLL_S)
        self._link = link
