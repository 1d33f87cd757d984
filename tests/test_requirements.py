"""What a robot installs by hashes is what everything here is tested with."""

import re
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
FOR_TRAINING = ("torch", "stable-baselines3", "gymnasium", "pybullet", "mujoco", "onnx")
RUNTIME = ("numpy", "pydantic", "onnxruntime", "mcap", "cryptography")


def pinned(name):
    """Versions of a file of requirements, by name, each with the number of its hashes."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / name).read_text(encoding="utf-8"))
    found = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            stated, *hashes = line.split(" --hash=sha256:")
            requirement = Requirement(stated)
            (version,) = requirement.specifier
            assert version.operator == "=="
            found.setdefault(requirement.name.lower().replace("_", "-"), []).append((version.version, len(hashes)))
    return found


def test_all_that_a_robot_installs_has_a_version_that_is_tested_and_a_hash():
    robot, tested = pinned("requirements-robot.txt"), pinned("constraints.txt")
    for name, each in robot.items():
        for version, hashes in each:
            assert hashes > 0, f"{name}=={version} has no hash"
            if name in tested:
                assert version in [ours for ours, _ in tested[name]], f"{name}=={version}: run sh tests/hashed.sh"


def test_a_robot_installs_what_the_runtime_needs_and_nothing_of_training():
    robot = pinned("requirements-robot.txt")
    assert set(RUNTIME) <= set(robot)
    assert not set(FOR_TRAINING) & set(robot)
