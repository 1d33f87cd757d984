"""Runs that cannot be compared are refused, with what to do."""

import shutil

import pytest

from sami_train.files import read_json, write_json
from sami_train.runs.folder import RunError, RunFolder
from sami_train.studies.compare.comparison import MethodComparison
from sami_train.studies.compare.groups import ComparisonError, read_runs
from sami_train.studies.sweep.grid import Grid
from tests.making.made_runs import STEPS, made_run


def test_folders_without_runs_are_refused(tmp_path):
    with pytest.raises(RunError, match=r"there is no run folder .*nothing"):
        read_runs([tmp_path / "nothing"])
    with pytest.raises(RunError, match="is no run folder and holds none; `sami train` and `sami sweep` make them"):
        read_runs([tmp_path])


def test_runs_without_evaluation_are_named_with_what_to_do(tmp_path):
    for seed in range(3):
        made_run(tmp_path / f"satesac-{seed}", seed=seed)
    missing = tmp_path / "satesac-1"
    RunFolder(missing).evaluation.unlink()
    with pytest.raises(RunError) as caught:
        read_runs([tmp_path])
    assert str(caught.value).startswith(f"runs without an evaluation, 1 of 3: {missing}.")
    assert f"sami eval --run {missing}" in str(caught.value)


def test_a_sweep_that_is_not_done_is_named_with_its_cells_and_how_it_continues(tmp_path):
    folder, grid = tmp_path / "sweep", Grid({"env": ["panda"], "method": ["tesac"], "seed": [0, 1, 2]})
    folder.mkdir()
    write_json(folder / "sweep.json", {"version": 1, "episodes": 100, **grid.to_dict()})
    again = f"sami sweep --out {folder}"
    with pytest.raises(RunError, match=f"holds none; its sweep continues with: {again}"):
        read_runs([folder])
    for seed in range(2):
        RunFolder(made_run(folder / f"panda-tesac-{seed}", "tesac", seed, success=0.8)).agent.touch()
    missing = f"1 of 3 cells of {folder} are not done: panda-tesac-2. Continue with: {again}"
    assert missing in MethodComparison(read_runs([folder])).cautions()
    RunFolder(folder / "panda-tesac-1").evaluation.unlink()
    with pytest.raises(RunError, match=f"2 of 3 cells of .*: panda-tesac-1, panda-tesac-2. Continue with: {again}"):
        read_runs([folder])


def test_a_sweep_without_a_run_names_the_environments_of_ones_own_in_the_command_that_continues_it(tmp_path):
    grid = Grid({"env": ["arm.toml", "panda", "my_robots:ARM"], "method": ["tesac"], "seed": [0]})
    write_json(tmp_path / "sweep.json", {"version": 1, "episodes": 100, **grid.to_dict()})
    with pytest.raises(RunError) as caught:
        read_runs([tmp_path])
    assert str(caught.value).endswith(f": sami sweep --out {tmp_path} --env arm.toml,my_robots:ARM")
    for axes in ([], {"env": 3}, {}):
        write_json(tmp_path / "sweep.json", {"axes": axes})
        with pytest.raises(RunError, match=r"sami sweep --out \S+$"):
            read_runs([tmp_path])


def test_an_evaluation_of_an_earlier_agent_is_refused(tmp_path):
    path = made_run(tmp_path / "a")
    RunFolder(path).update(steps=STEPS + 1000)
    with pytest.raises(RunError, match="measured the agent after 550,000 steps, the run has 551,000 by now"):
        read_runs([path])


@pytest.mark.parametrize(("text", "message"), [("{}", "lacks 'tasks'"), ('{"env": "panda", "tasks": []}', "no task")])
def test_a_damaged_evaluation_is_refused_by_name(tmp_path, text, message):
    path = made_run(tmp_path / "a")
    RunFolder(path).evaluation.write_text(text)
    with pytest.raises(RunError, match=rf"evaluation\.json.*{message}"):
        read_runs([path])


def test_a_configuration_of_another_version_is_refused_by_name(tmp_path):
    path = made_run(tmp_path / "a")
    write_json(path / "config.json", read_json(path / "config.json") | {"color": "red"})
    with pytest.raises(RunError, match=r"config\.json of .*: unknown config key 'color'"):
        read_runs([path])


def test_a_seed_counts_once(tmp_path):
    made_run(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(ComparisonError, match=r"a and .*b are both SaTESAC with seed 0; a seed counts once"):
        MethodComparison(read_runs([tmp_path]))


def test_different_evaluations_are_refused(tmp_path):
    first, second = made_run(tmp_path / "a"), made_run(tmp_path / "b", seed=1, episodes=50)
    with pytest.raises(ComparisonError) as caught:
        read_runs([first, second])
    assert "a measured 100 episodes of training (mass 1, friction 0.1), " in str(caught.value)
    assert f"{second} 50. Evaluate them alike, e.g. sami eval --run {second} --episodes 100" in str(caught.value)
    stored = read_json(RunFolder(first).evaluation)
    write_json(RunFolder(second).evaluation, stored | {"tasks": stored["tasks"][:-1]})
    with pytest.raises(ComparisonError, match=r"100 episodes of extreme \(mass 10, friction 30\), .*b 0\."):
        read_runs([first, second])


def test_different_environments_are_refused(tmp_path, monkeypatch):
    from dataclasses import replace

    from sami_train.envs import catalog

    monkeypatch.setitem(catalog.ENVIRONMENTS, "other", replace(catalog.ENVIRONMENTS["panda"], name="other"))
    first, second = made_run(tmp_path / "a"), made_run(tmp_path / "b", seed=1, env="other")
    with pytest.raises(ComparisonError, match=r"a is of environment 'panda', .*b of 'other'; compare runs of one"):
        read_runs([first, second])


def test_evaluations_in_different_physics_engines_are_refused(tmp_path):
    paths = [made_run(tmp_path / name, seed=seed) for seed, name in enumerate("abc")]
    for path, engine in zip(paths[1:], ("pybullet", "mujoco"), strict=True):
        stored = RunFolder(path).evaluation
        write_json(stored, read_json(stored) | {"engine": engine})
    assert len(read_runs(paths[:2])) == 2  # a file of before engines were kept is taken as it is
    with pytest.raises(ComparisonError, match=r"engines: .*b in pybullet, .*c in mujoco; evaluate all in one"):
        read_runs(paths)
