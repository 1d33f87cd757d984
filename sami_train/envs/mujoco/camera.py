"""Rendering of a robot: into memory, without a display or GPU, or in MuJoCo's viewer."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from typing import Any

import mujoco
import numpy as np

from sami_runtime.errors import SamiError, UnknownName

RENDER_MODES = ("rgb_array", "human")

CAMERA = "track"
"""Name of the camera in the benchmark's models that follows the robot."""
FLOOR = 2000.0
"""Half the side of the drawn floor [m]; a running robot leaves the models' own floor within seconds."""


class Filmed:
    """Rendering of a MuJoCo environment: a mixin that must precede `gym.Env` among the bases."""

    render_mode: str | None
    _camera: Window | Offscreen | None = None

    def _film(self, model: mujoco.MjModel, data: mujoco.MjData, mode: str | None, size: tuple[int, int]) -> None:
        """Open a camera unless the mode is None; this enlarges the model's floor, which affects only rendering.

        Raises:
            UnknownName: there is no such render mode.
            SamiError: there is no display for `"human"`, or no OpenGL for `"rgb_array"`.
        """
        if mode not in (None, *RENDER_MODES):
            raise UnknownName("render mode", str(mode), RENDER_MODES)
        self.render_mode = mode
        if mode is not None:
            enlarge_floor(model)
            self._camera = Window(model, data) if mode == "human" else Offscreen(model, data, size)

    def _show(self) -> None:
        """Update the window, if there is one."""
        if self.render_mode == "human":
            self.render()

    def render(self) -> np.ndarray | None:
        """Return an image (H, W, 3) uint8 for `"rgb_array"`; show the robot in the window for `"human"`."""
        return None if self._camera is None else self._camera.take()

    def close(self) -> None:
        """Free the renderer."""
        if self._camera is not None:
            self._camera.close()
            self._camera = None


def enlarge_floor(model: mujoco.MjModel) -> np.ndarray:
    """Enlarge the drawn floor, with texture squares of a metre; return a mask of the floor's geoms, (G,) bool."""
    floor: np.ndarray = model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
    model.geom_size[floor, :2] = FLOOR
    model.mat_texrepeat[[material for material in model.geom_matid[floor] if material >= 0]] = FLOOR
    return floor


class Window:
    """MuJoCo's viewer; raises a `SamiError` if there is no display."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise SamiError(
                'render mode "human" needs a display and DISPLAY is not set; use "rgb_array" (sami run --render gif).'
            )
        import mujoco.viewer  # loads a window toolkit, which images do not need

        earlier = threading.enumerate()
        self._viewer = mujoco.viewer.launch_passive(model, data, show_left_ui=False, show_right_ui=False)
        self._threads = [thread for thread in threading.enumerate() if thread not in earlier]
        with self._viewer.lock():
            self._viewer.cam.type = mujoco.mjtCamera.mjCAMERA_TRACKING
            self._viewer.cam.trackbodyid = 1

    def take(self) -> None:
        """Show the robot as it is now."""
        self._viewer.sync()

    def close(self) -> None:
        """Close the window, and wait for up to 5 s for each thread that reads the robot's data."""
        self._viewer.close()
        for thread in self._threads:
            thread.join(timeout=5.0)


class Offscreen:
    """Renders into memory; raises a `SamiError` if no OpenGL works.

    Args:
        model: Model of the robot; its offscreen buffer is enlarged to `size`.
        data: State of the robot.
        size: Width and height of images, in pixels.
        shadows: Whether to draw shadows and reflections; without a GPU they take two thirds of the time.
        view: Camera; None is the camera "track", else the model's first, else MuJoCo's default free camera.
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
        # MuJoCo takes the size of the frame buffer from the model.
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
        option, perturbation = mujoco.MjvOption(), mujoco.MjvPerturb()
        categories = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(self._model, self._data, option, perturbation, self._view, categories, self._scene)
        self._arrange()
        mujoco.mjr_render(self._rect, self._scene, self._context)
        image = np.empty((self._rect.height, self._rect.width, 3), np.uint8)
        mujoco.mjr_readPixels(image, None, self._rect, self._context)
        return image[::-1].copy()

    def _arrange(self) -> None:
        """Change the scene before it is rendered; a hook for subclasses."""

    def close(self) -> None:
        """Free the renderer."""
        self._gl.make_current()
        self._context.free()
        self._gl.free()


def _opengl(size: tuple[int, int]) -> Any:
    """Return an OpenGL context of the first backend that works, or of MUJOCO_GL's; raise SamiError if none works."""
    choice = os.environ.get("MUJOCO_GL", "").lower()
    windowed = ["glfw"] if os.environ.get("DISPLAY") or sys.platform != "linux" else []
    kinds = [choice] if choice in ("egl", "osmesa", "glfw", "cgl") else ["egl", "osmesa", *windowed]
    reasons = []
    for kind in kinds:
        try:
            return importlib.import_module(f"mujoco.{kind}").GLContext(*size)
        except Exception as error:  # each backend raises its own kinds of exceptions
            reasons.append(f"{kind}: {str(error) or type(error).__name__}")
    raise SamiError(
        f"no OpenGL to render with was found ({'; '.join(reasons)}). Install EGL's software renderer (Debian, Ubuntu: "
        "apt install libegl1 libgl1-mesa-dri), or run without --render."
    )


def _view(model: mujoco.MjModel) -> mujoco.MjvCamera:
    view = mujoco.MjvCamera()
    if model.ncam:
        camera = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, CAMERA)
        view.type, view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, max(0, camera)
    else:
        mujoco.mjv_defaultFreeCamera(model, view)
    return view
