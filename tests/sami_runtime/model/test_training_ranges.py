"""What training saw stands in the contract, belongs to its signals, and is absent where it was not measured."""

import json

import numpy as np
import pytest

from sami_runtime.adapters.panda import PANDA_ACTION, PANDA_OBSERVATION, PANDA_SHEET
from sami_runtime.distribution import shipped_models
from sami_runtime.errors import ContractError
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.contract import Contract, DataSheet, Quantity
from sami_runtime.model.training_ranges import Response, Responses, Spread, TrainingRanges


def spread(size, steps=1000):
    return Spread.of(np.random.default_rng(size).normal(size=(steps, size)))


def responses(**changes):
    signals = {
        name: Response(mean=((0.1,) * size,) * 2, deviation=((0.0,) * size,) * 2) for name, size in SIZES.items()
    }
    return Responses(**({"size": (0.1, 0.1), "ticks": 5, "settle": 5, "starts": 2, "signals": signals} | changes))


SIZES = {"position": 2, "goal": 1}


def ranges(**changes):
    begin = {name: spread(size) for name, size in SIZES.items()}
    fields = {"measured": "by hand", "steps": 1000, "episodes": 2, "signals": {**begin, "force": spread(2)}}
    return TrainingRanges(**(fields | {"begin": begin, "responses": responses()} | changes))


@pytest.fixture
def contract(make):
    sheet = DataSheet(frame="the table's", home="upright", numbers={"base": Quantity(unit="m", values=(0.0, 1.0))})
    return make.contract_of(make.recurrent(), training_ranges=ranges(), sheet=sheet)


def test_a_spread_is_that_of_its_values():
    values = np.arange(1001.0)[:, None] * [1.0, -1.0]
    result = Spread.of(values)
    assert result.size == 2
    assert (result.mean, result.lowest, result.highest) == ((500.0, -500.0), (0.0, -1000.0), (1000.0, 0.0))
    assert (result.rare_low, result.rare_high) == ((1.0, -999.0), (999.0, -1.0))
    assert result.deviation == pytest.approx(np.std(values, axis=0), rel=1e-5)


def test_it_survives_json_with_the_sheet(contract):
    again = Contract.parse(contract.dumps(), "model.onnx")
    assert again == contract
    assert str(again.sheet.numbers["base"]) == "0, 1 m"


def test_the_file_keeps_its_key_of_training_ranges(contract):
    text = contract.dumps()
    assert '"seen":{"measured":"by hand"' in text
    assert "training_ranges" not in text


def test_a_contract_that_does_not_tell_is_written_as_ever(make):
    document = json.loads(make.contract_of(make.recurrent()).dumps())
    assert {"seen", "sheet"}.isdisjoint(document)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda s: s["signals"].pop("goal"), "seen.signals describes"),
        (lambda s: s["begin"].update(goal=s["begin"]["position"]), "seen.begin describes"),
        (lambda s: s["signals"]["goal"].update(mean=[0.0, 1.0]), "the numbers of a spread are not all of one size"),
        (lambda s: s["signals"]["goal"].update(deviation=[-1.0]), "greater than or equal to 0"),
        (lambda s: s["responses"].update(size=[0.1]), "seen.responses has 1 moves for 2 elements"),
        (lambda s: s["responses"]["signals"].pop("goal"), "seen.responses has no entry of the shape"),
        (lambda s: s["responses"]["signals"]["goal"].update(mean=[[0.1]]), "seen.responses has no entry of the shape"),
        (lambda s: s.update(steps=0), "contract: seen.steps: "),
    ],
)
def test_what_belongs_to_other_signals_is_refused(contract, edit, message):
    document = json.loads(contract.dumps())
    edit(document["seen"])
    with pytest.raises(ContractError, match=message):
        Contract.parse(json.dumps(document), "m.onnx")


@pytest.mark.parametrize("name", shipped_models())
def test_every_shipped_model_tells_what_training_saw(name):
    contract = read_artifact(shipped_models()[name]).contract
    assert contract.training_ranges.episodes >= 100
    for signal in (*contract.observation, contract.action):
        result = contract.training_ranges.signals[signal.name]
        assert (np.array(result.lowest) <= result.rare_low).all()
        assert (np.array(result.rare_high) <= result.highest).all()
        low = [-np.inf if bound is None else bound for bound in signal.low]
        if signal is contract.action:
            assert (np.array(result.lowest) >= low).all()
    # Golden steps come from training tasks, too.
    golden = contract.golden_steps().observation
    for signal in contract.observation:
        result, value = contract.training_ranges.signals[signal.name], golden[signal.name]
        margin = 2 * max(result.deviation) + 1e-6
        assert (value >= np.array(result.lowest) - margin).all(), signal.name
        assert (value <= np.array(result.highest) + margin).all(), signal.name


def test_pandas_file_tells_its_frame_and_what_each_signal_means():
    contract = read_artifact(shipped_models()["panda-satesac"]).contract
    # Bounds stay as the file was trained with: panda-gym's own, too tight for how fast a cube turns.
    reports = [signal.model_dump(exclude={"low", "high"}) for signal in (*contract.observation, contract.action)]
    assert reports == [signal.model_dump(exclude={"low", "high"}) for signal in (*PANDA_OBSERVATION, PANDA_ACTION)]
    assert contract.sheet == PANDA_SHEET
    assert "base stands on it at x = -0.6 m" in contract.sheet.frame
    assert contract.sheet.numbers["arm_base"].values == (-0.6, 0.0, 0.0)


def test_a_sheet_without_gains_is_written_as_it_was_before_there_were_any():
    table = {"frame": "table", "home": "up", "numbers": {}}
    assert DataSheet(**table).model_dump(mode="json") == table
    assert DataSheet(**table, gains="stiff").model_dump(mode="json") == table | {"gains": "stiff"}
