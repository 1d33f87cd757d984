"""How a sweep plans its cells and shares the machine; `tests/cli/test_sweep.py` runs real ones."""

import pickle

import pytest
import torch

from sami_train.config.resolve import resolve
from sami_train.machine import cores as machine
from sami_train.machine.cores import share_of_cores
from sami_train.machine.files import write_json
from sami_train.machine.locks import locked
from sami_train.runs.folder import RunError, RunFolder
from sami_train.runs.study import read_study
from sami_train.runs.train import prepare_torch
from sami_train.sweep import sweep as sweep_module
from sami_train.sweep.cell import OUTCOME, Outcome, clear_beginning, status
from sami_train.sweep.grid import Grid
from sami_train.sweep.launcher import Launcher
from sami_train.sweep.sweep import Sweep

AXES = {"env": ["panda"], "method": ["tesac"], "seed": [0, 1, 2, 3], "steps": [100], "exploration.warmup_steps": [50]}
GRID = Grid(AXES)
EPISODES = 2


class Scripted(Launcher):
    """Jobs that end after two looks, and do to their run folder what their script says."""

    def __init__(self, jobs, **scripts):
        super().__init__(jobs)
        self.scripts, self.started, self.running, self.most = scripts, [], 0, 0

    def submit(self, cell, folder, logs, episodes):
        self.started.append(cell.config.seed)
        script = self.scripts.get(f"seed{cell.config.seed}", finish)
        if script is refuse:
            raise OSError("no process can be made")
        self.running += 1
        self.most = max(self.most, self.running)
        logs.mkdir(parents=True, exist_ok=True)
        return ScriptedJob(self, lambda: script(cell, folder, self.started.count(cell.config.seed)), logs)


class ScriptedJob:
    def __init__(self, launcher, act, logs):
        self.launcher, self.act, self.looks = launcher, act, 0
        self.paths = self
        self.stdout, self.result_pickle = logs / "log.out", logs / "result.pkl"

    def done(self):
        self.looks += 1
        if self.looks == 2:
            outcome = self.act()
            write_json(self.result_pickle.parent / OUTCOME, {"state": outcome.state, "reason": outcome.reason})
            self.result_pickle.write_bytes(pickle.dumps(Trap()))
            self.launcher.running -= 1
        return self.looks >= 2

    def result(self):
        return pickle.loads(self.result_pickle.read_bytes())


