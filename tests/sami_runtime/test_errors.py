"""Errors say what would have been valid, and carry the exit code of the command line."""

import pickle
import re
from pathlib import Path

import pytest

from sami_runtime import GapProfile, Limits, errors
from sami_runtime.errors import SamiError, SignalError, UnknownName, quantity
from sami_runtime.robots.body import BodySettings


def test_an_unknown_name_lists_the_valid_ones_and_the_nearest():
    text = str(UnknownName("environment", "Pandas", ["panda", "ant"], "See: sami envs"))
    assert text == "unknown environment 'Pandas'. Did you mean 'panda'? Valid: ant, panda. See: sami envs"


def test_an_unknown_name_like_none_of_the_valid_ones_gets_no_guess():
    assert str(UnknownName("method", "xyz", ["pearl", "ccm"])) == "unknown method 'xyz'. Valid: ccm, pearl."


@pytest.mark.parametrize(
    ("name", "code"),
    [("SamiError", 1), ("ContractError", 1), ("SignalError", 1), ("SafetyStop", 3), ("CheckFailed", 4)],
)
def test_exit_codes(name, code):
    assert getattr(errors, name).exit_code == code
    assert issubclass(getattr(errors, name), SamiError)


def test_the_page_has_the_exit_codes():
    text = (Path(__file__).parents[2] / "docs" / "reference" / "loop.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| (\d) \| (.*) \|$", text, re.MULTILINE))
    assert listed.keys() == {"0", "1", "2", "3", "4"}
    kinds = {"an error": SamiError, "a safety stop": errors.SafetyStop, "a check found": errors.CheckFailed}
    assert all(listed[str(kind.exit_code)].startswith(words) for words, kind in kinds.items())


def test_of_very_many_keys_a_message_lists_those_of_the_section_or_the_sections():
    keys = [f"{section}.{name}" for section in ("learning", "network") for name in map(str, range(30))] + ["seed"]
    within = str(UnknownName("key", "network.x", keys))
    assert within.count("network.") == 30 + len(["unknown", "did you mean"])
    assert "learning" not in within
    assert str(UnknownName("key", "x", keys)) == "unknown key 'x'. Valid: learning.*, network.*, seed."


@pytest.mark.parametrize("error", [UnknownName("method", "x", ["y"], "z."), SignalError("fact", "position")])
def test_errors_cross_processes(error):
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert vars(again) == vars(error)


LONG = {"table": {f"key{at}": at for at in range(2000)}, "list": ["element"] * 2000, "text": "long" * 2000}


@pytest.mark.parametrize("value", LONG.values(), ids=LONG)
@pytest.mark.parametrize(
    ("read", "fault"),
    [
        (
            lambda value: Limits.of({"rate": {"x": value}}, "limits.toml"),
            "rate.x: input should be a valid number",
        ),
        (lambda value: Limits.of({"inside": {"x.y": value}}, "limits.toml"), "inside.x.y: must be|'key0'"),
        (lambda value: GapProfile.of({"noise": {"x": value}}, "gap.toml"), "noise.x is .* a number of at least 0"),
        (lambda value: GapProfile.of({"sensors": [value]}, "gap.toml"), "sensors is .*; it must be a table"),
        (lambda value: BodySettings.of({"positions": [value]}), "positions: input should be a valid string"),
        (lambda value: BodySettings.of({"joints": [[value]] * 500}), "joints.0: input should be a valid string"),
    ],
)
def test_a_fault_of_a_document_shows_the_beginning_of_a_long_value(value, read, fault):
    with pytest.raises(SamiError, match=fault) as refused:
        read(value)
    assert len(str(refused.value)) < 2000


def test_a_noun_has_the_number_of_its_count():
    assert [quantity(count, "episode") for count in (0, 1, 2)] == ["0 episodes", "1 episode", "2 episodes"]
