"""Rollout workers that are killed or stopped while they send: the learner says so and does not hang."""

import math
import os
import signal
import time

import pytest

from sami_train.episodes.rollout_workers import WorkerError
from tests.sami_train.episodes.test_rollout_workers import collected, processes

__all__ = ["processes"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rollout_worker_that_ends_or_stops_within_a_message_does_not_hang_the_learner(processes, number, capsys):
    """The pipe is full while nobody reads it, so that each of them is within a message."""
    collected(processes, 1)
    processes.patience_s = 3.0
    time.sleep(3.0)
    for process in processes._processes:
        os.kill(process.pid, number)
    report = "died with exit code -9" if number == signal.SIGKILL else r"no rollout worker sent an episode within 3 s"
    with pytest.raises(WorkerError, match=rf"{report}.*--resume"):
        collected(processes, math.inf)
    processes.close()
    assert [process.exitcode for process in processes._processes] == [-signal.SIGKILL] * 2


def test_of_one_that_stops_it_is_told_once_and_the_others_go_on(processes, capsys):
    collected(processes, 1)
    processes.patience_s = 6.0  # an episode of the other one takes seconds where the machine is busy
    os.kill(processes._processes[0].pid, signal.SIGSTOP)
    for _ in range(8):
        collected(processes, 10)
        time.sleep(1.0)
    assert capsys.readouterr().err == "rollout worker 0 sent no episode for 6 s: it is stopped, or hangs.\n"
