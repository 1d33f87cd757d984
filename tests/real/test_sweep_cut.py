"""A sweep that is cut in every way: Ctrl-C, a killed sweep, a killed job; it ends as if nobody had."""

import json
import os
import re
import signal

from tests.real.test_sweep import OPTIONS, cells, end, finished_sweep, same_agents, sweeping, uninterrupted, wait_for

__all__ = ["finished_sweep", "uninterrupted"]  # fixtures


def test_a_sweep_cut_in_every_way_trains_what_an_uninterrupted_one_does(tmp_path, uninterrupted):
    out = tmp_path / "sweep"
    run, lock = out / "panda-tesac-0", out / "logs" / "panda-tesac-0" / "lock"

    def state():
        return json.loads((run / "run.json").read_text())["state"]

    # What a run leaves that was killed before its first checkpoint is no obstacle.
    (run / "tensorboard").mkdir(parents=True)
    with sweeping("--out", out, "--method", "tesac", *OPTIONS) as sweep:
        wait_for(sweep, lambda: list(run.glob("checkpoints/*/buffer.npz")))
        os.killpg(sweep.pid, signal.SIGINT)  # Ctrl-C reaches all processes of a terminal
        result = end(sweep)
    assert (result.code, result.err) == (130, "")
    assert "stopped with 0 of 1 cells done. Go on with:\n" in result.out
    assert f"sami sweep --out {out}\n" in result.out.replace(" \\\n      ", " ")
    assert state() == "stopped"
    steps = json.loads((run / "run.json").read_text())["steps"]
    assert steps < 600

    with sweeping("--out", out) as sweep:
        wait_for(sweep, lambda: state() == "running")
        holder = lock.read_text()
        os.kill(int(holder.split()[1]), signal.SIGSTOP)  # or it might be done before it is waited for
        sweep.kill()
    # Its job goes on without it; the next sweep waits for that, and here sees it die.
    with sweeping("--out", out, "--json") as sweep:
        line = wait_for(sweep, sweep.stderr.readline)
        assert re.fullmatch(
            rf"panda-tesac-0 running( after \d+ steps)?: waits for {holder}, left by an earlier sweep\n", line
        )
        os.kill(int(holder.split()[1]), signal.SIGKILL)
        wait_for(sweep, lambda: lock.read_text() not in ("", holder))
        os.kill(int(lock.read_text().split()[1]), signal.SIGKILL)
        result = end(sweep)
    cell = cells(result)["panda-tesac-0"]
    assert (result.code, cell["state"]) == (1, "failed")
    assert cell["reason"].startswith("its process ended without a result (killed, or out of memory?)")

    with sweeping("--out", out, "--json") as sweep:
        result = end(sweep)
    assert (result.code, cells(result)["panda-tesac-0"]["state"]) == (0, "done")
    assert same_agents(run, uninterrupted)
    assert (run / "evaluation.json").read_text() == (uninterrupted / "evaluation.json").read_text()
