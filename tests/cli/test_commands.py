"""The command line as users meet it: what each command does, prints, loads, and leaves behind."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import sami_cli

from sami_runtime.distribution import install_hint

PANELS = {
    "Train": ["train", "sweep", "teach", "distil"],
    "Judge": ["eval", "robustness", "gather", "compare", "contrast", "adapt", "report", "skills"],
    "Model file": [
        "export",
        "adopt",
        "diagnose",
        "audit",
        "atlas",
        "probe",
        "describe",
        "inspect",
        "verify",
        "sign",
        "models",
    ],
    "Robot": [
        "demo",
        "run",
        "play",
        "drive",
        "new-adapter",
        "check-adapter",
        "replay",
        "convert",
        "view",
        "verify-log",
        "fit-gap",
        "fit-robot",
        "bench",
        "doctor",
    ],
}
COMMANDS = tuple(name for names in PANELS.values() for name in names)


def python(script, *arguments, cwd):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "80"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=cwd, env=environment)


def test_training_leaves_a_finished_run(panda):
    facts = json.loads((panda.run / "run.json").read_text())
    assert facts["state"] == "finished"
    assert facts["steps"] >= 700
    assert json.loads((panda.run / "config.json").read_text())["network"]["net_arch"] == [32, 32]
    assert [path.name for path in panda.run.rglob("*unfinished*")] == []


def test_evaluating_all_sets_is_kept_in_the_run_and_in_the_model(sami, panda):
    document = json.loads((panda.run / "evaluation.json").read_text())
    assert list(document["sets"]) == ["training", "moderate", "extreme"]
    result = sami("inspect", panda.model, "--json")
    assert document.pop("agent_steps") == json.loads((panda.run / "run.json").read_text())["steps"]
    assert json.loads(result.out)["evaluation"] == document


def test_evaluating_one_set_prints_json_only_and_leaves_the_run_as_it_was(sami, panda, contents, short_panda):
    before = contents(panda.run)
    arguments = ("--episodes", 2, "--on", 1, "--tasks", "training", "--json")
    of_run = sami("eval", "--run", panda.run, *arguments)
    of_model = sami("eval", "--model", panda.model, *arguments)
    assert contents(panda.run) == before
    for outcome in (of_run, of_model):
        assert (outcome.code, outcome.err) == (0, "")
        result = json.loads(outcome.out)
        assert [row["task_set"] for row in result["tasks"]] == ["training"] * 2
        assert {row["episodes"] for row in result["tasks"]} == {2}
    starts = [[row["solved_at_start"] for row in json.loads(d.out)["tasks"]] for d in (of_run, of_model)]
    assert starts[0] == starts[1]


def test_evaluating_in_processes_prints_json_only(sami, panda, short_panda):
    result = sami("eval", "--model", panda.model, "--episodes", 1, "--on", 2, "--tasks", "training", "--json")
    assert (result.code, result.err) == (0, "")
    assert list(json.loads(result.out)["sets"]) == ["training"]


def test_evaluation_without_json_is_a_table(sami, panda, short_panda):
    result = sami("eval", "--model", panda.model, "--episodes", 1, "--on", 1, "--tasks", "training")
    assert result.code == 0
    assert "training (1 episodes per task, development seed)" in result.out
    assert "above baseline" in result.out


def test_an_evaluation_of_some_task_sets_says_that_the_run_does_not_keep_it(sami, run_copy, contents, short_panda):
    before = contents(run_copy)
    result = sami("eval", "--run", run_copy, "--episodes", 1, "--on", 1, "--tasks", "training")
    assert "evaluation.json is not written: it is of all task sets" in " ".join(result.out.split())
    assert contents(run_copy) == before


def test_export_writes_a_card_and_says_what_it_compared(sami, panda):
    result = sami(
        "export", "--run", panda.run, "--out", "again.onnx", "--set", "atlas_episodes=0", "--set", "seen_episodes=0"
    )
    assert result.code == 0
    assert "parity with torch within 1e-5 over 64 steps" in result.out
    assert "again.safetensors: " in result.out
    card = Path("again.md").read_text()
    assert card.startswith("# again\n\nSaTESAC on `panda`, seed 0")
    assert "| training |" in card


def test_an_early_checkpoint_of_a_finished_run_is_not_called_an_unfinished_run(sami, run_copy):
    (checkpoint,) = (run_copy / "checkpoints").iterdir()
    config = run_copy / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"steps": 7000}))
    bare = [word for key in ("card=false", "atlas_episodes=0", "seen_episodes=0") for word in ("--set", key)]
    place = f"this is the run's checkpoint of step {checkpoint.name} of 7,000"
    assert f"{place} Next:" in sami("export", "--run", checkpoint, "--out", "early.onnx", *bare).prose
    (run_copy / "agent.zip").unlink()
    result = sami("export", "--run", checkpoint, "--out", "again.onnx", *bare)
    assert f"{place}; the run is not finished: export again at its end" in result.prose


def test_a_run_starts_from_what_export_wrote_and_learns_from_what_run_recorded(sami, panda, small, tmp_path):
    weights = panda.model.with_suffix(".safetensors")
    recorded = sami("run", "--model", panda.model, "--episodes", 2, "--record", "own.mcap", "--json")
    assert recorded.code == 0
    words = (
        "train",
        "--init",
        weights,
        "--set",
        "collection.recordings=own.mcap",
        "--steps",
        60,
        "--out",
        "fine",
        "-q",
    )
    result = sami(*words, *small(exploration__warmup_steps=20, learning__train_every=20))
    assert (result.code, result.err) == (0, "")
    config, facts = (json.loads(Path("fine", name).read_text()) for name in ("config.json", "run.json"))
    assert (config["env"], config["init"]["critic_updates"]) == ("panda", 0)
    assert 1 <= facts["recordings"]["episodes"] <= 2
    assert facts["updates"] >= 2
    refused = sami("train", "--resume", "fine", "--init", weights)
    assert refused.code == 1
    assert "leave out --init, --set" in refused.err


def test_inspect_shows_signals_and_training(sami, panda):
    result = sami("inspect", panda.model)
    assert result.code == 0
    assert "tiny: 25 Hz, 50 steps an episode" in result.out
    assert "observation cube_position" in result.out
    assert "training method: SaTESAC" in result.out
    document = json.loads(sami("inspect", panda.model, "--json").out)
    assert document["golden"]["steps"] == 64
    assert "data" not in document["golden"]


def test_verify_passes_what_export_wrote(sami, panda):
    outcome = sami("verify", panda.model)
    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, "all 12 checks passed")
    result = json.loads(sami("verify", panda.model, "--json").out)
    assert result["passed"]
    assert all(check["passed"] for check in result["checks"])


def test_run_really_runs_the_task_that_was_asked_for(sami, panda):
    arguments = ("run", "--model", panda.model, "--fix", "mass=10", "--fix", "friction=0.1", "--episodes", 2)
    result = sami(*arguments, "--json")
    assert (result.code, result.err) == (0, "")
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [(row["mass"], row["friction"]) for row in rows] == [(10.0, 0.1)] * 2
    assert [row["episode"] for row in rows] == [0, 1]
    result = sami(*arguments)
    assert "2 episodes" in result.out
    lines = result.out.splitlines()
    first = next(number for number, line in enumerate(lines) if line.endswith("context moves")) + 1
    assert lines[first].split()[:2] == ["10", "0.1"]
    same = [
        {k: v for k, v in json.loads(r).items() if k != "infer_us"} for r in sami(*arguments, "--json").out.splitlines()
    ]
    assert same == [{k: v for k, v in row.items() if k != "infer_us"} for row in rows]


@pytest.mark.parametrize("task_set", ["training", "moderate", "extreme"])
def test_run_draws_from_the_task_set_that_was_asked_for(sami, panda, task_set):
    from sami_train.envs.panda.tasks import PANDA_TASKS

    result = sami("run", "--model", panda.model, "--tasks", task_set, "--episodes", 3, "--json")
    episodes = [json.loads(line) for line in result.out.splitlines()]
    assert all({name: row[name] for name in ("mass", "friction")} in PANDA_TASKS.sets[task_set] for row in episodes)


def test_render_gif_writes_a_film(sami, rewritten):
    from PIL import Image

    model = rewritten(lambda contract: contract.update(episode_steps=6))
    result = sami("run", "--model", model, "--episodes", 1, "--seed", 3, "--render", "film.gif")
    assert (result.code, result.out.splitlines()[-1]) == (0, "wrote film.gif")
    with Image.open("film.gif") as film:
        assert (film.format, film.n_frames) == ("GIF", 6)


# --- what loads


def test_help_loads_neither_torch_nor_onnxruntime_nor_a_simulator(tmp_path):
    script = f"""
