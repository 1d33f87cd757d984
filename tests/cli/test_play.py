"""`sami play`, and `sami robustness` and `sami describe` of an adopted policy, as a user calls them."""

import json
import os
import struct

import numpy as np
import pytest

pytest.importorskip("mujoco")

from sami_runtime.model.artifact import read_artifact
from sami_runtime.recording.reader import read_recording
from tests.making.stander import mjcf, stander


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("adopted")
    stander(path)
    return path


@pytest.fixture
def standing_model(sami, folder):
    """Call a command with the stander's file and robot."""

    def call(command, *arguments, robot="--robot"):
        return sami(command, folder / "stander.onnx", robot, folder / "stander.xml", *arguments)

    return call


def test_it_stands_and_its_recording_replays(sami, standing_model):
    result = standing_model("play", "--record", "s.mcap", "--json")
    assert result.code == 0, result.err
    row = json.loads(result.out)
    assert (row["success"], row["steps"], row["forward"]) == (True, 60, 0.5)
    assert 0.3 < row["tracking_error"] < 0.7, "a robot that stands has its command as the error"
    replayed = sami("replay", "s.mcap")
    assert "60 steps compared, none differs" in replayed.out


def test_a_timeline_commands_it_and_a_fall_is_no_success(standing_model, tmp_path):
    (tmp_path / "walk.csv").write_text("time_s,forward\n0,0\n0.4,2\n")
    result = standing_model("play", "--command", tmp_path / "walk.csv", "--json")
    row = json.loads(result.out)
    assert (row["success"], row["ended"]) == (False, "world")
    assert 20 < row["steps"] < 60
    assert row["forward"] == 2.0
    assert "no" in standing_model("play", "--command", "forward=2").out.splitlines()[1]


def test_a_gamepad_commands_it(standing_model, tmp_path):
    os.mkfifo(tmp_path / "js0")
    writer = os.open(tmp_path / "js0", os.O_RDWR)
    os.write(writer, struct.pack("<IhBB", 0, -32767, 2, 1))
    result = standing_model(
        "play", "--command", f"gamepad:{tmp_path / 'js0'}", "--set", "steps=8", "--record", "pad.mcap"
    )
    os.close(writer)
    assert result.code == 0, result.err
    values = {tuple(s.record.observation.values["command"].tolist()) for s in read_recording("pad.mcap").steps}
    assert values == {(np.float32(0.6).item(), 0.0, 0.0)}


def test_what_it_plays_with_a_profile_is_recorded(sami, standing_model, tmp_path):
    (tmp_path / "late.toml").write_text("latency_s = 0.04\n")
    assert standing_model("play", "--set", f"gap={tmp_path / 'late.toml'}", "--record", "g.mcap").code == 0
    assert json.loads(sami("replay", "g.mcap", "--json").out)["about"]["gap"] == {"latency_s": 0.04}


def test_it_is_filmed(standing_model, tmp_path):
    result = standing_model("play", "--render", "s.gif", "--set", "steps=6")
    if "no OpenGL" in result.err:
        pytest.skip("no OpenGL to render with (Debian: libegl1)")
    assert result.code == 0, result.err
    assert (tmp_path / "here" / "s.gif").read_bytes().startswith(b"GIF89a")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--command", "keys"), "needs a terminal"),
        (("--command", "gamepad:/dev/input/js99"), "there is no gamepad"),
        (("--command", "up=1"), "unknown element of the command in --command 'up'"),
        (("--set", "episode=2"), "--set: episode: unknown key 'episode'"),
        (("--set", "gap=none.toml"), "none.toml cannot be read"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(arguments, message, standing_model):
    result = standing_model("play", *arguments)
    assert result.code == 1
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_robot_that_does_not_fit_is_refused_with_both_lists(sami, folder, tmp_path):
    (tmp_path / "other.xml").write_text(mjcf().replace("FL_joint", "front_left"))
    result = sami("play", folder / "stander.onnx", "--robot", tmp_path / "other.xml")
    assert result.code == 1
    assert "The policy moves FL, FR, RL, RR; the MJCF has front_left" in result.err
    (tmp_path / "robot.toml").write_text('scene = "other.xml"\n[joints]\nFL = "front_left"\n')
    assert sami("play", folder / "stander.onnx", "--robot", tmp_path / "robot.toml", "--set", "steps=3").code == 0


def test_a_policy_that_was_not_adopted_is_refused(sami, folder):
    result = sami("play", "panda-satesac", "--robot", folder / "stander.xml")
    assert result.code == 1
    assert "was not adopted" in result.err


@pytest.mark.parametrize(
    ("text", "message"), [("", "scene: field required"), ('scenes = "a.xml"', "Did you mean 'scene'?")]
)
def test_toml_without_a_scene_is_refused_as_such_and_not_as_code_that_the_model_names(
    text, message, sami, folder, tmp_path
):
    (tmp_path / "robot.toml").write_text(text)
    result = sami("play", folder / "stander.onnx", "--robot", tmp_path / "robot.toml")
    assert result.code == 1
    assert message in result.err


def test_robustness_tells_survival_and_tracking_error(sami, standing_model, folder):
    result = standing_model(
        "robustness", "--gap", "latency", "--episodes", 2, "--on", 1, "--out", "r", "--json", robot="--env"
    )
    assert result.code == 0, result.err
    clean, *late = json.loads(result.out)["points"]
    assert [point["severity"] for point in late] == [0.02, 0.04, 0.08]
    assert clean["sets"]["training"]["success"] == 1.0
    assert 0.2 < clean["sets"]["training"]["tracking_error"] < 1.0
    again = sami("robustness", "r")
    assert "| training: tracking error |" in again.out
    assert sami("robustness", "r", "--json").out == result.out
    cluster = standing_model("robustness", "--on", "slurm:time=9", "--out", "c", robot="--env")
    assert "on this machine only" in cluster.err


def test_training_ranges_come_from_a_recording_or_a_rollout(sami, standing_model, folder, tmp_path):
    model = tmp_path / "own.onnx"
    model.write_bytes((folder / "stander.onnx").read_bytes())
    assert standing_model("play", "--record", "s.mcap", "--set", "episodes=2").code == 0
    refused = sami("describe", model)
    assert "its training's environment is not here" in refused.err
    result = sami("describe", model, "--rollout", "s.mcap")
    assert "from 120 steps of 2 episodes" in result.out
    ranges = read_artifact(model).contract.training_ranges
    assert ranges.signals["command"].mean == (0.5, 0.0, 0.0)
    assert "--force" in sami("describe", model, "--rollout", "s.mcap").err
    np.savez(tmp_path / "r.npz", obs=np.zeros((9, 4, 21)), actions=np.ones((9, 4, 4)))
    assert sami("--force", "describe", model, "--rollout", tmp_path / "r.npz").code == 0
    ranges = read_artifact(model).contract.training_ranges
    assert (ranges.steps, ranges.episodes) == (36, 4)
    assert ranges.signals["joint_targets"].mean == (0.6, 0.6, 0.4, 0.4)
    assert sami("verify", model).code == 0
