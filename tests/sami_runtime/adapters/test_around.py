"""Whatever lies around an adapter passes on what it says of itself, and what an observation knows of its age."""

from dataclasses import replace

import numpy as np
import pytest

from sami_runtime import AdapterError
from sami_runtime.adapters.around import DryRun, Gapped, Slowed
from sami_runtime.adapters.fake import FakeAdapter
from sami_runtime.gap.profile import GapProfile
from sami_runtime.robots.kit import Rename, Scale
from sami_runtime.safety.bias_calibration import BiasCalibration
from sami_runtime.safety.limits import KnownValue

LATE, DELAY_S = 2.0, 0.03


class Inner(FakeAdapter):
    """A simulated robot whose observations are late, and whose commands are, too."""

    waits, command_delay_s = True, DELAY_S

    def __init__(self):
        super().__init__(axes=1, period=0.1)
        self.calls = []
        self.emergency_stop = lambda: self.calls.append("emergency")

    def read(self):
        return replace(super().read(), late=dict.fromkeys([item.name for item in self.observation], LATE))

    def close(self):
        self.calls.append("close")


NAME = FakeAdapter(axes=1, period=0.1).observation[0].name
ELEMENT = FakeAdapter(axes=1, period=0.1).observation[0].elements[0]
AROUND = {
    "dry run": DryRun,
    "gapped": lambda inner: Gapped(inner, GapProfile(), 10.0),
    "renamed": lambda inner: Rename(inner, {NAME: "other"}),
    "scaled": lambda inner: Scale(inner, {NAME: (0.5, "mm")}),
    "slowed": lambda inner: Slowed(inner, 3),
    "calibrated": lambda inner: BiasCalibration(inner, {f"{NAME}.{ELEMENT}": KnownValue(value=0.0, most=10.0)}),
}


@pytest.mark.parametrize("around", AROUND)
def test_what_an_adapter_says_of_itself_is_passed_on(around):
    inner = Inner()
    outer = AROUND[around](inner)
    assert (outer.waits, outer.command_delay_s) == (True, DELAY_S)
    outer.emergency_stop()
    outer.close()
    assert inner.calls == ["emergency", "close"]


@pytest.mark.parametrize("around", [item for item in AROUND if item != "gapped"])  # a gap tells of its own
def test_how_late_an_observation_is_is_passed_on_by_the_names_that_it_has_now(around):
    outer = AROUND[around](Inner())
    outer.reset(seed=0)
    observation = outer.read()
    assert observation.late == dict.fromkeys(observation.values, LATE)
    assert all(np.isfinite(value).all() for value in observation.values.values())


class Silent(Inner):
    """A robot whose author forgot to return what was read and written."""

    def read(self):
        super().read()

    def write(self, action):
        super().write(action)


@pytest.mark.parametrize("around", AROUND)
def test_an_adapter_that_returns_nothing_is_named_whatever_lies_around_it(around):
    inner = Silent()
    outer = AROUND[around](inner)
    (inner if around == "calibrated" else outer).reset(seed=0)  # a calibration reads in its own reset
    with pytest.raises(AdapterError, match=r"Silent\.read\(\) returned NoneType; return Observation"):
        outer.read()
    if around != "dry run":  # which writes nothing
        with pytest.raises(AdapterError, match=r"Silent\.write\(\) returned NoneType; return Executed"):
            outer.write(np.float32([0.5]))


@pytest.mark.parametrize("around", ["scaled", "slowed"])
@pytest.mark.parametrize("value", ["fast", [[1.0], [2.0, 3.0]]])
def test_what_is_no_number_goes_on_to_whoever_names_the_signal(around, value):
    inner = Inner()
    inner.read = lambda: replace(FakeAdapter.read(inner), values={item.name: value for item in inner.observation})
    inner.reset(0)
    assert AROUND[around](inner).read().values
