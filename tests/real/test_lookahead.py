"""From a shipped model to one that looks ahead, and on to one that is fitted to recordings."""

import json

from sami_runtime import read_artifact, read_recording, verify
from tests.cli.test_lookahead import MODEL, call


def test_from_a_model_to_one_that_looks_ahead_to_one_that_is_fitted_to_recordings(tmp_path):
    ahead, own_model, recording, gap = (tmp_path / name for name in ("ahead.onnx", "own.onnx", "run.mcap", "gap.toml"))
    result = call("export", "--model", MODEL, "--out", ahead, "--lookahead", 1, "--set", "lookahead_episodes=20")
    assert result.exit_code == 0, result.output
    assert "it looks ahead by up to 1 periods" in result.output
    assert "ee_position" in call("inspect", ahead).output
    assert verify(ahead).passed
    gap.write_text("latency_s = 0.04\n")
    result = call("--json", "run", "--model", ahead, "--gap", gap, "--episodes", 12, "--record", recording)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.output.splitlines() if line.startswith("{")]
    assert sum(row["success"] for row in rows) >= 6
    assert {record.age for _, record in read_recording(recording).steps} == {0.0, 1.0}
    assert call("replay", recording).exit_code == 0
    assert call("export", "--model", ahead, "--refit", recording, "--out", own_model).exit_code == 0
    contract = read_artifact(own_model).contract
    assert contract.lookahead.fitted.endswith("stretches of run.mcap")
    assert contract.lookahead.steps == 1
    error = contract.lookahead.errors["ee_position"]
    assert error.predicted[0] < error.standing[0]
