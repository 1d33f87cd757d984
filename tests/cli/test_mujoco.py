"""`sami run` and `sami eval` on the MuJoCo environments, with models of untrained agents."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco")

from rich.console import Console
from sami_cli.commands.eval import evaluation_table
from sami_cli.model_file import model_and_environment

from sami_train import seeds
from sami_train.agent.context_sac import ContextSAC
from sami_train.config.resolve import resolve
from sami_train.envs import ENVIRONMENTS
from sami_train.envs.make import make
from sami_train.envs.measure import RETURN
from sami_train.evaluation.results import Evaluation
from sami_train.export import graph
from sami_train.export.export import compose_model
from sami_train.export.model_file import write
from tests.making.made_runs import made_return_run, made_run

SMALL = {"network.net_arch": [16], "network.hidden_size": 8}
BODIES = {
    "half-cheetah": ["half-cheetah", "crippled-half-cheetah", "half-cheetah-cadm"],
    "ant": ["ant", "crippled-ant"],
    "hopper": ["hopper", "crippled-hopper"],
    "walker": ["walker", "crippled-walker"],
    "slim-humanoid": ["slim-humanoid", "humanoid-standup"],
}
MODEL_OF = {env: body for body, envs in BODIES.items() for env in envs}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model for each robot; only the half-cheetah's is also checked in closed loop, which takes its time."""
    folder = tmp_path_factory.mktemp("models")
    for name in BODIES:
        config = resolve("fast-cpu", SMALL | {"env": name})
        agent = ContextSAC("ContextPolicy", make(ENVIRONMENTS[name]), config, device="cpu")
        with pytest.MonkeyPatch.context() as patch:
            if name != "half-cheetah":
                patch.setattr(graph, "CLOSED_LOOP_STEPS", 1)
            evaluation = {"env": name, "sets": {"training": {"ret": 4058.4}}, "tasks": []}
            write(compose_model(agent, folder / f"{name}.onnx", {"method": "untrained", "env": name}, evaluation))
    return folder


def rows(result):
    assert (result.code, result.err) == (0, "")
    return [json.loads(line) for line in result.out.splitlines()]


@pytest.mark.parametrize("env", MODEL_OF)
def test_run_steps_the_task_that_was_asked_for(sami, models, env):
    crippled = env.startswith("crippled-")
    arguments = ("--fix", "mass=1.5", "--fix", "damping=0.5", *(("--fix", "crippled=1") if crippled else ()))
    model = models / f"{MODEL_OF[env]}.onnx"
    arguments = ("run", "--env", env, "--model", model, "--episodes", 2, "--set", "steps=15", *arguments, "--json")
    result = rows(sami(*arguments))
    task = {"mass": 1.5, "damping": 0.5, **({"crippled": [1]} if crippled else {})}
    for number, row in enumerate(result):
        assert {name: row[name] for name in task} == task
        assert (row["episode"], row["steps"]) == (number, 15)
        assert not {"skill", "success"} & row.keys()
    assert result[0]["return"] != result[1]["return"]
    assert [row["return"] for row in rows(sami(*arguments))] == [row["return"] for row in result]
    episodes = rows(
        sami("run", "--env", env, "--model", model, "--tasks", "extreme", "--episodes", 1, "--set", "steps=3", "--json")
    )
    assert {name: episodes[0][name] for name in task} in ENVIRONMENTS[env].tasks.sets["extreme"]


def test_run_without_json_is_a_table_with_returns(sami, models):
    arguments = ("--env", "crippled-half-cheetah", "--model", models / "half-cheetah.onnx", "--fix", "crippled=4,0")
    result = sami("run", *arguments, "--fix", "mass=1", "--fix", "damping=2", "--episodes", 2, "--set", "steps=80")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].split() == ["mass", "damping", "crippled", "steps", "return", "context", "moves"]
    assert lines[1].split()[:4] == ["1", "2", "0+4", "80"]
    assert len(lines[1].split()[5]) == 12
    assert "success" not in result.out
    returns = [float(line.split()[4]) for line in lines[1:3]]
    words = next(line for line in lines if "all" in line).replace("│", " ").split()
    assert words[:2] == ["all", "2"]
    assert float(words[2]) == pytest.approx(np.mean(returns), abs=0.1)


