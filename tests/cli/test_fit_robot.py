"""`sami fit-robot` as a user meets it: from a recording to a model and a file to train with."""

import json
from pathlib import Path

import pytest

pytest.importorskip("mcap")
pytest.importorskip("mujoco")

from sami_cli import main

from tests.making.hidden_robot import JOINTS, draw_hidden, hide, nominal_arm, recorded


@pytest.fixture
def recording(sami, tmp_path):
    """Where `sami` is called: robot.toml, robot.xml, and the name of a recording of one whose motors differ."""
    recorded(
        hide(nominal_arm(Path()), draw_hidden(JOINTS, seed=1)),
        Path("run.mcap"),
        episodes=6,
        noise=0.0005,
    )
    return "run.mcap"


def test_a_model_and_a_file_to_train_with_are_written_and_accepted(sami, recording):
    result = sami("fit-robot", "robot.toml", recording, "--out", "fitted.xml")
    assert (result.code, result.err) == (0, "")
    assert "wrote fitted.xml and fitted.toml" in result.out
    assert "Replay error of 4 windows that were held out: nominal 0.0" in result.prose
    [row] = [line for line in result.out.splitlines() if "bias" in line and line.lstrip().startswith("base")]
    assert "not identifiable" in row
    following = result.out.splitlines()[-1].removeprefix("Next: sami ").split()
    assert sami(*following, "--dry-run").code == 0
    again = sami("fit-robot", "robot.toml", recording, "--out", "fitted.xml")
    assert (again.code, "fitted.xml exists" in again.err) == (1, True)
    refused = sami("fit-robot", "fitted.toml", recording, "--out", "fitted.xml", "--force")
    assert (refused.code, "never replaces what it reads" in refused.err) == (1, True)


def test_a_reader_that_leaves_loses_no_file(sami, recording, monkeypatch):
    def left(*lines):
        raise BrokenPipeError

    monkeypatch.setattr("sami_cli.commands.studies.fit_robot.print_table", left)
    assert sami("fit-robot", "robot.toml", recording, "--out", "fitted.xml").code == 1
    assert Path("fitted.xml").is_file()
    assert Path("fitted.toml").is_file()


def test_what_cannot_be_written_or_would_count_twice_is_refused_before_anything_is_fitted(sami, recording, monkeypatch):
    monkeypatch.setattr("sami_train.studies.fit_robot.fit.fit_robot", None)
    twice = "is named twice. A recording counts once, so name each once."
    Path("link.mcap").symlink_to(recording)
    for words, reason in (
        ([recording, "--out", "nowhere/fitted.xml"], "nowhere/fitted.xml cannot be written: nowhere is no folder."),
        ([recording, recording], f"{recording} {twice}"),
        ([recording, "link.mcap", "--out", "fitted.xml"], twice),
    ):
        result = sami("fit-robot", "robot.toml", *words)
        assert (result.code, result.out) == (1, "")
        assert reason in result.err
    assert "is named twice" in sami("fit-gap", recording, recording).err
    assert "nowhere is no folder" in sami("fit-gap", recording, "--out", "nowhere/gap.toml").err


def test_recorded_tasks_that_differ_are_refused_with_the_option_that_fixes_them(sami, recording):
    Path("robot.toml").write_text(Path("robot.toml").read_text().replace("[1.0]", "[0.5, 2.0]"))
    recorded(Path("robot.toml"), Path("tasks.mcap"), episodes=6)
    result = sami("fit-robot", "robot.toml", "tasks.mcap", "--out", "fitted.xml")
    assert (result.code, result.out, Path("fitted.xml").exists()) == (1, "", False)
    assert "tasks.mcap: the recorded tasks differ in fitted_load (0.5 to 2), and a fit describes one" in result.err
    assert "add --fix fitted_load=VALUE to sami run" in result.err


@pytest.mark.parametrize("command", [("fit-robot", "robot.toml", "run.mcap"), ("fit-gap", "run.mcap")])
def test_an_interrupted_fit_says_that_nothing_was_written(recording, monkeypatch, capfd, command):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sami_train.studies.fit_gap.trace.read_log", interrupted)
    monkeypatch.setattr("sys.argv", ["sami", *command])
    with pytest.raises(SystemExit, match="130"):
        main()
    assert capfd.readouterr() == ("", "sami: stopped; nothing was written\n")


def test_json_has_every_parameter_with_its_interval_and_verdict(sami, recording):
    result = sami("fit-robot", "robot.xml", recording, "--json")
    document = json.loads(result.out)
    assert (result.code, document["windows"]) == (0, {"fitted": 8, "held_out": 4})
    assert len(document["parameters"]) == 5 * 3 + 1
    for row in document["parameters"]:
        assert row["interval"][0] <= row["value"] <= row["interval"][1]
        assert row["verdict"] in ("identified", "rough", "not identifiable")
    errors = document["replay_error"]["rad"]
    assert errors["fitted"]["high"] < errors["nominal"]["low"]
    assert sorted(path.name for path in Path().glob("*fitted*")) == []


def test_nothing_is_written_where_something_is_wrong(sami, recording):
    Path("robot.xml").write_text(Path("robot.xml").read_text().replace('name="base" joint', 'name="yaw" joint'))
    result = sami("fit-robot", "robot.toml", recording, "--out", "fitted.xml")
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert "its actuators are yaw, shoulder, elbow; the recorded action has base, shoulder, elbow" in result.err
    assert not Path("fitted.xml").exists()
    assert "give NAME.xml" in sami("fit-robot", "robot.toml", recording, "--out", "fitted.toml").err
