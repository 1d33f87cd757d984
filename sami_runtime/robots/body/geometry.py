"""Kinematics of a robot and distances between its parts, computed by MuJoCo from an MJCF or URDF file."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from sami_runtime.distribution import install_hint
from sami_runtime.errors import SamiError, UnknownName, require_known
from sami_runtime.robots.body.joints import Array
from sami_runtime.robots.body.settings import BoxKeys

ROBOT, BOX = 1, 2
"""Bits of MuJoCo's `contype` and `conaffinity`."""
DAMPING = 1e-4
"""Damping of the inverse Jacobian [m^2], which bounds joint speeds near singularities such as a stretched arm."""

_HEIGHTS = (np.arange(100) + 0.5) / 100
_TURNS, _RADII = np.pi * (1.0 + math.sqrt(5.0)) * np.arange(100), np.sqrt(1.0 - _HEIGHTS**2)
DIRECTIONS = np.stack([_RADII * np.cos(_TURNS), _RADII * np.sin(_TURNS), _HEIGHTS], axis=1)
"""(D, 3): unit vectors over half a sphere, along which the highest speed of a point is searched."""


class ModelLimits(NamedTuple):
    """Limits of some joints in a model file, (J,) each; infinite where the file has none."""

    low: Array
    high: Array
    velocity: Array
    torque: Array


class Near(NamedTuple):
    """A pair of parts that are closer than their margin."""

    distance: float
    """[m], negative if the parts overlap; infinite in `CLEAR`."""
    pair: tuple[str, str]


CLEAR = Near(np.inf, ("", ""))


