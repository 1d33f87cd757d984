"""The C++ example answers as Python does, step by step, and refuses what Python refuses."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.making.golden import golden_steps

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "models" / "panda-satesac.onnx"


def call(*command):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)


@pytest.fixture
def replay(cpp_build):
    return cpp_build / "replay"


@pytest.fixture
def golden(tmp_path):
    """The golden steps in a file that a test may change."""
    table = tmp_path / "golden.csv"
    done = golden_steps(table)
    assert done.returncode == 0, done.stderr
    return table


def changed(golden, column, row, text):
    lines = [line.split(",") for line in golden.read_text().splitlines()]
    lines[row + 1][lines[0].index(column)] = text
    golden.write_text("\n".join(map(",".join, lines)) + "\n")


def test_cpp_reproduces_the_golden_steps(replay, golden):
    done = call(replay, MODEL, golden)
    assert done.returncode == 0, done.stderr
    assert re.match(r"panda-satesac: 64 steps, largest difference \d\.\de-0[67] at step \d+, within 1e-05", done.stdout)


def test_cpp_tells_what_a_file_answers_besides(replay, tmp_path):
    """The present, as the policy estimates it; a probe's outputs are such, too."""
    onnx_file, table = Path(MODEL).with_name("panda-satesac-camera.onnx"), tmp_path / "camera.csv"
    assert golden_steps(table, onnx_file).returncode == 0
    done = call(replay, onnx_file, table)
    assert done.returncode == 0, done.stdout + done.stderr
    changed(table, "present_cube_position.z", 7, "0.5")
    done = call(replay, onnx_file, table)
    assert done.returncode == 4
    assert "at step 7, MORE THAN 1e-05" in done.stdout


def test_cpp_finds_a_difference_at_its_step(replay, golden):
    changed(golden, "action.dy", 40, "0.123")
    done = call(replay, MODEL, golden)
    assert done.returncode == 4
    assert "at step 40, MORE THAN 1e-05" in done.stdout


def test_cpp_needs_the_executed_action_and_the_reset(replay, golden):
    """Both change what follows: a program that left one out would not agree."""
    original = golden.read_text()
    changed(golden, "executed.dx", 5, "0.9")
    assert call(replay, MODEL, golden).returncode == 4
    golden.write_text(original)
    changed(golden, "reset", 31, "0")
    assert call(replay, MODEL, golden).returncode == 4


def test_cpp_looks_ahead_as_the_golden_steps_say(replay, tmp_path):
    """Ages and held periods among them: a program that left one out would not agree."""
    onnx_file, table = looking_ahead(tmp_path / "ahead.onnx"), tmp_path / "ahead.csv"
    assert golden_steps(table, onnx_file).returncode == 0
    done = call(replay, onnx_file, table)
    assert done.returncode == 0, done.stdout + done.stderr
    original = table.read_text()
    for column, row, text in (("age.ee_position", 4, "0"), ("held", 3, "0")):
        table.write_text(original)
        changed(table, column, row, text)
        assert call(replay, onnx_file, table).returncode == 4


def looking_ahead(path):
    """The shipped model with a forward model of no world in front."""
    from sami_runtime.model.artifact import read_artifact
    from sami_runtime.model.lookahead import SignalErrors
    from sami_train.studies.lookahead.forward_model import Fit, ForwardModel
    from tests.making.attached import attach_lookahead

    rng, error = np.random.default_rng(0), SignalErrors(predicted=(0.1, 0.2), standing=(1.0, 1.0))
    weights = tuple(rng.normal(0, 0.2, shape).astype(np.float32) for shape in ((39, 8), (8, 8), (8, 25)))
    biases = tuple(np.zeros(weight.shape[1], np.float32) for weight in weights)
    errors = {signal.name: error for signal in read_artifact(MODEL).contract.observation}
    attach_lookahead(Path(MODEL), path, 2, Fit(ForwardModel(weights, biases), 1, 1, errors), "nothing")
    return path


def test_cpp_refuses_what_is_not_finite(replay, golden):
    changed(golden, "observation.gripper_width.width", 3, "nan")
    done = call(replay, MODEL, golden)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "replay: observation is not finite; nothing was advanced\n"


def test_cpp_refuses_a_file_without_a_contract(replay, golden, tmp_path):
    import onnx

    model = onnx.load(MODEL)
    del model.metadata_props[:]
    onnx.save(model, tmp_path / "bare.onnx")
    done = call(replay, tmp_path / "bare.onnx", golden)
    assert done.returncode == 1
    assert "carries no sami.contract; use a file that sami export wrote" in done.stderr
