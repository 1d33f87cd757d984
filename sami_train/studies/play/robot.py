"""A robot's MJCF model with PD control of the joints that an adopted policy moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import mujoco
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sami_runtime.adoption.recipe import Recipe, row
from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.files import checked_table, read_document
from sami_runtime.robots.kit.quantities import matched_joints
from sami_train.envs.mujoco.camera import CAMERA
from sami_train.settings import NotNegative, Positive, Settings

Array = NDArray[np.float64]
HINGE, SLIDE, FREE = (int(getattr(mujoco.mjtJoint, f"mjJNT_{kind}")) for kind in ("HINGE", "SLIDE", "FREE"))
GROUND = (int(mujoco.mjtGeom.mjGEOM_PLANE), int(mujoco.mjtGeom.mjGEOM_HFIELD))
FLOOR = "floor"
"""Name of the plane that is added to a model without ground; the model's contact pairs may name it."""
TEXTURE_ROLES = int(mujoco.mjtTextureRole.mjNTEXROLE)
LOWER_BY = 2.0
"""Longest distance by which a robot is lowered to the ground [m]."""


class GaitClock(Settings):
    """Phases that a policy observes as their sine and cosine; where the command is 0, every phase is half a cycle."""

    period_s: Positive
    """Duration of a cycle [s]."""
    offsets: Annotated[tuple[float, ...], Field(strict=False)] = (0.0, 0.5)
    """Offset of each phase [cycles]; phases restart when the command becomes nonzero."""


class SceneFile(Settings):
    """The file that `--robot` names: an MJCF file, or TOML with these keys."""

    scene: str
    """The MJCF file; a relative path is looked up from the folder of the TOML file."""
    base: str | None = None
    """Body on which gyro, gravity and velocity are measured; the first one with a free joint if left out."""
    keyframe: str | None = None
    """Keyframe with the base's initial pose; the model's initial pose if left out. Joints start at the default pose."""
    joints: dict[str, str] = Field(default_factory=dict)
    """The joint of the MJCF by element of the policy's action, if the names differ by more than the suffix `_joint`."""
    signals: dict[str, str] = Field(default_factory=dict)
    """Meaning of a signal, by its name, if the name does not say it: a quantity, or a sensor of the MJCF."""
    clock: GaitClock | None = None
    """For policies that observe a gait phase."""
    start_noise: NotNegative = 0.05
    """Largest random change of initial joint angles [rad] and velocities [rad/s]."""
    fallen_tilt_deg: Positive = 60.0
    """Tilt of the base [degrees] beyond which the robot has fallen."""
    fallen_height: NotNegative = 0.5
    """Height of the base, as a fraction of its initial height, below which the robot has fallen."""
    commands: Annotated[tuple[dict[str, float], ...], Field(strict=False)] = ()
    """Commands of evaluations, each as { forward = 0.5, left = 0.0, turn = 0.0 }."""

    @classmethod
    def load(cls, path: Path) -> SceneFile:
        """Read NAME.toml, or return default settings for NAME.xml, which is not opened.

        Raises:
            SamiError: The file cannot be read, a key does not exist, or a value is invalid.
        """
        if path.suffix == ".xml":
            return cls(scene=str(path.resolve()))
        document = read_document(path, "robots to play in")
        settings = checked_table(cls, document, str(path), "docs/how-to/play-a-policy.md lists the keys")
        return settings.model_copy(update={"scene": str((path.parent / settings.scene).resolve())})


