"""The examples of environments of one's own, each from training to a running policy, with no edit to the packages."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("mujoco")

from sami_runtime import Session
from tests.cli.conftest import sami, small

__all__ = ["sami", "small"]  # fixtures of the test below

FOLDER = Path(__file__).parents[2] / "examples" / "own_environment"
EXAMPLES = {
    "pendulum": ("pendulum:PENDULUM", {"direction": 2, "velocity": 1}, "length"),
    "arm": ("my_robot.toml", {"joint_angles": 2, "joint_velocities": 2, "target_from_tip": 3}, "damping"),
    "fetch": ("fetch:PUSH", {"cube_position": 3, "fingers": 2, "desired_goal": 3}, "friction"),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Gymnasium-Robotics imports
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_trains_and_its_policy_runs(example, sami, small):
    if example == "fetch":
        pytest.importorskip("gymnasium_robotics")
    env, sizes, feature = EXAMPLES[example]
    shutil.copytree(FOLDER, ".", dirs_exist_ok=True)

    options = small(exploration__warmup_steps=200, learning__batch_episodes=2, network__hidden_size=8)
    result = sami("train", "--env", env, "--method", "tesac", "--steps", 400, *options, "--out", "run", "-q")
    assert (result.code, result.err.count("Traceback")) == (0, 0), result.err
    assert json.loads(Path("run/config.json").read_text())["env"] == env

    result = sami("eval", "--run", "run", "--env", env, "--episodes", 1, "--on", 1, "--tasks", "moderate")
    assert (result.code, feature in result.out) == (0, True), result.err

    result = sami(
        "export",
        "--run",
        "run",
        "--env",
        env,
        "--out",
        "mine.onnx",
        "--set",
        "atlas_episodes=0",
        "--set",
        "seen_episodes=0",
    )
    assert result.code == 0, result.err
    assert sami("verify", "mine.onnx").code == 0
    contract = Session.load("mine.onnx").contract
    assert sizes.items() <= {signal.name: signal.size for signal in contract.observation}.items()
    assert contract.training["env"] == env

    result = sami("run", "--model", "mine.onnx", "--env", env, "--episodes", 1, "--seed", 1)
    assert result.code == 0, result.err
    assert feature in result.out
