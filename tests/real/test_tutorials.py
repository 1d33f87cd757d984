"""The tutorials that train, block by block, with few steps."""

from tests.making.tutorial import follow

FEW = ("--steps 20000 --set", "--steps 1500 --set exploration.warmup_steps=1000 --set")


def test_train_your_own_robot(tmp_path):
    less = [FEW, ("--episodes 20", "--episodes 2"), ("--out arm.onnx", "--out arm.onnx --atlas-episodes 0")]
    printed = follow("train-your-own-robot.md", tmp_path, less)
    assert (tmp_path / "arm.onnx").is_file()
    assert "payload" in printed
    assert "joint_angles" in printed


def test_compare_methods(tmp_path):
    printed = follow(
        "compare-methods.md", tmp_path, [("--steps 4000", "--steps 1500"), ("--episodes 10", "--episodes 2")]
    )
    assert "tesac" in printed
    assert (tmp_path / "examples" / "own_environment" / "report" / "report.md").is_file()
