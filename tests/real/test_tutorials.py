"""The tutorials, block by block, with few steps and episodes."""

from tests.making.tutorial import follow

UDP_ROBOT_PORT = "47311"
FEW = ("--steps 20000 --set", "--steps 1500 --set exploration.warmup_steps=1000 --set")


def test_train_your_own_robot(tmp_path):
    less = [FEW, ("--episodes 20", "--episodes 2"), ("--out arm.onnx", "--out arm.onnx --set atlas_episodes=0")]
    output = follow("train-your-own-robot.md", tmp_path, less)
    assert (tmp_path / "arm.onnx").is_file()
    assert "payload" in output
    assert "joint_angles" in output


def test_compare_methods(tmp_path):
    output = follow(
        "compare-methods.md", tmp_path, [("--steps 4000", "--steps 1200"), ("--episodes 10", "--episodes 2")]
    )
    assert "tesac" in output
    assert (tmp_path / "examples" / "own_environment" / "report" / "report.md").is_file()


def test_see_it_adapt(tmp_path):
    output = follow("see-it-adapt.md", tmp_path, [("steps=200", "steps=80"), ("--episodes 4", "--episodes 2")])
    assert "live less" in output
    assert (tmp_path / "light.html").stat().st_size > 10_000
    assert (tmp_path / "adapt" / "adaptation.png").is_file()


def test_put_it_on_an_arm(tmp_path, monkeypatch):
    monkeypatch.setenv("UDP_ROBOT_PORT", UDP_ROBOT_PORT)
    output = follow("put-it-on-an-arm.md", tmp_path)
    assert (tmp_path / "examples" / "run.mcap").is_file()
    assert (tmp_path / "examples" / "my_arm.py").is_file()
    assert "WRONG" not in output


def test_bring_your_policy(tmp_path):
    output = follow("bring-your-policy.md", tmp_path)
    assert "it answers as policy.onnx does" in " ".join(output.split())
    assert "0 of 14 checks failed" in output
    assert "3 of 3 episodes succeeded" in output
    assert "300 steps compared, none differs" in output
    assert "WRONG" not in output
