"""Topics of a recording for viewers: beside the ticks, one for each signal, whose fields are the named elements.

    /observation/NAME   as it was read            /pose/NAME   foxglove.PoseInFrame, of positions: x, y, z in m
    /action/proposed    by the policy             /joints      foxglove.JointStates, of angles by joint
    /action/executed    after every limit         /log         foxglove.Log: events, in words
    /context            of the encoder            /tick        signals but /answer, with outcome, times and telemetry
    /answer/NAME        other outputs

All messages are protobuf, which Foxglove and Rerun show as numbers; they show JSON as text. The file contains a
description of each message, so that tools plot its fields by name. Foxglove's messages have the fields and numbers that
https://docs.foxglove.dev/docs/sdk/schemas publishes.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from sami_runtime.distribution import install_hint
from sami_runtime.errors import RecordingError, quantity
from sami_runtime.loop.tick import Outcome, StepRecord
from sami_runtime.model.contract import Contract
from sami_runtime.recording.format import TICK, signal_values, signals_of, tick_values
from sami_runtime.recording.mcap_file import ChunkedFile
from sami_runtime.session.telemetry import Phase
from sami_runtime.signals import Signal

SCALARS = {"double": 1, "int64": 3, "uint64": 4, "int32": 5, "fixed32": 7, "bool": 8, "string": 9}
"""Scalar field types, with protobuf's numbers for them."""
MESSAGE, ENUM, OPTIONAL, REPEATED = 11, 14, 1, 3
TIMESTAMP = "google.protobuf.Timestamp"
LEVELS = ("UNKNOWN", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL")
"""Levels of a `foxglove.Log`, by number."""
Fields = Mapping[str, str]
"""Type of each field by its name, in the order of field numbers: one of `SCALARS`, or the full name of a message. The
prefix `*` means repeated, `?` optional: an absent value differs from 0."""
FOXGLOVE: dict[str, Fields] = {
    "foxglove.Vector3": dict.fromkeys("xyz", "double"),
    "foxglove.Quaternion": dict.fromkeys("xyzw", "double"),
    "foxglove.Pose": {"position": "foxglove.Vector3", "orientation": "foxglove.Quaternion"},
    "foxglove.PoseInFrame": {"timestamp": TIMESTAMP, "frame_id": "string", "pose": "foxglove.Pose"},
    "foxglove.JointState": {
        "name": "string",
        **dict.fromkeys(("position", "velocity", "acceleration", "effort"), "?double"),
    },
    "foxglove.JointStates": {"timestamp": TIMESTAMP, "joints": "*foxglove.JointState"},
    "foxglove.Log": {
        **{"timestamp": TIMESTAMP, "level": "foxglove.Log.Level", "message": "string", "name": "string"},
        **{"file": "string", "line": "fixed32"},
    },
}
FRAME = "world"
"""Frame of all positions; the model's data sheet describes it in words."""
XYZ, RPY, WXYZ = ("x", "y", "z"), ("roll", "pitch", "yaw"), ("w", "x", "y", "z")
PLACES = re.compile(r"(^|_)(position|goal|target|place|pose)$")
"""Matches the names of signals that are positions in the world."""
NO_PLACES = re.compile(
    r"(?i)(?<![a-z])(displacement|offset|difference|distance|relative|delta|error|"
    r"(tip|hand|gripper|tool|flange|effector|camera|sensor|body|torso)('s|s')? frame|"
    r"frame of the (tip|hand|gripper|tool|flange|end|camera|sensor|body|torso))"
)
"""Matches names and meanings of signals that are not: differences, and positions in frames that move."""
TOPICS = {"proposed": "/action/proposed", "executed": "/action/executed", "context": "/context"}
"""Topics of signals whose topic does not follow from their name."""
SHORT = {name: name.rpartition(".")[2] for name in TICK}
TICK_FIELDS = {SHORT[name]: kind for name, kind in TICK.items()}
"""Fields of a `sami.Tick`, besides those of the signals."""
QUIET = (Outcome.ACTED, Outcome.STANDING)
"""Outcomes that are no event; only `ACTED` after another outcome is one."""


class Event(NamedTuple):
    """One line of a log, with its level."""

    level: str
    """`INFO`, `WARNING` or `ERROR`, as in a log."""
    text: str


class Events:
    """Finds the events in successive ticks: changes that a person wants to know of."""

    def __init__(self) -> None:
        self._outcome: tuple[Outcome, str] = (Outcome.ACTED, "")
        self._limited: tuple[str, ...] = ()
        self._phase: Phase | None = None
        self._alarm = False

    def of(self, episode: int, record: StepRecord) -> list[Event]:
        """Return the events of the next tick."""
        events: list[Event] = []
        if record.step == 0:
            self._outcome, self._limited, self._phase, self._alarm = (Outcome.ACTED, ""), (), None, False
            events.append(Event("INFO", f"episode {episode} begins"))
        if record.swapped:
            events.append(Event("INFO", f"model {record.swapped.contract.name} takes over"))
        if record.missed:
            events.append(Event("WARNING", f"{quantity(record.missed, 'tick')} passed without a turn"))
        kind = record.reason.partition(":")[0]
        if (record.outcome, kind) != self._outcome and record.outcome not in QUIET:
            events.append(Event("WARNING", f"{record.outcome.value}: {record.reason}".removesuffix(": ")))
        elif self._outcome[0] not in QUIET and record.outcome is Outcome.ACTED:
            events.append(Event("INFO", "the policy acts again"))
        if record.outcome is not Outcome.STANDING:
            self._outcome = (record.outcome, kind)
        stopped = "stop" in record.limited_by
        if stopped or (record.limited_by and not self._limited):
            text = f"the gate stopped the robot: {record.reason}" if stopped else ", ".join(record.limited_by)
            events.append(Event("ERROR", text) if stopped else Event("INFO", f"limited: {text}"))
        self._limited = record.limited_by
        return events + self._adaptation(record)

    def _adaptation(self, record: StepRecord) -> list[Event]:
        now, events = record.telemetry, list[Event]()
        if now is None:
            return events
        if now.phase is not self._phase and now.phase is not None:
            events.append(Event("INFO", now.phase.value))
        if now.alarm and not self._alarm:
            events.append(Event("WARNING", f"out of distribution: score {now.score:.2f} is above 1"))
        self._phase, self._alarm = now.phase, now.alarm
        return events


class Schemas:
    """Protobuf message types by their full name; declare a type after those that its fields use.

    Raises:
        RecordingError: The package protobuf is missing.
    """

    def __init__(self) -> None:
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
        except ModuleNotFoundError as error:
            raise RecordingError(f"recordings need the package protobuf: {install_hint('record')}") from error
        self._files, self._class_of = descriptor_pb2, message_factory.GetMessageClass
        self._pool = descriptor_pool.DescriptorPool()
        self._declared: dict[str, Any] = {}
        self._add(TIMESTAMP, descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb))
        for name, fields in FOXGLOVE.items():
            self.declare(name, fields)

    def declare(self, name: str, fields: Fields) -> Any:
        """Declare the message type `PACKAGE.NAME`, and return its class."""
        package, _, short_name = name.rpartition(".")
        file = self._files.FileDescriptorProto(name=name.replace(".", "/") + ".proto", package=package, syntax="proto3")
        message = file.message_type.add(name=short_name)
        for number, (field, kind) in enumerate(fields.items(), 1):
            label, plain = REPEATED if kind.startswith("*") else OPTIONAL, kind.lstrip("*?")
            entry = message.field.add(name=field, number=number, label=label)
            if plain in SCALARS:
                entry.type = SCALARS[plain]
            else:
                entry.type, entry.type_name = ENUM if plain.startswith(f"{name}.") else MESSAGE, f".{plain}"
                if plain in self._declared and (needed := self._declared[plain].name) not in file.dependency:
                    file.dependency.append(needed)
            if kind.startswith("?"):
                entry.proto3_optional, entry.oneof_index = True, len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field}")
        if name == "foxglove.Log":
            levels = message.enum_type.add(name="Level")
            for number, level in enumerate(LEVELS):
                levels.value.add(name=level, number=number)
        self._add(name, file)
        return self.message(name)

    def message(self, name: str) -> Any:
        """Return the class of a declared message type."""
        return self._class_of(self._pool.FindMessageTypeByName(name))

    def described(self, name: str) -> bytes:
        """Return the description of a message type: a `FileDescriptorSet` of it and of all types that it uses."""
        files, by_path = dict[str, Any](), {file.name: file for file in self._declared.values()}

        def collect(file: Any) -> None:
            for needed in file.dependency:
                collect(by_path[needed])
            files[file.name] = file

        collect(self._declared[name])
        described: bytes = self._files.FileDescriptorSet(file=files.values()).SerializeToString(deterministic=True)
        return described

    def _add(self, name: str, file: Any) -> None:
        self._declared[name] = file
        self._pool.Add(file)


