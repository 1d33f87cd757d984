"""An adapter fits a model or is refused before anything moves, with both sides named."""

import pytest

from sami_runtime.adapters import FakeAdapter, require_compatible
from sami_runtime.errors import AdapterError


def compare(contract, adapter):
    require_compatible(contract, adapter.observation, adapter.action, type(adapter).__name__)


def test_an_incompatible_adapter_is_refused_with_both_sides(make):
    contract = make.contract_of(make.recurrent())
    with pytest.raises(AdapterError) as error:
        compare(contract, FakeAdapter(axes=1))
    assert str(error.value) == (
        "model 'tiny' does not fit FakeAdapter: observation 'position' has size 2, the adapter's has 1; "
        "observation 'position' has elements (x, y), the adapter's has (x); observation 'goal' is not "
        "provided; action 'force' has size 2, the adapter's has 1; action 'force' has elements (fx, fy), the "
        "adapter's has (fx). The model reads position (2, m), goal (1, m) and writes force (2, N); "
        "FakeAdapter provides position (1, m), velocity (1, m/s) and takes force (1, N). Use the adapter "
        "that the model was trained for, or declare the same signals."
    )


def test_units_are_compared_and_more_signals_than_needed_are_fine(make):
    position, force = make.observation_signals[0], make.action_signal
    policy = make.memoryless()
    fits = make.contract_of(policy, observation=(position,))
    compare(fits, FakeAdapter(axes=2))
    millimetres = make.contract_of(policy, observation=(position.model_copy(update={"unit": "mm"}),))
    with pytest.raises(AdapterError, match="observation 'position' has unit mm, the adapter's has m"):
        compare(millimetres, FakeAdapter(axes=2))
    other = make.contract_of(policy, observation=(position,), action=force.model_copy(update={"name": "velocity"}))
    with pytest.raises(AdapterError, match="action 'velocity' is not taken"):
        compare(other, FakeAdapter(axes=2))
