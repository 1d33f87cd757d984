"""`sami adopt`, and every command of a robot on a file that it wrote: a policy without a context works everywhere."""

import json
import sys
from pathlib import Path

import pytest

from sami_runtime.adoption.recipe import Recipe
from sami_runtime.model.artifact import read_artifact
from sami_runtime.recording.reader import read_recording
from tests.making import foreign

DOG = '''
import numpy as np

from sami_runtime import Executed, Observation, read_artifact


class Dog:
    """Joints that follow their targets at once."""

    def __init__(self, clock):
        contract = read_artifact("my.onnx").contract
        self.observation, self.action, self.clock = contract.observation, contract.action, clock

    def reset(self, seed=None):
        self.angles = np.zeros(2, np.float32)

    def read(self):
        values = {"joint_angles": self.angles, "joint_velocities": np.zeros(2), "command": np.float32([0.5, 0.0])}
        wobble = np.float32(1e-4 * (self.clock.now() % 1.0))
        return Observation({name: value + wobble for name, value in values.items()}, self.clock.now())

    def write(self, action):
        self.angles = action.copy()
        return Executed(action.copy())

    def stop(self):
        pass

    def close(self):
        pass


def make(clock):
    return Dog(clock)
'''


@pytest.fixture
def dog(sami, monkeypatch):
    """The policy, its contract and the module of its robot in the current folder."""
    foreign.Foreign(Path()).write(foreign.feed_forward(), foreign.document())
    Path("dog.py").write_text(DOG)
    Path("limits.toml").write_text("rest = 0.0")
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("dog", None)


@pytest.mark.usefixtures("dog")
def test_an_adopted_policy_works_with_every_command_of_a_robot(sami):
    result = sami("adopt", "policy.onnx", "--contract", "my.json", "--out", "my.onnx")
    assert (result.code, result.err) == (0, "")
    assert "file: my.json\n  name, input, output, rate_hz," in result.out
    assert result.out.endswith("wrote my.onnx: over 500 steps of walker it answers as policy.onnx does\n")
    assert all(len(line) <= 80 for line in result.out.splitlines() if not line.startswith("observation"))
    assert Recipe.of(read_artifact("my.onnx")).name == "walker"

    assert "all 12 checks passed" in sami("verify", "my.onnx").out
    assert "atlas: none, because the policy infers no context" in sami("inspect", "my.onnx").out
    result = sami("check-adapter", "dog:make", "--model", "my.onnx", "--write", "--limits", "limits.toml")
    assert (result.code, "0 of " in result.out) == (0, True), result
    drive = 'version = 1\nmodel = "my.onnx"\nadapter = "dog:make"\n[limits]\nrest = 0.0\n'
    Path("robot.toml").write_text(drive)
    result = sami("drive", "robot.toml", "--set", "steps=15", "--record", "run.mcap")
    assert result.code == 0, result
    recording = read_recording("run.mcap")
    assert len(recording.steps) == 15
    result = sami("replay", "run.mcap", "--model", "my.onnx")
    assert (result.code, "15" in result.out) == (0, True), result
    result = sami("view", "run.mcap", "--no-open", "--out", "run.html")
    assert (result.code, Path("run.html").stat().st_size > 10_000) == (0, True), result
    result = sami("convert", "run.mcap", "run.csv")
    assert (result.code, "observation.joint_angles.hip" in Path("run.csv").read_text()) == (0, True), result
    result = sami("bench", "my.onnx", "--seconds", "0.05", "--json")
    assert result.code == 0, result
    refused = sami("run", "--model", "my.onnx")
    assert (refused.code, refused.err.count("\n")) == (1, 1), refused
    assert "sami drive" in refused.err


@pytest.mark.usefixtures("dog")
def test_a_draft_is_written_for_what_is_missing(sami):
    result = sami("adopt", "policy.onnx", "--draft", "my.toml")
    assert (result.code, result.err) == (0, "")
    assert "fill its gaps (???)" in result.out
    assert 'input = "obs"  # file: policy.onnx' in Path("my.toml").read_text()
    unread = sami("adopt", "policy.onnx", "--draft", "my.txt")
    assert (unread.code, "my.txt is no name of a contract; give NAME.toml" in unread.err) == (2, True), unread
    refused = sami("adopt", "policy.onnx", "--draft", "my.toml")
    assert (refused.code, "my.toml exists" in refused.err) == (1, True)


@pytest.mark.usefixtures("dog")
def test_bad_input_costs_one_line_and_writes_nothing(sami):
    document = json.loads(Path("my.json").read_text())
    document["signals"][1]["slice"] = [2, 5]
    Path("my.json").write_text(json.dumps(document))
    for arguments, fact in (
        (("--contract", "my.json"), "signals.joint_velocities.slice is [2, 5] for 2 elements"),
        ((), "rate_hz: field required"),
        ((), "Correct --contract; `sami adopt POLICY --draft my.toml` writes one to complete."),
        (("--contract", "none.toml"), "none.toml cannot be read"),
        (("--reader", "isaac"), "unknown reader 'isaac'"),
        (("--out", "policy.onnx", "--force"), "never replaces what it reads"),
    ):
        result = sami("adopt", "policy.onnx", *arguments)
        assert (result.code, result.out, result.err.count("\n")) == (1, "", 1), result
        assert fact in result.err
    assert not Path("policy-adopted.onnx").exists()
