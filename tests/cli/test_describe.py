"""`sami describe` and `sami inspect`: what training saw is measured, put into the file, and printed."""

import json
import shutil
from pathlib import Path

from sami_runtime.model.artifact import read_artifact
from sami_train.export import training_ranges

SHIPPED = Path(__file__).parents[2] / "models" / "panda-satesac.onnx"


def test_a_file_is_described_once_and_then_has_training_ranges(sami, panda, tmp_path, short_panda):
    path = Path(shutil.copy(panda.model, tmp_path / "copy.onnx"))
    message = sami("inspect", path).out
    assert "seen: not recorded; `sami describe` measures what training saw" in message
    assert "frame: table's frame" in message, "export tells what the environment knows"
    result = sami("describe", path, "--set", "episodes=6", "--set", "starts=2")
    assert (result.code, result.err) == (0, "measuring what training saw ...\n")
    assert "copy.onnx has training ranges now, from " in result.prose
    assert result.prose.strip().endswith("steps of 6 episodes, and its frame and home pose")
    before, after = read_artifact(panda.model).contract, read_artifact(path).contract
    assert after.model_copy(update={"training_ranges": None}) == before
    assert sami("verify", path).code == 0
    content = path.read_bytes()
    refused = sami("describe", path)
    assert (refused.code, refused.out) == (1, "")
    assert "--force measures them again" in refused.err
    assert path.read_bytes() == content
    # The same episodes give the same numbers.
    assert sami("describe", path, "--set", "episodes=6", "--set", "starts=2", "--force").code == 0
    assert path.read_bytes() == content


def test_export_measures_it_as_well(sami, panda, monkeypatch, short_panda):
    whole = training_ranges.measure_responses
    monkeypatch.setattr(training_ranges, "measure_responses", lambda spec, tasks, starts: whole(spec, tasks, 2))
    arguments = (
        "export",
        "--run",
        panda.run,
        "--out",
        "new.onnx",
        "--set",
        "card=false",
        "--set",
        "atlas_episodes=0",
    )
    result = sami(*arguments, "--set", "seen_episodes=6")
    assert (result.code, "sami describe" in result.out) == (0, False)
    contract = read_artifact("new.onnx").contract
    assert contract.training_ranges.episodes == 6
    assert contract.training_ranges.responses is not None
    assert contract.sheet == read_artifact(panda.model).contract.sheet is not None


def test_inspect_prints_bounds_what_training_saw_meanings_frame_and_home(sami):
    lines = sami("inspect", SHIPPED).out.splitlines()
    bounds, spread = [line.split()[1:] for line in lines if line.startswith("desired_goal.z")]
    assert bounds == ["m", "-10", "10", "0.02", "to", "0.02"]
    assert spread == ["0.02", "0", "0.02", "0.02"]
    bounds, _ = [line.split()[1:] for line in lines if line.startswith("ee_displacement_and_gripper.dx")]
    assert bounds == ["1", "-1", "1", "-"]
    starts = ("seen: 2,0", "response to 1 of dx, moved by 0.1 for 5 ticks: ee_position.x +0.1", "meaning ee_position: ")
    for start in (*starts, "frame: table's frame", "home: the joints at home_joints", "arm_base: -0.6, 0, 0 m"):
        assert any(line.startswith(start) for line in lines), start
    document = json.loads(sami("inspect", SHIPPED, "--json").out)
    assert document["seen"]["signals"]["desired_goal"]["mean"][2] == 0.02
    assert document["sheet"]["numbers"]["arm_base"] == {"unit": "m", "values": [-0.6, 0.0, 0.0]}
    ahead = sami("inspect", SHIPPED.with_name("panda-satesac-ahead.onnx")).prose
    assert "held-out error by period, and in brackets that of treating the observation as current:" in ahead


def test_a_robot_whose_frame_nobody_wrote_down_says_so(sami):
    message = sami("inspect", SHIPPED.with_name("hopper-satesac.onnx")).out
    assert "frame: not described" in message
    assert "response to 1 of leg_joint, moved by 0.1 for 5 ticks: nothing answered clearly" in message
