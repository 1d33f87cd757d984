"""`sami diagnose` on a policy and its contract."""

import json

import pytest

from tests.making import foreign


@pytest.fixture
def write_document(tmp_path, monkeypatch):
    """Writes a policy and its contract into the current folder."""
    monkeypatch.chdir(tmp_path)
    foreign.adopt_in_this_process(monkeypatch)
    return lambda document: foreign.Foreign(tmp_path).write(foreign.feed_forward(), document)


def test_findings_are_printed_and_a_sound_policy_exits_with_0(sami, write_document):
    write_document(foreign.document())
    result = sami("diagnose", "policy.onnx", "--contract", "my.json", "--json")
    assert result.code == 0, result.out + result.err
    report = json.loads(result.out)
    assert report["passed"]
    checks = {finding["check"]: finding["status"] for finding in report["findings"]}
    assert checks["extreme inputs"] == checks["dead inputs"] == checks["command command"] == "ok"


def test_a_fault_exits_with_4_and_says_what_to_do(sami, write_document):
    document = foreign.document()
    document["action"] |= {"effort": 0.01}
    write_document(document)
    result = sami("diagnose", "policy.onnx", "--contract", "my.json")
    assert result.code == 4
    assert "fault    torques: a standing robot's targets demand up to" in result.out
    assert "-> Check the unit and order of action.kp" in result.out


def test_a_policy_without_a_recipe_gets_one_line(sami, write_document):
    write_document(foreign.document())
    result = sami("diagnose", "policy.onnx")
    assert result.code == 1
    assert "rate_hz: field required" in result.err
    assert len(result.err.splitlines()) == 1