def field_names(elements: Iterable[str]) -> tuple[str, ...]:
    """Return a valid and unique protobuf field name for each element.

    >>> field_names(("x", "joint 1", "joint-1", "0"))
    ('x', 'joint_1', 'joint_1_2', 'n0')
    """
    names: list[str] = []
    for number, element in enumerate(elements):
        name = re.sub(r"[^A-Za-z0-9_]", "_", element) or "n"
        name = name if name[0].isalpha() else f"n{name}"
        names.append(f"{name}_{number}" if name in names else name)
    return tuple(names)


class _Row:
    """Encodes a signal's messages on channel `number`, each the field `at` of a tick or observation, of none if 0."""

    def __init__(self, number: int, fields: tuple[str, ...], at: int) -> None:
        self.number, self.size = number, len(fields)
        tags = [_varint(8 * field + 1) for field in range(1, self.size + 1)]
        self._values = slice(1, None, 2)
        self._row = [part for tag in tags for part in (tag, 0.0)]
        self._pack = struct.Struct("<" + "".join(f"{len(tag)}sd" for tag in tags)).pack
        self.prefix = _varint(8 * at + 2) + _varint(sum(len(tag) + 8 for tag in tags))
        """Bytes before the message inside another message."""

    def encode(self, value: Any) -> bytes | None:
        """Return the message; None if the value has another size than the signal, so that only `/step` has it."""
        numbers = np.asarray(value, np.float64).ravel().tolist()
        if len(numbers) != self.size:
            return None
        self._row[self._values] = numbers
        return self._pack(*self._row)


