"""What a recording holds for tools beside its ticks: a topic for each signal, with its elements by name.

    /observation/NAME   as it was read            /pose/NAME   foxglove.PoseInFrame, of positions: x, y, z in m
    /action/proposed    by the policy             /joints      foxglove.JointStates, of angles by joint
    /action/executed    after every limit         /log         foxglove.Log: what a person would want to be told
    /context            of the encoder            /tick        all of this, with outcome, times and telemetry
    /answer/NAME        what else it answered

All are protobuf, which Foxglove and Rerun show as numbers; JSON they show as text.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from sami_runtime.loop.tick import StepRecord
from sami_runtime.model.contract import Contract
from sami_runtime.recording.chunked_file import ChunkedFile
from sami_runtime.recording.events import Event
from sami_runtime.recording.schemas import FOXGLOVE, LEVELS, Schemas, field_names
from sami_runtime.signals import Signal, number_in

FRAME = "world"
"""What positions are told in; the model's data sheet says in words where it lies."""
XYZ, RPY, WXYZ = ("x", "y", "z"), ("roll", "pitch", "yaw"), ("w", "x", "y", "z")
PLACES = re.compile(r"(^|_)(position|goal|target|place|pose)$")
"""Names of signals that say where something is."""
NO_PLACES = re.compile(
    r"(?i)(?<![a-z])(displacement|offset|difference|distance|relative|delta|error|"
    r"(tip|hand|gripper|tool|flange|effector|camera|sensor|body|torso)('s|s')? frame|"
    r"frame of the (tip|hand|gripper|tool|flange|end|camera|sensor|body|torso))"
)
"""Words in a name or a meaning of what is no place in the world: differences, and frames that move along."""
TICK = {
    **dict.fromkeys(("episode", "step", "missed", "passed"), "uint64"),
    **dict.fromkeys(("outcome", "reason"), "string"),
    "limited_by": "*string",
    **dict.fromkeys(("time", "lag", "age"), "double"),
    **dict.fromkeys(("observe", "infer", "gate", "write"), "double"),
    **dict.fromkeys(("phase", "nearest"), "string"),
    **dict.fromkeys(("speed", "drift", "distance", "score", "reward"), "?double"),
    "alarm": "bool",
}
"""Fields of a `sami.Tick` besides the signals': seconds, and periods of the policy in `age`."""


