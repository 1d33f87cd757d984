"""`sami new-adapter`: from a model file to a module that can be checked, in two commands."""

import shutil

from sami_runtime import shipped_models


def test_a_skeleton_is_written_named_after_its_model_and_checked(sami, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = sami("new-adapter", "seven_axes.py", "--model", "panda-satesac")
    assert (result.code, result.err) == (0, "")
    assert "Next: sami check-adapter seven_axes:make --model panda-satesac\n" in result.out
    checked = sami("check-adapter", "seven_axes:make", "--model", "panda-satesac")
    assert checked.code == 4
    assert "ok      declares the signals" in checked.out
    assert "seven_axes.py is a skeleton. What remains:" in checked.out
    assert "hear: cube_rotation, roll, pitch, yaw [rad]" in checked.out
    again = sami("new-adapter", "seven_axes.py", "--model", "panda-satesac")
    assert (again.code, "exists; choose another name" in again.err) == (1, True)
    assert sami("new-adapter", "seven_axes.py", "--model", "panda-satesac", "--force").code == 0


def test_the_command_that_is_named_next_reads_the_model_from_the_folder_of_the_skeleton(sami, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "an arm").mkdir()
    shutil.copy(shipped_models()["panda-satesac"], "mine.onnx")
    result = sami("new-adapter", "an arm/arm.py", "--model", "mine.onnx")
    assert f"cd 'an arm'; sami check-adapter arm:make \\\n      --model {tmp_path / 'mine.onnx'}" in result.out, result
