"""No stranger's code runs: every command on files that name an environment whose code would leave a marker."""

import json
import sys
from pathlib import Path

import onnx
import pytest
import safetensors.numpy
from sami_cli.app import PANELS

from sami_runtime.distribution import shipped_models
from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.contract import Contract
from sami_runtime.user_code import only_named, require_named
from sami_train.config.weights import WEIGHTS_FILE, Weights, read_weights, weights_file, write_weights
from sami_train.envs.catalog import environment
from sami_train.export.model_file import compose, write
from sami_train.runs.folder import RunFolder
from sami_train.studies.sweep.study import find_runs, write_study
from sami_train.studies.teacher.teacher import FILE, METADATA
from tests.cli.conftest import call
from tests.making.made_runs import made_run

CODE = "from pathlib import Path\nPath({marker!r}).touch()\n"
EXAMPLE = Path(__file__).parents[2] / "examples" / "own_environment" / "my_robot"
MEASURED = Path(__file__).parents[2] / "results" / "panda-robustness" / "robustness.json"
SHIPPED = shipped_models()["panda-satesac"]


def named_in(path, env):
    """Let a JSON file name another environment, wherever it names one."""
    path.write_text(path.read_text().replace('"panda"', json.dumps(env)))


def make_files(folder, env):
    """Files of every kind that name an environment."""
    contract = read_artifact(SHIPPED).contract
    text = contract.dumps()
    for spelling in ('"env":"panda"', '"env": "panda"'):
        text = text.replace(spelling, f'"env": {json.dumps(env)}')
    assert Contract.parse(text, "text").training["env"] == env
    write(compose(folder / "model.onnx", onnx.load(SHIPPED), Contract.parse(text, "text")))
    with pytest.MonkeyPatch.context() as patch:
        options = ("--env", "panda", "--episodes", 1, "--set", "steps=30", "--seed", 0, "--json")
        assert call(patch, "run", "--model", folder / "model.onnx", *options, "--record", folder / "run.mcap") == 0
    weights = read_weights(weights_file("panda-satesac"))
    header = weights.header.model_copy(update={"env": env})
    write_weights(folder / WEIGHTS_FILE, Weights(header, weights.arrays))
    run = made_run(folder / "run")
    write_study(folder / "study" / "runs.jsonl", find_runs([run]))
    (folder / "evaluation.json").write_text((run / "evaluation.json").read_text())
    (folder / "teacher").mkdir()
    teacher = {METADATA: json.dumps({"config": {"env": env}, "steps": 0})}
    safetensors.numpy.save_file({}, folder / "teacher" / FILE, teacher)
    (folder / "sweep").mkdir()
    axes = {"env": ["panda"], "method": ["satesac"], "seed": [0], "preset": ["fast-cpu"]}
    sweep = {"version": 1, "axes": axes, "unnamed": {}, "episodes": 1}
    (folder / "sweep" / "sweep.json").write_text(json.dumps(sweep))
    (folder / "points.json").write_text(MEASURED.read_text())
    (folder / "drive.toml").write_text('version = 1\nmodel = "model.onnx"\nadapter = "nowhere:arm"\n')
    for path in (*folder.rglob("*.json"), folder / "study" / "runs.jsonl"):
        named_in(path, env)
    return folder


@pytest.fixture(scope="module", params=["module", "robot"])
def strange(request, tmp_path_factory):
    """(folder of the files, the name in them, marker of its code)."""
    folder = tmp_path_factory.mktemp("strange")
    marker = folder / "it_ran"
    (folder / "stranger.py").write_text(CODE.format(marker=str(marker)))
    described = EXAMPLE.with_suffix(".toml").read_text().partition("[[reward]]")[0]
    (folder / "robot.toml").write_text('reward = "stranger:REWARD"\n' + described)
    (folder / "my_robot.xml").write_text(EXAMPLE.with_suffix(".xml").read_text())
    env = "stranger:ENV" if request.param == "module" else str(folder / "robot.toml")
    return make_files(folder, env), env, marker


