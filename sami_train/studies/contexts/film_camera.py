"""The camera of films: with shadows, and beside a robot that runs away."""

from __future__ import annotations

import mujoco
import numpy as np

from sami_train.envs.mujoco.camera import Offscreen, enlarge_floor

FLOOR_TONES = np.array([[46, 52, 64]]), np.array([[66, 73, 87]])
SKY_TONES = np.array([[92, 100, 116]]), np.array([[150, 158, 172]])
"""Dark and light, of a robot's floor and sky."""
LIGHT_FROM = np.array([-0.8, -1.0, 3.0])
"""Where the light is, seen from the robot [m]."""
BESIDE = {"distance": 3.2, "azimuth": 90.0, "elevation": -14.0}
"""From where a robot that runs is seen [m, degrees]."""


WHOLE = "whole"
"""A camera that sees all of a robot, where its model has one."""


class FilmCamera(Offscreen):
    """Takes the pictures of a film.

    A robot that can run away gets a quiet floor and sky, a camera that goes along beside it, and a light that does so,
    too, for a shadow is drawn only near its light. Others are shown by the camera `whole` of their model, or its first.

    Args:
        model: Of the robot; its colours change, which only rendering sees.
        data: Its state.
        size: Width and height of pictures, in pixels.
        shadows: Whether shadows are drawn, which takes most of the time.

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
            view.distance, view.azimuth, view.elevation = BESIDE.values()
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
    """Give a model a large quiet floor and sky."""
    model.geom_rgba[enlarge_floor(model)] = 1.0
    model.mat_reflectance[:] = 0.0
    model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = 0.35, 0.3
    tones = {int(mujoco.mjtTexture.mjTEXTURE_2D): FLOOR_TONES, int(mujoco.mjtTexture.mjTEXTURE_SKYBOX): SKY_TONES}
    for texture, kind in enumerate(model.tex_type.tolist()):
        if kind in tones:
            size = model.tex_height[texture] * model.tex_width[texture] * model.tex_nchannel[texture]
            pixels = model.tex_data[model.tex_adr[texture] : model.tex_adr[texture] + size]
            grey = pixels.reshape(-1, 3).mean(axis=1, keepdims=True)
            grey = (grey - grey.min()) / max(1.0, np.ptp(grey))  # the next camera finds these tones, and keeps them
            dark, light = tones[kind]
            pixels[:] = (dark + grey * (light - dark)).round().astype(np.uint8).ravel()