import sys
from sami_cli.app import main
for words in ([], *([name] for name in {COMMANDS!r})):
    sys.argv = ["sami", *words, "--help"]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (words, end.code)
heavy = ("torch", "stable_baselines3", "onnxruntime", "onnx", "pybullet", "sami_train", "sami_runtime")
print("LOADED", [name for name in heavy if name in sys.modules])
"""
    process = python(script, cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines()[-1] == "LOADED []"
    assert process.stdout.count("Usage: ") == 1 + len(COMMANDS)
    assert max(map(len, process.stdout.splitlines())) <= 80


def test_help_groups_the_commands_by_what_they_are_for(sami):
    text, panels = sami("--help").out, {}
    for line in text.splitlines():
        if line.startswith("╭─ "):
            words = panels.setdefault(line.strip("╭─╮ "), [])
        elif line.startswith("│ ") and line[2] != " ":
            words.append(line.split()[1])
    assert panels.pop("Options")[:4] == ["--force", "--json", "--debug", "--version"]
    assert panels == PANELS


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("atlas", "changes: only add the time to adapt, from N episodes with a change of task and N without"),
        ("eval", "stores finished tasks (where returns count, task sets), so the same command continues"),
        ("skills", "in each task, a row per mass and a column per friction"),
    ],
)
def test_help_can_be_read_by_who_does_not_know_the_command(sami, monkeypatch, command, text):
    monkeypatch.setenv("COLUMNS", "250")
    assert text in " ".join(sami(command, "--help").out.replace("│", " ").split())


@pytest.mark.parametrize("command", ["eval", "skills", "play", "check-adapter"])
def test_a_line_of_help_ends_where_the_next_word_does_not_fit(sami, command):
    lines = [line.strip() for line in sami(command, "--help").out.split("╭")[0].splitlines()]
    short = [line for line, after in pairwise(lines) if line and after and len(f"{line} {after.split()[0]}") <= 78]
    assert len(lines) > 6
    assert short == []


def test_run_needs_no_torch_and_pybullet_does_not_chatter(panda, tmp_path):
    script = """
