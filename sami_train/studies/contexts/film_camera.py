"""The camera of films, which draws shadows and follows a running robot."""

from __future__ import annotations

import mujoco
import numpy as np

from sami_train.envs.mujoco.camera import Offscreen, enlarge_floor

FLOOR_TONES = np.array([[46, 52, 64]]), np.array([[66, 73, 87]])
SKY_TONES = np.array([[92, 100, 116]]), np.array([[150, 158, 172]])
"""Dark and light RGB colours of a robot's floor and sky."""
LIGHT_FROM = np.array([-0.8, -1.0, 3.0])
"""Position of the light relative to the robot [m]."""
SIDE_VIEW = {"distance": 3.2, "azimuth": 90.0, "elevation": -14.0}
"""Position of the camera relative to a running robot [m, degrees]."""
WHOLE = "whole"
"""Name of the camera, if the model has one, that shows all of a robot."""


class FilmCamera(Offscreen):
    """Takes the pictures of a film.

    A mobile robot gets a plain floor and sky, and a camera and a light that move along with it, because MuJoCo draws
    shadows only near the light; this changes the model's colours and textures. For other robots, the camera is `whole`
    of their model, or `Offscreen`'s default. Arguments are those of `Offscreen`.

    Raises:
        SamiError: No OpenGL was found.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, size: tuple[int, int], shadows: bool = True) -> None:
        self._runs = bool(model.njnt) and int(model.dof_bodyid[0]) == 1
        whole = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, WHOLE)
        view = mujoco.MjvCamera()
        if self._runs:
            _dress(model)
            view.type, view.trackbodyid = mujoco.mjtCamera.mjCAMERA_TRACKING, 1
            view.distance, view.azimuth, view.elevation = SIDE_VIEW.values()
        else:
            view.type, view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, whole
        super().__init__(model, data, size, shadows, view if self._runs or whole >= 0 else None)

    def _arrange(self) -> None:
        if not self._runs:
            return
        for light in self._scene.lights[: self._scene.nlight]:
            if not light.headlight:
                light.pos, light.dir = self._data.xpos[1] + LIGHT_FROM, -LIGHT_FROM / np.linalg.norm(LIGHT_FROM)
                light.castshadow = 1


def _dress(model: mujoco.MjModel) -> None:
    """Give a model a large floor and a sky in plain colours."""
    model.geom_rgba[enlarge_floor(model)] = 1.0
    model.mat_reflectance[:] = 0.0
    model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = 0.35, 0.3
    tones = {int(mujoco.mjtTexture.mjTEXTURE_2D): FLOOR_TONES, int(mujoco.mjtTexture.mjTEXTURE_SKYBOX): SKY_TONES}
    for texture, kind in enumerate(model.tex_type.tolist()):
        if kind in tones:
            size = model.tex_height[texture] * model.tex_width[texture] * model.tex_nchannel[texture]
            pixels = model.tex_data[model.tex_adr[texture] : model.tex_adr[texture] + size]
            grey = pixels.reshape(-1, 3).mean(axis=1, keepdims=True)
            grey = (grey - grey.min()) / max(1.0, np.ptp(grey))  # a second camera does not change the tones again
            dark, light = tones[kind]
            pixels[:] = (dark + grey * (light - dark)).round().astype(np.uint8).ravel()
