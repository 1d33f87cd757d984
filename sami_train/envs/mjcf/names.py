"""Elements of an MJCF model, by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import mujoco
import numpy as np

from sami_runtime.errors import UnknownName

Kind = Literal["body", "joint", "geom", "site", "sensor", "actuator", "key"]
_OBJECT = {kind: getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}") for kind in get_args(Kind)}
_COUNT = {
    "body": "nbody",
    "joint": "njnt",
    "geom": "ngeom",
    "site": "nsite",
    "sensor": "nsensor",
    "actuator": "nu",
    "key": "nkey",
}
_WORDS = {"key": "keyframe"}


def names(model: mujoco.MjModel, kind: Kind) -> list[str]:
    """Return the names of all elements of a kind, in the model's order; those without one are left out."""
    every = (mujoco.mj_id2name(model, _OBJECT[kind], i) for i in range(getattr(model, _COUNT[kind])))
    return [name for name in every if name]


def element(model: mujoco.MjModel, kind: Kind, name: str, where: str) -> int:
    """Return an element's number.

    Args:
        model: the compiled model.
        kind: what it is.
        name: what it is called there.
        where: the key of the file that names it, for messages.

    Raises:
        UnknownName: the model has none of that name; lists those that it has.
    """
    number = int(mujoco.mj_name2id(model, _OBJECT[kind], name))
    if number < 0:
        raise UnknownName(_WORDS.get(kind, kind), name, names(model, kind), f"{where} names it.")
    return number


def elements(model: mujoco.MjModel, kind: Kind, some: Iterable[str], where: str) -> list[int]:
    """Return the numbers of those named, of all of them for `"all"`.

    Raises:
        UnknownName: as `element`.
    """
    if some == "all":
        return list(range(getattr(model, _COUNT[kind])))
    return [element(model, kind, name, where) for name in some]


def joint_name(model: mujoco.MjModel, joint: int) -> str:
    """Return a joint's name, that of its body where it has none."""
    name = mujoco.mj_id2name(model, _OBJECT["joint"], joint)
    body = mujoco.mj_id2name(model, _OBJECT["body"], int(model.jnt_bodyid[joint]))
    return name or (body and f"{body}_joint") or f"joint_{joint}"


def positions(model: mujoco.MjModel, joint: int) -> np.ndarray:
    """Where a joint's positions lie in qpos."""
    size = {mujoco.mjtJoint.mjJNT_FREE: 7, mujoco.mjtJoint.mjJNT_BALL: 4}.get(joint_type(model, joint), 1)
    return np.arange(size) + int(model.jnt_qposadr[joint])


def velocities(model: mujoco.MjModel, joint: int) -> np.ndarray:
    """Where a joint's velocities lie in qvel."""
    size = {mujoco.mjtJoint.mjJNT_FREE: 6, mujoco.mjtJoint.mjJNT_BALL: 3}.get(joint_type(model, joint), 1)
    return np.arange(size) + int(model.jnt_dofadr[joint])


def joint_type(model: mujoco.MjModel, joint: int) -> mujoco.mjtJoint:
    """Return what kind of joint it is."""
    return mujoco.mjtJoint(int(model.jnt_type[joint]))


def body_or_site(model: mujoco.MjModel, name: str, where: str) -> tuple[mujoco.mjtObj, int]:
    """Return what a name means, a site before a body, and its number.

    Raises:
        UnknownName: neither has that name; lists both.
    """
    for kind in ("site", "body"):
        number = int(mujoco.mj_name2id(model, _OBJECT[kind], name))
        if number >= 0:
            return _OBJECT[kind], number
    valid: Sequence[str] = [*names(model, "site"), *names(model, "body")]
    raise UnknownName("site or body", name, valid, f"{where} names it.")