import sys
for name in ("torch", "stable_baselines3", "onnx", "tensorboard"):
    sys.modules[name] = None
from sami_cli.app import main
sys.argv[0] = "sami"
main()
"""
    process = python(script, "run", "--model", panda.model, "--episodes", "2", "--json", cwd=tmp_path)
    assert (process.returncode, process.stderr) == (0, "")
    assert [json.loads(line)["episode"] for line in process.stdout.splitlines()] == [0, 1]


@pytest.mark.parametrize("module", ["typer", "sami_cli.output", "sami_runtime.model.artifact"])
def test_ctrl_c_during_an_import_prints_one_line(tmp_path, module):
    script = f"""
import sys
class Interruption:
    def find_spec(name, *_):
        if name == {module!r}:
            sys.meta_path.remove(Interruption)
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interruption)
from sami_cli import main
main()
"""
    process = python(script, "models", cwd=tmp_path)
    assert (process.returncode, process.stdout, process.stderr) == (130, "", "sami: interrupted\n")


def test_an_error_on_the_way_out_of_ctrl_c_keeps_its_code(monkeypatch):
    def stopped():
        try:
            raise KeyboardInterrupt
        finally:
            sys.exit(3)

    monkeypatch.setattr("sami_cli.app.main", stopped)
    with pytest.raises(SystemExit) as ending:
        sami_cli.main()
    assert ending.value.code == 3


def test_learning_rates_that_never_fall_train_to_the_end(garbage_collected, sami, small):
    result = sami("train", "--steps", 360, *small(learning__decay_from=1.0), "--out", "never", "-q")
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize("command", ["demo", "train"])
def test_a_missing_module_names_the_extra_of_the_command(command, tmp_path, monkeypatch):
    script = "import sys; sys.modules['gymnasium'] = None; from sami_cli.app import main; main()"
    process = python(script, command, cwd=tmp_path)
    assert process.returncode == 1
    monkeypatch.chdir(tmp_path)
    assert f"(install it with: {install_hint(command)})" in process.stderr


def test_the_demo_needs_no_mujoco_where_pybullet_simulates():
    """Python 3.10 has no MuJoCo 4."""
    modules = "sami_train.studies.contexts.change_film, sami_train.studies.contexts.changed_episodes"
    script = f"import sys; sys.modules['mujoco'] = None; import {modules}"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
