"""What a robot installs by hashes is what everything here is tested with."""

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
FOR_TRAINING = ("torch", "stable-baselines3", "gymnasium", "pybullet", "mujoco", "onnx")
RUNTIME = ("numpy", "pydantic", "onnxruntime", "mcap", "cryptography")
ALL = "requirements-robot-all.txt"
EXTRAS = ("cpu", "record", "sign", "convert", "ik", "franka", "ros2", "unitree")
"""What a robot's host may install."""

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def pinned(name):
    """Versions of a file of requirements, by name, each with the number of its hashes."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / name).read_text(encoding="utf-8"))
    table = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            stated, *hashes = line.split(" --hash=sha256:")
            requirement = Requirement(stated)
            (version,) = requirement.specifier
            assert version.operator == "=="
            table.setdefault(requirement.name.lower().replace("_", "-"), []).append((version.version, len(hashes)))
    return table


@pytest.mark.parametrize("file", ["requirements-robot.txt", ALL])
def test_all_that_a_robot_installs_has_a_version_that_is_tested_and_a_hash(file):
    robot, tested = pinned(file), pinned("constraints.txt")
    for name, item in robot.items():
        for version, hashes in item:
            assert hashes > 0, f"{name}=={version} has no hash"
            if name in tested:
                assert version in [number for number, _ in tested[name]], f"{name}=={version}: run sh tests/hashed.sh"


def test_a_robot_installs_what_the_runtime_needs_and_nothing_of_training():
    robot = pinned("requirements-robot.txt")
    assert set(RUNTIME) <= set(robot)
    assert not set(FOR_TRAINING) & set(robot)


def test_every_extra_of_a_robots_host_can_be_installed_by_hashes():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    robot = pinned(ALL)
    for extra in EXTRAS:
        for text in project["optional-dependencies"][extra]:
            requirement = Requirement(text)
            if requirement.name == "sami-rl":
                assert requirement.extras <= set(EXTRAS)
            else:
                assert all(requirement.specifier.contains(version) for version, _ in robot[requirement.name]), text
    assert set(FOR_TRAINING) & set(robot) == {"mujoco"}, "MuJoCo computes kinematics"
    for name, item in pinned("requirements-robot.txt").items():
        assert robot[name] == item, "the versions of the smaller file"
