"""Images of a robot: in memory, where no display or GPU is needed, or in MuJoCo's viewer."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from typing import Any, Protocol

import mujoco
import numpy as np

from sami_runtime.errors import SamiError, UnknownName

RENDER_MODES = ("rgb_array", "human")

CAMERA = "track"
"""A camera that follows the robot, which the benchmark's models have."""
FLOOR_TONES = np.array([[46, 52, 64]]), np.array([[66, 73, 87]])
SKY_TONES = np.array([[92, 100, 116]]), np.array([[150, 158, 172]])
"""Dark and light, of films."""
LIGHT_FROM = np.array([-0.8, -1.0, 3.0])
"""Where a film's light is, seen from the robot [m]."""
FLOOR = 2000.0
"""How far the drawn floor reaches [m]; the models' ends within a few seconds of running."""


class Camera(Protocol):
    """What renders."""

    def take(self) -> np.ndarray | None:
        """Render the robot as it is now: an image (H, W, 3), or None where it is shown in a window."""

    def close(self) -> None:
        """Give the renderer back. Safe twice."""


class Filmed:
    """What every environment in MuJoCo does about rendering; goes before `gym.Env` among its bases."""

    render_mode: str | None
    _camera: Camera | None = None

    def _film(self, model: mujoco.MjModel, data: mujoco.MjData, mode: str | None, size: tuple[int, int]) -> None:
        """Open a camera if there is to be one.

        Raises:
            UnknownName: there is no such render mode.
            SamiError: there is no display for `"human"`, or no OpenGL for `"rgb_array"`.
        """
        if mode not in (None, *RENDER_MODES):
            raise UnknownName("render mode", str(mode), RENDER_MODES)
        self.render_mode = mode
        if mode is not None:
            self._camera = open_camera(model, data, mode, size)

    def _show(self) -> None:
        """Bring the window up to date, where there is one."""
        if self.render_mode == "human":
            self.render()

    def render(self) -> np.ndarray | None:
        """Return an image (H, W, 3) for `"rgb_array"`; shows the robot in the window for `"human"`."""
        return None if self._camera is None else self._camera.take()

    def close(self) -> None:
        """Give the renderer back."""
        if self._camera is not None:
            self._camera.close()
            self._camera = None


def open_camera(model: mujoco.MjModel, data: mujoco.MjData, mode: str, size: tuple[int, int]) -> Camera:
    """Open a camera on a robot.

    Args:
        model: of the robot; its floor is made larger, which only rendering sees.
        data: its state.
        mode: `"rgb_array"` or `"human"`.
        size: width and height of images, in pixels.

    Raises:
        SamiError: there is no display for `"human"`, or no OpenGL for `"rgb_array"`.
    """
    enlarge_floor(model)
    return Window(model, data) if mode == "human" else Offscreen(model, data, size)


def enlarge_floor(model: mujoco.MjModel) -> None:
    """Let the drawn floor reach as far as a robot runs, in squares of a metre; only rendering sees it."""
    floor = model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
    model.geom_size[floor, :2] = FLOOR
    model.mat_texrepeat[[material for material in model.geom_matid[floor] if material >= 0]] = FLOOR


def stage(model: mujoco.MjModel) -> mujoco.MjvCamera:
    """Prepare a model for a film, and return the camera for it.

    A robot that can run away gets a quiet floor and sky, and a camera beside it; others stay as their model draws them.
    """
    if not model.njnt or model.dof_bodyid[0] != 1:
        return _view(model)
    _dress(model)
    view = mujoco.MjvCamera()
    view.type, view.trackbodyid = mujoco.mjtCamera.mjCAMERA_TRACKING, 1
    view.distance, view.azimuth, view.elevation = 3.2, 90.0, -14.0
    return view


