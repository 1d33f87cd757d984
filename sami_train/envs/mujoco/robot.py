"""A robot in MuJoCo: its compiled model, and how a task changes it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sami_runtime.errors import SamiError
from sami_train.envs.mujoco.bodies import Array
from sami_train.envs.mujoco.table import Row
from sami_train.envs.tasks import Task

MODELS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
"""Gymnasium's models: those of the reference code, but for `coordinate="global"`, which MuJoCo no longer reads."""

_TORSO = 1
"""Body of the torso; 0 is the world."""


UNSTABLE = 1000.0
"""Velocity [m/s, rad/s] that no robot here reaches but in a simulation that is blowing up; theirs stay below 150."""


class Robot:
    """One environment's robot: what both the plain environment and the batch are made of.

    Args:
        row: the environment.
        options: by name, see `Options`.

    Raises:
        UnknownName, SamiError: an option is not one of this environment's.
    """

    def __init__(self, row: Row, options: Mapping[str, Any]) -> None:
        self.row, self.options = row, row.choose(options)
        self.body, self.reward = row.body_for(self.options), row.reward_for(self.options)
        self.model = _load(self.body.xml, forces=self.options.contact_cost)
        self.step_s = self.body.frame_skip * self.model.opt.timestep
        names = ("body_mass", "body_inertia", "dof_damping", "geom_size", "geom_pos")
        self._base = {name: getattr(self.model, name).copy() for name in names}
        size = sum(signal.size for signal in self.body.signals)
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (self.model.nu,), np.float32)

    def dynamics(self, task: Task) -> dict[str, Array]:
        """Fields of the model that a task sets, by MuJoCo's names; the constants that follow from them are not here."""
        mass, damping = task["mass"], task["damping"]
        if self.options.legacy_ant_scaling:
            links, joints = _cadm_scales(self.model.nbody, mass), _cadm_scales(self.model.nv, damping)
        else:
            links, joints = np.full(self.model.nbody, mass), np.full(self.model.nv, damping)
        fields = {"body_mass": self._base["body_mass"] * links, "dof_damping": self._base["dof_damping"] * joints}
        if self.options.scale_inertia:
            fields["body_inertia"] = self._base["body_inertia"] * links[:, None]
        if self.options.shrink_geoms:
            fields["geom_size"], fields["geom_pos"] = self._shrunken(task["crippled"])
        return fields

    def mask(self, task: Task) -> Array:
        """1 for each motor that obeys, 0 for each that belongs to a crippled part, (A,)."""
        mask = np.ones(self.model.nu)
        mask[self.row.tasks.silent(task)] = 0.0
        return mask

    def start(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Positions (nq,) and velocities (nv,) of a new episode."""
        qpos = self.model.qpos0 + _noise(rng, *self.body.position_noise, self.model.nq)
        return qpos, _noise(rng, *self.body.velocity_noise, self.model.nv)

    def control(self, actions: np.ndarray, mask: Array) -> Array:
        """Control signals (n, A) for actions (n, A) from -1 to 1; what lies beyond is cut off.

        Args:
            actions: (n, A).
            mask: (n, A), see `mask`.

        Raises:
            SamiError: the actions have another shape, or one is not finite.
        """
        if actions.shape != mask.shape:
            raise SamiError(f"got actions of shape {actions.shape} for {self.row.name}, expected {mask.shape}.")
        if not np.isfinite(actions).all():
            raise SamiError(f"the actions {actions.tolist()} are not all finite; check the policy that produced them.")
        return np.clip(actions, -1.0, 1.0).astype(np.float64) * (self.body.limit * mask)

    @staticmethod
    def unstable(qvel: Array) -> NDArray[np.bool_]:
        """Whether each of n simulations has blown up, from its velocities (n, nv): bool (n,)."""
        return ~(np.abs(qvel).max(axis=1) < UNSTABLE)  # so that NaN is unstable too

    def _shrunken(self, crippled: list[int]) -> tuple[Array, Array]:
        """Sizes and positions of all geoms with the crippled parts' halved and moved together."""
        size, position = self._base["geom_size"].copy(), self._base["geom_pos"].copy()
        first = int(self.model.body_geomadr[_TORSO]) + 1  # after the torso's
        for links in (self.row.links[part] for part in crippled):
            size[[first + geom for geom in links.halved], :2] /= 2.0
            position[[first + geom for geom in links.moved]] = position[first + links.moved_to]
        return size, position


def _cadm_scales(size: int, scale: float) -> Array:
    scales = np.ones(size)
    scales[2:8] = scale
    scales[8:14] = 1.0 / scale
    return scales


def _noise(rng: np.random.Generator, kind: str, scale: float, size: int) -> Array:
    return rng.uniform(-scale, scale, size) if kind == "uniform" else rng.normal(0.0, scale, size)


def _load(xml: str, forces: bool) -> mujoco.MjModel:
    """Compile a model; with `forces`, one that computes external forces, which MuJoCo does only for force sensors."""
    spec = mujoco.MjSpec.from_file(str(MODELS / xml))
    if forces:
        torso = spec.body("torso")
        torso.add_site(name="torso")
        spec.add_sensor(type=mujoco.mjtSensor.mjSENS_FORCE, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="torso")
    with warnings.catch_warnings():
        # Half-cheetah's model asks for its total mass in a way that MuJoCo means to drop.
        warnings.filterwarnings("ignore", "compiler attribute 'settotalmass'")
        return spec.compile()
