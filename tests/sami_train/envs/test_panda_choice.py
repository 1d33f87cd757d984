"""`panda` runs in PyBullet where it is installed, else in MuJoCo with the same files, and says which."""

import json
import subprocess
import sys

import pytest

from sami_train.envs.catalog import environment

pytest.importorskip("gymnasium")
WITHOUT = "import sys; sys.modules['pybullet'] = None; "
"""Python as it is where PyBullet is not installed."""
SAMI = "sys.argv = ['sami', *sys.argv[1:]]; from sami_cli.app import main; main()"


@pytest.fixture
def require_mujoco():
    mujoco = pytest.importorskip("mujoco")
    if int(mujoco.__version__.split(".")[0]) < 4:
        pytest.skip("the Panda needs MuJoCo 4")


def sami_without_pybullet(*arguments):
    command = [sys.executable, "-c", WITHOUT + SAMI, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.usefixtures("require_mujoco")
def test_without_pybullet_a_run_is_in_mujoco_and_its_output_and_recording_say_so(tmp_path):
    pytest.importorskip("mcap")
    from sami_runtime.recording.reader import read_recording

    record = tmp_path / "run.mcap"
    result = sami_without_pybullet("run", "--env", "panda", "--episodes", 1, "--tasks", "training", "--record", record)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("panda runs in MuJoCo 4")
    assert result.stdout.splitlines()[0].endswith("PyBullet is not installed")
    assert read_recording(record).about["engine"] == "mujoco"


@pytest.mark.usefixtures("require_mujoco")
def test_without_pybullet_an_evaluation_names_mujoco():
    pytest.importorskip("safetensors")
    arguments = ("--model", "panda-satesac", "--tasks", "training", "--episodes", 1, "--on", 1, "--json")
    outcome = sami_without_pybullet("eval", *arguments)
    assert outcome.returncode == 0, outcome.stderr
    result = json.loads(outcome.stdout)
    assert (result["env"], result["engine"]) == ("panda", "mujoco")


def test_with_pybullet_it_is_pybullet():
    pytest.importorskip("panda_gym")
    assert environment("panda").engine == "pybullet"


def test_panda_in_both_engines_says_what_is_missing_without_pybullet():
    code = WITHOUT + "from sami_train.envs import environment; from sami_train.envs.make import make; "
    process = subprocess.run(
        [sys.executable, "-c", code + "make(environment('panda-both'))"], capture_output=True, text=True, timeout=100
    )
    assert "'panda-both' needs PyBullet beside MuJoCo" in process.stderr
    assert "name panda or panda-mujoco" in process.stderr


@pytest.mark.parametrize("name", ["panda-mujoco", "panda-both"])
def test_the_shipped_model_of_panda_drives_the_others_too(name):
    from sami_cli.model_file import model_and_environment

    model, spec = model_and_environment(None, name)
    assert (model.stem, spec.name) == ("panda-satesac", name)
