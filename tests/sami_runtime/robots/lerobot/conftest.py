"""A double of LeRobot, and adapters of its robots."""

import pytest

from sami_runtime.clock import ManualClock
from sami_runtime.robots.lerobot import make as make_adapter
from tests.making.lerobot import SERVO, Servo, forget_double, install_double


@pytest.fixture(autouse=True)
def double(monkeypatch):
    install_double(monkeypatch)
    yield
    forget_double()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def adapter(make, clock):
    """Makes the adapter of settings, for the servo or another contract, and closes it in the end."""
    adapters = []

    def of(settings, **changes):
        adapters.append(make_adapter(clock, make.contract_of(Servo(), **(SERVO | changes)), settings))
        return adapters[-1]

    yield of
    for item in adapters:
        item.close()
