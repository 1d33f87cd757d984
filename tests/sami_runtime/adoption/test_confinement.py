"""A policy is adopted in a process with limits; `tests/real/test_hostile_graphs.py` tries all bombs."""

import json

import pytest

from sami_runtime import ArtifactError, ContractError, adopt
from sami_runtime.adoption.adopt import adopt_in_process, adopt_reading, read_policy
from tests.making import bombs, foreign


def test_a_policy_is_the_same_file_from_a_process_of_its_own(tmp_path):
    paths = foreign.Foreign(tmp_path).write(foreign.recurrent(), foreign.document(state=foreign.STATES))
    reading = read_policy(*paths)
    confined = adopt_reading(reading, paths[0])
    assert confined.model_bytes == adopt_in_process(reading, str(paths[0])).model_bytes
    stored = confined.contract.training["adopted"]
    assert stored["sources"]["action.scale"] == {"kind": "file", "where": str(paths[1])}


@pytest.mark.parametrize("graph", [bombs.doubled, bombs.cyclic_functions])
def test_a_bomb_ends_no_process_but_its_own_and_leaves_no_file(tmp_path, graph):
    paths = foreign.Foreign(tmp_path).write(graph(), foreign.document())
    with pytest.raises(ArtifactError, match=r"policy\.onnx") as refused:
        adopt(*paths, tmp_path / "out.onnx")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 1000
    assert not (tmp_path / "out.onnx").exists()


def test_what_a_person_left_out_costs_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", None)
    document = foreign.document()
    del document["action"]["scale"]
    paths = foreign.Foreign(tmp_path).write(foreign.feed_forward(), json.loads(json.dumps(document)))
    with pytest.raises(ContractError, match="scale: field required"):
        adopt(*paths, tmp_path / "out.onnx")
