"""An arm that carries a load is judged like any other: what is wired wrongly is named, and a healthy arm passes."""

import numpy as np
import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("sami_train.envs")

from sami_runtime import AdapterError, Limits
from tests.making.loaded_arm import FAULTS, KINDS, holding, outcome, verdict_of


@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_arm_passes_under_its_load_and_ends_at_its_start(kind):
    fault, unproven, arm = verdict_of(kind)
    assert (fault, unproven) == ("", "")
    assert np.abs(arm.arm.angles - arm._home).max() < 0.006
    middle = np.array(list(holding(kind).values()))
    assert np.abs(np.array(arm.written) - middle).max() == pytest.approx(0.1, abs=1e-6), "no larger than needed"


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wired_wrongly_is_named_and_nothing_else(fault):
    assert [outcome(kind, fault, seed=0) for kind in ("position", "displacement")] == ["right"] * 2


def test_a_factor_names_its_unit_and_what_to_multiply_by():
    fault, _, arm = verdict_of("position", **FAULTS["elbow 57.3 times"][0])
    assert "(57.3 is degrees for radians). Multiply the action in write() by 0.017" in fault
    distances = np.array(arm.written)[:, 2] - holding("position")["elbow"]
    assert np.abs(distances).max() == pytest.approx(0.01, abs=1e-6), "it is found by the first, small move"


def test_an_arm_whose_noise_hides_its_answers_is_not_proven():
    fault, unproven, arm = verdict_of("displacement", noise=3.0)
    assert fault == ""
    assert "yaw: 10 moves to either side" in unproven
    assert np.abs(arm.written).max() == pytest.approx(0.4, abs=1e-6)


def test_a_fault_of_an_observation_ends_all_moves():
    limits = Limits(rest=holding("position"), jump={"angles.shoulder": {"most": 1e-4, "then": "hold"}})
    fault, unproven, arm = verdict_of("position", limits=limits)
    assert fault == ""
    assert unproven.startswith("yaw, shoulder, elbow: not moved any further, because of jump")
    assert len(arm.written) <= 4 + 3
    assert arm.stops >= 4


def test_a_driver_that_fails_ends_all_moves():
    def broken(action):
        if abs(action[1] - holding("position")["shoulder"]) > 1e-3:
            raise AdapterError("overcurrent")
        return action

    fault, _, arm = verdict_of("position", do=broken)
    assert "overcurrent" in fault
    assert np.abs(np.array(arm.written)[:, 2] - holding("position")["elbow"]).max() < 1e-6
