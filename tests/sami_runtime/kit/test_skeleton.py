"""The beginning of an adapter: it declares what the model needs, keeps what can be kept, and says what remains."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from sami_runtime.checks.check_adapter import check_adapter
from sami_runtime.clock import ManualClock
from sami_runtime.errors import AdapterError, SamiError
from sami_runtime.kit.skeleton import skeleton, write_skeleton
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.shipped import shipped_models

MODELS = shipped_models()


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=sorted(MODELS))
def begun(request, tmp_path):
    """(contract, module of the skeleton) of each model that is shipped."""
    contract = read_artifact(MODELS[request.param]).contract
    write_skeleton(contract, tmp_path / "my_arm.py", request.param)
    return contract, loaded(tmp_path / "my_arm.py")


def test_it_declares_the_contracts_signals_to_the_last_bound(begun):
    contract, module = begun
    assert module.MyArm.observation == contract.observation
    assert module.MyArm.action == contract.action
    numbers = {} if contract.sheet is None else {name: each.values for name, each in contract.sheet.numbers.items()}
    assert numbers == module.NUMBERS


def test_it_keeps_the_laws_that_need_no_robot_and_names_what_remains(begun):
    contract, module = begun
    clock = ManualClock()
    verdicts = check_adapter(module.make(clock, contract), contract, clock, ticks=2)
    broken = [verdict.fault for verdict in verdicts if verdict.fault]
    assert len(broken) == 1
    assert len(verdicts) >= 4
    assert broken[0].startswith("my_arm.py is a skeleton; what remains:\n- __init__: connect")
    for name in (*(signal.name for signal in contract.observation), *contract.action.elements):
        assert name in broken[0]


def test_it_is_driven_once_nothing_remains(begun):
    contract, module = begun
    robot = module.make(ManualClock(), contract)
    with pytest.raises(AdapterError, match="is a skeleton"):
        robot.reset()
    module.REMAINS.clear()
    robot.reset()
    robot.hear({signal.name: [0.5] * signal.size for signal in contract.observation})
    assert {name: len(value) for name, value in robot.read().values.items()} == {
        signal.name: signal.size for signal in contract.observation
    }


def test_it_tells_frame_home_and_units_to_whoever_reads_it():
    text = skeleton(read_artifact(MODELS["panda-satesac"]).contract, "my_arm", "panda-satesac")
    together = " ".join(text.split())
    for told in (
        "whose base stands on it at x = -0.6 m",
        '"home_joints": (0.0, 0.41, 0.0, -1.85, 0.0, 2.26, 0.79), # rad',
        "Euler angles about the fixed x, then y, then z",
        "position servos of the joints",
        '"reached_displacement": (0.0315, 0.0425, 0.0417), # m',
        "x -0.148 to 0.147, y -0.147 to 0.15, z 0.02 m",
        "dx, dy, dz times 0.05 m",
        "acts 25 times a second, 50 steps an episode",
        "--model panda-satesac --dry-run",
    ):
        assert told in together


def test_it_is_as_tidy_as_our_own_sources(begun, tmp_path):
    path = tmp_path / "my_arm.py"
    assert max(map(len, path.read_text(encoding="utf-8").splitlines())) <= 120
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not installed")
    done = subprocess.run([ruff, "check", "--isolated", "--select", "E,F,I", "--line-length", "120", path], timeout=60)
    assert done.returncode == 0


def test_a_name_that_cannot_be_imported_and_a_file_that_is_there_are_refused(tmp_path):
    contract = read_artifact(MODELS["panda-satesac"]).contract
    for name in ("my-arm.py", "my_arm.txt", "class.py", "7dof.py"):
        with pytest.raises(SamiError, match="is no module that could be imported"):
            write_skeleton(contract, tmp_path / name, "model.onnx")
    (tmp_path / "mine.py").write_text("precious = 1\n")
    with pytest.raises(SamiError, match="exists; choose another name"):
        write_skeleton(contract, tmp_path / "mine.py", "model.onnx")
    assert loaded(tmp_path / "mine.py").precious == 1
    write_skeleton(contract, tmp_path / "mine.py", "model.onnx", force=True)
    assert loaded(tmp_path / "mine.py").Mine
    with pytest.raises(SamiError, match="cannot be written"):
        write_skeleton(contract, tmp_path / "nowhere" / "mine.py", "model.onnx")
