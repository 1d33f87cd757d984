"""An environment of one's own through every command that takes one, and where commands cannot have one."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from sami_runtime.model.artifact import read_artifact
from tests.cli.conftest import TrainedRun, call, settings

PENDULUM, TIPPING, STILL = (f"tests.making.user_environments:{name}" for name in ("PENDULUM", "TIPPING", "STILL"))
ENV = ("--env", PENDULUM)
SMALL = {"collection__draws": 5, "network__hidden_size": 8, "exploration__warmup_steps": 120}


def trained_in(folder, patch, env, steps, *more, episodes=18, **changes):
    run, model = folder / "run", folder / "own.onnx"
    options = settings(**{**SMALL, **changes})
    assert call(patch, "train", "--env", env, "--steps", steps, *options, *more, "--out", run, "-q") == 0
    assert call(patch, "eval", "--run", run, "--env", env, "--episodes", 2, "--on", 1, "--json") == 0
    arguments = ("--set", f"atlas_episodes={episodes}", "--set", "seen_episodes=6", "--set", "card=false")
    assert call(patch, "export", "--run", run, "--env", env, "--out", model, *arguments) == 0
    return TrainedRun(run, model)


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        return trained_in(tmp_path_factory.mktemp("pendulum"), patch, PENDULUM, 240)


@pytest.fixture(scope="module")
def tipping(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        return trained_in(tmp_path_factory.mktemp("tipping"), patch, TIPPING, 200, "--method", "tesac", episodes=90)


def test_a_model_file_tells_the_environment_that_it_was_trained_in(pendulum):
    contract = read_artifact(pendulum.model).contract
    assert contract.training["env"] == PENDULUM
    assert [signal.name for signal in contract.observation] == ["angle", "angular_velocity"]
    assert (contract.action.name, contract.action.meaning) == ("torque", "-1 to 1 stands for -2 to 2 N m")
    assert (contract.rate_hz, contract.episode_steps) == (20.0, 40)
    assert len(contract.training["tasks"]) == len(contract.atlas.tasks) == 5, "the tasks that its run drew"
    assert set(contract.evaluation["sets"]) == {"training", "extreme"}


def test_it_runs_where_it_was_trained(sami, pendulum):
    result = sami("run", "--model", pendulum.model, *ENV, "--episodes", 2, "--fix", "length=0.75", "--json")
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [(row["length"], row["steps"]) for row in rows] == [(0.75, 40)] * 2
    assert "'lenght'. Did you mean 'length'?" in sami("run", "--model", pendulum.model, *ENV, "--fix", "lenght=1").err
    assert "--fix length is not NAME=VALUE" in sami("run", "--model", pendulum.model, *ENV, "--fix", "length").err


def test_too_few_episodes_to_contrast_are_refused_with_a_command_that_names_it(sami, pendulum):
    result = sami("contrast", pendulum.run, *ENV, "--method", "satesac")
    assert f"Collect more: sami train --resume {pendulum.run} --env {PENDULUM} --steps N" in result.err


def test_its_dynamics_change_within_an_episode(sami, pendulum):
    result = sami(
        "adapt",
        "--model",
        pendulum.model,
        "--env",
        PENDULUM,
        "--change",
        "mass=0.5:2,length=1@10",
        "--episodes",
        2,
        "--json",
    )
    (change,) = json.loads(result.out)["changes"]
    assert (change["reached"], change["rows"][0]["success"]) == (2, None)


def test_every_other_command_takes_it(sami, pendulum):
    model = shutil.copy(pendulum.model, Path.cwd())
    assert "alarms in 8 fresh episodes per task" in sami("atlas", model, *ENV, "--check", 8).out
    result = sami("robustness", model, *ENV, "--gap", "latency", "--episodes", 1, "--json")
    assert json.loads(result.out)["env"] == PENDULUM
    again = sami("eval", "--model", model, *ENV, "--tasks", "extreme", "--episodes", 2, "--json")
    assert json.loads(again.out)["tasks"][0]["task"] == {"mass": 3.0, "length": 1.0}
    assert sami("bench", model, "--seconds", 0.05, "--json").code == 0
    compared = sami("compare", pendulum.run, "--env", PENDULUM, "--out", "report")
    assert (compared.code, "paper" in compared.out) == (0, False), "the paper has no result of it"
    output = sami("train", "--resume", pendulum.run, *ENV).err
    assert f"evaluate it with: sami eval --run {pendulum.run} --env {PENDULUM}, or" in " ".join(output.split())


def test_evaluation_does_not_depend_on_how_many_processes_share_it(sami, pendulum):
    one_process, shared = (
        sami(
            "eval",
            "--model",
            pendulum.model,
            "--env",
            PENDULUM,
            "--episodes",
            13,
            "--on",
            n,
            "--tasks",
            "training",
            "--json",
        )
        for n in (1, 2)
    )
    assert json.loads(one_process.out)["tasks"] == json.loads(shared.out)["tasks"]
    assert sum(len(task["returns"]) for task in json.loads(one_process.out)["tasks"]) == 13


def test_rollout_workers_in_processes_make_it_again(sami):
    options = settings(**{**SMALL, "collection__workers": 1, "collection__envs": 2})
    assert sami("train", "--env", PENDULUM, "--steps", 200, *options, "-q").code == 0
    assert Path("runs/tests.making.user_environments-PENDULUM-tesac-0/agent.zip").is_file()


def test_no_tasks_no_changes_and_early_ends_are_fine(sami, tipping):
    contract = read_artifact(tipping.model).contract
    assert contract.training["tasks"] == [{}]
    assert contract.evaluation["tasks"][0]["steps"] < 25, "episodes ended early"
    assert sami("run", "--model", tipping.model, "--env", TIPPING, "--episodes", 1).code == 0
    result = sami("eval", "--model", tipping.model, "--env", TIPPING, "--episodes", 3)
    assert "the one" in result.out
    refused = sami("adapt", "--model", tipping.model, "--env", TIPPING, "--change", "mass=1:2@3")
    assert f"environment '{TIPPING}' has no tasks, so there are no dynamics that could change" in refused.err
    refused = sami("train", "--env", TIPPING, "--method", "ccm", "--steps", 200, *settings(**SMALL), "-q")
    assert "CCM compares tasks with one another, but this environment has 1" in refused.err


def test_success_is_counted_by_task_where_users_tell_it(sami, tmp_path, monkeypatch):
    panda = trained_in(tmp_path, monkeypatch, STILL, 200, collection__draws=2, episodes=46)
    result = json.loads(sami("eval", "--run", panda.run, "--env", STILL, "--episodes", 2, "--on", 2, "--json").out)
    assert len([row for row in result["tasks"] if row["task_set"] == "training"]) == 20
    assert set(result["sets"]["moderate"]) == {"success", "above_floor", "ret"}
    refused = sami("adapt", "--model", panda.model, "--env", STILL, "--change", "wind=1:2@3")
    assert "has no set_dynamics, so its dynamics cannot change within an episode" in refused.err


def test_a_trained_run_whose_environment_is_not_named_is_not_called_damaged(sami, pendulum):
    for command in (("eval", "--run"), ("contrast",), ("export", "--out", "o/o.onnx", "--run"), ("train", "--resume")):
        refused = " ".join(sami(*command, pendulum.run).err.split())
        assert refused.endswith(f"Add --env {PENDULUM} if you trust it."), "no advice about models"
        assert not Path("o").exists(), "a refused export leaves no empty folder"
        assert "cannot be loaded" not in refused


def test_a_model_whose_environment_is_not_here_says_to_name_one(sami, tmp_path, pendulum, rewritten_own):
    model = rewritten_own(pendulum.model, "elsewhere:PENDULUM")
    refused = sami("run", "--model", model)
    assert "names the environment 'elsewhere:PENDULUM', which is code" in refused.err
    assert "Add --env elsewhere:PENDULUM if you trust it; a model also runs in another environment" in refused.err
    refused = sami("run", "--model", model, "--env", "elsewhere:PENDULUM")
    assert "elsewhere of elsewhere:PENDULUM cannot be imported" in refused.err
    model = rewritten_own(pendulum.model, "elsewhere")
    refused = sami("run", "--model", model)
    assert "was trained in elsewhere, which is not found here" in refused.err
    assert "or name an environment with the same signals with --env" in refused.err
    assert sami("run", "--model", model, *ENV, "--episodes", 1, "--set", "steps=2").code == 0


def test_a_module_in_the_folder_that_one_is_in_is_enough(sami):
    Path("my_robots.py").write_text("from tests.making.user_environments import PENDULUM as ARM\n")
    result = sami("train", "--env", "my_robots:ARM", "--steps", 200, *settings(**SMALL), "-q")
    assert (result.code, Path("runs/my_robots-ARM-tesac-0").is_dir()) == (0, True), result.err
    sys.modules.pop("my_robots")


@pytest.fixture
def rewritten_own(tmp_path):
    """Writes a model whose contract names another environment."""
    import onnx

    from sami_train.export import model_file

    def write(model, env):
        contract = read_artifact(model).contract
        path = tmp_path / "elsewhere.onnx"
        training = {**contract.training, "env": env}
        model_file.write(model_file.compose(path, onnx.load(model), contract.model_copy(update={"training": training})))
        return path

    return write