class Topics:
    """Declares the topics of a policy in a file, and adds the messages of each tick."""

    def __init__(self, file: ChunkedFile, contract: Contract) -> None:
        self.contract = contract
        self._file, self._schemas = file, Schemas()
        self._type = {name: self._schemas.message(name) for name in FOXGLOVE}
        self._rows, observation, parts = dict[str, _Row](), dict[str, str](), {"observation": "sami.Observation"}
        for name, signal in signals_of(contract).items():
            topic = TOPICS.get(name, "/" + name.replace(".", "/", 1))
            kind, _, signal_name = name.partition(".")
            message, at = f"sami{topic.replace('/', '.')}", 0
            if kind == "observation":
                observation[signal_name] = message
                at = len(observation)
            elif kind != "answer":
                parts[name] = message
                at = len(TICK) + len(parts)
            fields = field_names(signal.elements)
            self._schemas.declare(message, dict.fromkeys(fields, "double"))
            about = {"unit": signal.unit, "meaning": signal.meaning}
            self._rows[name] = _Row(self._channel(topic, message, about), fields, at)
        self._poses, self._joints = dict(self._find_poses()), self._find_joints()
        self._pose = {name: self._channel(f"/pose/{name}", "foxglove.PoseInFrame") for name in self._poses}
        self._joint_states = self._channel("/joints", "foxglove.JointStates") if self._joints else 0
        self._log = self._channel("/log", "foxglove.Log")
        self._schemas.declare("sami.Observation", observation)
        self._tick_message = self._schemas.declare("sami.Tick", {**TICK_FIELDS, **parts})
        self._tick = self._channel("/tick", "sami.Tick")

    def add(self, episode: int, record: StepRecord, events: Iterable[Event], log_time: int, publish_time: int) -> None:
        """Add the messages of a tick."""
        add, stamp = self._file.add, stamp_of(log_time)
        observed, parts, values = b"", b"", signal_values(record)
        for name, row in self._rows.items():
            if name not in values or not (data := row.encode(values[name])):
                continue
            add(row.number, data, log_time, publish_time)
            if name.startswith("observation."):
                observed += row.prefix + data
            elif not name.startswith("answer."):
                parts += row.prefix + data
        if observed:
            parts = _varint(8 * (len(TICK) + 1) + 2) + _varint(len(observed)) + observed + parts
        fields = {SHORT[name]: value for name, value in tick_values(episode, record).items()}
        add(self._tick, self._tick_message(**fields).SerializeToString() + parts, log_time, publish_time)
        measured = {} if record.observation is None else record.observation.values
        for name, data in self._placed(measured, stamp):
            add(self._pose[name], data, log_time, publish_time)
        if self._joints and self._joints[0].name in measured:
            add(self._joint_states, self._jointed(*self._joints, measured, stamp), log_time, publish_time)
        for event in events:
            self.log(event, log_time, publish_time)

    def log(self, event: Event, log_time: int, publish_time: int) -> None:
        """Add a line to `/log`."""
        level, name = LEVELS.index(event.level), self.contract.name
        line = self._type["foxglove.Log"](timestamp=stamp_of(log_time), level=level, message=event.text, name=name)
        self._file.add(self._log, line.SerializeToString(), log_time, publish_time)

    def _placed(self, measured: Mapping[str, Any], stamp: Any) -> Iterator[tuple[str, bytes]]:
        make = self._type
        for name, (position, turned) in self._poses.items():
            if position.name not in measured or (turned and turned.name not in measured):
                continue
            framed = make["foxglove.PoseInFrame"](timestamp=stamp, frame_id=FRAME)
            place, at = framed.pose.position, framed.pose.orientation
            place.x, place.y, place.z = np.asarray(measured[position.name], np.float64).ravel().tolist()
            at.x, at.y, at.z, at.w = _xyzw(turned, None if turned is None else measured[turned.name])
            yield name, framed.SerializeToString()

    def _jointed(self, angle: Signal, rate: Signal | None, measured: Mapping[str, Any], stamp: Any) -> bytes:
        columns = {"position": measured[angle.name]}
        if rate and rate.name in measured:
            columns["velocity"] = measured[rate.name]
        rows = {name: np.asarray(value, np.float64).ravel().tolist() for name, value in columns.items()}
        joint = self._type["foxglove.JointState"]
        joints = [
            joint(name=element, **{name: row[at] for name, row in rows.items()})
            for at, element in enumerate(angle.elements)
        ]
        data: bytes = self._type["foxglove.JointStates"](timestamp=stamp, joints=joints).SerializeToString()
        return data

    def _channel(self, topic: str, name: str, about: Mapping[str, str] | None = None) -> int:
        return self._file.channel(topic, name, ("protobuf", "protobuf"), self._schemas.described(name), about or {})

    def _find_poses(self) -> Iterator[tuple[str, tuple[Signal, Signal | None]]]:
        """Yield by short name the positions in the world, each with its rotation or orientation if there is one.

        A contract gives no frames, so the names decide. Signals that do not match have no topic `/pose/NAME`.
        """
        by_name = {signal.name: signal for signal in self.contract.observation}
        for name, signal in by_name.items():
            is_place = PLACES.search(name) and not NO_PLACES.search(f"{name} {signal.meaning}")
            if is_place and (signal.elements, signal.unit) == (XYZ, "m"):
                short = name.removesuffix("_position")
                turned = by_name.get(f"{short}_rotation") or by_name.get(f"{short}_orientation")
                has_elements = turned is not None and turned.elements in (RPY, WXYZ, (*XYZ, "w"))
                yield short, (signal, turned if has_elements else None)

    def _find_joints(self) -> tuple[Signal, Signal | None] | None:
        """Return the signal of joint angles and that of their rates, if there is one; None without joint angles.

        A joint may be named yaw or x, like an axis. A signal with only such names is an orientation, unless its name
        contains "joint" or the action has the same elements. Angles with rates come first: goals have no rates.
        """
        by_rates = {signal.elements: signal for signal in self.contract.observation if signal.unit == "rad/s"}
        angles = [signal for signal in self.contract.observation if signal.unit == "rad" and self._of_joints(signal)]
        measured = [signal for signal in angles if signal.elements in by_rates] or angles
        return (measured[0], by_rates.get(measured[0].elements)) if measured else None

    def _of_joints(self, signal: Signal) -> bool:
        oriented = {*signal.elements} <= {*RPY, *XYZ, "w"}
        return not oriented or "joint" in signal.name or signal.elements == self.contract.action.elements


def _xyzw(signal: Signal | None, value: Any) -> tuple[float, float, float, float]:
    """Return an orientation as Foxglove's quaternion (x, y, z, w); the identity if it is missing or not finite."""
    numbers = [] if signal is None else np.asarray(value, np.float64).ravel().tolist()
    if signal is None or not all(map(math.isfinite, numbers)):
        return 0.0, 0.0, 0.0, 1.0
    if signal.elements != RPY:
        return tuple(numbers[1:] + numbers[:1] if signal.elements == WXYZ else numbers)  # type: ignore[return-value]
    (sr, cr), (sp, cp), (sy, cy) = ((math.sin(angle / 2), math.cos(angle / 2)) for angle in numbers)
    return (  # about the fixed x, then y, then z axis, as in `sami_runtime.robots.kit`
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy,
    )


def stamp_of(time_ns: int) -> dict[str, int]:
    """Return a time [ns] as the fields of a timestamp."""
    return {"seconds": time_ns // 10**9, "nanos": time_ns % 10**9}


def _varint(number: int) -> bytes:
    """Return a number as protobuf writes it: seven bits a byte, the lowest first."""
    encoded = bytearray()
    while number > 127:
        encoded.append(128 | number & 127)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
