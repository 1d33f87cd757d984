"""The beginning of an adapter: it declares what the model needs, keeps what can be kept, and says what remains."""

import ast
import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sami_runtime.checks.check_adapter import check_adapter
from sami_runtime.clock import ManualClock
from sami_runtime.distribution import shipped_models
from sami_runtime.errors import AdapterError, SamiError
from sami_runtime.files import toml_value
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.contract import DataSheet, Quantity
from sami_runtime.robots.kit.skeleton import skeleton, write_skeleton
from sami_runtime.signals import Moves

MODELS = shipped_models()


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=sorted(MODELS))
def module_of_arm(request, tmp_path):
    """(contract, module of the skeleton) of each model that is shipped."""
    contract = read_artifact(MODELS[request.param]).contract
    write_skeleton(contract, tmp_path / "my_arm.py", request.param)
    return contract, load(tmp_path / "my_arm.py")


def test_it_declares_the_contracts_signals_to_the_last_bound(module_of_arm):
    contract, module = module_of_arm
    assert module.MyArm.observation == contract.observation
    assert module.MyArm.action == contract.action
    numbers = {} if contract.sheet is None else {name: number.values for name, number in contract.sheet.numbers.items()}
    assert numbers == module.NUMBERS


def test_it_keeps_the_laws_that_need_no_robot_and_names_what_remains(module_of_arm):
    contract, module = module_of_arm
    clock = ManualClock()
    verdicts = check_adapter(module.make(clock, contract), contract, clock, ticks=2)
    broken = [verdict.fault for verdict in verdicts if verdict.fault]
    assert len(broken) == 1
    assert len(verdicts) >= 4
    assert broken[0].startswith("my_arm.py is a skeleton. What remains:\n- __init__: connect")
    for name in (*(signal.name for signal in contract.observation), *contract.action.elements):
        assert name in broken[0]


def test_it_is_driven_once_nothing_remains(module_of_arm):
    contract, module = module_of_arm
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
    flat = " ".join(text.split())
    for report in (
        "whose base stands on it at x = -0.6 m",
        '"home_joints": (0.0, 0.41, 0.0, -1.85, 0.0, 2.26, 0.79), # rad',
        "Euler angles about the fixed x, then y, then z",
        "position servos of the joints",
        '"reached_displacement": (0.0315, 0.0425, 0.0417), # m',
        "x -0.148 to 0.147, y -0.147 to 0.15, z 0.02 m",
        "dx, dy, dz times 0.05 m",
        "acts 25 times a second, 50 steps an episode",
        "sami drive robot.toml --dry-run",
        'model = "panda-satesac" adapter = "my_arm:make"',
    ):
        assert report in flat


@pytest.mark.parametrize("model", ["my model's.onnx", 'a "b"\\c.onnx', "modèle.onnx"])
def test_the_commands_and_the_robot_file_that_it_shows_name_any_path_of_a_model(model):
    text = ast.get_docstring(ast.parse(skeleton(read_artifact(MODELS["panda-satesac"]).contract, "my_arm", model)))
    commands = [line.partition("  #")[0] for line in text.splitlines() if "sami check-adapter" in line]
    assert [shlex.split(command)[4] for command in commands] == [model, model]
    [line] = [line for line in text.splitlines() if line.strip().startswith("model = ")]
    assert toml_value(line.partition("=")[2].strip()) == model


def test_it_is_as_tidy_as_our_own_sources(module_of_arm, tmp_path):
    path = tmp_path / "my_arm.py"
    assert max(map(len, path.read_text(encoding="utf-8").splitlines())) <= 120
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not installed")
    process = subprocess.run(
        [ruff, "check", "--isolated", "--select", "E,F,I", "--line-length", "120", path], timeout=60
    )
    assert process.returncode == 0


