"""The scene of a MuJoCo model, for viewers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.scene import Shape

KINDS = {0: "plane", 2: "sphere", 3: "capsule", 4: "ellipsoid", 5: "cylinder", 6: "box", 7: "box"}
"""Shapes by MuJoCo's number of a geom's type; a mesh is shown as its bounding box, and a height field not at all."""
UNSET = np.array([0.5, 0.5, 0.5, 1.0], np.float32)
"""Colour of a geom that has none of its own; its material's counts."""
MESH = 7
SHOWN_GROUPS = (0, 1, 2)
"""Groups of geoms that MuJoCo's viewers show."""


class MujocoScene:
    """The scene of a MuJoCo model.

    Args:
        model: An `mjModel`; links are its bodies that show something.
        data: Its `mjData`, which is read at each call of `poses`.
    """

    def __init__(self, model: Any, data: Any) -> None:
        self._data = data
        colours = {geom: _colour(model, geom) for geom in range(model.ngeom)}
        geoms = [
            geom
            for geom, colour in colours.items()
            if int(model.geom_type[geom]) in KINDS and model.geom_group[geom] in SHOWN_GROUPS and colour[3] > 0
        ]
        self._bodies = sorted({int(model.geom_bodyid[geom]) for geom in geoms})
        self.links = tuple(model.body(body).name or f"body {body}" for body in self._bodies)
        self.shapes = tuple(
            _shape(model, geom, self._bodies.index(model.geom_bodyid[geom]), colours[geom]) for geom in geoms
        )

    def poses(self) -> NDArray[np.float64]:
        """Return where the bodies are, (L, 7)."""
        places, turns = self._data.xpos[self._bodies], self._data.xquat[self._bodies]
        return np.concatenate([places, np.roll(turns, -1, axis=1)], axis=1)


def _colour(model: Any, geom: int) -> NDArray[Any]:
    """Return the colour that MuJoCo's viewers show."""
    colour: NDArray[Any] = model.geom_rgba[geom]
    if model.geom_matid[geom] >= 0 and np.array_equal(colour, UNSET):
        colour = model.mat_rgba[model.geom_matid[geom]]
    return colour


def _shape(model: Any, geom: int, link: int, colour: NDArray[Any]) -> Shape:
    kind = KINDS[int(model.geom_type[geom])]
    size, place, turn = model.geom_size[geom], model.geom_pos[geom], model.geom_quat[geom]
    if model.geom_type[geom] == MESH:  # whose box need not lie around its origin
        size, (w, x, y, z), middle = model.geom_aabb[geom, 3:], turn, model.geom_aabb[geom, :3]
        place = place + middle + 2 * np.cross([x, y, z], np.cross([x, y, z], middle) + w * middle)
    elif kind == "sphere":
        size = np.repeat(size[0], 3)
    elif kind in ("capsule", "cylinder"):
        size = size[[0, 0, 1]]
    pose = (*place.tolist(), *np.roll(turn, -1).tolist())
    rounded = [tuple(round(float(number), 5) for number in row) for row in (size, pose, colour)]
    return Shape(link, kind, *rounded)
