"""Two processes that export at the same time."""

import re
import subprocess
import sys

from sami_runtime.model.artifact import read_artifact
from tests.cli.conftest import call, settings


def test_two_exports_to_one_file_leave_a_model_and_weights_that_belong_together(monkeypatch, tmp_path):
    """Of two policies, begun at the same time: the one that comes second is refused, or finds the first one done."""
    from sami_runtime.checks.verify import verify
    from sami_train.config.weights import read_weights

    runs = [tmp_path / "one", tmp_path / "other"]
    for seed, run in enumerate(runs):
        assert call(monkeypatch, "train", "--steps", 700, "--seed", seed, *settings(), "--out", run, "-q") == 0
    out = tmp_path / "both.onnx"
    options = [
        "--set",
        "atlas_episodes=0",
        "--set",
        "seen_episodes=0",
        "--set",
        "card=false",
        "--force",
        "--out",
        str(out),
    ]
    main = "from sami_cli.app import main; main()"
    exports = [
        subprocess.Popen(
            [sys.executable, "-c", main, "export", "--run", str(run), *options], stderr=subprocess.PIPE, text=True
        )
        for run in runs
    ]
    results = [(export.communicate(timeout=120)[1], export.returncode) for export in exports]
    assert 0 in [code for _, code in results]
    for message, code in results:
        # Between its lock and its name in the file, the first one is another process without a name.
        assert code == 0 or re.search(
            re.escape(f"{out} is being written by ") + r"(process \d+ on |another process)", message
        )
    assert verify(out).passed
    assert read_weights(out.with_suffix(".safetensors")).header.model == read_artifact(out).contract.weights_sha256
    assert {path.suffix for path in tmp_path.glob("both*")} == {".onnx", ".safetensors"}
