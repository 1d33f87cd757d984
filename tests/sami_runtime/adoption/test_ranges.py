"""Training ranges without the environment: arrays by signal, or what the network read, which the recipe converts."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sami_runtime.adoption import ranges as ranges_module
from sami_runtime.adoption.ranges import ranges_in
from sami_runtime.errors import SamiError
from sami_runtime.model.artifact import read_artifact
from tests.making.stander import RECIPE, stander


@pytest.fixture(scope="module")
def contract(tmp_path_factory):
    return read_artifact(stander(tmp_path_factory.mktemp("stander"))[1]).contract


@pytest.fixture
def arrays(contract):
    rng = np.random.default_rng(0)
    return {
        signal.name: rng.normal(size=(20, signal.size)).astype(np.float32)
        for signal in (*contract.observation, contract.action)
    }


def save(folder, **arrays):
    np.savez(folder / "rollout.npz", **arrays)
    return [folder / "rollout.npz"]


def test_arrays_by_signal_are_taken_as_they_are(contract, arrays, tmp_path):
    ranges = ranges_in(contract, save(tmp_path, **arrays))
    assert (ranges.steps, ranges.episodes) == (20, 1)
    np.testing.assert_allclose(ranges.signals["joint_pos"].highest, arrays["joint_pos"].max(axis=0), rtol=1e-5)
    np.testing.assert_allclose(ranges.signals["joint_targets"].lowest, arrays["joint_targets"].min(axis=0), rtol=1e-5)
    np.testing.assert_allclose(ranges.begin["command"].mean, arrays["command"][0], rtol=1e-5)


def test_what_the_network_read_is_converted_back_to_signals(contract, arrays, tmp_path):
    obs = np.concatenate(
        [
            arrays["base_ang_vel"] * 0.25,
            arrays["projected_gravity"],
            arrays["command"],
            arrays["joint_pos"] - np.array([0.1, 0.1, -0.1, -0.1]),
            arrays["joint_vel"] * 0.05,
            np.zeros((20, 4)),
        ],
        axis=1,
    )
    actions = (arrays["joint_targets"] - np.array([0.1, 0.1, -0.1, -0.1])) / 0.5
    by_signal = ranges_in(contract, save(tmp_path, **arrays))
    converted = ranges_in(contract, save(tmp_path, obs=obs, actions=actions))
    for name, spread in by_signal.signals.items():
        np.testing.assert_allclose(converted.signals[name].mean, spread.mean, atol=1e-5)
        np.testing.assert_allclose(converted.signals[name].highest, spread.highest, atol=1e-5)


def test_the_newest_value_of_a_history_is_the_signal(tmp_path):
    stacked = RECIPE.replace("slice = [13, 17]", "slice = [13, 21]").replace("slice = [17, 21]", "slice = [21, 25]")
    stacked = stacked.replace("scale = 0.05", 'scale = 0.05\nhistory = { steps = 2, first = "FIRST", start = "zero" }')
    obs = np.zeros((5, 25))
    obs[:, 13:17], obs[:, 17:21] = 0.05, 0.1
    for first, expected in (("oldest", 2.0), ("newest", 1.0)):
        contract = read_artifact(stander(tmp_path, stacked.replace("FIRST", first), 25)[1]).contract
        ranges = ranges_in(contract, save(tmp_path, obs=obs, actions=np.zeros((5, 4))))
        assert ranges.signals["joint_vel"].mean == (expected,) * 4


def test_episodes_end_where_dones_says_and_between_environments(contract, arrays, tmp_path):
    many = {name: np.stack([array, array + 1.0], axis=1) for name, array in arrays.items()}
    dones = np.zeros((20, 2), bool)
    dones[4, 0] = dones[19, 1] = True
    ranges = ranges_in(contract, save(tmp_path, dones=dones, **many))
    assert (ranges.steps, ranges.episodes) == (40, 3)
    firsts = [arrays["command"][0], arrays["command"][5], arrays["command"][0] + 1.0]
    np.testing.assert_allclose(ranges.begin["command"].mean, np.mean(firsts, axis=0), rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"joint_pos": None}, "lacks obs, actions; it has base_ang_vel"),
        ({"joint_pos": np.zeros((20, 5))}, "expected numbers (steps, 4)"),
        ({"joint_pos": np.full((20, 4), np.nan)}, "contains NaN or infinity"),
        ({"joint_pos": np.zeros((19, 4))}, "differ in their steps"),
        ({"dones": np.zeros(3)}, "dones has shape (3,)"),
        ({"joint_pos": np.array([{}] * 80, object).reshape(20, 4)}, "cannot be read"),
    ],
)
def test_a_wrong_rollout_is_refused_by_its_array(change, message, contract, arrays, tmp_path):
    table = {name: value for name, value in {**arrays, **change}.items() if value is not None}
    with pytest.raises(SamiError) as refused:
        ranges_in(contract, save(tmp_path, **table))
    assert message in str(refused.value)


def test_a_file_that_is_no_rollout_is_refused(contract, tmp_path):
    for text in (b"", b"PK\x03\x04 cut off"):
        (tmp_path / "bad.npz").write_bytes(text)
        with pytest.raises(SamiError, match="cannot be read"):
            ranges_in(contract, [tmp_path / "bad.npz"])


def test_a_recording_with_joints_in_another_order_is_refused(contract, monkeypatch):
    """Only names and sizes were compared, so that the joints' ranges were mixed up."""
    turned = contract.action.model_copy(update={"elements": contract.action.elements[::-1]})
    turned_contract = contract.model_copy(update={"action": turned})
    other = SimpleNamespace(path="run.mcap", contract=turned_contract, stretches=lambda usable: iter(()))
    monkeypatch.setattr(ranges_module, "read_recording", lambda path: other)
    with pytest.raises(SamiError, match=r"run\.mcap does not fit policy '.*': .* instead of .*\. Leave it out"):
        ranges_in(contract, [Path("run.mcap")])
