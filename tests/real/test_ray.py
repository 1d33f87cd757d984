"""Sweeps on a Ray cluster of two nodes on this machine, one of which is lost."""

import os
import signal
import subprocess
import sys
import time

import pytest

from sami_train.files import holder
from tests.real.test_slurm import CELL, ENDLESS, PENDULUM, USER_ENV, checkpoints, learns, stop
from tests.real.test_sweep import OPTIONS, cells, end, same_agents, sweeping, wait_for

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'sami-rl[ray]'")


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    # The head has no room for cells: a node that is lost is not the one that knows the others.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield cluster
    cluster.shutdown()


def test_cells_on_ray_are_what_they_are_on_this_machine_and_needs_are_known(tmp_path, cluster):
    cluster.add_node(num_cpus=1)
    local, remote = tmp_path / "here", tmp_path / "there"
    with sweeping("--out", local, *PENDULUM, *OPTIONS) as sweep:
        assert end(sweep).code == 0
    with sweeping("--out", remote, *PENDULUM, *OPTIONS, "--on", f"ray:{cluster.address}", "--json") as sweep:
        result = end(sweep)
    assert (result.code, cells(result)[CELL]["state"]) == (0, "done")
    assert same_agents(local / CELL, remote / CELL)
    needs = ["--on", f"ray:{cluster.address},num_cpus=99"]
    with sweeping("--out", tmp_path / "more", *PENDULUM, *OPTIONS, *needs) as sweep:
        result = end(sweep)
    assert result.code == 1
    assert result.err.startswith("sami: no node of the Ray cluster has what a cell needs, {'CPU': 99")
    assert not (tmp_path / "more").exists()


def test_an_evaluation_that_is_spread_on_ray_is_what_it_is_on_this_machine(tmp_path, cluster):
    cluster.add_node(num_cpus=2)
    local, remote = tmp_path / "here", tmp_path / "there"
    script = [sys.executable, "-c", "from sami_cli.app import main; main()", "eval", "--model", "panda-satesac"]
    script += ["--tasks", "training", "--episodes", "2", "--json"]
    subprocess.run([*script, "--out", local], check=True, capture_output=True)
    subprocess.run([*script, "--out", remote, "--on", f"ray:{cluster.address},jobs=2"], check=True, capture_output=True)
    assert (local / "evaluation.json").read_text() == (remote / "evaluation.json").read_text()
    assert [path.name for path in remote.iterdir()] == ["evaluation.json"]


def test_the_cell_of_a_node_that_is_lost_goes_on_elsewhere(tmp_path, cluster):
    out, lock = tmp_path / "sweep", tmp_path / "sweep" / "logs" / CELL / "lock"
    node = cluster.add_node(num_cpus=1)
    with sweeping("--out", out, *ENDLESS, "--set", "checkpoint_every=400", "--on", f"ray:{cluster.address}") as sweep:
        wait_for(sweep, lambda: learns(out) and checkpoints(out))
        first = lock.read_text()
        cluster.add_node(num_cpus=1)
        cluster.remove_node(node, allow_graceful=False)
        wait_for(sweep, lambda: lock.read_text() not in ("", first))
        reached = learns(out)
        wait_for(sweep, lambda: learns(out) > reached)
        result = stop(sweep)
    assert result.code == 130
    assert f"sami sweep --out {out} --on ray:{cluster.address} {' '.join(USER_ENV)}\n" in result.out.replace(
        " \\\n      ", " "
    )
    assert f"{CELL} failed" not in result.out
    deadline = time.monotonic() + 60.0  # Ray says that a task is cancelled while its process still ends
    while holder(out / CELL / "lock"):  # not its state: where Ray kills it, the process cannot write one any more
        assert time.monotonic() < deadline
        time.sleep(0.1)
    with pytest.raises(ProcessLookupError):
        os.kill(int(first.split()[1]), 0)


def test_a_killed_sweep_takes_its_cells_on_ray_with_it(tmp_path, cluster):
    cluster.add_node(num_cpus=1)
    out, lock = tmp_path / "sweep", tmp_path / "sweep" / "logs" / CELL / "lock"
    with sweeping("--out", out, *ENDLESS, "--on", f"ray:{cluster.address}") as sweep:
        wait_for(sweep, lambda: learns(out))
        job = int(lock.read_text().split()[1])
        sweep.send_signal(signal.SIGKILL)
        sweep.wait()
    deadline = time.monotonic() + 60.0
    while os.path.exists(f"/proc/{job}"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