class Trap:
    """What somebody may have put in the place of a result: to load it is to run it."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was loaded",)


def begin(cell, folder):
    return RunFolder.open(folder) if folder.exists() else RunFolder.create(folder, cell.config, [])


def finish(cell, folder, attempt):
    run = begin(cell, folder)
    run.agent.touch()
    run.update(steps=105)
    sets = {"training": {"success": 0.5}}
    write_json(run.evaluation, {"agent_steps": 105, "sets": sets, "tasks": [{"episodes": EPISODES}] * 3})
    return Outcome("done")


def fail(cell, folder, attempt):
    return Outcome("failed", "it broke")


def refuse(cell, folder, attempt):
    raise AssertionError


def reach_a_time_limit_twice(cell, folder, attempt):
    if attempt == 3:
        return finish(cell, folder, attempt)
    (begin(cell, folder).path / "checkpoints" / str(30 * attempt)).mkdir(parents=True)
    return Outcome("stopped")


def stop_without_progress(cell, folder, attempt):
    return Outcome("stopped" if attempt == 1 else "failed")


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_module, "POLL", 0.0)
    return Sweep.begin(tmp_path / "sweep", GRID, EPISODES)


def states(sweep):
    return [row.state for row in sweep.rows]


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_every_cell_runs_once_and_never_more_at_a_time_than_asked_for(sweep, jobs):
    launcher = Scripted(jobs)
    assert sweep.run(launcher, lambda: None)
    assert launcher.started == [0, 1, 2, 3]
    assert launcher.most == jobs
    assert states(sweep) == ["done"] * 4
    again = Scripted(jobs)
    assert Sweep.open(sweep.path).run(again, lambda: None)
    assert again.started == []


def test_failed_cells_leave_the_others_alone_and_are_tried_again(sweep):
    sweep.run(Scripted(2, seed0=fail, seed2=refuse), lambda: None)
    assert states(sweep) == ["failed", "done", "failed", "done"]
    assert sweep.rows[0].reason == "it broke"
    assert sweep.rows[2].reason == "its job could not be started: no process can be made"
    again = Sweep.open(sweep.path)
    launcher = Scripted(2)
    again.run(launcher, lambda: None)
    assert (launcher.started, states(again)) == ([0, 2], ["done"] * 4)


def test_a_cell_that_reached_a_time_limit_goes_on_as_long_as_it_gets_further(sweep):
    launcher = Scripted(1, seed1=reach_a_time_limit_twice, seed3=stop_without_progress)
    assert sweep.run(launcher, lambda: None)
    assert launcher.started.count(1) == 3
    assert launcher.started.count(3) == 1
    assert states(sweep) == ["done", "done", "done", "stopped"]


def test_cells_that_are_still_held_go_first(sweep):
    logs = sweep.logs(sweep.rows[2].cell)
    logs.mkdir(parents=True)
    launcher = Scripted(1)
    with locked(logs / "lock"):
        sweep.run(launcher, lambda: None)
    assert launcher.started == [2, 0, 1, 3]


def test_added_values_join_what_is_done(sweep):
    sweep.run(Scripted(2), lambda: None)
    wider = Grid({**GRID.axes, "seed": [4, 0, 1, 2, 3], "method": ["tesac", "satesac"]})
    launcher = Scripted(4)
    grown = Sweep.begin(sweep.path, wider, EPISODES)
    assert grown.run(launcher, lambda: None)
    assert len(launcher.started) == 6
    assert states(Sweep.open(sweep.path)) == ["done"] * 10


def test_a_sweep_writes_its_study_once_every_cell_is_done(sweep):
    sweep.run(Scripted(2, seed0=fail), lambda: None)
    assert not sweep.study.exists()
    Sweep.open(sweep.path).run(Scripted(2), lambda: None)
    assert [run.config["seed"] for run in read_study(sweep.study)] == [0, 1, 2, 3]
    assert {run.facts["steps"] for run in read_study(sweep.study)} == {105}


def test_an_evaluation_counts_only_for_its_agent_and_its_episodes(sweep):
    cell, folder = sweep.rows[0].cell, sweep.folder(sweep.rows[0].cell)
    assert status(folder, "panda", EPISODES).sets == {}
    finish(cell, folder, 1)
    assert status(folder, "panda", EPISODES).sets == {"training": 0.5}
    assert status(folder, "panda", EPISODES + 1).sets == {}
    RunFolder.open(folder).update(steps=200)
    assert status(folder, "panda", EPISODES).sets == {}


def test_a_beginning_is_cleared_unless_it_is_in_use_or_holds_something_else(tmp_path):
    folder = tmp_path / "run"
    clear_beginning(folder)
    run = RunFolder.create(folder, resolve("fast-cpu"), [])
    with run.locked(), pytest.raises(RunError, match="in use by another process"):
        clear_beginning(folder)
    (folder / "notes.txt").touch()
    with pytest.raises(RunError, match=r"holds notes\.txt, which no run wrote"):
        clear_beginning(folder)
    (folder / "notes.txt").unlink()
    clear_beginning(folder)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("limit", "share"), [("4", 4), ("4,2", 4), ("1", 1), ("0", 1), ("99", 16), ("", 16), ("many", 16)]
)
def test_a_run_takes_no_more_threads_than_it_is_given(monkeypatch, limit, share):
    monkeypatch.setattr(machine, "usable_cores", lambda: 16)
    monkeypatch.setenv("OMP_NUM_THREADS", limit)
    assert share_of_cores() == share
    prepare_torch(resolve("fast-cpu", {"collection.collectors": 1}))
    assert torch.get_num_threads() == max(1, share - 1)
