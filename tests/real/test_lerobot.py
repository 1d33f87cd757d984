"""LeRobot's own interface: a policy is trained in this environment, and drives robots that others wrote in another.

`make test-lerobot` makes that environment, which takes 5.4 GB, and runs this.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sami_runtime import read_recording

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "lerobot"
DRIVER = ROOT / os.environ.get("SAMI_LEROBOT", ".venv/lerobot/bin") / "sami"
pytestmark = pytest.mark.skipif(not DRIVER.exists(), reason=f"{DRIVER} is not there: make test-lerobot makes it")
GOAL = (0.5, 0.4)
"""Of the example [rad]; it begins at 0."""


def sami(program, folder, *arguments):
    """Calls a `sami` in a folder."""
    return subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, timeout=580, check=False)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The example, with the policy that the page's commands make."""
    folder = tmp_path_factory.mktemp("lerobot") / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("run", "*.onnx", "__pycache__"))
    command = Path(sys.executable).with_name("sami")
    for line in ("train --env arm:ARM --steps 8000 --out run", "export --run run --env arm:ARM --out arm.onnx"):
        result = sami(command, folder, *line.split())
        assert result.returncode == 0, result.stderr
    return folder


def with_replaced(folder, name, *pairs):
    """The example's file of a robot under another name, with some of its text replaced."""
    text = (folder / "robot.toml").read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (folder / name).write_text(text)
    return name


def test_a_policy_brings_a_simulated_arm_of_lerobot_to_its_goal(example):
    result = sami(DRIVER, example, "drive", "robot.toml", "--check")
    assert result.returncode == 0, result.stdout
    # Longer than the example: on a machine that is busy with other things, ticks are missed.
    result = sami(DRIVER, example, "drive", "robot.toml", "--record", "run.mcap", "--set", "steps=150")
    assert result.returncode == 0, result.stderr
    steps = [record for _, record in read_recording(example / "run.mcap").steps]
    angles = [record.observation.values["angles"] for record in steps]
    assert angles[0] == pytest.approx((0.0, 0.0), abs=0.05)
    assert angles[-1] == pytest.approx(GOAL, abs=0.06)


def test_a_robot_that_returns_what_it_was_sent_and_always_reads_zero_is_driven(example):
    text = (example / "robot.toml").read_text()
    joints = ("elbow_flex", "wrist_flex", "wrist_yaw", "wrist_roll", "gripper")
    table = "[settings.action.others]\n" + "".join(f'"{name}.pos" = "hold"\n' for name in joints)
    text = text[: text.index("[settings.action.others]")] + table
    for old, new in (
        ('"hex_arm_sim_follower"', '"dummy_follower"'),
        ("headless = true\ncameras = {}", "silent = true"),
        ('"joint_1.pos", "joint_2.pos"', '"shoulder_pan.pos", "shoulder_lift.pos"'),
        ("steps = 60", 'steps = 10\nunguarded = ["ranges", "ood", "frozen"]'),
    ):
        assert old in text
        text = text.replace(old, new)
    (example / "dummy.toml").write_text(text)
    result = sami(DRIVER, example, "drive", "dummy.toml", "--record", "dummy.mcap")
    assert result.returncode == 0, result.stderr
    steps = [record for _, record in read_recording(example / "dummy.mcap").steps]
    assert steps
    assert all((record.observation.values["angles"] == 0.0).all() for record in steps)


def test_what_lerobot_does_not_have_is_refused_with_what_it_has(example):
    wrong = with_replaced(example, "wrong.toml", ("hex_arm_sim_follower", "hex_arm_follower"))
    result = sami(DRIVER, example, "drive", wrong, "--check")
    assert result.returncode == 4
    assert "Did you mean 'hex_arm_sim_follower'? Valid: bi_openarm_follower," in result.stdout
    assert "so101_follower" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr
    wrong = with_replaced(example, "keys.toml", ('"joint_1.pos", "joint_2.pos"', '"joint_1.pos", "joint_7.pos"'))
    result = sami(DRIVER, example, "drive", wrong)
    assert result.returncode == 1
    assert "'joint_7.pos'; the robot observes joint_1.pos" in result.stderr
