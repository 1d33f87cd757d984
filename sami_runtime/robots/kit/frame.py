"""A frame: the position and orientation of another frame in ours; given, or fitted to points known in both."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sami_runtime.errors import AdapterError
from sami_runtime.robots.kit.rotation import (
    Array,
    as_text,
    matrix_from_rpy,
    matrix_from_xyzw,
    nearest_rotation,
    numbers,
    rpy_from_matrix,
    xyzw_from_matrix,
)

ROUNDING = 1e-3
"""Largest deviation of a matrix from a rotation, since people copy few digits."""
COLLINEAR = 0.02
"""Points whose spread across a line is at most this share of their spread along it count as collinear."""


class Frame:
    """A rigid transform from another frame (theirs) into ours. Immutable.

    >>> base = Frame.of([-0.6, 0.0, 0.0])
    >>> base.points([0.6, 0.1, 0.2])
    array([0. , 0.1, 0.2])
    >>> (base.inverse @ base).points([1.0, 2.0, 3.0])
    array([1., 2., 3.])

    Args:
        matrix: (4, 4), homogeneous: their axes as the first three columns, and their origin [m], in our frame.

    Raises:
        AdapterError: The matrix is not rigid: stretched, sheared or mirrored.
    """

    def __init__(self, matrix: ArrayLike) -> None:
        rows = numbers(matrix, (4, 4), "a frame's matrix")
        rotation = rows[:3, :3]
        if rows.ndim != 2 or abs(rows[3] - (0, 0, 0, 1)).max() > 1e-9:
            raise AdapterError(f"the last row of a frame's matrix is 0, 0, 0, 1, and not {as_text(rows[-1])}.")
        if (error := abs(rotation @ rotation.T - np.eye(3)).max()) > ROUNDING or np.linalg.det(rotation) < 0:
            fault = "mirrored" if error <= ROUNDING else f"off by {error:.2g}"
            raise AdapterError(
                f"{as_text(rotation)} is no rotation, but {fault}. Its columns are unit vectors, each at right angles "
                "to the others, the third one their cross product."
            )
        self.rotation: Array = nearest_rotation(rotation)
        """(3, 3), read-only: their axes in our frame, as columns."""
        self.translation: Array = rows[:3, 3].copy()
        """(3,), read-only: their origin in our frame [m]."""
        for array in (self.rotation, self.translation):
            array.setflags(write=False)

    @classmethod
    def of(
        cls,
        translation: ArrayLike = (0.0, 0.0, 0.0),
        xyzw: ArrayLike | None = None,
        rpy: ArrayLike | None = None,
        rotation: ArrayLike | None = None,
    ) -> Frame:
        """Return a frame by its origin and orientation, in one of three forms; not rotated if there is none.

        Args:
            translation: (3,) [m], their origin in our frame.
            xyzw: (4,), unit quaternion x, y, z, w.
            rpy: (3,) [rad], roll, pitch, yaw about the fixed x, then y, then z axis.
            rotation: (3, 3).

        Raises:
            AdapterError: More than one form is given, or the numbers are no rotation.
        """
        ways = {"xyzw": xyzw, "rpy": rpy, "rotation": rotation}
        if len(turns := [name for name, value in ways.items() if value is not None]) > 1:
            raise AdapterError(
                f"a frame is turned in one way, and {' and '.join(turns)} were given. Leave out all but one."
            )
        matrix = np.eye(4)
        matrix[:3, 3] = numbers(translation, (3,), "a translation (x, y, z)")
        if xyzw is not None:
            matrix[:3, :3] = matrix_from_xyzw(xyzw)
        elif rpy is not None:
            matrix[:3, :3] = matrix_from_rpy(rpy)
        elif rotation is not None:
            matrix[:3, :3] = numbers(rotation, (3, 3), "a rotation")
        return cls(matrix)

    @classmethod
    def fit(cls, source: ArrayLike, target: ArrayLike, tolerance_m: float = 0.005) -> Frame:
        """Return the frame that maps source points onto target points: a calibration, by least squares (Kabsch).

        Use 4 points or more, far apart and not all in one plane; otherwise mirrored axes cannot be detected.

        Args:
            source: (N, 3) [m], points as the sensor gives them.
            target: (N, 3) [m], the same points in our frame.
            tolerance_m: Largest residual [m] of a point.

        Raises:
            AdapterError: There are fewer than 3 points, they are collinear, or the residual of a point exceeds the
                tolerance; the message then says whether mirrored axes or another unit would fit.
        """
        a, b = numbers(source, (3,), "each of their points"), numbers(target, (3,), "each of our points")
        if a.shape != b.shape or a.ndim != 2 or len(a) < 3:
            raise AdapterError(
                f"{a.size // 3} of their points and {b.size // 3} of ours were given; a frame is fitted to 3 pairs or "
                "more, each (3,) [m]."
            )
        for cloud, points in (("their", a), ("our", b)):
            spread = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
            if spread[1] <= max(COLLINEAR * spread[0], 1e-12):
                raise AdapterError(
                    f"{cloud} {len(points)} points lie on a line: they spread over {spread[0]:.3g} m along it, and "
                    f"{spread[1]:.2g} m across, so they determine no rotation about it. Add a point beside the line."
                )
        proper, mirrored = _align(a, b, mirror=False), _align(a, b, mirror=True)
        if proper.worst > tolerance_m:
            raise AdapterError(_explain(a, b, proper, mirrored, tolerance_m))
        matrix = np.eye(4)
        matrix[:3, :3], matrix[:3, 3] = proper.rotation, proper.translation
        return cls(matrix)

    @property
    def inverse(self) -> Frame:
        """The inverse transform, from our frame into theirs."""
        return Frame.of(-self.rotation.T @ self.translation, rotation=self.rotation.T)

    @property
    def matrix(self) -> Array:
        """(4, 4), homogeneous."""
        matrix = np.eye(4)
        matrix[:3, :3], matrix[:3, 3] = self.rotation, self.translation
        return matrix

    @property
    def xyzw(self) -> Array:
        """(4,): the orientation as a quaternion x, y, z, w."""
        return xyzw_from_matrix(self.rotation)

    @property
    def rpy(self) -> Array:
        """(3,) [rad]: the orientation as Euler angles about the fixed x, then y, then z axis."""
        return rpy_from_matrix(self.rotation)

    def __matmul__(self, other: Frame) -> Frame:
        """Return the transform that applies `other` first, then this frame."""
        return Frame(self.matrix @ other.matrix)

    def points(self, points: ArrayLike) -> Array:
        """Return their points (..., 3) [m] in our frame."""
        return self.vectors(points) + self.translation

    def vectors(self, vectors: ArrayLike) -> Array:
        """Return their vectors (..., 3) in our frame, only rotated: velocities, forces."""
        return numbers(vectors, (3,), "a point or vector") @ self.rotation.T

    def rotations(self, rotations: ArrayLike) -> Array:
        """Return orientations (..., 3, 3) in their frame as orientations in ours."""
        return self.rotation @ numbers(rotations, (3, 3), "a rotation")

    def __repr__(self) -> str:
        return f"Frame.of({as_text(self.translation)}, rpy={as_text(self.rpy)})"


class _Aligned(NamedTuple):
    rotation: Array
    translation: Array
    off: Array
    """(N,): residual of each point [m]."""

    @property
    def worst(self) -> float:
        return float(self.off.max())

    @property
    def rms(self) -> float:
        return float(np.sqrt(np.mean(self.off**2)))


def _align(a: Array, b: Array, mirror: bool) -> _Aligned:
    """Align points `a` with `b`, each (N, 3), by a proper rotation, or by a mirrored one."""
    left, _, right = np.linalg.svd((b - b.mean(axis=0)).T @ (a - a.mean(axis=0)))
    sign = np.sign(np.linalg.det(left @ right)) * (-1.0 if mirror else 1.0)
    rotation = left @ np.diag([1.0, 1.0, sign]) @ right
    translation = b.mean(axis=0) - rotation @ a.mean(axis=0)
    return _Aligned(rotation, translation, np.linalg.norm(a @ rotation.T + translation - b, axis=1))


def _explain(a: Array, b: Array, proper: _Aligned, mirrored: _Aligned, tolerance_m: float) -> str:
    scale = float(np.sqrt(((b - b.mean(axis=0)) ** 2).sum() / ((a - a.mean(axis=0)) ** 2).sum()))
    fact = (
        f"the points do not fit: point {int(proper.off.argmax())} is off by {proper.worst:.3g} m, all of them by "
        f"{proper.rms:.3g} m (root mean square), allowed are {tolerance_m:g} m"
    )
    if not 0.8 < scale < 1.25:
        return f"{fact}. Ours are spread {scale:.4g} times as far as theirs: give both in metres."
    if mirrored.worst < 0.5 * proper.worst:
        return (
            f"{fact}, and with a mirrored axis only by {mirrored.worst:.3g} m. One of the two frames is left-handed: "
            "a sign or two swapped axes; correct it where the points are read."
        )
    return f"{fact}. Is each pair the same point, in the same order? Measure the worst again, or allow more."
