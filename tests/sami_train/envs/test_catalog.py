"""Laws of the catalogue: what an environment's entry says of it holds together, and layouts lose nothing."""

import numpy as np
import pytest

from sami_train.envs import ENVIRONMENTS
from sami_train.envs.layout import flatten
from sami_train.envs.measure import SUCCESS

SPECS = pytest.mark.parametrize("spec", ENVIRONMENTS.values(), ids=ENVIRONMENTS)


@SPECS
def test_every_number_of_an_observation_is_in_one_signal(spec):
    assert sorted(spec.layout.order) == list(range(spec.layout.size))
    flat = np.arange(spec.layout.size, dtype=np.float32)
    assert np.concatenate(list(spec.layout.by_name(flat).values())).tolist() == spec.layout.order
    for name, value in spec.layout.by_name(flat).items():
        assert flat[spec.layout.columns(name)].tolist() == value.tolist()


@SPECS
def test_a_flat_observation_goes_back_to_what_the_environment_observes(spec):
    flat = np.arange(spec.layout.size, dtype=np.float32)
    back = spec.layout.unflatten(flat)
    assert isinstance(back, dict) == any(source.key for source in spec.layout.sources)
    assert flatten(back).tolist() == flat.tolist()
    for source in spec.layout.sources:
        part = back if source.key is None else back[source.key]
        values = part[source.start : source.start + source.signal.size]
        assert values.tolist() == flat[spec.layout.columns(source.signal.name)].tolist()


def test_signals_of_a_batch_of_observations_are_copies():
    layout = ENVIRONMENTS["panda"].layout
    flat = np.zeros((3, layout.size), np.float32)
    signals = layout.by_name(flat, ["gripper_width", "ee_position"])
    assert {name: value.shape for name, value in signals.items()} == {"gripper_width": (3, 1), "ee_position": (3, 3)}
    signals["ee_position"][:] = 1.0
    assert not flat.any()


@SPECS
def test_an_entry_contradicts_nothing_that_it_says(spec):
    assert spec.goal is None or spec.measure is SUCCESS, "who has goals counts how often they are reached"
    assert {*spec.same_sensor, *spec.same_sensor.values()} <= {signal.name for signal in spec.signals}
