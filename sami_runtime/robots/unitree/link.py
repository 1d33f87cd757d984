"""The connection to a Go2's motors: it repeats their set-points, and receives their state."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication
from cyclonedds.core import DDSException, InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from sami_runtime.clock import MonotonicClock
from sami_runtime.errors import AdapterError
from sami_runtime.robots.unitree import idl
from sami_runtime.robots.unitree.messages import Go2Reading, Setpoint

WAKE_NS = 100_000_000
"""Longest time that `close` waits for the receiving thread [ns]."""
POLL_S = 0.02
TOGETHER_S = 1.0
"""Two publishers count as two robots if the readings of both came within this time [s]."""
MARK = Policy.Userdata(b"sami: driver")
"""Marks an adapter's publisher of commands: services of the robot and watchdogs publish commands, too."""
NEW = ViewState.Any | InstanceState.Any | SampleState.NotRead
INTERFACE = """<CycloneDDS><Domain Id="any"><General><Interfaces>
<NetworkInterface name="{}" priority="default" multicast="default"/>
</Interfaces></General></Domain></CycloneDDS>"""


class MotorLink:
    """A participant of the robot's DDS domain.

    Nothing is sent until `hold` or `damp` is called. From then on, the last set-point is repeated until its time is
    over. After that, and after `damp`, the motors are damped until the next call of `hold`.

    Args:
        domain: Of DDS; 0 on a robot.
        network: Interface to the robot, such as `"eth0"`; if None, that of CYCLONEDDS_URI or Cyclone DDS's choice.
        hz: Rate at which a set-point is repeated [1/s].
        damp_kd: Damping gain of damped motors [N m s/rad].
        hear: Called with each reading, in a thread of the link; None for a link that only sends.

    Raises:
        AdapterError: The domain cannot be entered.
    """

    def __init__(
        self, domain: int, network: str | None, hz: float, damp_kd: float, hear: Callable[[Go2Reading], None] | None
    ) -> None:
        self._hear, self._period, self._damping = hear, 1.0 / hz, Setpoint.damping(damp_kd).message()
        self.reading: Go2Reading | None = None
        """The newest reading; None before the first."""
        self._receipts: dict[int, float] = {}
        """When the last reading of each publisher came [s], by its handle; a robot that starts again has another."""
        self.bad, self.reason = 0, ""
        """Number of unreadable messages, and why the last of them was unreadable."""
        self.expired = False
        """Whether the motors were damped because no set-point followed the last one in time."""
        self._entities: list[Any] = []
        try:
            if network is not None:
                self._entities.append(Domain(domain, INTERFACE.format(network)))
            self._participant = DomainParticipant(domain)
        except DDSException as error:
            self._delete()
            raise AdapterError(
                f"domain {domain} cannot be entered through {network or 'the interface of CYCLONEDDS_URI'}: {error}. "
                "Is settings.network the interface to the robot (ip addr lists them)?"
            ) from error
        commands = Topic(self._participant, "rt/lowcmd", idl.LowCmd)
        states = Topic(self._participant, "rt/lowstate", idl.LowState)
        self._writer = DataWriter(self._participant, commands, Qos(MARK) if hear else None)
        self._reader = DataReader(self._participant, states)
        self._publishers = BuiltinDataReader(self._participant, BuiltinTopicDcpsPublication)
        self._condition, self._waits = ReadCondition(self._reader, NEW), WaitSet(self._participant)
        self._waits.attach(self._condition)
        self._entities += [self._participant, commands, states, self._writer, self._reader, self._publishers]
        self._entities.append(self._condition)
        self._command_until: tuple[bytes, float] | None = None
        self._clock = MonotonicClock()  # `time.monotonic` stands still while the machine is suspended
        self._lock, self._news, self._open = threading.Lock(), threading.Event(), True
        targets = (self._send, self._listen) if hear else (self._send,)
        self._threads = [threading.Thread(target=target, name="sami-unitree", daemon=True) for target in targets]
        for thread in self._threads:
            thread.start()

    @property
    def fault(self) -> str:
        """A sentence about unreadable messages; empty if there were none."""
        return f"{self.bad} messages that could not be read were dropped, lastly {self.reason}" if self.bad else ""

    @property
    def is_doubled(self) -> bool:
        """Whether two robots publish readings, and so both obey the commands."""
        since = time.monotonic() - TOGETHER_S
        return sum(receipt > since for receipt in list(self._receipts.values())) > 1

    @property
    def has_rival(self) -> bool:
        """Whether another adapter can command the robot."""
        peers = [peer for peer in self._publishers.read(1000) if peer.sample_info.instance_state == InstanceState.Alive]
        return sum(MARK in peer.qos for peer in peers) > 1

    @property
    def has_listener(self) -> bool:
        """Whether a robot subscribes to the commands."""
        return bool(self._writer.get_matched_subscriptions())

    def hold(self, setpoint: Setpoint, within_s: float) -> None:
        """Send a set-point at once, and repeat it; damp the motors if no other follows within a time [s]."""
        self.expired = False
        self._request(setpoint.message(), within_s)

    def damp(self) -> None:
        """Damp the motors at once, from any thread, until the next set-point. Does nothing after `close`."""
        self._request(self._damping, float("inf"))

    def damp_once(self) -> None:
        """Send a single command that damps the motors; a watchdog repeats the call as long as needed."""
        self._write(self._damping)

    def call(self, service: str, function: int, within_s: float, parameter: str = "{}") -> tuple[int, str]:
        """Call one of the robot's services; return its code, 0 for success, and its answer.

        Raises:
            AdapterError: The service does not answer within `within_s` [s].
        """
        calls = Topic(self._participant, f"rt/api/{service}/request", idl.ServiceRequest)
        answers = Topic(self._participant, f"rt/api/{service}/response", idl.ServiceResponse)
        writer: DataWriter[Any] = DataWriter(self._participant, calls)
        reader: DataReader[Any] = DataReader(self._participant, answers)
        deadline, number, due = time.monotonic() + within_s, time.monotonic_ns(), 0.0
        requests: set[int] = set()
        try:
            while (now := time.monotonic()) < deadline:
                if now >= due and writer.get_matched_subscriptions() and reader.get_matched_publications():
                    number, due = number + 1, now + 1.0  # a request before the service listened is lost
                    requests.add(number)
                    identity = idl.RequestIdentity(number, function)
                    header = idl.RequestHeader(identity, idl.RequestLease(0), idl.RequestPolicy(0, False))
                    writer.write(idl.ServiceRequest(header, parameter, []))
                for response in reader.take(10):
                    if isinstance(response, idl.ServiceResponse) and response.header.identity.id in requests:
                        return response.header.status.code, response.data
                time.sleep(POLL_S)
        finally:
            for entity in (writer, reader, calls, answers):
                entity.__del__()
        raise AdapterError(f"the robot's service {service} does not answer within {within_s:g} s.")

    def close(self) -> None:
        """Leave the domain; the last message stays in force. May be called twice."""
        if not self._open:
            return
        self._open = False
        self._news.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._delete()

    def _request(self, message: bytes, within_s: float) -> None:
        self._command_until = message, self._clock.now() + within_s
        self._write(message)
        self._news.set()

    def _write(self, message: bytes) -> None:
        with self._lock:
            if self._open:
                self._writer.write(idl.LowCmd.of(message))

    def _send(self) -> None:
        """Repeat the newest set-point, or damp the motors if its time is over."""
        while self._open:
            if self._news.wait(self._period if self._command_until else None):  # `_request` has sent it already
                self._news.clear()
                continue
            message, until = self._command_until or (self._damping, 0.0)
            if self._clock.now() > until:
                self.expired, message = True, self._damping
            with suppress(Exception):  # the next write may succeed, and nothing else damps the motors in time
                self._write(message)

    def _listen(self) -> None:
        while self._open:
            try:
                samples = self._reader.take(1, self._condition)
                if not samples:
                    self._waits.wait(WAKE_NS)
                elif isinstance(samples[0], Go2Reading):
                    self._receipts[samples[0].sample_info.publication_handle] = time.monotonic()
                    self.reading = samples[0]
                    self._hear(samples[0])  # type: ignore[misc]  # runs only with `hear`
            except Exception as error:  # a bad message must not end the thread
                self.bad, self.reason = self.bad + 1, f"{error}"

    def _delete(self) -> None:
        """Delete each entity now: Python collects cycles later, and until then other participants see this link."""
        if self._entities and hasattr(self, "_waits"):
            self._waits.__del__()
            self._waits.attached = []
        for entity in reversed(self._entities):
            entity.__del__()
        self._entities = []


def mode_of(link: MotorLink, within_s: float) -> str:
    """Return the name of the Unitree motion service that drives the robot, such as `"normal"`; empty if none does.

    Raises:
        AdapterError: The robot does not answer in time [s], or with an error.
    """
    code, answer = link.call("motion_switcher", 1001, within_s)
    if code:
        raise AdapterError(f"the robot's motion_switcher answers with the error {code} whether its sport mode is on.")
    return str(json.loads(answer or "{}").get("name", ""))


def release_mode(link: MotorLink, within_s: float) -> None:
    """Ask Unitree's motion service to lay the robot down and to release its motors, as Unitree's examples do.

    Raises:
        AdapterError: The service does not release them in time [s], or does not answer.
    """
    deadline = time.monotonic() + within_s
    while (mode := mode_of(link, within_s)) and time.monotonic() < deadline:
        link.call("sport", 1005, within_s)
        link.call("motion_switcher", 1003, within_s)
        time.sleep(1.0)
    if mode:
        raise AdapterError(f"the robot's mode {mode!r} was asked to let go for {within_s:g} s, and did not.")
