"""Parts for adapters of your own arms: frames, clocks, velocities, sensor fusion, units, inverse kinematics."""

from sami_runtime.robots.kit.clock_sync import ClockSync
from sami_runtime.robots.kit.datagrams import Datagrams
from sami_runtime.robots.kit.differential_ik import DifferentialIK, Motion
from sami_runtime.robots.kit.differentiator import Differentiator
from sami_runtime.robots.kit.frame import Frame
from sami_runtime.robots.kit.gripper import Gripper
from sami_runtime.robots.kit.joints import joint_signals
from sami_runtime.robots.kit.latest import Latest
from sami_runtime.robots.kit.rotation import matrix_from_rpy, matrix_from_xyzw, rpy_from_matrix, xyzw_from_matrix
from sami_runtime.robots.kit.wrappers import Rename, Scale

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
    "joint_signals",
    "matrix_from_rpy",
    "matrix_from_xyzw",
    "rpy_from_matrix",
    "xyzw_from_matrix",
]
