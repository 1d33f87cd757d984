"""What adapters of own arms are made of: frames, clocks, velocities, fusion, units, inverse kinematics."""

from sami_runtime.kit.clock_sync import ClockSync
from sami_runtime.kit.datagrams import Datagrams
from sami_runtime.kit.differential_ik import DifferentialIK, Motion
from sami_runtime.kit.differentiator import Differentiator
from sami_runtime.kit.frame import Frame
from sami_runtime.kit.gripper import Gripper
from sami_runtime.kit.latest import Latest
from sami_runtime.kit.rotation import matrix_from_rpy, matrix_from_xyzw, rpy_from_matrix, xyzw_from_matrix
from sami_runtime.kit.wrappers import Rename, Scale

__all__ = [
    "ClockSync",
    "Datagrams",
    "DifferentialIK",
    "Differentiator",
    "Frame",
    "Gripper",
    "Latest",
    "Motion",
    "Rename",
    "Scale",
    "matrix_from_rpy",
    "matrix_from_xyzw",
    "rpy_from_matrix",
    "xyzw_from_matrix",
]
