"""`sami export --lookahead` and `--refit`: what is refused before anything is computed, and the way to a file."""

import json

import pytest
from sami_cli.app import app
from typer.testing import CliRunner

from sami_runtime import read_artifact, read_recording, shipped_models, verify

MODEL = str(shipped_models()["panda-satesac"])


def call(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--run", "runs/x", "--model", MODEL, "--lookahead", 3], "give either --run or --model"),
        (["--lookahead", 3], "give either --run or --model"),
        (["--model", MODEL], "--model goes with --lookahead or --refit"),
        (["--model", MODEL, "--lookahead", 17], "Input should be less than or equal to 16"),
        (["--model", MODEL, "--lookahead", 3, "--set", "command_delay_s=0.1"], "command_delay_s goes with --refit"),
    ],
)
def test_what_means_nothing_is_refused_before_anything_is_computed(tmp_path, arguments, message):
    done = call("export", "--out", tmp_path / "out.onnx", *arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.output.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


def test_a_file_that_does_not_look_ahead_is_not_refitted_without_saying_how_far(tmp_path):
    done = call("export", "--out", tmp_path / "out.onnx", "--model", MODEL, "--refit", "run.mcap")
    assert str(done.exception) == f"{MODEL} does not look ahead yet; say how many periods it is to, e.g. --lookahead 3."


@pytest.mark.slow
def test_from_a_model_to_one_that_looks_ahead_to_one_that_is_fitted_to_recordings(tmp_path):
    ahead, own, recording, gap = (tmp_path / name for name in ("ahead.onnx", "own.onnx", "run.mcap", "gap.toml"))
    done = call("export", "--model", MODEL, "--out", ahead, "--lookahead", 1, "--set", "lookahead_episodes=20")
    assert done.exit_code == 0, done.output
    assert "it looks ahead by up to 1 periods" in done.output
    assert "ee_position" in call("inspect", ahead).output
    assert verify(ahead).passed
    gap.write_text("latency_s = 0.04\n")
    done = call("run", "--model", ahead, "--gap", gap, "--episodes", 12, "--record", recording, "--json")
    rows = [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
    assert sum(row["success"] for row in rows) >= 6
    assert {record.age for _, record in read_recording(recording).steps} == {0.0, 1.0}
    assert call("replay", recording).exit_code == 0
    assert call("export", "--model", ahead, "--refit", recording, "--out", own).exit_code == 0
    contract = read_artifact(own).contract
    assert contract.lookahead.fitted.endswith("stretches of run.mcap")
    assert contract.lookahead.steps == 1
    error = contract.lookahead.errors["ee_position"]
    assert error.predicted[0] < error.standing[0]
