"""Gap profiles as people write them: every mistake is named, with what would be valid, before anything moves."""

import json
import math

import pytest

from sami_runtime.adapters.panda import PANDA_OBSERVATION
from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.gap.profile import GapProfile


def write(folder, document, name="gap.json"):
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_toml_and_json_say_the_same(tmp_path):
    text = "latency_s = [0, 0.04]\ndropout = 0.1\n[noise]\nposition = 0.01\n"
    profile = GapProfile.load(write(tmp_path, text, "gap.toml"))
    assert (profile.latency_s, profile.dropout, profile.noise) == ((0.0, 0.04), 0.1, {"position": 0.01})
    assert GapProfile.load(write(tmp_path, profile.to_dict())) == profile
    assert GapProfile.loads(profile.dumps()) == profile


def test_an_empty_file_is_no_gap(tmp_path):
    empty = GapProfile.load(write(tmp_path, "", "gap.toml"))
    assert empty == GapProfile()
    assert empty.dumps() == "{}"


def test_the_profile_that_comes_along_fits_any_robot():
    modest = GapProfile.load("modest")
    modest.require_fit([])
    assert modest != GapProfile()


NUMBER = "or a range [low, high] of such numbers."


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"latensy_s": 0.1}, "unknown key of a profile 'latensy_s'. Did you mean 'latency_s'?"),
        ({"latency_s": -0.1}, f"latency_s is -0.1; it must be a number of at least 0, {NUMBER}"),
        ({"latency_s": math.inf}, f"latency_s is inf; it must be a number of at least 0, {NUMBER}"),
        ({"latency_s": math.nan}, f"latency_s is nan; it must be a number of at least 0, {NUMBER}"),
        ({"latency_s": "late"}, f"latency_s is 'late'; it must be a number of at least 0, {NUMBER}"),
        ({"latency_s": {"position": -1}}, f"latency_s.position is -1; it must be a number of at least 0, {NUMBER}"),
        ({"clock_skew": {"position": 0}}, "clock_skew is {'position': 0}; it must be a number from -0.5 to 0.5"),
        ({"sensors": ["position"]}, "sensors is ['position']; it must be a table such as { camera = ["),
        ({"sensors": {"camera": "position"}}, "sensors is {'camera': 'position'}; it must be a table such as"),
        ({"sensors": {"camera": []}}, "sensors is {'camera': []}; it must be a table such as"),
        ({"sensors": {"a": ["position"], "b": ["position"]}}, "sensors names position twice; a signal comes from one"),
        ({"latency_s": []}, f"latency_s is []; it must be a number of at least 0, {NUMBER}"),
        ({"jitter_s": [0.2, 0.1]}, "jitter_s is [0.2, 0.1]; a range is [low, high], finite and in this order."),
        ({"jitter_s": [0.2]}, "jitter_s is [0.2]; a range is [low, high], finite and in this order."),
        ({"dropout": 1.5}, f"dropout is 1.5; it must be a number from 0 to 1, {NUMBER}"),
        ({"dropout": True}, f"dropout is True; it must be a number from 0 to 1, {NUMBER}"),
        ({"clock_skew": -1}, f"clock_skew is -1; it must be a number from -0.5 to 0.5, {NUMBER}"),
        ({"noise": {"position": -1}}, f"noise.position is -1; it must be a number of at least 0, {NUMBER}"),
        ({"bias": {"position": [0, math.inf]}}, f"bias.position is [0, inf]; it must be a finite number, {NUMBER}"),
        ({"stuck_at_s": [0, math.inf]}, "stuck_at_s is [0, inf]; a range is [low, high], finite and in this order."),
        ({"same_as": {"a": 1}}, "same_as is {'a': 1}; it must be a table such as { achieved_goal = \"cube_position\""),
        ({"same_as": {"a": "b", "b": "c"}}, "same_as.a is 'b', which is itself read from 'c'."),
    ],
)
def test_a_bad_value_is_refused_by_key_value_and_what_would_be_valid(tmp_path, document, message):
    with pytest.raises(SamiError) as error:
        GapProfile.load(write(tmp_path, document))
    assert message in str(error.value)
    assert "gap.json" in str(error.value)


def test_a_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(SamiError, match="is no file of sim-to-real profiles"):
        GapProfile.load(write(tmp_path, "", "gap.yaml"))
    with pytest.raises(SamiError, match="cannot be read"):
        GapProfile.load(tmp_path / "absent.toml")
    with pytest.raises(UnknownName, match=r"unknown sim-to-real profile 'modesty'\. Did you mean 'modest'"):
        GapProfile.load("modesty")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"noise": {"cube_positon": 1.0}}, "unknown observation signal 'cube_positon'. Did you mean 'cube_position'?"),
        ({"same_as": {"achieved_goal": "cube"}}, "unknown observation signal 'cube'"),
        ({"same_as": {"achieved_goal": "gripper_width"}}, "which has 1 numbers and not 3"),
    ],
)
def test_signals_that_are_not_there_are_refused(document, message):
    with pytest.raises(SamiError) as error:
        GapProfile.of(document).require_fit(PANDA_OBSERVATION)
    assert message in str(error.value)
