"""`sami export --lookahead` and `--refit`: what is refused before anything is computed. The whole way: tests/real."""

import pytest
from sami_cli.app import app
from typer.testing import CliRunner

from sami_runtime import shipped_models

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
    result = call("export", "--out", tmp_path / "out.onnx", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


def test_a_file_that_does_not_look_ahead_is_not_refitted_without_saying_how_far(tmp_path):
    result = call("export", "--out", tmp_path / "out.onnx", "--model", MODEL, "--refit", "run.mcap")
    assert str(result.exception) == f"{MODEL} does not look ahead yet; say by how many periods, e.g. --lookahead 3."
