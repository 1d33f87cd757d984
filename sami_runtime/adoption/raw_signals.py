"""Lists the raw signals from which a term may have been computed: the right one, and those of known bugs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sami_runtime.adoption.hypotheses import Array, Bug, Source

DOWN = np.array([0.0, 0.0, -1.0])

_WORLD = Bug("frame", "is in the world's frame", "Rotate it into the frame of the body.")
_BODY = Bug("frame", "is in the body's frame", "Rotate it into the frame of the world.")
_INVERTED = Bug("frame", "is rotated by the inverse of the right rotation", "Invert the quaternion.")
_ORDER = Bug("quaternion order", "uses a quaternion with w in the wrong place", "Read the quaternion as w, x, y, z.")
_DIFFERENCE = Bug("difference", "is a difference of positions", "Feed the measured velocity.")
_ZERO = Bug("ignored", "is always 0", "Fill it.")

Sources = dict[str, Source]


def rotate(quaternion: Array, vector: Array, inverse: bool = False) -> Array:
    """Rotate vectors (T, 3) by quaternions (T, 4), w first, from the body's frame to the world's, or by the inverse."""
    w, v = quaternion[:, :1], quaternion[:, 1:] * (-1 if inverse else 1)
    cross = np.cross(v, vector)
    return np.asarray(vector + 2 * (w * cross + np.cross(v, cross)))


def sources(quantity: str, raw: Mapping[str, Array], rate_hz: float, frame: str = "body") -> Sources:
    """Return by name the sources of a term of this quantity; an empty dictionary if the log lacks its raw signal.

    Args:
        quantity: The measured quantity, such as `joint_velocities`.
        raw: The log's signals, see `PolicyLog`.
        rate_hz: Rate of the policy [1/s].
        frame: Frame of the term: `body` or `world`.
    """
    if quantity in ("angular_velocity", "linear_velocity"):
        return _velocity(quantity, raw, rate_hz, frame)
    if quantity == "gravity":
        return _gravity(raw)
    if quantity == "last_action":
        return _last_action(raw)
    if quantity not in raw:
        return {}
    right = raw[quantity]
    table: Sources = {"right": (right, None)}
    if quantity == "command":
        table["zero"] = (np.zeros_like(right), _ZERO)
    if quantity == "joint_velocities" and "joint_positions" in raw:
        table["difference"] = (difference(raw["joint_positions"], rate_hz), _DIFFERENCE)
    if quantity == "joint_positions" and "targets" in raw:
        bug = Bug("source", "is the target and not the measured position", "Feed the measured joint positions.")
        table["targets"] = (raw["targets"], bug)
    return table


def _misread(quaternion: Array) -> tuple[Array, Array]:
    """Return quaternions (T, 4) in the order w, x, y, z as if they were read in the order x, y, z, w, and reverse."""
    return quaternion[:, [3, 0, 1, 2]], quaternion[:, [1, 2, 3, 0]]


def _velocity(quantity: str, raw: Mapping[str, Array], rate_hz: float, frame: str) -> Sources:
    quaternion, body, world = raw.get("quaternion"), raw.get(quantity), raw.get(f"{quantity}_world")
    if quaternion is not None:
        body = rotate(quaternion, world, inverse=True) if body is None and world is not None else body
        world = rotate(quaternion, body) if world is None and body is not None else world
    right, other = (world, body) if frame == "world" else (body, world)
    if right is None:
        return {}
    table: Sources = {"right": (right, None)}
    if other is not None:
        table["frame"] = (other, _BODY if frame == "world" else _WORLD)
    if quaternion is not None and frame != "world" and body is not None and world is not None:
        table["twice"] = (rotate(quaternion, body, inverse=True), _INVERTED)
        table["inverted"] = (rotate(quaternion, world), _INVERTED)
        for number, wrong in enumerate(_misread(quaternion)):
            table[f"order {number}"] = (rotate(wrong, world, inverse=True), _ORDER)
        if quantity == "angular_velocity":
            table["difference"] = (_turn_rate(quaternion, rate_hz), _DIFFERENCE)
    return table


def _gravity(raw: Mapping[str, Array]) -> Sources:
    quaternion = raw.get("quaternion")
    if quaternion is None:
        return {"right": (raw["gravity"], None)} if "gravity" in raw else {}
    down = np.broadcast_to(DOWN, (len(quaternion), 3))
    table: Sources = {
        "right": (rotate(quaternion, down, inverse=True), None),
        "inverted": (rotate(quaternion, down), _INVERTED),
        "frame": (down, _WORLD),
    }
    for number, wrong in enumerate(_misread(quaternion)):
        table[f"order {number}"] = (rotate(wrong, down, inverse=True), _ORDER)
        table[f"order {number} inverted"] = (rotate(wrong, down), _ORDER)
    return table


def _last_action(raw: Mapping[str, Array]) -> Sources:
    """Return sources of the last action; `raw["last_action"]` is the kind that the recipe asks for."""
    if "last_action" not in raw:
        return {}
    right = raw["last_action"]
    table: Sources = {"right": (right, None), "zero": (np.zeros_like(right), _ZERO)}
    if "other_action" in raw:
        bug = Bug("last action", "is raw where the recipe says applied, or the reverse", "Feed the other one.")
        table["other"] = (raw["other_action"], bug)
    if "targets" in raw:
        bug = Bug("last action", "is the target of the joints", "Feed the network's output, before scale and pose.")
        table["targets"] = (raw["targets"], bug)
    return table


def difference(positions: Array, rate_hz: float) -> Array:
    """Return velocities (T, n) as differences of successive positions (T, n); 0 in the first row."""
    return np.diff(positions, axis=0, prepend=positions[:1]) * rate_hz


def _turn_rate(quaternion: Array, rate_hz: float) -> Array:
    """Return body rates (T, 3) [rad/s] from successive quaternions (T, 4), w first."""
    last = np.concatenate([quaternion[:1], quaternion[:-1]])
    w0, v0, w1, v1 = last[:, :1], -last[:, 1:], quaternion[:, :1], quaternion[:, 1:]
    scalar = w0 * w1 - (v0 * v1).sum(1, keepdims=True)
    vector = w0 * v1 + w1 * v0 + np.cross(v0, v1)
    return np.asarray(2 * rate_hz * vector * np.sign(scalar))
