"""The appearance of a robot for viewers: shapes that are fixed to links, and the poses of the links."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Shape(NamedTuple):
    """One shape of a link."""

    link: int
    """Number of the link that it is fixed to."""
    kind: str
    """`plane` (facing z), `sphere`, `ellipsoid`, `box`, or, along z, `capsule` or `cylinder`."""
    size: tuple[float, ...]
    """Half sizes along x, y, z [m]; of a capsule and a cylinder radius, radius, half length without caps."""
    pose: tuple[float, ...]
    """Position [m] and orientation (x, y, z, w) in the link's frame, 7 numbers."""
    rgba: tuple[float, ...]
    """Colour, each in [0, 1]."""


class Scene(Protocol):
    """The links and shapes of a robot, for viewers."""

    links: tuple[str, ...]
    """Names of the L links."""
    shapes: tuple[Shape, ...]
    """Shapes that are fixed to the links."""

    def poses(self) -> NDArray[np.float64]:
        """Return the current poses of the links, (L, 7): position [m] and orientation (x, y, z, w) in the world."""


def scene_of(adapter: Any) -> Scene | None:
    """Return the scene that an adapter offers as `scene`; None where it has none."""
    scene: Scene | None = getattr(adapter, "scene", None)
    return scene