class PlayedRobot:
    """A compiled robot: each element of the action is the position target of a joint under PD control.

    Args:
        settings: The settings of the file that `--robot` names.
        recipe: The policy's elements, default pose and gains.
        rate_hz: Actions per second.

    Raises:
        SamiError, UnknownName: The model cannot be read, a joint, body or keyframe does not exist, gains are missing,
            or the policy does not write positions.
    """

    def __init__(self, settings: SceneFile, recipe: Recipe, rate_hz: float) -> None:
        self.settings, action = settings, recipe.action
        if action.unit not in ("rad", "m"):
            raise SamiError(
                f"the policy writes {action.meaning} [{action.unit}], and only position targets [rad or m] are played."
            )
        path = Path(settings.scene)
        if not path.is_file():
            raise SamiError(f"{path} is no file; --robot takes the path of an MJCF file, or of TOML that names one.")
        try:
            spec = mujoco.MjSpec.from_file(str(path))
            self.floats = any(int(joint.type) == FREE for joint in spec.joints)
            """Whether the robot has a free joint."""
            if self.floats and not any(int(geom.type) in GROUND for geom in spec.geoms):
                _add_floor(spec)
            plain = spec.compile()
        except ValueError as error:
            raise SamiError(f"MuJoCo cannot read {path}: {' '.join(str(error).split())}. Correct the model.") from None
        movable = {plain.joint(at).name: at for at in range(plain.njnt) if int(plain.jnt_type[at]) in (HINGE, SLIDE)}
        self.elements, self.movable = action.elements, list(movable)
        """Elements of the action; names of all hinge and slide joints."""
        self.joints = matched_joints(action.elements, movable, settings.joints)
        """The joint of each element."""
        at = [movable[name] for name in self.joints]
        self.default = row(action.default, len(at))
        kp, kd, effort = _gains(plain, at, recipe, path)
        start = _start(plain, settings, path)
        for key in spec.keys:
            spec.delete(key)  # keyframes have controls of actuators that are removed
        for actuator in spec.actuators:
            if actuator.target in self.joints:
                spec.delete(actuator)
        for name, stiffness, damping, limit in zip(self.joints, kp, kd, effort, strict=True):
            spec.add_actuator(
                name=f"play.{name}",
                target=name,
                trntype=mujoco.mjtTrn.mjTRN_JOINT,
                gaintype=mujoco.mjtGain.mjGAIN_FIXED,
                biastype=mujoco.mjtBias.mjBIAS_AFFINE,
                gainprm=[stiffness, *[0.0] * 9],
                biasprm=[0.0, -stiffness, -damping, *[0.0] * 7],
                forcelimited=bool(math.isfinite(limit)),
                forcerange=[-limit, limit] if math.isfinite(limit) else [0.0, 0.0],
            )
        self.base = _base(plain, settings)
        """Index of the body that is the policy's base; -1 if there is none."""
        if self.base >= 0 and not spec.cameras:
            _add_camera(spec.bodies[self.base], float(start[2]) if self.floats else 1.0)
        # An action takes a whole number of physics steps. Implicit integration keeps PD stable at the model's timestep.
        self.substeps = math.ceil(1.0 / (rate_hz * plain.opt.timestep) - 1e-6)
        spec.option.timestep = 1.0 / (rate_hz * self.substeps)
        if plain.opt.integrator == mujoco.mjtIntegrator.mjINT_EULER:
            spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        self.model: mujoco.MjModel = spec.compile()
        self.qpos, self.qvel = (self.addresses(self.joints, field) for field in ("jnt_qposadr", "jnt_dofadr"))
        self._motors = np.array([self.model.actuator(f"play.{name}").id for name in self.joints])
        self._start = start
        self._start[self.qpos] = self.default

    def addresses(self, joints: Sequence[str], field: str) -> NDArray[np.intp]:
        """Return the indices of joints in `qpos` (field `jnt_qposadr`) or `qvel` (`jnt_dofadr`)."""
        return np.array([getattr(self.model, field)[self.model.joint(name).id] for name in joints], np.intp)

    def begin(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Reset the robot to its default pose, with noise, and lower or lift it onto the ground."""
        mujoco.mj_resetData(self.model, data)
        data.qpos[:] = self._start
        noise = self.settings.start_noise
        data.qpos[self.qpos] += rng.uniform(-noise, noise, len(self.qpos))
        data.qvel[self.qvel] = rng.uniform(-noise, noise, len(self.qvel))
        mujoco.mj_forward(self.model, data)
        if self.floats:
            root = int(np.flatnonzero(self.model.jnt_type == FREE)[0])
            data.qpos[self.model.jnt_qposadr[root] + 2] -= _clearance(self.model, data)
        self.hold(data, data.qpos[self.qpos])
        mujoco.mj_forward(self.model, data)

    def hold(self, data: mujoco.MjData, targets: Array) -> None:
        """Set the position targets of the joints, (A,) [rad or m]."""
        data.ctrl[self._motors] = targets


def _add_floor(spec: mujoco.MjSpec) -> None:
    """Add a plane of grey squares, and a light."""
    checker, squares = mujoco.mjtBuiltin.mjBUILTIN_CHECKER, mujoco.mjtTexture.mjTEXTURE_2D
    spec.add_texture(
        name="play.squares", type=squares, builtin=checker, rgb1=[0.25] * 3, rgb2=[0.35] * 3, width=200, height=200
    )
    textures = ["play.squares" if at == mujoco.mjtTextureRole.mjTEXROLE_RGB else "" for at in range(TEXTURE_ROLES)]
    spec.add_material(name="play.floor", textures=textures)
    plane = mujoco.mjtGeom.mjGEOM_PLANE
    spec.worldbody.add_geom(name=FLOOR, type=plane, size=[0.0, 0.0, 0.05], material="play.floor")
    spec.worldbody.add_light(type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, dir=[0.3, 0.3, -1.0], pos=[0.0, 0.0, 5.0])


def _add_camera(base: mujoco.MjsBody, height: float) -> None:
    """Add a camera that follows the base from its right and above."""
    base.add_camera(
        name=CAMERA,
        mode=mujoco.mjtCamLight.mjCAMLIGHT_TRACK,
        pos=[0.0, -4.0 * height, 1.5 * height],
        xyaxes=[1.0, 0.0, 0.0, 0.0, 0.35, 1.0],
    )


def _gains(model: mujoco.MjModel, joints: Sequence[int], recipe: Recipe, path: Path) -> tuple[Array, Array, Array]:
    """Return stiffness, damping and largest effort of each joint; gains of the recipe precede those of the model."""
    action, count = recipe.action, len(joints)
    kp, kd = (np.array(row(gains or 0.0, count), float) for gains in (action.kp, action.kd))
    effort = np.array(row(action.effort, count), float) if action.effort else np.full(count, np.inf)
    missing = []
    for at, joint in enumerate(joints):
        drives = (model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT) & (model.actuator_trnid[:, 0] == joint)
        for motor in np.flatnonzero(drives):
            gain = float(model.actuator_gainprm[motor, 0])
            stiffness, damping = (-model.actuator_biasprm[motor, 1:3]).tolist()
            servo, gear = stiffness > 0.0, abs(float(model.actuator_gear[motor, 0]))
            if model.actuator_forcelimited[motor]:
                effort[at] = min(effort[at], gear * model.actuator_forcerange[motor, 1])
            elif model.actuator_ctrllimited[motor] and not servo:
                effort[at] = min(effort[at], abs(gain) * gear * model.actuator_ctrlrange[motor, 1])
            if not action.kp and servo:
                kp[at], kd[at] = gear**2 * stiffness, gear**2 * damping
        if kp[at] <= 0.0:
            missing.append(model.joint(joint).name)
    if missing:
        raise SamiError(
            f"nothing says the gains of {', '.join(missing)}: the policy's file has no kp, and {path} has no position "
            "actuators there. Adopt the policy with kp and kd in [action]."
        )
    return kp, kd, effort


def _start(model: mujoco.MjModel, settings: SceneFile, path: Path) -> Array:
    if settings.keyframe is None:
        return np.array(model.qpos0)
    names = [model.key(at).name for at in range(model.nkey)]
    if settings.keyframe not in names:
        raise UnknownName(f"keyframe of {path}", settings.keyframe, names)
    return np.array(model.key(settings.keyframe).qpos)


def _base(model: mujoco.MjModel, settings: SceneFile) -> int:
    names = [model.body(at).name for at in range(model.nbody)]
    if settings.base is not None:
        if settings.base not in names:
            raise UnknownName("body (base)", settings.base, names)
        return names.index(settings.base)
    free = np.flatnonzero(model.jnt_type == FREE)
    return int(model.jnt_bodyid[free[0]]) if len(free) else -1


def _clearance(model: mujoco.MjModel, data: mujoco.MjData) -> float:
    """Return the height of the robot above the ground [m]; 0 if the ground is not a plane, or `LOWER_BY` away."""
    planes = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE)
    solid = np.flatnonzero((model.geom_bodyid > 0) & ((model.geom_contype > 0) | (model.geom_conaffinity > 0)))
    above = [mujoco.mj_geomDistance(model, data, plane, geom, LOWER_BY, None) for plane in planes for geom in solid]
    nearest: Any = min(above, default=LOWER_BY)
    return float(nearest) if nearest < LOWER_BY else 0.0
