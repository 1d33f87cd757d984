"""How a sweep plans its cells and shares the machine; `tests/real/test_sweep.py` runs real ones."""

import json
from pathlib import Path

import pytest
import torch

from sami_train import machine
from sami_train.config.resolve import from_dict, resolve
from sami_train.files import locked, write_json
from sami_train.machine import share_of_cores
from sami_train.runs.folder import RunError, RunFolder
from sami_train.runs.train import prepare_torch
from sami_train.studies.sweep import sweep as sweep_module
from sami_train.studies.sweep.engines import Look
from sami_train.studies.sweep.grid import Cell, Grid
from sami_train.studies.sweep.job import CELL, OUTCOME, CellOutcome, clear_beginning, status
from sami_train.studies.sweep.study import read_study
from sami_train.studies.sweep.sweep import Sweep

AXES = {"env": ["panda"], "method": ["tesac"], "seed": [0, 1, 2, 3], "steps": [100], "exploration.warmup_steps": [50]}
GRID = Grid(AXES)
EPISODES = 2


class Scripted:
    """An engine whose jobs end after two looks, and do to their run folder what their script says."""

    def __init__(self, jobs, **scripts):
        self.jobs, self.scripts, self.starts, self.running, self.most = jobs, scripts, [], 0, 0

    def submit(self, logs):
        document = json.loads((logs / CELL).read_text())
        cell = Cell(document["name"], from_dict(document["config"]), document["overrides"])
        self.starts.append(cell.config.seed)
        script = self.scripts.get(f"seed{cell.config.seed}", finish)
        if script is refuse:
            raise OSError("no process can be made")
        self.running += 1
        self.most = max(self.most, self.running)
        attempt = self.starts.count(cell.config.seed)
        return ScriptedJob(self, lambda: script(cell, Path(document["folder"]), attempt), logs)


class ScriptedJob:
    def __init__(self, engine, act, logs):
        self.engine, self.act, self.logs, self.looks = engine, act, logs, 0
        self.log = logs / "log.txt"

    def look(self):
        self.looks += 1
        if self.looks < 2:
            return Look("running")
        self.engine.running -= 1
        result = self.act()
        if isinstance(result, Look):
            return result
        write_json(self.logs / OUTCOME, {"state": result.state, "reason": result.reason})
        return Look("ended")


def begin(cell, folder):
    return RunFolder.open(folder) if folder.exists() else RunFolder.create(folder, cell.config, [])


def finish(cell, folder, attempt):
    run = begin(cell, folder)
    run.agent.touch()
    run.update(steps=105)
    sets = {"training": {"success": 0.5}}
    write_json(run.evaluation, {"agent_steps": 105, "sets": sets, "tasks": [{"episodes": EPISODES}] * 3})
    return CellOutcome("done")


def fail(cell, folder, attempt):
    return CellOutcome("failed", "it broke")


def refuse(cell, folder, attempt):
    raise AssertionError


def reach_a_time_limit_twice(cell, folder, attempt):
    if attempt == 3:
        return finish(cell, folder, attempt)
    (begin(cell, folder).path / "checkpoints" / str(30 * attempt)).mkdir(parents=True)
    return CellOutcome("stopped")


def lose_the_first_node(cell, folder, attempt):
    return finish(cell, folder, attempt) if attempt == 2 else Look("lost", "Slurm says NODE_FAIL")


def cancel(cell, folder, attempt):
    (begin(cell, folder).path / "checkpoints" / str(30 * attempt)).mkdir(parents=True)
    return Look("cancelled", "its job was cancelled")


def stop_without_progress(cell, folder, attempt):
    return CellOutcome("stopped" if attempt == 1 else "failed")


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_module, "POLL", 0.0)
    return Sweep.begin(tmp_path / "sweep", GRID, EPISODES)


def states(sweep):
    return [row.state for row in sweep.rows]


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_every_cell_runs_once_and_never_more_at_a_time_than_asked_for(sweep, jobs):
    engine = Scripted(jobs)
    assert sweep.run(engine, lambda: None)
    assert engine.starts == [0, 1, 2, 3]
    assert engine.most == jobs
    assert states(sweep) == ["done"] * 4
    again = Scripted(jobs)
    assert Sweep.open(sweep.path).run(again, lambda: None)
    assert again.starts == []


def test_failed_cells_leave_the_others_alone_and_are_tried_again(sweep):
    sweep.run(Scripted(2, seed0=fail, seed2=refuse), lambda: None)
    assert states(sweep) == ["failed", "done", "failed", "done"]
    assert sweep.rows[0].reason == "it broke"
    assert sweep.rows[2].reason == "its job could not be started: no process can be made"
    again = Sweep.open(sweep.path)
    engine = Scripted(2)
    again.run(engine, lambda: None)
    assert (engine.starts, states(again)) == ([0, 2], ["done"] * 4)


def test_a_cell_that_reached_a_time_limit_goes_on_as_long_as_it_gets_further(sweep):
    engine = Scripted(1, seed1=reach_a_time_limit_twice, seed3=stop_without_progress)
    assert sweep.run(engine, lambda: None)
    assert engine.starts.count(1) == 3
    assert engine.starts.count(3) == 1
    assert states(sweep) == ["done", "done", "done", "stopped"]


def test_a_cell_that_lost_its_node_goes_on_and_one_that_somebody_cancelled_does_not(sweep):
    engine = Scripted(2, seed1=lose_the_first_node, seed2=cancel)
    assert sweep.run(engine, lambda: None)
    assert (engine.starts.count(1), engine.starts.count(2)) == (2, 1)
    assert states(sweep) == ["done", "done", "stopped", "done"]
    assert sweep.rows[2].reason == "its job was cancelled"


def test_cells_that_are_still_held_count_as_running_and_go_first(sweep):
    logs = sweep.logs(sweep.rows[2].cell)
    logs.mkdir(parents=True)
    engine = Scripted(1)
    with locked(logs / "lock"):
        listed = Sweep.begin(sweep.path, GRID, EPISODES)
        listed.look_for_owners()
        sweep.run(engine, lambda: None)
    assert states(listed) == ["waiting", "waiting", "running", "waiting"]
    assert listed.rows[2].reason.startswith("runs in process ")
    assert engine.starts == [2, 0, 1, 3]


def test_added_values_join_what_is_done(sweep):
    sweep.run(Scripted(2), lambda: None)
    wider = Grid({**GRID.axes, "seed": [4, 0, 1, 2, 3], "method": ["tesac", "satesac"]})
    engine = Scripted(4)
    grown = Sweep.begin(sweep.path, wider, EPISODES)
    assert grown.run(engine, lambda: None)
    assert len(engine.starts) == 6
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
    with run.locked(), pytest.raises(RunError, match=r"in use by process \d+ on "):
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
    prepare_torch(resolve("fast-cpu", {"collection.workers": 1}))
    assert torch.get_num_threads() == max(1, share - 1)