def test_a_film_of_a_robot_needs_no_display_and_keeps_its_time(sami, models, monkeypatch):
    from PIL import Image

    monkeypatch.delenv("DISPLAY", raising=False)
    arguments = (
        "--env",
        "crippled-hopper",
        "--model",
        models / "hopper.onnx",
        "--fix",
        "crippled=none",
        "--episodes",
        1,
    )
    result = sami("run", *arguments, "--set", "steps=26", "--render", "film.gif")
    assert result.code == 0, result.err
    with Image.open("film.gif") as film:  # 125 Hz: every fifth step
        assert film.n_frames == 6
        assert film.info["duration"] == 40
        first = np.asarray(film.convert("RGB"))
        film.seek(5)
        assert (np.asarray(film.convert("RGB")) != first).any()
    result = sami("run", *arguments, "--render", "human")
    assert (result.code, "needs a display" in result.err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--fix", "mass=-1"), "mass is -1.0; it must be a number greater than 0"),
        (("--fix", "mass=0"), "mass is 0.0; it must be a number greater than 0"),
        (("--fix", "damping=-0.1"), "damping is -0.1; it must be a number at least 0"),
        (("--fix", "damping=nan"), "damping is nan; it must be a number at least 0"),
        (
            ("--fix", "crippled=3"),
            "crippled is [3]; it must be a list of at most 1 different joints of: 0 (thigh",
        ),
        (("--fix", "crippled=0,1"), "crippled is [0, 1]; it must be a list of at most 1"),
        (("--fix", "crippled=foot"), "crippled is 'foot'; it must be a list of at most 1"),
        (("--fix", "friction=1"), "unknown environmental feature 'friction'. Valid: crippled, damping, mass."),
        (("--tasks", "easy"), "unknown task set 'easy'"),
        (("--env", "hopper", "--fix", "crippled=0"), "environments whose names begin with crippled-."),
        (
            ("--env", "panda", "--fix", "damping=1"),
            "was trained in hopper, but --env panda does not have the signals",
        ),
        (("--env", "walker"), "observation 'joint_angles' has size 3, the adapter's has 6"),
        (("--env", "hoper"), "unknown environment 'hoper'. Did you mean 'hopper'?"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_moves(sami, models, arguments, message):
    result = sami("run", "--model", models / "hopper.onnx", "--env", "crippled-hopper", *arguments)
    assert result.code == 1
    assert message in result.err
    assert len(result.err.splitlines()) == 1


def test_an_environment_without_a_shipped_model_says_what_to_do(sami):
    result = sami("run", "--env", "ant-cadm")
    assert result.code == 1
    text = "no model of ant-cadm is shipped. Name a file with --model, or make one: sami train --env ant-cadm"
    assert text in result.err
    assert "half-cheetah-satesac" in result.err


@pytest.mark.parametrize(("env", "model"), [("panda-mujoco", "panda-satesac"), ("go2", "go2-student")])
def test_an_environment_alone_names_its_shipped_model(env, model):
    path, spec = model_and_environment(None, env)
    assert (path.stem, spec.name) == (model, env)


def test_verify_and_inspect_know_such_models(sami, models):
    assert sami("verify", models / "half-cheetah.onnx").code == 0
    text = sami("inspect", models / "half-cheetah.onnx").out
    assert "half-cheetah: 20 Hz, 1000 steps an episode" in text
    assert "observation joint_angles" in text
    assert "return training: 4,058" in text


def test_a_robot_of_many_tasks_is_inspected_in_lines_that_can_be_read(sami):
    text = sami("inspect", Path(__file__).parents[2] / "models" / "crippled-ant-satesac.onnx").out
    assert re.search(r"training tasks: \{[^}]*\}, \.\.\., \{[^}]*\}:\s+125 in all, see --json", text)
    assert max(map(len, text.splitlines())) < 300


def test_evaluation_tells_returns(sami, models, monkeypatch):
    monkeypatch.setitem(ENVIRONMENTS, "hopper", dataclasses.replace(ENVIRONMENTS["hopper"], episode_steps=30))
    arguments = ("eval", "--env", "hopper", "--model", models / "hopper.onnx", "--tasks", "training", "--episodes", 11)
    outcome = sami(*arguments, "--on", 1, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    result = json.loads(outcome.out)
    returns = np.concatenate([row["returns"] for row in result["tasks"]])
    report = result["sets"]["training"]
    assert (report["ret"], report["episodes"]) == (pytest.approx(returns.mean()), 11)
    assert sorted(row["episodes"] for row in result["tasks"]) == [1] * 7 + [2] * 2
    console = Console(record=True, width=100)
    console.print(evaluation_table(Evaluation.from_dict(result), "training"))
    table = console.export_text()
    assert "training (11 episodes, tasks in turn, development seed)" in " ".join(table.split())
    assert f"{RETURN.show(returns.mean())} ± {RETURN.show(report['ret_error'])}" in table
    assert "success" not in table
    final = json.loads(sami(*arguments, "--on", 1, "--final", "--json").out)
    assert (result["seed"], final["seed"]) == (seeds.EVALUATION, seeds.FINAL)
    assert not set(returns) & {value for row in final["tasks"] for value in row["returns"]}
    text = " ".join(sami("eval", "--help").out.replace("│", " ").split())
    assert "per task set, its tasks in turn, if the environment is judged by return" in text


def test_a_model_is_measured_in_its_own_environment_if_none_is_named(sami, models, monkeypatch):
    monkeypatch.setitem(ENVIRONMENTS, "hopper", dataclasses.replace(ENVIRONMENTS["hopper"], episode_steps=30))
    model, options = models / "hopper.onnx", ("--episodes", 2, "--on", 1, "--json")
    kinds = ("--gap", "actuator lag")
    for words in (("eval", "--model", model, "--tasks", "training"), ("robustness", model, *kinds)):
        result = sami(*words, *options)
        assert (result.code, result.err) == (0, "")
        assert json.loads(result.out)["env"] == "hopper"
    [row] = rows(sami("run", "--model", model, "--episodes", 1, "--set", "steps=3", "--json"))
    assert {"mass", "damping"} < row.keys()
    refused = sami("robustness", model, "--env", "panda", *kinds, *options)
    assert refused.code == 1
    assert "was trained in hopper, but --env panda does not have the signals that it reads" in refused.err


def test_training_a_robot_ends_in_a_card_with_returns(sami, monkeypatch):
    warmup = ("--set", "exploration.warmup_steps=900")
    result = sami(
        "train",
        "--env",
        "hopper",
        "--method",
        "satesac",
        "--steps",
        1000,
        *warmup,
        "--set",
        "collection.workers=0",
        "--out",
        "run",
    )
    assert (result.code, result.err) == (0, "")
    assert "return while exploring" in result.out
    assert "success" not in result.out
    metrics = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    by_task = {name: value for name, value in metrics[-1].items() if name.startswith("return/")}
    assert list(by_task.values()) == [pytest.approx(metrics[-1]["rollout/ep_rew_mean"])]
    assert sami("eval", "--run", "run", "--episodes", 2, "--on", 1).code == 0
    report = json.loads(Path("run/evaluation.json").read_text())["sets"]
    assert (
        sami(
            "export", "--run", "run", "--out", "hopper.onnx", "--set", "atlas_episodes=0", "--set", "seen_episodes=0"
        ).code
        == 0
    )
    card = Path("hopper.md").read_text()
    assert "Return, 2 episodes in each set of tasks" in card
    for name, paper in (("training", "1,502 ± 20"), ("moderate", "1,453 ± 39"), ("extreme", "1,447 ± 14")):
        ret, error, std = (RETURN.show(report[name][key]) for key in ("ret", "ret_error", "ret_std"))
        assert f"| {name} | 2 | {ret} ± {error} | {std} | {paper} |" in card
    assert "uccess" not in card.replace("rollout/success", "")
    assert f"return extreme: {report['extreme']['ret']:,.0f}" in sami("inspect", "hopper.onnx").out
    monkeypatch.setitem(ENVIRONMENTS, "hopper", dataclasses.replace(ENVIRONMENTS["hopper"], episode_steps=30))
    sources = ("--run", "run"), ("--env", "hopper", "--model", "hopper.onnx")
    run, file = (json.loads(sami("eval", *s, "--tasks", "training", "--episodes", 5, "--json").out) for s in sources)
    assert file["sets"]["training"] == pytest.approx(run["sets"]["training"], rel=1e-5)


def test_a_sweep_over_both_families_tells_each_cell_in_its_own_measure(sami, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    made_run(Path("sweep/panda-satesac-0"), success=0.87, steps=100)
    made_return_run(Path("sweep/hopper-satesac-0"), ret=lambda name, episode: 4058.0, steps=100, episodes=100)
    for name in ("panda", "hopper"):
        Path(f"sweep/{name}-satesac-0/agent.zip").touch()
    arguments = ("sweep", "--out", "sweep", "--env", "panda,hopper", "--method", "satesac", "--dry-run")
    result = sami(*arguments)
    assert result.code == 0, result.err
    panda_line, hopper = (
        next(line for line in result.out.splitlines() if name in line) for name in ("panda-", "hopper-")
    )
    assert panda_line.split().count("0.87") == 3
    assert hopper.split().count("4,058") == 3
    assert "5,000" in hopper  # while exploring
    cells = json.loads(sami(*arguments, "--json").out)["cells"]
    assert cells[0]["success"]["extreme"] == pytest.approx(0.87)
    assert cells[1]["return"] == {"training": 4058.0, "moderate": 4058.0, "extreme": 4058.0}
