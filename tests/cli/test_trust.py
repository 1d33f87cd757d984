"""`sami sign`, and whose files `sami verify` and `sami run` let in."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.making.still_robot import driving

pytest.importorskip("cryptography")

SHIPPED = Path(__file__).parents[2] / "models" / "panda-satesac.onnx"


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "policy.onnx"
    path.write_bytes(SHIPPED.read_bytes())
    return path


def test_a_robot_is_told_whose_files_it_runs(sami, model, tmp_path):
    key = tmp_path / "ada.key"
    result = sami("sign", "--new-key", key, "--owner", "Ada", model)
    assert (result.code, result.prose.endswith(f"wrote {model}.sig")) == (0, True)
    trusted = ("--trusted", tmp_path / "ada.pub")
    document = json.loads(sami("verify", model, *trusted, "--json").out)
    assert {"name": "signature", "passed": True, "detail": "by Ada"} in document["checks"]
    model.write_bytes(model.read_bytes() + b"\x72\x00")  # an empty entry of metadata: the policy is the same
    result = sami("verify", model, *trusted)
    assert result.code == 4
    assert "is not the file that Ada" in result.out
    result = sami(*driving("nowhere:arm", model, trusted=str(trusted[1])))
    assert result.code == 1
    assert "is not the file that Ada" in result.err


def test_only_the_file_that_is_expected_is_let_in(sami, model):
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    assert sami("verify", model, "--expect-sha256", digest).code == 0
    result = sami("run", "--model", model, "--episodes", "1", "--set", f"expect_sha256={'0' * 64}")
    assert result.code == 1
    assert f"policy.onnx has SHA-256 {digest}, expected {'0' * 64}" in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to do: name a model and --key, or make a key with --new-key"),
        (("--key", "ada.pub"), "nothing to sign: name the model, as in sami sign MODEL --key ada.pub."),
        ((SHIPPED,), "to be signed? Name it with --key"),
        ((SHIPPED, "--key", "nowhere.key"), "nowhere.key cannot be read: No such file or directory. Give a key of"),
    ],
)
def test_what_lacks_for_a_signature_is_said(sami, arguments, message):
    result = sami("sign", *arguments)
    assert result.code == 1
    assert message in result.err