OUT_OPTIONS = ("--out", "out", "--force")
ASKING = {
    "train": [("--init", WEIGHTS_FILE, "-q"), ("--resume", "run", "-q")],
    "sweep": [("--out", "sweep", "--dry-run")],
    "distil": [("--teacher", "teacher", "--out", "student")],
    "eval": [("--model", "model.onnx", "--episodes", 1), ("--run", "run")],
    "robustness": [("model.onnx", "--episodes", 1), ("points.json",)],
    "compare": [("run",), ("study",)],
    "adapt": [("--model", "model.onnx", "--change", "mass=1:2@3", "--episodes", 1)],
    "report": [("model.onnx", *OUT_OPTIONS), ("run", *OUT_OPTIONS), ("study", *OUT_OPTIONS)],
    "skills": [("run",), ("study",), ("evaluation.json",)],
    "export": [("--model", "model.onnx", "--lookahead", 2, "--out", "o.onnx")],
    "atlas": [("model.onnx", "--check", 1), ("model.onnx", "--force")],
    "probe": [("model.onnx", "--out", "out.onnx")],
    "describe": [("model.onnx", "--force")],
    "run": [("--model", "model.onnx")],
    "fit-gap": [("run.mcap",)],
}
"""What each command that needs an environment is given."""
NEVER = {
    "gather": [
        ("run", *OUT_OPTIONS[:1], "out.d/runs.jsonl", "--force"),
        ("study", *OUT_OPTIONS[:1], "out.d/runs.jsonl", "--force"),
    ],
    "contrast": [("run",)],
    "export": [("--run", "run", "--out", "o.onnx")],
    "teach": [("--out", "teacher", "--steps", 1)],
    "inspect": [("model.onnx",)],
    "verify": [("model.onnx",)],
    "sign": [("model.onnx", "--new-key", "ada.key")],
    "models": [()],
    "adopt": [("model.onnx", "--out", "adopted.onnx")],
    "diagnose": [("model.onnx",)],
    "audit": [("model.onnx", "--log", "run.mcap")],
    "play": [("model.onnx", "--robot", "my_robot.xml"), ("model.onnx", "--robot", "robot.toml")],
    "verify-log": [("points.json",)],
    "fit-robot": [("my_robot.xml", "run.mcap"), ("robot.toml", "run.mcap")],
    "run": [
        ("--model", "model.onnx", "--set", "trusted=keys.pub"),
        ("--model", "model.onnx", "--set", f"expect_sha256={'0' * 64}"),
        ("--model", "panda-satesac", "--set", "shadow=model.onnx", "--episodes", 1, "--set", "steps=2"),
    ],
    "new-adapter": [("out.py", "--model", "model.onnx", "--force")],
    "drive": [("drive.toml", "--check"), ("drive.toml",)],
    "check-adapter": [("nowhere:arm", "--model", "model.onnx")],
    "replay": [("run.mcap", "--model", "model.onnx"), ("run.mcap",)],
    "convert": [("run.mcap", "out.csv")],
    "view": [("run.mcap", "--no-open", "--out", "out.html")],
    "bench": [("model.onnx", "--seconds", 0.05)],
    "doctor": [()],
}
"""What each command is given that does without one, or is refused before it needs one."""


@pytest.fixture
def run_sami(strange, monkeypatch, capfd):
    """Calls `sami` in the folder of the files, and tells whether the stranger's code ran; nothing is remembered."""
    folder, _, marker = strange
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*arguments):
        marker.unlink(missing_ok=True)
        sys.modules.pop("stranger", None)
        capfd.readouterr()
        code = call(monkeypatch, *arguments)
        return code, capfd.readouterr().err, marker.exists()

    return run


def test_every_command_is_tried():
    without_files = {"demo"}
    assert {name for commands in PANELS.values() for name in commands} == {*ASKING, *NEVER, *without_files}


def test_a_path_is_named_as_it_is_in_the_folder_of_the_training():
    with only_named({"../arm.toml"}), pytest.raises(SamiError) as refused:
        require_named("arm.toml")
    assert "Add --env arm.toml if you trust it, in the folder from which that is its path." in str(refused.value)


def test_a_file_in_the_current_folder_is_named_with_or_without_the_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = ["arm.toml", "./arm.toml", str(tmp_path / "arm.toml")]
    for spelling in names:
        with only_named({spelling}):
            for stored in names:
                require_named(stored)
            with pytest.raises(SamiError):
                require_named("other/arm.toml")


def test_a_run_in_a_robots_file_is_evaluated_by_the_files_name_alone(sami, tmp_path):
    for suffix in (".toml", ".xml"):
        Path("arm").with_suffix(suffix).write_text(EXAMPLE.with_suffix(suffix).read_text().replace("my_robot", "arm"))
    run = made_run(tmp_path / "run", env="./arm.toml")
    assert RunFolder.open(run).config().env == "arm.toml"  # one environment for `sami compare`, however it was spelled
    assert "no checkpoint" in sami("eval", "--run", tmp_path / "run", "--env", "arm.toml").err
    assert "is evaluated there" in sami("eval", "--run", tmp_path / "run", "--env", "a/arm.toml,./arm.toml").err
    panda = made_run(tmp_path / "panda")
    assert "no checkpoint" in sami("eval", "--run", panda, "--env", environment("panda").id).err
    assert "is evaluated there" in sami("eval", "--run", panda, "--env", "ant").err


@pytest.mark.parametrize("command", ASKING)
def test_an_environment_that_only_a_file_names_is_imported_once_the_user_names_it(command, run_sami, strange):
    _, env, _ = strange
    for arguments in ASKING[command]:
        code, err, executed = run_sami(command, *arguments)
        assert (code, executed) == (1, False), arguments
        assert f"names the environment {env!r}, which is code" in err
        assert f"Add --env {env} if you trust it" in err
        assert err.count("\n") == 1
        code, err, executed = run_sami(command, *arguments, "--env", env)
        assert (code, executed) == (1, True), (arguments, err)


@pytest.mark.parametrize("command", NEVER)
def test_no_other_command_imports_it(command, run_sami):
    for arguments in NEVER[command]:
        _, err, executed = run_sami(command, *arguments)
        assert not executed, arguments
        assert "Traceback" not in err


@pytest.mark.parametrize("rule", ["trusted=ada.pub", f"expect_sha256={'0' * 64}"])
def test_a_model_that_is_refused_has_nothing_imported_even_where_the_user_names_it(rule, run_sami, strange):
    Path("ada.pub").write_text(f"{'a' * 64} Ada\n")
    code, err, executed = run_sami("run", "--model", "model.onnx", "--set", rule, "--env", strange[1])
    assert (code, executed) == (1, False), err
    assert " is signed by " in err or "is not signed" in err or "expected 000" in err


def test_a_program_names_what_it_imports_itself(run_sami, strange):
    _, env, marker = strange
    run_sami("models")
    with pytest.raises((SamiError, UnknownName)):
        environment(env)
    assert marker.exists(), "the rule of a command ends with it"
