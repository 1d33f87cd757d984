"""Protobuf messages that tools show as numbers: declared here, encoded by the library.

A JSON message is text to most tools; a protobuf message brings its own description, so that they plot its fields by
name. The three of Foxglove have the fields and numbers that https://docs.foxglove.dev/docs/sdk/schemas publishes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sami_runtime.distribution import install_hint
from sami_runtime.errors import RecordingError

NUMBERS = {"double": 1, "uint64": 4, "fixed32": 7, "bool": 8, "string": 9}
"""Kinds of a field that are no message, with protobuf's numbers for them."""
MESSAGE, ENUM, ONE, MANY = 11, 14, 1, 3
TIMESTAMP = "google.protobuf.Timestamp"
LEVELS = ("UNKNOWN", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL")
"""Of a `foxglove.Log`, by number."""
Fields = Mapping[str, str]
"""Kind of each field by its name, in the order of the numbers: one of `NUMBERS`, or the full name of a message; `*`
before it means many, `?` that it may be absent even where 0 is not."""
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


class Schemas:
    """Messages by their full name, each declared once, after those that it holds.

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
        """Declare a message `PACKAGE.NAME`, and return the class that makes it."""
        package, _, short_name = name.rpartition(".")
        file = self._files.FileDescriptorProto(name=name.replace(".", "/") + ".proto", package=package, syntax="proto3")
        message = file.message_type.add(name=short_name)
        for number, (field, kind) in enumerate(fields.items(), 1):
            label, plain = MANY if kind.startswith("*") else ONE, kind.lstrip("*?")
            added = message.field.add(name=field, number=number, label=label)
            if plain in NUMBERS:
                added.type = NUMBERS[plain]
            else:
                added.type, added.type_name = ENUM if plain.startswith(f"{name}.") else MESSAGE, f".{plain}"
                if plain in self._declared and (needed := self._declared[plain].name) not in file.dependency:
                    file.dependency.append(needed)
            if kind.startswith("?"):
                added.proto3_optional, added.oneof_index = True, len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field}")
        if name == "foxglove.Log":
            levels = message.enum_type.add(name="Level")
            for number, level in enumerate(LEVELS):
                levels.value.add(name=level, number=number)
        self._add(name, file)
        return self.message(name)

    def message(self, name: str) -> Any:
        """Return the class that makes a message that was declared."""
        return self._class_of(self._pool.FindMessageTypeByName(name))

    def described(self, name: str) -> bytes:
        """Return what a file says of a message: a `FileDescriptorSet` of it and of all that it holds."""
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
    """Return names that protobuf takes for fields, one for each element and no two alike.

    >>> field_names(("x", "joint 1", "joint-1", "0"))
    ('x', 'joint_1', 'joint_1_2', 'n0')
    """
    names: list[str] = []
    for number, element in enumerate(elements):
        name = re.sub(r"[^A-Za-z0-9_]", "_", element) or "n"
        name = name if name[0].isalpha() else f"n{name}"
        names.append(f"{name}_{number}" if name in names else name)
    return tuple(names)