def test_a_name_that_cannot_be_imported_and_a_file_that_is_there_are_refused(tmp_path):
    contract = read_artifact(MODELS["panda-satesac"]).contract
    for name in ("my-arm.py", "my_arm.txt", "class.py", "7dof.py"):
        with pytest.raises(SamiError, match="is no module that could be imported"):
            write_skeleton(contract, tmp_path / name, "model.onnx")
    (tmp_path / "mine.py").write_text("precious = 1\n")
    with pytest.raises(SamiError, match="exists; choose another name"):
        write_skeleton(contract, tmp_path / "mine.py", "model.onnx")
    assert load(tmp_path / "mine.py").precious == 1
    write_skeleton(contract, tmp_path / "mine.py", "model.onnx", force=True)
    assert load(tmp_path / "mine.py").Mine
    with pytest.raises(SamiError, match="cannot be written"):
        write_skeleton(contract, tmp_path / "nowhere" / "mine.py", "model.onnx")


HOSTILE = (
    '"""\n; open("ran", "w"); """',
    "'''\nraise SystemExit\n'''",
    '"); open("ran", "w"); ("',
    "\\",
    '\\"\\',
    "a\nraise SystemExit",
    "a\rraise SystemExit",
    "a\x0craise SystemExit",
    "a\u2028raise SystemExit",
    "a\u2029raise SystemExit",
    "a\x85raise SystemExit",
    "a\x1craise SystemExit",
    "a\x00b",
    "\u202eraise\u2066",
    "{model} {0} {{ }} %s",
    "N \\N{DIGIT ONE} \\x41 \\u0041 \\",
    " # noqa \t ",
    "x" * 300 + '"\n' + "y " * 200 + "\\",
)
"""Texts that a model file may hold where a name, a unit or a description is expected."""


def with_text(contract, text):
    """Return a contract with this in each of its fields of text, and in names that are none of Python's."""

    def element(number):
        return f"{text}{number}"

    def signal(item, **more):
        elements = tuple(map(element, range(item.size)))
        return item.model_copy(update={"unit": text, "elements": elements, "meaning": text, **more})

    moves = {element(0): Moves(element=text, scale=0.5)}
    sheet = DataSheet(frame=text, home=text, gains=text, numbers={text: Quantity(unit=text, values=(1.0,))})
    return contract.model_copy(
        update={
            "name": text,
            "observation": tuple(map(signal, contract.observation)),
            "action": signal(contract.action, moves=moves),
            "sheet": sheet,
        }
    )


def shape(source):
    """Return the syntax tree of a source with all of its strings taken out."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_model_file_becomes_code(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    contract = with_text(read_artifact(MODELS["panda-satesac"]).contract, text)
    harmless = with_text(contract, "harmless")
    source = skeleton(contract, "my_arm", text)
    assert shape(source) == shape(skeleton(harmless, "my_arm", "harmless"))
    write_skeleton(contract, tmp_path / "my_arm.py", text)
    module = load(tmp_path / "my_arm.py")
    assert (contract.observation, contract.action) == (module.OBSERVATION, module.ACTION), "and none of it is lost"
    assert list(tmp_path.glob("ran")) == []


@pytest.mark.parametrize("name", ["class", "None", "measured", "self", "print"])
def test_a_signal_of_any_name_gives_a_module_that_can_be_imported(name, tmp_path):
    contract = read_artifact(MODELS["panda-satesac"]).contract
    first, *signals = contract.observation
    contract = contract.model_copy(update={"observation": (first.model_copy(update={"name": name}), *signals)})
    write_skeleton(contract, tmp_path / "my_arm.py", "model.onnx")
    module = load(tmp_path / "my_arm.py")
    assert module.OBSERVATION[0].name == name


@pytest.mark.parametrize("stem", ["_", "none", "_1", "true"])
def test_a_module_of_any_name_has_a_class_that_python_takes(stem, tmp_path):
    write_skeleton(read_artifact(MODELS["panda-satesac"]).contract, tmp_path / f"{stem}.py", "model.onnx")
    assert load(tmp_path / f"{stem}.py").make
