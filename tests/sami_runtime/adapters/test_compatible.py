"""An adapter fits a model or is refused before anything moves, with both sides named."""

import warnings

import pytest

from sami_runtime.adapters import FakeAdapter, require_compatible
from sami_runtime.errors import AdapterError, SafetyWarning
from sami_runtime.run import Run
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session


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


def ranged(signal, most):
    return signal.model_copy(update={"low": (-most,) * 2, "high": (most,) * 2, "unit": "1"})


@pytest.mark.parametrize(("model", "adapter"), [(2.0, 1.0), (1.0, 2.0)])
def test_an_action_without_unit_has_one_range_on_both_sides(make, model, adapter):
    position, force = make.observation_signals[0], make.action_signal
    contract = make.contract_of(make.memoryless(), observation=(position,), action=ranged(force, model))
    robot = FakeAdapter(axes=2)
    robot.action = ranged(force, adapter)
    with pytest.raises(AdapterError, match=rf"'force' is from \(-{model}, .* to .*, the adapter's from \(-{adapter}, "):
        compare(contract, robot)
    for same in (ranged(force, model * (1.0 + 2e-7)), force.model_copy(update={"unit": "1", "low": (None,) * 2})):
        robot.action = same.model_copy(update={"high": (model,) * 2})  # rounding is no difference; no bound fits any
        compare(contract, robot)


@pytest.mark.parametrize(("most", "warned"), [(0.5, 1), (1.0 - 2e-7, 0), (1.0, 0), (2.0, 0)])
def test_a_robot_that_takes_less_than_the_policy_gives_is_named_before_it_moves(path, arm, recwarn, most, warned):
    warnings.simplefilter("always", SafetyWarning)
    Run(Session.load(path), arm(limit=most), simulator=True)
    Run(Session.load(path), arm(limit=most), simulator=True, limits=Limits(low=-0.5, high=0.5))
    texts = [str(warning.message) for warning in recwarn if issubclass(warning.category, SafetyWarning)]
    assert texts == warned * [
        "model 'tiny' acts from -1 to 1 at fx, but the adapter takes only -0.5 to 0.5 and clips the rest."
    ]


def test_a_swap_to_a_policy_that_gives_more_than_the_robot_takes_warns(make, arm):
    half = make.action_signal.model_copy(update={"low": (-0.5, -0.5), "high": (0.5, 0.5)})
    narrow = Session.load(make.write(make.recurrent(), action=half))
    text = r"acts from -1 to 1 at fx, but the adapter takes only -0\.5 to 0\.5"
    with Run(narrow, arm(limit=0.5), simulator=True) as run, pytest.warns(SafetyWarning, match=text):
        run.swap(make.write(make.recurrent(seed=1)))
