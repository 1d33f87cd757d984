"""`sami probe` as users run it, and what a file with a probe tells."""

import dataclasses
import json

import pytest

from sami_runtime import read_artifact, verify
from sami_train.envs import catalog
from sami_train.studies.readout.fit import fit
from tests.making.attached import attach_probe
from tests.sami_train.studies.readout.test_probe import PANDA, samples


@pytest.fixture(scope="module")
def probed(panda, tmp_path_factory):
    """The trained model, with a probe of made-up contexts that carry the mass alone."""
    path = tmp_path_factory.mktemp("probe") / "probed.onnx"
    attach_probe(panda.model, path, fit(*samples(PANDA, 120, hidden={"friction"}), step=0))
    return path


def test_a_file_takes_a_probe_and_says_how_well_each_feature_is_told(sami, panda, tmp_path, monkeypatch):
    monkeypatch.setitem(
        catalog.of_commands, "panda", dataclasses.replace(catalog.ENVIRONMENTS["panda"], episode_steps=12)
    )
    out = tmp_path / "out.onnx"
    result = sami("probe", panda.model, "--out", out, "--episodes", 44)
    assert result.code == 0, result.err
    assert "probe: from step 5 on, fitted to " in result.out
    assert "mass, 1 to 10 kg: " in result.out
    assert "friction, 0.1 to 10: " in result.out
    probe = read_artifact(out).contract.probe
    assert probe.fitted + probe.calibrated + probe.held_out <= 44
    assert verify(out).passed
    again = sami("probe", out)
    assert again.code == 1
    assert "has a probe; `sami inspect" in again.err
    assert sami("probe", panda.model, "--out", out).code == 1  # it exists


def test_inspect_tells_of_the_probe_or_that_there_is_none(sami, panda, probed):
    text = sami("inspect", probed).out
    assert "output probe_mass" in text
    assert "mass, 1 to 10 kg: R2 0." in text
    assert "friction, 0.1 to 10: the context does not identify it (R2 " in text
    assert "probe: none; `sami probe` adds one" in sami("inspect", panda.model).out


def test_a_run_tells_what_the_probe_reads_and_what_contexts_do_not_carry(sami, probed):
    result = sami("run", "--env", "panda", "--model", probed, "--episodes", 2)
    assert result.code == 0, result.err
    assert "the context does not identify friction" in result.out
    assert result.out.count("mass ") >= 2
    assert "[" in result.out
    rows = [
        json.loads(line)
        for line in sami("run", "--env", "panda", "--model", probed, "--episodes", 2, "--json").out.splitlines()
    ]
    for row in rows:
        assert row["telemetry"]["not_carried"] == ["friction"]
        assert set(row["telemetry"]["probe"]["mass"]) == {"estimate", "low", "high"}
        assert row["telemetry"]["probe"]["mass"]["low"] <= row["telemetry"]["probe"]["mass"]["high"]


def test_recordings_keep_what_it_answered_and_replay(sami, probed):
    assert sami("run", "--env", "panda", "--model", probed, "--episodes", 1, "--record", "run.mcap").code == 0
    result = sami("replay", "run.mcap", "--model", probed)
    assert result.code == 0, result.out + result.err


def test_export_goes_with_it_only_from_a_run(sami, panda):
    result = sami("export", "--model", panda.model, "--lookahead", 2, "--set", "probe=true", "--out", "x.onnx")
    assert result.code == 2
    assert "sami probe MODEL" in result.err


def test_the_card_tells_of_it(panda, probed):
    from sami_train.export.card import card_files
    from sami_train.runs.record import RunRecord

    text, *_ = card_files(RunRecord.of_folder(panda.run), read_artifact(probed).contract, probed).values()
    assert b"Probe: from step 0 on" in text
    assert b"- friction, 0.1 to 10: the context does not identify it" in text
    assert b" --set probe=true" in text
