"""What passes between the learner and its collectors."""

import multiprocessing as mp
import os
import signal
import time
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from sami_train.episodes.collectors import BURST, CollectorError, InStep, Processes, SharedWeights
from sami_train.episodes.numpy_policy import Weights


def weights(value):
    arrays = {"actor.weight_0": np.full((2, 3), value, np.float32), "actor.bias_0": np.full(2, -value, np.float32)}
    return Weights("gaussians", encoder_columns=19, clip=5.0, arrays=arrays)


def test_shared_weights_come_out_whole_and_newest():
    shared = SharedWeights(weights(1.0), mp.get_context("spawn"))
    first = shared.read()
    shared.write(weights(2.0))
    for read, expected in ((first, weights(1.0)), (shared.read(), weights(2.0))):
        assert (read.encoder, read.encoder_columns, read.clip) == ("gaussians", 19, 5.0)
        assert list(read.arrays) == list(expected.arrays)
        assert all(np.array_equal(read.arrays[name], array) for name, array in expected.arrays.items())
    assert shared.version.value == 2


def test_in_step_each_round_is_collected_with_the_newest_weights_after_all_updates():
    loaded, rounds, newest = [], [], weights(1.0)
    rollout = SimpleNamespace(envs=[None] * 3, round=lambda indices, steps: rounds.append((list(indices), steps)))
    source = InStep(rollout, SimpleNamespace(load=loaded.append), lambda: newest, next_index=4)
    source.collect(True, 0)
    newest = weights(2.0)
    source.collect(True, 60)
    assert [given.arrays["actor.weight_0"][0, 0] for given in loaded] == [1.0, 2.0]
    assert rounds == [([4, 5, 6], 0), ([7, 8, 9], 60)]
    assert source.updates(10_000) == 10_000


def test_beside_collectors_the_learner_looks_for_episodes_after_a_few_updates():
    beside = Processes.__new__(Processes)  # without its processes
    assert [beside.updates(due) for due in (0, 3, BURST, 10_000)] == [0, 3, BURST, BURST]


@pytest.fixture
def stopped():
    """A source whose only collector is stopped, as by SIGSTOP or a simulator that hangs."""
    source = Processes(gym.spec("CartPole-v1"), 1, 0, weights(1.0), 0, None, None)
    process = mp.get_context("spawn").Process(target=time.sleep, args=(600,), daemon=True)
    process.start()
    os.kill(process.pid, signal.SIGSTOP)
    source._processes = [process]
    yield source
    source._processes = []


def test_a_learner_that_waits_looks_up_every_second(stopped):
    """So that SIGTERM, which asks it to stop at the next safe place, finds one."""
    began = time.monotonic()
    assert stopped.collect(True, 0) == []
    assert time.monotonic() - began < 10.0
    stopped.close()


def test_collectors_that_bring_nothing_for_long_are_told_of(stopped):
    stopped.patience_s = 0.5
    with pytest.raises(
        CollectorError, match=r"no collector brought an episode within 0\.5 s: they are stopped, or hang"
    ):
        stopped.collect(True, 0)
    stopped.close()


def test_a_collector_that_is_stopped_is_ended_all_the_same(stopped, monkeypatch):
    """It hears no SIGTERM, and Python would wait for it at its own end for ever."""
    process = stopped._processes[0]
    join = process.join
    monkeypatch.setattr(process, "join", lambda timeout=None: join(timeout and 0.1))
    stopped.close()
    assert process.exitcode == -signal.SIGKILL
