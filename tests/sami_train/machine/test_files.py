"""Files and folders that appear whole or not at all."""

import json

import pytest

from sami_runtime.errors import SamiError
from sami_train.machine.files import read_json, read_json_lines, unfinished, write_json


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_it_is_whole(tmp_path):
    with unfinished(tmp_path / "model.onnx") as beside:
        beside.write_text("half")
        assert names(tmp_path) == ["model.onnx.unfinished"]
    assert names(tmp_path) == ["model.onnx"]
    assert (tmp_path / "model.onnx").read_text() == "half"


def test_a_folder_appears_when_it_is_whole_and_replaces_the_one_that_was_there(tmp_path):
    for contents in ("old", "new"):
        with unfinished(tmp_path / "600") as beside:
            beside.mkdir()
            (beside / contents).touch()
    assert names(tmp_path) == ["600"]
    assert names(tmp_path / "600") == ["new"]


def half(path, error):
    """Make half a file, or half a folder."""
    with unfinished(path) as beside:
        if path.suffix:
            beside.write_text("half")
        else:
            (beside / "deep").mkdir(parents=True)
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("name", ["agent.zip", "600"])
def test_an_error_leaves_what_was_there_and_nothing_beside_it(tmp_path, name, error):
    (tmp_path / name).write_text("old")
    with pytest.raises(error):
        half(tmp_path / name, error)
    assert names(tmp_path) == [name]
    assert (tmp_path / name).read_text() == "old"


def test_what_a_killed_process_left_beside_does_not_get_in(tmp_path):
    (tmp_path / "600.unfinished").mkdir()
    (tmp_path / "600.unfinished" / "torn").touch()
    (tmp_path / "agent.zip.unfinished").write_text("torn")
    with unfinished(tmp_path / "600") as beside:
        beside.mkdir()
    with unfinished(tmp_path / "agent.zip") as beside:
        assert not beside.exists()
        beside.write_text("whole")
    assert names(tmp_path) == ["600", "agent.zip"]
    assert names(tmp_path / "600") == []


def test_a_value_that_is_no_json_leaves_the_old_file(tmp_path):
    path = tmp_path / "run.json"
    write_json(path, {"steps": 1})
    with pytest.raises(TypeError):
        write_json(path, {"steps": object()})
    assert read_json(path) == {"steps": 1}
    assert path.read_text() == '{\n  "steps": 1\n}\n'
    assert names(tmp_path) == ["run.json"]


@pytest.mark.parametrize(
    ("text", "message"), [('{"steps": 1', "cannot be read: .*Was it half written?"), ("[1]", "holds a list")]
)
def test_what_is_no_json_object_is_refused(tmp_path, text, message):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(SamiError, match=message):
        read_json(tmp_path / "run.json")


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert read_json_lines(path) == []
    path.write_text(json.dumps({"step": 1}) + '\n{"st')
    assert read_json_lines(path) == [{"step": 1}]