class Window:
    """MuJoCo's viewer.

    Raises:
        SamiError: there is no display.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise SamiError(
                'render mode "human" needs a display and DISPLAY is not set; use "rgb_array" (sami run --render gif).'
            )
        import mujoco.viewer  # a toolkit of windows, which images need not load

        others = threading.enumerate()
        self._viewer = mujoco.viewer.launch_passive(model, data, show_left_ui=False, show_right_ui=False)
        self._threads = [thread for thread in threading.enumerate() if thread not in others]
        with self._viewer.lock():
            self._viewer.cam.type = mujoco.mjtCamera.mjCAMERA_TRACKING
            self._viewer.cam.trackbodyid = 1

    def take(self) -> None:
        """Show the robot as it is now."""
        self._viewer.sync()

    def close(self) -> None:
        """Close the window, and wait until it has let go of the robot."""
        self._viewer.close()
        for thread in self._threads:
            thread.join(timeout=5.0)


class Offscreen:
    """Renders into memory.

    Args:
        model: of the robot.
        data: its state.
        size: width and height of images, in pixels.
        shadows: whether shadows and reflections are drawn; they take two thirds of the time on a processor.
        view: from where; see `_view` if None.

    Raises:
        SamiError: no OpenGL was found.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        size: tuple[int, int],
        shadows: bool = False,
        view: mujoco.MjvCamera | None = None,
    ) -> None:
        self._model, self._data = model, data
        self._rect = mujoco.MjrRect(0, 0, *size)
        # The frame buffer is as large as the model says.
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, size[0])
        model.vis.global_.offheight = max(model.vis.global_.offheight, size[1])
        self._gl: Any = _opengl(size)
        self._gl.make_current()
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._scene = mujoco.MjvScene(model, maxgeom=1000)
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            self._scene.flags[flag] = int(shadows)
        self._view = view or _view(model)

    def take(self) -> np.ndarray:
        """Render an image (H, W, 3) uint8."""
        self._gl.make_current()
        option, nothing = mujoco.MjvOption(), mujoco.MjvPerturb()
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(self._model, self._data, option, nothing, self._view, everything, self._scene)
        if self._view.type == mujoco.mjtCamera.mjCAMERA_TRACKING:
            self._light(self._data.xpos[self._view.trackbodyid])
        mujoco.mjr_render(self._rect, self._scene, self._context)
        image = np.empty((self._rect.height, self._rect.width, 3), np.uint8)
        mujoco.mjr_readPixels(image, None, self._rect, self._context)
        return image[::-1].copy()

    def _light(self, robot: np.ndarray) -> None:
        """Let the lights go along: a shadow is drawn only near its light."""
        for light in self._scene.lights[: self._scene.nlight]:
            if not light.headlight:
                light.pos, light.dir = robot + LIGHT_FROM, -LIGHT_FROM / np.linalg.norm(LIGHT_FROM)
                light.castshadow = 1

    def close(self) -> None:
        """Free the renderer."""
        if self._gl is not None:
            self._gl.make_current()
            self._context.free()
            self._gl.free()
            self._gl = None


def _dress(model: mujoco.MjModel) -> None:
    """Give a robot a quiet floor and sky; only rendering sees it."""
    enlarge_floor(model)
    tones = {mujoco.mjtTexture.mjTEXTURE_2D: FLOOR_TONES, mujoco.mjtTexture.mjTEXTURE_SKYBOX: SKY_TONES}
    for texture, kind in enumerate(model.tex_type):
        size = model.tex_height[texture] * model.tex_width[texture] * model.tex_nchannel[texture]
        pixels = model.tex_data[model.tex_adr[texture] : model.tex_adr[texture] + size]
        if kind in tones:
            dark, light = tones[kind]
            grey = pixels.reshape(-1, 3).mean(axis=1, keepdims=True) / 255
            pixels[:] = (dark + grey * (light - dark)).astype(np.uint8).ravel()
    floor = model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
    model.geom_rgba[floor] = 1.0
    model.mat_reflectance[:] = 0.0
    model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = 0.35, 0.3


def _view(model: mujoco.MjModel) -> mujoco.MjvCamera:
    """Return the camera that follows the robot, else the model's first one, else one from which all of it is seen."""
    view = mujoco.MjvCamera()
    follows = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, CAMERA)
    if model.ncam:
        view.type, view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, max(0, follows)
    else:
        mujoco.mjv_defaultFreeCamera(model, view)
    return view


def _opengl(size: tuple[int, int]) -> Any:
    """Return an OpenGL context of the first kind that works; the one named in MUJOCO_GL, if that is set.

    Raises:
        SamiError: none works; says why each does not.
    """
    wanted = os.environ.get("MUJOCO_GL", "").lower()
    shown = bool(os.environ.get("DISPLAY")) or sys.platform != "linux"
    kinds = [wanted] if wanted in ("egl", "osmesa", "glfw", "cgl") else ["egl", "osmesa", *(["glfw"] if shown else [])]
    reasons = []
    for kind in kinds:
        try:
            return importlib.import_module(f"mujoco.{kind}").GLContext(*size)
        except Exception as error:  # each library fails in ways of its own
            reasons.append(f"{kind}: {str(error) or type(error).__name__}")
    raise SamiError(
        f"no OpenGL to render with was found ({'; '.join(reasons)}). Install EGL's software renderer (Debian, Ubuntu: "
        "apt install libegl1 libgl1-mesa-dri), or run without --render."
    )