class _Row:
    """A topic whose messages are one number for each element of a signal."""

    def __init__(self, number: int, fields: tuple[str, ...], at: int) -> None:
        self.number, self.size = number, len(fields)
        tags = [_varint(8 * field + 1) for field in range(1, self.size + 1)]
        self._values = slice(1, None, 2)
        self._row = [part for tag in tags for part in (tag, 0.0)]
        self._pack = struct.Struct("<" + "".join(f"{len(tag)}sd" for tag in tags)).pack
        self.nested = _varint(8 * at + 2) + _varint(sum(len(tag) + 8 for tag in tags))
        """What stands before the message where it is field number `at` of another one."""

    def encode(self, value: Any) -> bytes | None:
        """Return the message; None where the value is not of the signal's size, which is in `/step` alone."""
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
        self._observation = {
            signal.name: self._row(f"/observation/{signal.name}", f"sami.observation.{signal.name}", signal, at)
            for at, signal in enumerate(contract.observation, 1)
        }
        action = contract.action
        self._answers = {
            "proposed": self._row("/action/proposed", "sami.action.Proposed", action),
            "executed": self._row("/action/executed", "sami.action.Executed", action),
        }
        if contract.context:
            self._answers["context"] = self._row("/context", "sami.Context", contract.context.signal)
        self._extra = {
            signal.name: self._row(f"/answer/{signal.name}", f"sami.answer.{signal.name}", signal)
            for signal in contract.extra_outputs
        }
        self._poses = dict(self._find_poses())
        self._joints = self._find_joints()
        self._pose = {name: self._well_known(f"/pose/{name}", "PoseInFrame") for name in self._poses}
        self._joint_states = self._well_known("/joints", "JointStates") if self._joints else 0
        self._log = self._well_known("/log", "Log")
        names = [f"sami.observation.{signal_name}" for signal_name in self._observation]
        self._schemas.declare("sami.Observation", dict(zip(self._observation, names, strict=True)))
        parts = {
            "observation": "sami.Observation",
            "proposed": "sami.action.Proposed",
            "executed": "sami.action.Executed",
        }
        if contract.context:
            parts["context"] = "sami.Context"
        self._made = {name: self._schemas.message(name) for name in FOXGLOVE}
        self._tick_message = self._schemas.declare("sami.Tick", {**TICK, **parts})
        self._parts = {name: _varint(8 * at + 2) for at, name in enumerate((*TICK, *parts), 1) if name in parts}
        self._tick = self._channel("/tick", "sami.Tick")

    def add(self, episode: int, record: StepRecord, events: Iterable[Event], log_time: int, publish_time: int) -> None:
        """Add the messages of a tick."""
        add, stamp = self._file.add, _stamp(log_time)
        measured = {} if record.observation is None else record.observation.values
        parts: dict[str, bytes] = {}
        observed = b""
        for name, row in self._observation.items():
            if name in measured and (data := row.encode(measured[name])):
                add(row.number, data, log_time, publish_time)
                observed += row.nested + data
        if measured:
            parts["observation"] = observed
        answered = {"proposed": record.action, "executed": record.executed, "context": record.context}
        for name, answer in self._answers.items():
            if answered[name] is not None and (data := answer.encode(answered[name])):
                parts[name] = data
                add(answer.number, data, log_time, publish_time)
        for name, value in record.extra.items():
            if name in self._extra and (data := self._extra[name].encode(value)):
                add(self._extra[name].number, data, log_time, publish_time)
        message = self._tick_fields(episode, record)
        nested = b"".join(self._parts[name] + _sized(data) for name, data in parts.items())
        add(self._tick, message.SerializeToString() + nested, log_time, publish_time)
        for name, data in self._placed(measured, stamp):
            add(self._pose[name], data, log_time, publish_time)
        if self._joints and self._joints[0].name in measured:
            add(self._joint_states, self._jointed(*self._joints, measured, stamp), log_time, publish_time)
        for event in events:
            self.log(event, log_time, publish_time)

    def log(self, event: Event, log_time: int, publish_time: int) -> None:
        """Add a line to `/log`."""
        level, name = LEVELS.index(event.level), self.contract.name
        line = self._made["foxglove.Log"](timestamp=_stamp(log_time), level=level, message=event.text, name=name)
        self._file.add(self._log, line.SerializeToString(), log_time, publish_time)

    def _tick_fields(self, episode: int, record: StepRecord) -> Any:
        """Return what a tick is besides its signals."""
        age = record.age if isinstance(record.age, float | int) else max(record.age.values(), default=0.0)
        message = self._tick_message(
            episode=episode,
            step=record.step,
            missed=record.missed,
            passed=record.passed,
            outcome=record.outcome.value,
            reason=record.reason,
            limited_by=record.limited_by,
            time=record.time,
            lag=record.lag,
            age=age,
            **record.times._asdict(),
        )
        reward, now = number_in(record.info, "reward"), record.telemetry
        if reward is not None:
            message.reward = reward
        if now is not None:
            message.speed, message.alarm = now.speed, now.alarm
            message.phase = now.phase.value if now.phase else ""
            if now.nearest is not None and now.drift is not None and now.distance is not None and now.score is not None:
                message.nearest = ", ".join(f"{name} {value}" for name, value in now.nearest.items())
                message.drift, message.distance, message.score = now.drift, now.distance, now.score
        return message

    def _placed(self, measured: Mapping[str, Any], stamp: Any) -> Iterator[tuple[str, bytes]]:
        make = self._made
        for name, (position, turned) in self._poses.items():
            if position.name not in measured or (turned and turned.name not in measured):
                continue
            framed = make["foxglove.PoseInFrame"](timestamp=stamp, frame_id=FRAME)
            place, at = framed.pose.position, framed.pose.orientation
            place.x, place.y, place.z = np.asarray(measured[position.name], np.float64).ravel().tolist()
            at.x, at.y, at.z, at.w = _xyzw(turned, None if turned is None else measured[turned.name])
            yield name, framed.SerializeToString()

    def _jointed(self, angle: Signal, rate: Signal | None, measured: Mapping[str, Any], stamp: Any) -> bytes:
        columns = {"position": measured[angle.name]} | (
            {"velocity": measured[rate.name]} if rate and rate.name in measured else {}
        )
        rows = {name: np.asarray(value, np.float64).ravel().tolist() for name, value in columns.items()}
        joint = self._made["foxglove.JointState"]
        joints = [
            joint(name=element, **{name: row[at] for name, row in rows.items()})
            for at, element in enumerate(angle.elements)
        ]
        data: bytes = self._made["foxglove.JointStates"](timestamp=stamp, joints=joints).SerializeToString()
        return data

    def _row(self, topic: str, name: str, signal: Signal, at: int = 0) -> _Row:
        fields = field_names(signal.elements)
        self._schemas.declare(name, dict.fromkeys(fields, "double"))
        return _Row(self._channel(topic, name, {"unit": signal.unit, "meaning": signal.meaning}), fields, at)

    def _well_known(self, topic: str, name: str) -> int:
        return self._channel(topic, f"foxglove.{name}")

    def _channel(self, topic: str, name: str, about: Mapping[str, str] | None = None) -> int:
        return self._file.channel(topic, name, ("protobuf", "protobuf"), self._schemas.described(name), about or {})

    def _find_poses(self) -> Iterator[tuple[str, tuple[Signal, Signal | None]]]:
        """Yield what has a place in the world: positions, each with its rotation or orientation if there is one.

        A contract gives no frames, so the name has to say that it is a place. All others are in `/observation` alone.
        """
        by_name = {signal.name: signal for signal in self.contract.observation}
        for name, signal in by_name.items():
            named = PLACES.search(name) and not NO_PLACES.search(f"{name} {signal.meaning}")
            if named and (signal.elements, signal.unit) == (XYZ, "m"):
                short = name.removesuffix("_position")
                turned = by_name.get(f"{short}_rotation") or by_name.get(f"{short}_orientation")
                known = turned is not None and turned.elements in (RPY, WXYZ, (*XYZ, "w"))
                yield short, (signal, turned if known else None)

    def _find_joints(self) -> tuple[Signal, Signal | None] | None:
        """Return the angles of joints, and their rates where there are any.

        A joint may be called yaw or x as well. Elements that are all of that kind are an orientation, unless the signal
        is named after joints or the action moves the same ones. What has rates is measured, and no goal.
        """
        by_rates = {signal.elements: signal for signal in self.contract.observation if signal.unit == "rad/s"}
        angles = [signal for signal in self.contract.observation if signal.unit == "rad" and self._of_joints(signal)]
        measured = [signal for signal in angles if signal.elements in by_rates] or angles
        return (measured[0], by_rates.get(measured[0].elements)) if measured else None

    def _of_joints(self, signal: Signal) -> bool:
        oriented = {*signal.elements} <= {*RPY, *XYZ, "w"}
        return not oriented or "joint" in signal.name or signal.elements == self.contract.action.elements


def _xyzw(signal: Signal | None, value: Any) -> tuple[float, float, float, float]:
    """Return an orientation as Foxglove has it; none where there is none."""
    numbers = [] if signal is None else np.asarray(value, np.float64).ravel().tolist()
    if signal is None or not all(map(math.isfinite, numbers)):
        return 0.0, 0.0, 0.0, 1.0
    if signal.elements != RPY:
        return tuple(numbers[1:] + numbers[:1] if signal.elements == WXYZ else numbers)  # type: ignore[return-value]
    (sr, cr), (sp, cp), (sy, cy) = ((math.sin(angle / 2), math.cos(angle / 2)) for angle in numbers)
    return (  # about the fixed x, then y, then z axis, as `sami_runtime.robots.kit` has them
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy,
    )


def _stamp(time_ns: int) -> dict[str, int]:
    return {"seconds": time_ns // 10**9, "nanos": time_ns % 10**9}


def _sized(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _varint(number: int) -> bytes:
    """Return a number as protobuf writes it: seven bits a byte, the lowest first."""
    encoded = bytearray()
    while number > 127:
        encoded.append(128 | number & 127)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
