"""The contract: a round trip through JSON, the names that follow from it, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from pydantic import ValidationError
from sami_cli.commands.inspect import signal_table

from sami_runtime.distribution import upgrade_hint
from sami_runtime.errors import ContractError
from sami_runtime.model.contract import METADATA_KEY, Context, Contract, StateTensor
from sami_runtime.model.golden import Golden
from sami_runtime.signals import Moves, Signal


@pytest.fixture
def contract(make):
    policy = make.recurrent()
    return make.contract_of(policy, golden=make.golden_of(policy), evaluation={"training": {"success": 0.9}})


def test_a_contract_survives_json(contract):
    again = Contract.parse(contract.dumps(), "model.onnx")
    assert again == contract
    assert json.loads(contract.dumps())["observation"][1]["low"] == [None]


def test_the_graphs_tensors_follow_from_the_contract(contract):
    assert contract.inputs == {
        "observation.position": (2,),
        "observation.goal": (1,),
        "previous_action": (2,),
        "state.memory.in": (1, 3),
    }
    assert contract.outputs == {"action": (2,), "context": (2,), "state.memory.out": (1, 3)}


def test_a_memoryless_policy_has_no_context_and_no_state(make):
    contract = make.contract_of(make.memoryless())
    assert contract.outputs == {"action": (2,)}
    assert contract.context_size == 0


def test_the_table_shows_names_indices_units_and_elements(contract):
    assert signal_table(contract).splitlines() == [
        "tiny: 25 Hz, 10 steps an episode",
        "signal                index  size  unit  elements",
        "observation position  0..1   2     m     x, y",
        "observation goal      2      1     m     x",
        "action force          0..1   2     N     fx, fy",
        "state memory                 1x3         initially 0.5",
        "context               0..1   2     1",
    ]


def test_a_newer_version_says_how_to_upgrade(contract):
    text = contract.dumps().replace('"version":1', '"version":2', 1)
    message = f"m.onnx has contract version 2; this sami_runtime reads version 1. Upgrade with: {upgrade_hint()}"
    with pytest.raises(ContractError) as error:
        Contract.parse(text, "m.onnx")
    assert str(error.value) == message


def test_a_newer_version_is_recognised_whatever_else_changed():
    with pytest.raises(ContractError, match="has contract version 7"):
        Contract.parse('{"version": 7, "sensors": "renamed"}', "m.onnx")


def edited(contract, edit):
    document = json.loads(contract.dumps())
    edit(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: d.update(version=0), "version is 0, expected 1"),
        (lambda d: d.pop("rate_hz"), "contract: rate_hz: field required"),
        (lambda d: d.update(rate_hz=-1), "contract: rate_hz: input should be greater than 0, and it is -1"),
        (lambda d: d.update(extra=1), "contract: extra: unknown key 'extra'"),
        (
            lambda d: d["action"].update(size="2"),
            "contract: action.size: input should be a valid integer, and it is '2'",
        ),
        (lambda d: d["action"].update(size=3), "signal 'force' has 2 elements for its size 3"),
        (lambda d: d["action"].update(low=[2, -1]), "signal 'force' has low 2.0 above high 1.0 at fx"),
        (lambda d: d["action"].update(elements=["a", "a"]), "names an element twice: a, a"),
        (lambda d: d["action"].update(name="a.b"), "contract: action.name: "),
        (lambda d: d["observation"].append(d["observation"][0]), "observation name used twice: position"),
        (lambda d: d.update(weights_sha256="abc"), "contract: weights_sha256: "),
        (lambda d: d["golden"].update(resets=[1]), r"resets \[1\] must ascend, begin with 0"),
        (lambda d: d["golden"].update(resets=[0, 16]), r"resets \[0, 16\] must .* stay below steps 16"),
        (lambda d: d.update(episode_steps=True), "contract: episode_steps: "),
    ],
)
def test_a_wrong_field_is_named_with_its_value(contract, edit, message):
    with pytest.raises(ContractError, match=message) as error:
        Contract.parse(edited(contract, edit), "m.onnx")
    assert str(error.value).startswith("m.onnx: ")
    assert str(error.value).endswith("Export the model again.")


@pytest.mark.parametrize("text", ["", "{", "[1]", '"text"', "{}", '{"version": NaN}', "[" * 100_000])
def test_what_is_no_contract_is_refused(text):
    with pytest.raises(ContractError, match=r"m.onnx has a contract (that is not JSON|without a version)"):
        Contract.parse(text, "m.onnx")


def test_a_number_without_a_place_in_json_is_refused(contract):
    with pytest.raises(ContractError, match="cannot be written as JSON"):
        contract.model_copy(update={"evaluation": {"success": float("nan")}}).dumps()


def test_infinite_bounds_become_null():
    infinite = np.array([-np.inf, 0.0], np.float32)
    signal = Signal(name="a", size=2, unit="m", elements=["x", "y"], low=infinite, high=[1.0, float("inf")])
    assert signal.low == (None, 0.0)
    assert signal.high == (1.0, None)


@pytest.mark.parametrize("bounds", [{"low": [float("inf")]}, {"high": [float("nan")]}])
def test_other_bounds_that_are_not_finite_are_refused(bounds):
    with pytest.raises(ValidationError):
        Signal(**({"name": "a", "size": 1, "unit": "m", "elements": ["x"], "low": [0], "high": [1]} | bounds))


def test_a_contract_cannot_be_changed(contract):
    with pytest.raises(ValidationError):
        contract.rate_hz = 50.0


def test_golden_steps_survive_the_contract(make, contract):
    steps = Contract.parse(contract.dumps(), "m").golden_steps()
    np.testing.assert_array_equal(steps.observation["position"], make.observations(16)["position"])
    assert steps.resets == (0, 7)
    assert len(steps) == 16


@pytest.mark.parametrize("data", ["", "not base64!", "AAAA", "UEsDBAAA"])
def test_golden_data_that_cannot_be_unpacked_is_refused(data):
    with pytest.raises(ContractError, match="golden steps cannot be unpacked"):
        Golden(steps=1, resets=(0,), data=data).decode()


def test_golden_steps_of_other_signals_are_refused(make, contract):
    golden = Golden.encode({"observation.position": np.zeros((3, 2)), "action": np.zeros((3, 2))})
    with pytest.raises(
        ContractError, match=r"hold {'observation.position': 2, .*its signals are .*'observation.goal': 1"
    ):
        contract.model_copy(update={"golden": golden}).golden_steps()


def test_golden_steps_of_different_lengths_or_with_nan_are_refused():
    with pytest.raises(ContractError, match=r"golden array 'executed' has shape \(2, 1\), expected \(3, size\)"):
        Golden.encode({"action": np.zeros((3, 1)), "executed": np.zeros((2, 1))})
    with pytest.raises(ContractError, match=r"'observation.a' holds a number that is not finite at step 1"):
        Golden.encode({"observation.a": [[0], [np.nan]]})


def test_golden_steps_that_would_fill_the_memory_are_refused(monkeypatch, contract):
    monkeypatch.setattr("sami_runtime.model.golden.MAX_GOLDEN_BYTES", 100)
    with pytest.raises(ContractError, match="at most 100 are read"):
        contract.golden_steps()


def test_what_an_action_moves_is_written_only_where_it_is_declared(make):
    contract = make.contract_of(make.recurrent())
    assert "moves" not in contract.dumps()
    moves = {"fx": Moves(element="position.x", scale=0.05)}
    declared = contract.model_copy(update={"action": make.action_signal.model_copy(update={"moves": moves})})
    assert '"moves":{"fx":{"element":"position.x","scale":0.05}}' in declared.dumps()
    assert Contract.parse(declared.dumps(), "here") == declared
    with pytest.raises(ValueError, match="says what fz moves, which it does not have"):
        Signal(**{**make.action_signal.model_dump(), "moves": {"fz": moves["fx"]}})


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[3] / "models").glob("*.onnx")), ids=lambda path: path.stem
)
def test_a_shipped_contract_is_written_as_it_was(path):
    text = {entry.key: entry.value for entry in onnx.load(path).metadata_props}[METADATA_KEY]
    assert Contract.parse(text, str(path)).dumps() == text


def test_a_contract_that_says_a_key_twice_is_refused(make):
    text = make.contract_of(make.recurrent()).dumps()
    with pytest.raises(ContractError, match="the key 'rate_hz' comes twice"):
        Contract.parse(text[:-1] + ',"rate_hz":1000.0}', "hostile.onnx")


def test_a_contract_that_a_terminal_would_obey_is_refused(make):
    for name in ("\x1b[32mnone differs", "a\rb", "\u202eevil"):
        text = make.contract_of(make.recurrent(), name=name).dumps()
        with pytest.raises(ContractError, match="characters that a terminal obeys"):
            Contract.parse(text, "hostile.onnx")
    lines = make.contract_of(make.recurrent(), training={"note": "two\nlines"}).dumps()
    assert Contract.parse(lines, "own.onnx").training == {"note": "two\nlines"}


def test_an_initial_state_beyond_float32_is_refused(make):
    with pytest.raises(ValidationError, match="less than or equal to"):
        StateTensor(name="memory", shape=(1,), initial=1e308)


def test_a_size_that_would_fill_the_memory_is_refused():
    with pytest.raises(ValidationError, match="less than or equal to 1000000"):
        Context(size=2**31)
    with pytest.raises(ValidationError, match="has more than 1000000 numbers"):
        StateTensor(name="memory", shape=(1000, 1001))
