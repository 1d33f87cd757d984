"""What an adapter of the user's own does wrong is told with its file and line."""

import sys
from pathlib import Path

import pytest

from tests.making.still_robot import driving

pytestmark = pytest.mark.usefixtures("my_robot")

RAISES = """
from my_robot import Still as Good
class Wrong(Good):
    def {method}(self, *given, **more):
        raise {error}
def make(clock):
    return Wrong(clock)
"""
RETURNS = """
from my_robot import Still as Good
from sami_runtime.adapters import Executed, Observation
class Wrong(Good):
    def {method}(self, *given):
        made = super().{method}(*given)
        return {returned}
def make(clock):
    return Wrong(clock)
"""


def run_wrong(sami, panda, text):
    Path("wrong.py").write_text(text)
    try:
        return sami(*driving("wrong:make", panda.model, steps=2))
    finally:
        sys.modules.pop("wrong", None)


@pytest.mark.parametrize(
    ("method", "error"),
    [
        *((method, "ValueError('axis 7')") for method in ("reset", "read", "write", "stop", "close")),
        *(("read", error) for error in ("TypeError('no such axis')", "KeyError('axis')")),
    ],
)
def test_an_error_of_an_adapters_own_is_told_with_its_line(sami, panda, method, error):
    result = run_wrong(sami, panda, RAISES.format(method=method, error=error))
    assert (result.code, result.errors.count("\n")) == (1, 1)
    assert "Traceback" not in result.err
    assert "axis" in result.err
    assert ("failed twice" if method == "stop" else f"in wrong.py, line 5, in {method}") in result.err


def test_an_error_in_making_an_adapter_is_told_with_its_line(sami, panda):
    result = run_wrong(sami, panda, "def make(clock):\n    return 1 + 'x'\n")
    assert "wrong:make(clock) failed: TypeError: unsupported operand" in result.err
    assert "(wrong.py, line 2, in make). Correct the factory" in result.err


@pytest.mark.parametrize(
    ("method", "returned", "message"),
    [
        ("read", "Observation(made.values, 'now')", "Wrong.read() returned an Observation whose time is of type str;"),
        ("read", "Observation(None, made.time)", "Wrong.read() returned an Observation whose values are of type NoneT"),
        ("read", "Observation(made.values, made.time, {'ee_position': None})", "a time or late of type NoneType;"),
        ("read", "Observation(made.values, made.time, {7: made.time})", "read() returned times of 7, which it did"),
        ("read", "Observation(made.values, 1j * made.values['ee_position'][0])", "time is of type complex64;"),
        ("read", "Observation(made.values, made.time, None, {'x': 'y'})", "returned a time or late of type str;"),
        ("read", "Observation(made.values, -9.0, note=None)", "an Observation whose note is of type NoneType;"),
        ("write", "Executed('there')", "Wrong.write() returned an Executed whose action is 'there';"),
        ("write", "Executed(['a', ['b', 'c']])", "an Executed whose action is ['a', ['b', 'c']];"),
        ("write", "Executed(made.action, False, 5)", "Wrong.write() returned an Executed whose info is of type int;"),
        ("write", "Executed(made.action, made.action)", "returned an Executed whose done is of type ndarray;"),
    ],
)
def test_what_an_adapter_returns_is_refused_by_what_is_wrong_with_it(sami, panda, method, returned, message):
    result = run_wrong(sami, panda, RETURNS.format(method=method, returned=returned))
    assert result.code == 1
    assert message in result.err


def test_signals_that_are_none_are_refused_before_anything_moves(sami, panda):
    text = "from my_robot import Still\nclass Wrong(Still):\n    action = 'all of them'\n"
    result = run_wrong(sami, panda, text + "def make(clock):\n    return Wrong(clock)\n")
    assert result.code == 1
    assert "wrong:make(clock) made a Wrong whose observation is (Signal(" in result.err
    assert "whose action is 'all of them'; they must be a tuple of Signals and a Signal" in result.err
    assert not Path("stopped.txt").exists()
