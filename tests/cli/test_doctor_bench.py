"""`sami doctor` and `sami bench`: what they find, and what they print."""

import json
import os
import subprocess
import sys

import pytest
from sami_cli.commands.recording import _session_as_recorded

from sami_runtime.distribution import install_hint, pip

MAIN = "from sami_cli.app import main; main()"


def test_the_doctor_prints_findings_and_a_count(sami):
    result = sami("doctor")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert [line for line in lines if line.startswith("ok    onnxruntime build   onnxruntime")]
    assert lines[-1].startswith("0 failed, ")
    document = json.loads(sami("doctor", "--json").out)
    assert document["ok"]
    assert {"name", "status", "found", "advice"} == set(document["findings"][0])


def test_two_builds_of_onnxruntime_fail_and_are_told_how_to_become_one(tmp_path):
    """What pip leaves behind where both were installed: the second one's files, and both records."""
    record = tmp_path / "onnxruntime_gpu-1.31.1.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime-gpu\nVersion: 1.31.1\n")
    (record / "top_level.txt").write_text("onnxruntime\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    process = subprocess.run(
        [sys.executable, "-c", MAIN, "doctor"], capture_output=True, text=True, timeout=60, env=environment
    )
    assert process.returncode == 1
    assert "fail  onnxruntime build" in process.stdout
    assert f"{pip()} uninstall -y onnxruntime onnxruntime-gpu; then {install_hint('cpu')}" in " ".join(
        process.stdout.split()
    )


PACES = ["back to back", "paced at 25 Hz", "paced at 100 Hz", "paced at 1000 Hz"]
SESSION = ["onnxruntime run_with_iobinding", "onnxruntime run", "Session.step"]
TORCH = ["torch, eager", "stable-baselines3 predict"]


def test_bench_times_session_onnxruntime_torch_and_predict_in_one_run(sami, panda):
    result = sami("bench", panda.model, "--seconds", 0.05, "--json")
    assert (result.code, result.err) == (0, "")
    document = json.loads(result.out)
    assert [pace["pace"] for pace in document["paces"]] == PACES
    assert [list(pace["us"]) for pace in document["paces"]] == [SESSION + TORCH] + [
        [*SESSION, "Session.step after prewarm()", *TORCH]
    ] * 3
    assert 0.0 <= document["largest_difference"] <= 1e-6
    for pace in document["paces"]:
        assert next(iter(pace["us"].values()))["ratio"] == 1.0
        for timing in pace["us"].values():
            assert 0 < timing["p50"] <= timing["p99"] <= timing["worst"]
            assert timing["steps"] >= 2


def test_bench_prints_its_method_and_says_what_policy_torch_steps(sami, panda):
    result = sami("bench", panda.model, "--seconds", 0.05)
    assert (result.code, result.err) == (0, "")
    assert "the call alone, on arrays bound once" in result.prose
    assert "torch and predict step a policy of the same shape with new weights" in result.prose
    assert [line for line in result.out.splitlines() if line.startswith("paced at 1000 Hz")]


def test_bench_works_without_torch_and_says_so(panda, tmp_path):
    script = f"import sys; sys.modules['torch'] = None; {MAIN}"
    command = [sys.executable, "-c", script, "bench", str(panda.model), "--seconds", "0.05", "--json"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (process.returncode, process.stderr) == (0, "")
    document = json.loads(process.stdout)
    assert document["torch"] == "torch and predict are left out: torch is not installed."
    assert list(document["paces"][0]["us"]) == SESSION


def test_a_soak_says_whether_memory_stayed(sami, panda, tmp_path):
    """In a process of its own: the memory of this one is that of all tests so far, too."""
    command = [sys.executable, "-c", MAIN, "bench", str(panda.model), "--soak", "2000", "--json"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=True)
    assert json.loads(process.stdout)["flat"]
    output = sami("bench", panda.model, "--soak", "200").out
    assert output.startswith("200 steps, each with executed() and prewarm(): resident memory grew by ")


@pytest.mark.parametrize("command", ["bench", "verify"])
def test_a_provider_that_is_not_there_is_one_message(sami, panda, command):
    result = sami(command, panda.model, "--provider", "cdua")
    assert (result.code, result.out) == (1, "")
    assert "unknown execution provider 'cdua'" in result.err


def test_verify_says_which_provider_it_checked(sami, panda):
    document = json.loads(sami("verify", panda.model, "--provider", "cpu", "--json").out)
    assert (document["passed"], document["provider"]) == (True, "cpu")


def test_run_steps_the_model_with_the_provider_that_is_named_and_replay_with_that_of_the_recording(sami, panda):
    options = ("run", "--model", panda.model, "--episodes", 1, "--set", "steps=3")
    refused = "unknown execution provider 'cdua'"
    assert refused in sami(*options, "--set", "provider=cdua").err
    assert sami(*options, "--set", "provider=CPUExecutionProvider", "--record", "run.mcap").code == 0
    assert sami("replay", "run.mcap").code == 0
    for recorded in (["CPUExecutionProvider"], ["CDUAExecutionProvider"], []):
        session = _session_as_recorded(panda.model, recorded)
        assert session.active_providers == ("CPUExecutionProvider",)
