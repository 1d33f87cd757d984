"""Adapters whose signals have other names or units, and grippers that count."""

import numpy as np
import pytest

from sami_runtime.adapters.base import Executed, Observation
from sami_runtime.errors import AdapterError, UnknownName
from sami_runtime.robots.kit import Gripper, Rename, Scale
from sami_runtime.signals import Moves, Signal


class Millimetres:
    """A slide that is told how far to go [mm], and limits that to 100."""

    observation = (
        Signal(name="tcp", size=2, unit="mm", elements=("x", "y"), low=(-500.0, None), high=(500.0, 100.0)),
        Signal(name="width", size=1, unit="m", elements=("w",), low=(0.0,), high=(0.1,)),
    )
    action = Signal(
        name="go",
        size=2,
        unit="mm",
        elements=("x", "y"),
        low=(-100.0, -50.0),
        high=(100.0, 100.0),
        moves={"x": Moves(element="tcp.x", scale=1.0)},
    )

    def __init__(self):
        self.calls, self.written = [], None

    def reset(self, seed=None):
        self.calls.append(("reset", seed))

    def read(self):
        values = {"tcp": np.array([250.0, -20.0], np.float32), "width": np.array([0.05], np.float32)}
        return Observation(values, 3.0, {"tcp": 2.5})

    def write(self, action):
        self.written = np.clip(action, -100.0, 100.0)
        return Executed(self.written, True, {"is_success": True})

    def stop(self):
        self.calls.append("stop")

    def close(self):
        self.calls.append("close")


def test_renamed_signals_keep_values_stamps_and_all_that_is_declared():
    inner = Millimetres()
    inner.basis = ("tcp", "width")
    robot = Rename(inner, {"tcp": "ee_position", "go": "displacement"})
    assert robot.basis == ("ee_position", "width"), "the gate judges the age of what commands are computed from"
    assert [signal.name for signal in (*robot.observation, robot.action)] == ["ee_position", "width", "displacement"]
    assert robot.observation[0].model_copy(update={"name": "tcp"}) == inner.observation[0]
    assert robot.action.moves["x"].element == "ee_position.x"
    frame = robot.read()
    assert (frame.values["ee_position"].tolist(), frame.measured("ee_position"), frame.measured("width")) == (
        [250.0, -20.0],
        2.5,
        3.0,
    )


def test_scaled_signals_are_in_our_unit_both_ways_with_bounds_and_a_flipped_axis():
    inner = Millimetres()
    robot = Scale(inner, {"tcp": ([0.001, -0.001], "m"), "go": ([0.001, -0.001], "m")})
    position, width, action = (*robot.observation, robot.action)
    assert (position.unit, position.low, position.high) == ("m", (-0.5, -0.1), (0.5, None))
    assert width == inner.observation[1]
    assert (action.low, action.high) == ((-0.1, -0.1), (0.1, 0.05))
    assert action.moves["x"].scale == pytest.approx(1.0), "a metre moves it by a metre"
    np.testing.assert_allclose(robot.read().values["tcp"], [0.25, 0.02], rtol=1e-6)
    result = robot.write(np.array([0.3, -0.04], np.float32))
    np.testing.assert_allclose(inner.written, [100.0, 40.0], rtol=1e-6)
    np.testing.assert_allclose(result.action, [0.1, -0.04], rtol=1e-6)
    assert (result.done, result.info) == (True, {"is_success": True})


def test_an_action_that_the_robot_did_not_change_comes_back_exactly():
    robot = Scale(Millimetres(), {"go": (0.1, "m")})
    robot.inner.write = Executed
    for action in np.random.default_rng(0).uniform(-0.1, 0.1, (200, 2)).astype(np.float32):
        assert robot.write(action).action.tobytes() == action.tobytes()


def test_all_else_passes_through_both():
    inner = Millimetres()
    robot = Rename(Scale(inner, {"tcp": (0.001, "m")}), {"tcp": "ee_position"})
    robot.reset(4)
    robot.stop()
    robot.close()
    assert inner.calls == [("reset", 4), "stop", "close"]
    assert robot.emergency_stop is None
    inner.emergency_stop = lambda: "stopped"
    assert robot.emergency_stop() == "stopped"


def test_what_the_adapter_does_not_have_is_refused():
    with pytest.raises(UnknownName, match="Did you mean 'tcp'"):
        Rename(Millimetres(), {"tpc": "ee_position"})
    with pytest.raises(AdapterError, match="two signals would be called width"):
        Rename(Millimetres(), {"tcp": "width"})
    for factor in (0.0, [1.0, 2.0, 3.0], np.nan):
        with pytest.raises(AdapterError, match=r"its 2 elements \(x, y\)"):
            Scale(Millimetres(), {"tcp": (factor, "m")})


@pytest.mark.parametrize("gripper", [Gripper(255, 0, 0.085), Gripper(0.0, 0.08, 0.08), Gripper(-1, 1, 0.1)])
def test_a_gripper_goes_from_width_to_command_and_back(gripper):
    for width in np.linspace(0.0, gripper.widest_m, 11):
        assert gripper.width(gripper.command(width)) == pytest.approx(width)
    assert gripper.command(-1.0) == gripper.closed
    assert gripper.command(1.0) == gripper.open


def test_a_gripper_that_does_not_move_is_refused():
    for value in ((0, 0, 0.08), (0, 1, 0.0), (0, 1, float("nan"))):
        with pytest.raises(AdapterError, match="does not move"):
            Gripper(*value)
