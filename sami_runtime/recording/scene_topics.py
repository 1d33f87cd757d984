"""Records the robot's shape for viewers: `/scene` at the beginning of each episode, `/tf` after each tick.

`/scene` is a `foxglove.SceneUpdate` with the links' shapes, each in the frame of its link; `/tf` is a
`foxglove.FrameTransforms` with the pose of every link in the frame `world`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.scene import Scene, Shape
from sami_runtime.recording.format import TRANSFORMS
from sami_runtime.recording.mcap_file import ChunkedFile
from sami_runtime.recording.topics import FRAME, TIMESTAMP, Fields, Schemas, stamp_of

UPDATE = "/scene"
DURATION, COLOUR, POSE, VECTOR = "google.protobuf.Duration", "foxglove.Color", "foxglove.Pose", "foxglove.Vector3"
PLANE_M = 10.0, 0.002
"""Half the width of a plane as it is shown, and its thickness [m]."""
MESSAGES: dict[str, Fields] = {
    DURATION: {"seconds": "int64", "nanos": "int32"},
    COLOUR: dict.fromkeys("rgba", "double"),
    "foxglove.FrameTransform": {
        **{"timestamp": TIMESTAMP, "parent_frame_id": "string", "child_frame_id": "string"},
        **{"translation": VECTOR, "rotation": "foxglove.Quaternion"},
    },
    "foxglove.FrameTransforms": {"transforms": "*foxglove.FrameTransform"},
    "foxglove.SceneEntityDeletion": {"timestamp": TIMESTAMP, "type": "int32", "id": "string"},
    "foxglove.KeyValuePair": {"key": "string", "value": "string"},
    "foxglove.ArrowPrimitive": {
        "pose": POSE,
        **dict.fromkeys(("shaft_length", "shaft_diameter", "head_length", "head_diameter"), "double"),
        "color": COLOUR,
    },
    "foxglove.CubePrimitive": {"pose": POSE, "size": VECTOR, "color": COLOUR},
    "foxglove.SpherePrimitive": {"pose": POSE, "size": VECTOR, "color": COLOUR},
    "foxglove.CylinderPrimitive": {
        **{"pose": POSE, "size": VECTOR, "bottom_scale": "double", "top_scale": "double", "color": COLOUR},
    },
    "foxglove.SceneEntity": {
        **{"timestamp": TIMESTAMP, "frame_id": "string", "id": "string", "lifetime": DURATION, "frame_locked": "bool"},
        **{"metadata": "*foxglove.KeyValuePair", "arrows": "*foxglove.ArrowPrimitive"},
        **{"cubes": "*foxglove.CubePrimitive", "spheres": "*foxglove.SpherePrimitive"},
        "cylinders": "*foxglove.CylinderPrimitive",
    },
    "foxglove.SceneUpdate": {"deletions": "*foxglove.SceneEntityDeletion", "entities": "*foxglove.SceneEntity"},
}
"""Fields in the order of https://docs.foxglove.dev/docs/sdk/schemas; unused fields at the end are left out."""


class SceneTopics:
    """Adds a scene to a recording.

    Args:
        file: The recording.
        scene: The robot's appearance, with the current poses of its links.
    """

    def __init__(self, file: ChunkedFile, scene: Scene) -> None:
        self._file, self._scene = file, scene
        schemas = scene_schemas()
        self._transforms, self._update = (
            file.channel(topic, name, ("protobuf", "protobuf"), schemas.described(name), {})
            for topic, name in ((TRANSFORMS, "foxglove.FrameTransforms"), (UPDATE, "foxglove.SceneUpdate"))
        )
        self._type = {name: schemas.message(name) for name in MESSAGES}
        self._frames = [f"link {number}: {name}" for number, name in enumerate(scene.links)]

    def add(self, is_first: bool, log_time: int, publish_time: int) -> None:
        """Add the current poses of the links, and at the first tick of an episode their shapes; times are in ns."""
        stamp = stamp_of(log_time)
        if is_first:
            entities = [self._entity(number, stamp) for number in range(len(self._frames))]
            update = self._type["foxglove.SceneUpdate"](entities=[entity for entity in entities if entity is not None])
            self._file.add(self._update, update.SerializeToString(), log_time, publish_time)
        make = self._type["foxglove.FrameTransform"]
        transforms = [
            make(
                timestamp=stamp,
                parent_frame_id=FRAME,
                child_frame_id=frame,
                translation=dict(zip("xyz", pose[:3], strict=True)),
                rotation=dict(zip("xyzw", pose[3:], strict=True)),
            )
            for frame, pose in zip(self._frames, self._scene.poses().tolist(), strict=True)
        ]
        message = self._type["foxglove.FrameTransforms"](transforms=transforms)
        self._file.add(self._transforms, message.SerializeToString(), log_time, publish_time)

    def _entity(self, link: int, stamp: Any) -> Any:
        """Return the shapes of a link as an entity in its frame; None if the link has no shape."""
        parts: dict[str, list[dict[str, Any]]] = {"cubes": [], "spheres": [], "cylinders": []}
        for shape in self._scene.shapes:
            if shape.link == link:
                _add_parts(shape, parts)
        if not any(parts.values()):
            return None
        frame = self._frames[link]
        return self._type["foxglove.SceneEntity"](timestamp=stamp, frame_id=frame, id=frame, frame_locked=True, **parts)


def plain_scene(scene: Scene) -> dict[str, Any]:
    """Return the links' names and the shapes of a scene, for JSON."""
    return {"links": list(scene.links), "shapes": [list(shape) for shape in scene.shapes]}


def scene_schemas() -> Schemas:
    """Return schemas in which all message types of a scene are declared."""
    schemas = Schemas()
    for name, fields in MESSAGES.items():
        schemas.declare(name, fields)
    return schemas


def _add_parts(shape: Shape, parts: dict[str, list[dict[str, Any]]]) -> None:
    """Add the primitives that show a shape to `parts`; a capsule is a cylinder and two spheres."""
    width, depth, height = (2 * number for number in shape.size)
    place, turn = np.array(shape.pose[:3]), np.array(shape.pose[3:])
    colour = dict(zip("rgba", shape.rgba, strict=True))

    def primitive(at: NDArray[Any], size: tuple[float, ...], **more: float) -> dict[str, Any]:
        pose = {
            "position": dict(zip("xyz", at.tolist(), strict=True)),
            "orientation": dict(zip("xyzw", turn.tolist(), strict=True)),
        }
        return {"pose": pose, "size": dict(zip("xyz", size, strict=True)), "color": colour, **more}

    if shape.kind in ("capsule", "cylinder"):
        parts["cylinders"].append(primitive(place, (width, depth, height), bottom_scale=1.0, top_scale=1.0))
        x, y, z, w = turn
        axis = np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)]) * shape.size[2]
        ends = (place - axis, place + axis) if shape.kind == "capsule" else ()
        parts["spheres"] += [primitive(end, (width, width, width)) for end in ends]
    elif shape.kind == "plane":
        parts["cubes"].append(primitive(place, (2 * PLANE_M[0], 2 * PLANE_M[0], PLANE_M[1])))
    else:
        parts["cubes" if shape.kind == "box" else "spheres"].append(primitive(place, (width, depth, height)))
