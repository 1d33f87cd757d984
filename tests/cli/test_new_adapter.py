"""`sami new-adapter`: from a model file to a module that can be checked, in two commands."""


def test_a_skeleton_is_written_named_after_its_model_and_checked(sami, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = sami("new-adapter", "seven_axes.py", "--model", "panda-satesac")
    assert (done.code, done.err) == (0, "")
    assert "Next: sami check-adapter seven_axes:make --model panda-satesac\n" in done.out
    checked = sami("check-adapter", "seven_axes:make", "--model", "panda-satesac")
    assert checked.code == 4
    assert "ok      declares the signals" in checked.out
    assert "seven_axes.py is a skeleton. What remains:" in checked.out
    assert "hear: cube_rotation, roll, pitch, yaw [rad]" in checked.out
    again = sami("new-adapter", "seven_axes.py", "--model", "panda-satesac")
    assert (again.code, "exists; choose another name" in again.err) == (1, True)
    assert sami("new-adapter", "seven_axes.py", "--model", "panda-satesac", "--force").code == 0
