"""The shipped policy drives a simulated SO-101 by `sami drive`, in LeRobot's units and by the wall clock."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mujoco")

from benchmarks import lerobot_so101 as measured
from sami_train.envs.so101.entry import SO101

ROOT = Path(__file__).parents[2]
