"""Converts displacements of a hand to joint velocities within the joints' limits, with mink and MuJoCo."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import ArrayLike

from sami_runtime.distribution import install_hint
from sami_runtime.errors import AdapterError, UnknownName, require_known
from sami_runtime.robots.kit.frame import Frame
from sami_runtime.robots.kit.rotation import Array, as_text, numbers

EXTRA = "ik"
"""Extra of the package that installs the libraries."""
TURN = 0.3
"""Cost of an orientation error [1/rad], relative to a position error [1/m]: at a joint's end, orientation yields."""
ELBOW = 1e-3
"""Cost of a joint's distance from home [1/rad], which determines redundant joints."""
DAMPING = 1e-5
"""Damping of the joints' motion, which bounds their speeds near a stretched arm."""


@dataclass(frozen=True)
class Motion:
    """Joint velocities, and the displacement of the hand that they cause."""

    velocities: Array
    """(J,) [rad/s, m/s], within the limits."""
    displacement: Array
    """(3,) [m]: displacement of the hand in the period; shorter, in the same direction, if joints are too slow."""


class DifferentialIK:
    """The differential inverse kinematics of an arm. Its methods may be called from any thread.

    Args:
        model: URDF or MJCF file, whose base defines the frame of all poses.
        hand: The link (or body) or MJCF site to move.
        joints: The arm's J joints, hinges or slides, in the order of its driver. All others stand still.
        home: (J,) [rad, m] initial positions, near which redundant joints stay.
        speed: Highest joint speeds [rad/s, m/s], one or (J,); those of the URDF if None.

    Raises:
        AdapterError: The file is no model, an argument does not fit it, or mink is not installed.
        UnknownName: The model has no such link or joint.
    """

    def __init__(
        self, model: str | Path, hand: str, joints: Sequence[str], home: ArrayLike, speed: ArrayLike | None = None
    ) -> None:
        mink, mujoco = _needed("mink"), _needed("mujoco")
        self._lock = threading.Lock()
        self._solve_ik, self._se3 = mink.solve_ik, mink.SE3.from_matrix
        arm, speeds = _load(model)
        kinds = {arm.joint(at).name: int(arm.jnt_type[at]) for at in range(arm.njnt)}
        straight = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
        valid = [name for name, kind in kinds.items() if kind in straight]
        require_known("joint", joints, valid, f"{model} does not have it.")
        links = [arm.body(at).name for at in range(arm.nbody)]
        sites = [arm.site(at).name for at in range(arm.nsite)]
        if hand not in (*links, *sites):
            raise UnknownName("link", hand, [name for name in (*links, *sites) if name], f"{model} does not have it.")
        self._configuration = mink.Configuration(arm)
        self.joints = tuple(joints)
        self.home = self._positions(home)
        self.speed = self._speeds(speed, speeds)
        self._at = np.array([arm.joint(name).qposadr[0] for name in joints])
        self._dof = np.array([arm.joint(name).dofadr[0] for name in joints])
        limited = np.array([bool(arm.joint(name).limited[0]) for name in joints])
        ranges = np.array([arm.joint(name).range for name in joints])
        self.low, self.high = np.where(limited, ranges.T, np.array([[-np.inf], [np.inf]]))
        """(J,): lowest and highest positions [rad, m]."""
        self._hand = (hand, "body" if hand in links else "site")
        self._towards = mink.FrameTask(*self._hand, position_cost=1.0, orientation_cost=TURN)
        self._elbow = mink.PostureTask(arm, cost=ELBOW)
        self._elbow.set_target(self._full(self.home))
        self._limits = [mink.ConfigurationLimit(arm)]
        self._update(self.home)
        self._turned = self._pose().rotation
        frozen = sorted(set(range(arm.nv)) - set(self._dof.tolist()))
        self._still = [mink.DofFreezingTask(arm, frozen)] if frozen else []

    def pose(self, positions: ArrayLike) -> Frame:
        """Return the pose of the hand in the base's frame, for positions (J,) [rad, m] of the joints."""
        with self._lock:
            self._update(positions)
            return self._pose()

    def velocity(self, positions: ArrayLike, velocities: ArrayLike) -> Array:
        """Return the hand's velocity (3,) [m/s] in the base's frame, for the joints' positions and velocities (J,)."""
        with self._lock:
            self._update(positions)
            return self._displacement(numbers(velocities, self.home.shape, "the joints' velocities"))

    def move(
        self, positions: ArrayLike, displacement: ArrayLike, period: float, rotation: ArrayLike | None = None
    ) -> Motion:
        """Return the joint velocities that move the hand by a displacement within a period.

        Args:
            positions: (J,) [rad, m] measured positions of the joints.
            displacement: (3,) [m], in the base's frame.
            period: [s].
            rotation: (3, 3) target orientation of the hand in the base's frame; if None, that at home.

        Raises:
            AdapterError: An argument is not finite or has a wrong shape, or there is no solution within the limits.
        """
        if not period > 0.0:
            raise AdapterError(f"a displacement within {period} s has no velocity; give a period above 0 s.")
        shift = numbers(displacement, (3,), "a displacement")
        with self._lock:
            self._update(positions)
            target = Frame.of(self._pose().translation + shift, rotation=self._turned if rotation is None else rotation)
            self._towards.set_target(self._se3(target.matrix))
            solution = self._solved(period, shift)[self._dof]
            # Scale all joints alike, so that the hand's path becomes shorter but keeps its direction.
            velocities = solution / max(1.0, float((abs(solution) / self.speed).max()))
            return Motion(velocities, self._displacement(velocities) * period)

    def _solved(self, period: float, shift: Array) -> Array:
        try:
            solution: Array = self._solve_ik(
                self._configuration,
                [self._towards, self._elbow],
                period,
                "daqp",
                damping=DAMPING,
                limits=self._limits,
                constraints=self._still,
            )
        except Exception as error:  # mink and its solver raise several kinds
            positions = self._configuration.q[self._at]
            raise AdapterError(
                f"no joint velocities within the limits move the hand by {as_text(shift)} m from the joints' positions "
                f"{as_text(positions)}: {error}. Move the arm away from its ends."
            ) from error
        return solution

    def _pose(self) -> Frame:
        return Frame(self._configuration.get_transform_frame_to_world(*self._hand).as_matrix())

    def _displacement(self, velocities: Array) -> Array:
        # mink's Jacobian is expressed along the hand's axes.
        jacobian = self._configuration.get_frame_jacobian(*self._hand)[:3, self._dof]
        change: Array = self._pose().rotation @ (jacobian @ velocities)
        return change

    def _update(self, positions: ArrayLike) -> None:
        # A sensor may read slightly beyond a joint's end, where the solver would find no solution.
        self._configuration.update(self._full(np.clip(self._positions(positions), self.low, self.high)))

    def _full(self, positions: Array) -> Array:
        full: Array = self._configuration.model.qpos0.copy()
        full[self._at] = positions
        return full

    def _positions(self, positions: ArrayLike) -> Array:
        return numbers(positions, (len(self.joints),), f"the positions of {', '.join(self.joints)}")

    def _speeds(self, limits: ArrayLike | None, listed: dict[str, float]) -> Array:
        speeds = np.array([listed.get(name, np.nan) for name in self.joints]) if limits is None else np.asarray(limits)
        if speeds.shape not in ((), self.home.shape) or not (speeds > 0.0).all():
            raise AdapterError(
                f"the highest speeds of {', '.join(self.joints)} are {speeds.tolist()}; they must be above 0, one or "
                "one for each joint. Give them as speed [rad/s] where the model does not have them."
            )
        return np.broadcast_to(speeds.astype(np.float64), self.home.shape).copy()


