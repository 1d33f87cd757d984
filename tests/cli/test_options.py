"""Options that commands share: where jobs run, and keys of `--set`."""

import pytest
import typer
from sami_cli.app import TEXT_ONLY, app
from sami_cli.measuring import JobPlace, bars, cluster_of, phase, place_of, task_progress
from sami_cli.options import JSON
from typer.main import get_command

MODEL = "panda-satesac"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (None, JobPlace()),
        ("4", JobPlace("cpu", 4)),
        ("gpu:2", JobPlace("gpu", 2)),
        ("slurm", JobPlace("slurm")),
        ("slurm:partition=gpu,time=240,jobs=8", JobPlace("slurm", 8, "", {"partition": "gpu", "time": 240})),
        ("slurm:nodelist=a,b,time=2", JobPlace("slurm", None, "", {"nodelist": "a,b", "time": 2})),
        ("ray", JobPlace("ray", None, "auto")),
        ("ray:num_cpus=2", JobPlace("ray", None, "auto", {"num_cpus": 2})),
        ("ray:10.0.0.1:6379,num_cpus=2", JobPlace("ray", None, "10.0.0.1:6379", {"num_cpus": 2})),
    ],
)
def test_a_place_is_processes_here_or_a_cluster_with_its_settings(text, place):
    assert place_of(text, gpus=True) == place


@pytest.mark.parametrize("text", ["", "0", "-1", "two", "gpu:0", "slurm:jobs=0", "ray:a:1,jobs=many"])
def test_what_is_no_place_is_refused(text):
    with pytest.raises(typer.BadParameter):
        place_of(text, gpus=True)


def test_a_measurement_takes_no_gpus_and_a_cluster_needs_a_folder():
    with pytest.raises(typer.BadParameter, match="names no place; give a number of processes, slurm:"):
        place_of("gpu:2")
    with pytest.raises(typer.BadParameter, match="--on slurm needs --out"):
        cluster_of(place_of("slurm"), None)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("atlas_episode=1", "unknown key of --set 'atlas_episode'. Did you mean 'atlas_episodes'?"),
        ("atlas_episodes", "--set atlas_episodes is not KEY=VALUE"),
        ("atlas_episodes=few", "atlas_episodes=few must be an integer of at least 0: episodes of each training task"),
        ("lookahead_episodes=3", "lookahead_episodes=3 must be an integer of at least 20: episodes to fit"),
        ("card=1", "--set card=1 must be true or false: whether"),
        ("seen_episodes=true", "seen_episodes=true must be an integer of at least 0"),
        ("command_delay_s=nan", "command_delay_s=nan must be a number of at least 0"),
    ],
)
def test_a_wrong_setting_is_refused_by_name_and_with_what_is_valid(sami, setting, message):
    result = sami("export", "--run", "none", "--out", "new.onnx", "--set", setting)
    assert (result.code, result.out) == (1, "")
    assert message in result.err


def test_force_may_stand_anywhere_and_replaces_outputs(sami):
    words = ("inspect", MODEL, "--golden", "golden.csv")
    assert sami(*words).code == 0
    assert "golden.csv exists; choose another name, or replace it with --force." in sami(*words).err
    assert (sami("--force", *words).code, sami("inspect", "--force", *words[1:]).code) == (0, 0)


def test_json_may_stand_anywhere_and_is_refused_where_a_command_prints_text_only(sami):
    result = sami("models", "--json")
    assert (result.code, sami("--json", "models").out) == (0, result.out)
    assert MODEL in result.out
    for name, command in get_command(app).commands.items():
        assert ("--json" in command.epilog) == (name not in TEXT_ONLY)
    refused = sami("convert", "run.mcap", "run.csv", "--json")
    assert (refused.code, "sami convert prints text only" in refused.err) == (2, True)


def test_a_stopped_measurement_says_that_the_same_command_continues(tmp_path):
    stored = f"stopped; {tmp_path} has the finished tasks or task sets, and the same command continues"
    for keep, message in ((tmp_path / "evaluation.json", stored), (None, "stopped; nothing is stored. --out FOLDER")):
        with pytest.raises(KeyboardInterrupt, match=message), task_progress("evaluating", 2, keep):
            raise KeyboardInterrupt


def test_long_work_without_a_terminal_names_each_phase_and_says_what_an_interruption_leaves(capsys):
    JSON.set(False)
    with bars() as bar:
        phase(bar, "rolling out 600 episodes", 600)
    with pytest.raises(KeyboardInterrupt, match="stopped; nothing was written"), bars():
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "rolling out 600 episodes ...\n"