class Geometry:
    """The bodies of a robot, whose base stays where the file has it. Use it from one thread.

    Args:
        path: MJCF or URDF file.
        joints: Names of the J joints, hinges or slides; all other joints stay where they are.
        home: Positions (J,) [rad, m]; if None, those of the file's first key, or its zero position.

    Raises:
        SamiError: The file is no model, MuJoCo is missing, or the joints are of two robots.
        UnknownName: The file has no such joint.
    """

    def __init__(self, path: str | Path, joints: Sequence[str], home: Sequence[float] | None) -> None:
        try:
            self._mujoco: Any = importlib.import_module("mujoco")
        except ImportError as error:
            raise SamiError(
                f"limits of a body with a model need the package mujoco: {error}. Install it with: "
                f"{install_hint('mujoco')}"
            ) from error
        self.path, self._joints = path, tuple(joints)
        self._spec, self._rated = self._read(Path(path))
        self._home = home
        self._require_joints()
        self.near = False
        """Whether shapes are compared, see `watch`."""
        self._compile()

    def _read(self, path: Path) -> tuple[Any, dict[str, tuple[float, float]]]:
        """Return the model's `MjSpec` and, for a URDF, the highest speed and torque by joint."""
        try:
            text = path.read_bytes()
            root = ElementTree.fromstring(text)
            if root.tag != "robot":
                return self._mujoco.MjSpec.from_file(str(path)), {}
            for link in root.findall("link"):
                for visual in link.findall("visual"):
                    link.remove(visual)
                for shape in link.findall("collision"):
                    if (mesh := shape.find("geometry/mesh")) is not None:
                        file = path.parent / str(mesh.get("filename")).removeprefix("package://")
                        if not file.is_file():
                            link.remove(shape)  # only the robot's own tools can resolve its path
                        mesh.set("filename", str(file.resolve()))
            for extension in root.findall("mujoco"):
                root.remove(extension)
            compiler = {"fusestatic": "false", "boundmass": "0.001", "boundinertia": "1e-6", "strippath": "false"}
            ElementTree.SubElement(ElementTree.SubElement(root, "mujoco"), "compiler", compiler)
            spec = self._mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding="unicode"))
        except (OSError, ElementTree.ParseError, ValueError) as error:
            raise SamiError(f"{path} is no URDF or MJCF that could be read: {error}. Give the robot's own.") from error
        rated = {
            str(joint.get("name")): (float(limit.get("velocity", "inf")), float(limit.get("effort", "inf")))
            for joint in root.findall("joint")
            if (limit := joint.find("limit")) is not None
        }
        return spec, rated

    def _require_joints(self) -> None:
        kinds = self._mujoco.mjtJoint
        valid = [joint.name for joint in self._spec.joints if joint.type in (kinds.mjJNT_HINGE, kinds.mjJNT_SLIDE)]
        require_known("joint", self._joints, valid, f"{self.path} does not have it.")
        bodies = [self._spec.joint(name).parent for name in self._joints]
        self._root = _top(bodies[0])
        if any(_top(body).name != self._root.name for body in bodies):
            raise SamiError(
                f"the joints {', '.join(self._joints)} are of two robots in {self.path}. Name those of one."
            )
        self.floats = any(joint.type == kinds.mjJNT_FREE for joint in self._root.joints)
        """Whether the base floats, so that its pose is unknown."""

    def _compile(self) -> None:
        try:
            self._model = model = self._spec.compile()
        except ValueError as error:
            raise SamiError(f"{self.path} is no model that could be made: {error}. Give the robot's own.") from error
        self._data = self._mujoco.MjData(model)
        self._parts = [model.body(body).name for body in model.geom_bodyid]
        self._at = np.array([model.joint(name).qposadr[0] for name in self._joints])
        self._dof = np.array([model.joint(name).dofadr[0] for name in self._joints])
        if model.nkey:
            self._data.qpos[:] = model.key_qpos[0]
        if self._home is not None:
            self._data.qpos[self._at] = self._home
        self.home: Array = self._data.qpos[self._at].copy()
        """Positions (J,) of the joints at home [rad, m]."""
        self._jacobian = np.zeros((6, model.nv))
        self._translations, self._rotations = self._jacobian[:3], self._jacobian[3:]

    def limits(self) -> ModelLimits:
        """Return the limits of the joints in the file."""
        model, inf = self._model, np.inf
        low, high, speed, torque = (np.full(len(self._joints), value) for value in (-inf, inf, inf, inf))
        motors = {int(model.actuator_trnid[at, 0]): at for at in range(model.nu) if model.actuator_trntype[at] == 0}
        for at, name in enumerate(self._joints):
            joint = model.joint(name)
            if joint.limited[0]:
                low[at], high[at] = joint.range
            if name in self._rated:
                speed[at], torque[at] = self._rated[name]
            elif model.jnt_actfrclimited[joint.id]:
                torque[at] = model.jnt_actfrcrange[joint.id].max()
            elif (motor := motors.get(joint.id)) is not None and model.actuator_forcelimited[motor]:
                torque[at] = model.actuator_forcerange[motor].max() * abs(model.actuator_gear[motor, 0])
        return ModelLimits(low, high, speed, torque)

    def require_place(self, name: str) -> tuple[str, int]:
        """Return a place, which is the kind ("body" or "site") and id, by its name.

        Raises:
            UnknownName: The model has no body or site of this name.
        """
        places = {self._model.body(at).name: ("body", at) for at in range(1, self._model.nbody)}
        places |= {self._model.site(at).name: ("site", at) for at in range(self._model.nsite)}
        if name not in places:
            raise UnknownName("body or site", name, [*filter(None, places)], f"{self.path} does not have it.")
        return places[name]

    def watch(self, boxes: dict[str, BoxKeys], inner: bool, margin: float, ignore: Sequence[tuple[str, str]]) -> None:
        """Compare shapes from now on, with boxes and, if `inner`, with each other; `margin` is in m.

        The robot's shapes that collide in the file are compared, or all of them if none does. Bodies that are joined,
        or are close at home with at most two bodies between them, are never compared.

        Raises:
            UnknownName, SamiError: `ignore` is wrong, shapes are missing, or other parts are close at home.
        """
        spec, root = self._spec, self._root
        apiece = margin * _share_of_margin(self._mujoco)
        if boxes and self.floats:
            raise SamiError(f"the base of {self.path} floats, so nobody knows where a box is. Leave boxes out.")
        bodies = [root, *_below(root)]
        shapes = [geom for body in bodies for geom in body.geoms]
        colliding = [geom for geom in shapes if geom.contype or geom.conaffinity]
        for geom in spec.geoms:
            geom.contype = geom.conaffinity = 0
        for geom in colliding or shapes:
            geom.contype, geom.conaffinity, geom.margin, geom.gap = ROBOT, BOX | (ROBOT if inner else 0), apiece, 0.0
        if not shapes:
            raise SamiError(f"{self.path} has no shapes that could collide; its meshes may lie elsewhere. Add some.")
        for pair in list(spec.pairs):
            spec.delete(pair)
        for name, box in boxes.items():
            low, high = np.array(box.low), np.array(box.high)
            body = spec.worldbody.add_body(name=f"box {name}", pos=(low + high) / 2)
            body.add_geom(
                type=self._mujoco.mjtGeom.mjGEOM_BOX,
                size=(high - low) / 2,
                contype=BOX,
                conaffinity=ROBOT,
                margin=apiece,
            )
        spec.option.disableflags |= int(getattr(self._mujoco.mjtDisableBit, "mjDSBL_MULTICCD", 0))
        names = {body.name for body in bodies} | {f"box {name}" for name in boxes}
        for first, second in ignore:
            pair = [name if name in names else f"box {name}" for name in (first, second)]
            for name, word in zip(pair, (first, second), strict=True):
                if name not in names:
                    raise UnknownName("body or box", word, [*names], "collision.ignore names it.")
            spec.add_exclude(bodyname1=pair[0], bodyname2=pair[1])
        self.near = True
        self._compile()
        self._design(bodies)

    def _design(self, bodies: list[Any]) -> None:
        """Exclude close pairs of neighbours at home; raise SamiError for any other pair that is close at home."""
        parents = {body.name: body.parent.name for body in bodies}
        for a, b in {near.pair for near in self.all_near(self.home)}:
            if "box " in a + b:
                raise SamiError(
                    f"the robot touches {a} with {b} at home, within its margin. Correct the box, home or margin."
                )
            joints_between = len(set(_line(parents, a)) ^ set(_line(parents, b)))
            if joints_between > 3:
                raise SamiError(
                    f"{a} touches {b} at home, and they are not neighbours. Correct home, or name the pair in "
                    "collision.ignore. Without home it is the first key of the model, or zero."
                )
            self._spec.add_exclude(bodyname1=a, bodyname2=b)
        self._compile()

    def clearance(self, positions: Array) -> Near:
        """Return the closest pair of parts within their margin at positions (J,); `CLEAR` if there is none."""
        return min(self.all_near(positions), default=CLEAR)

    def all_near(self, positions: Array) -> list[Near]:
        """Return every pair of parts within their margin at positions (J,), once for each contact."""
        self._place(positions)
        self._mujoco.mj_collision(self._model, self._data)
        distances = self._data.contact.dist.tolist() if self._data.ncon else []
        return [Near(distance, self._pair(at)) for at, distance in enumerate(distances)]

    def jacobian(self, positions: Array, place: tuple[str, int]) -> Array:
        """Return the Jacobian (6, J) of a place: its linear and angular velocity for each joint's speed of 1."""
        self._place(positions)
        self._mujoco.mj_comPos(self._model, self._data)
        return self._placed_jacobian(*place)

    def _placed_jacobian(self, kind: str, number: int) -> Array:
        jacobian = self._mujoco.mj_jacBody if kind == "body" else self._mujoco.mj_jacSite
        jacobian(self._model, self._data, self._translations, self._rotations, number)
        return self._jacobian[:, self._dof]

    def speeds(self, positions: Array, low: Array, high: Array, places: Sequence[tuple[str, int]]) -> list[float]:
        """Return the highest speed of each place [m/s], for joints (J,) that move at any speeds between two, (J,) each.

        The speed is convex, so that it is highest where each joint has one of its two speeds.
        """
        self._place(positions)
        self._mujoco.mj_comPos(self._model, self._data)
        rows = []
        for place in places:
            jacobian = self._placed_jacobian(*place)[:3]
            along = DIRECTIONS @ jacobian  # (D, J)
            middle = along @ (low + high)
            best = int((abs(middle) + abs(along) @ (high - low)).argmax())
            corner = np.where(along[best] * middle[best] < 0.0, low, high)
            rows.append(math.hypot(*(jacobian @ corner).tolist()))
        return rows

    def inertia(self) -> Array:
        """Return the inertia that each joint moves at home while all others stand still, (J,) [kg m^2, kg]."""
        model, data = self._model, self._data
        self._place(self.home)
        self._mujoco.mj_comPos(model, data)
        self._mujoco.mj_crb(model, data)
        rows = []
        for dof in self._dof:
            unit, product = np.zeros(model.nv), np.zeros(model.nv)
            unit[dof] = 1.0
            self._mujoco.mj_mulM(model, data, product, unit)
            rows.append(product[dof])
        return np.array(rows)

    def _place(self, positions: Array) -> None:
        self._data.qpos[self._at] = positions
        self._mujoco.mj_kinematics(self._model, self._data)

    def _pair(self, at: int) -> tuple[str, str]:
        part, other = (self._parts[geom] for geom in self._data.contact.geom[at].tolist())
        return (part, other) if part < other else (other, part)


def by_hand(jacobian: Array) -> Array:
    """Return joint speeds (J, 3) that move a hand along x, y, z at 1 m/s without turning it: damped least squares."""
    square = jacobian @ jacobian.T
    square.flat[::7] += DAMPING
    return np.asarray(jacobian.T @ np.linalg.inv(square)[:, :3])


@cache
def _share_of_margin(mujoco: Any) -> float:
    """Return each shape's share of the margin of a pair: MuJoCo 4 adds both margins, older versions take the larger."""
    sphere = '<body pos="{} 0 0"><freejoint/><geom size="0.1" margin="0.1"/></body>'
    world = f"<mujoco><worldbody>{sphere.format(0.0)}{sphere.format(0.35)}</worldbody></mujoco>"
    model = mujoco.MjModel.from_xml_string(world)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return 0.5 if data.ncon else 1.0


def _top(body: Any) -> Any:
    while body.parent.name != "world":
        body = body.parent
    return body


def _below(body: Any) -> list[Any]:
    return [inner for child in body.bodies for inner in (child, *_below(child))]


def _line(parents: dict[str, str], name: str) -> list[str]:
    line = [name]
    while line[-1] in parents:
        line.append(parents[line[-1]])
    return line