def _load(path: str | Path) -> tuple[Any, dict[str, float]]:
    """Return the model (`mujoco.MjModel`), and by joint the speed limits of a URDF [rad/s, m/s]; MJCF has none.

    Raises:
        AdapterError: The file is missing or is no model, or MuJoCo is not installed.
    """
    mujoco, file = _needed("mujoco"), Path(path)
    try:
        text = file.read_bytes()
        root = ElementTree.fromstring(text)
        if root.tag != "robot":
            return mujoco.MjModel.from_xml_path(str(file)), {}
        _keep_kinematics(root)
        model = mujoco.MjModel.from_xml_string(ElementTree.tostring(root, encoding="unicode"))
    except (OSError, ElementTree.ParseError, ValueError) as error:
        raise AdapterError(f"{file} is no URDF or MJCF that could be read: {error}. Give the arm's own.") from error
    speeds = {
        str(joint.get("name")): float(limit.get("velocity", "inf"))
        for joint in root.findall("joint")
        if (limit := joint.find("limit")) is not None
    }
    return model, speeds


def _needed(module: str) -> ModuleType:
    """Return a module that the extra installs; AdapterError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise AdapterError(
            f"inverse kinematics needs the package {module}: {error}. Install it with: {install_hint(EXTRA)}"
        ) from error


def _keep_kinematics(root: ElementTree.Element) -> None:
    """Remove shapes, whose mesh files only the robot's own tools can resolve, and keep links behind fixed joints."""
    for link in root.findall("link"):
        for part in (*link.findall("visual"), *link.findall("collision")):
            link.remove(part)
    for old in root.findall("mujoco"):
        root.remove(old)
    settings = {"fusestatic": "false", "boundmass": "0.001", "boundinertia": "1e-6", "balanceinertia": "true"}
    ElementTree.SubElement(ElementTree.SubElement(root, "mujoco"), "compiler", settings)
