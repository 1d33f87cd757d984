"""What passes between the learner and its rollout workers."""

import math
import multiprocessing as mp
import time
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from sami_train.agent.context_sac import ContextSAC
from sami_train.config.resolve import resolve
from sami_train.episodes import rollout_workers
from sami_train.episodes.numpy_policy import NumpyWeights
from sami_train.episodes.rollout_workers import BURST, InStep, Processes, SharedWeights
from sami_train.runs.train import start


def weights(value):
    arrays = {"actor.weight_0": np.full((2, 3), value, np.float32), "actor.bias_0": np.full(2, -value, np.float32)}
    return NumpyWeights("gaussians", encoder_columns=19, clip=5.0, arrays=arrays)


def test_shared_weights_come_out_whole_and_newest():
    shared = SharedWeights(weights(1.0), mp.get_context("spawn"))
    first = shared.read()
    shared.write(weights(2.0))
    for shared_weights, expected in ((first, weights(1.0)), (shared.read(), weights(2.0))):
        assert (shared_weights.encoder, shared_weights.encoder_columns, shared_weights.clip) == ("gaussians", 19, 5.0)
        assert list(shared_weights.arrays) == list(expected.arrays)
        assert all(np.array_equal(shared_weights.arrays[name], array) for name, array in expected.arrays.items())
    assert shared.version.value == 2


def test_in_step_each_round_is_collected_with_the_newest_weights_after_all_updates():
    snapshots, rounds, newest = [], [], weights(1.0)
    rollout = SimpleNamespace(envs=[None] * 3, round=lambda indices, steps: rounds.append((list(indices), steps)))
    source = InStep(rollout, SimpleNamespace(load=snapshots.append), lambda: newest, next_index=4)
    source.collect(True, 0)
    newest = weights(2.0)
    source.collect(True, 60)
    assert [value.arrays["actor.weight_0"][0, 0] for value in snapshots] == [1.0, 2.0]
    assert rounds == [([4, 5, 6], 0), ([7, 8, 9], 60)]
    assert source.updates(10_000) == 10_000


def test_beside_rollout_workers_the_learner_looks_for_episodes_after_a_few_updates():
    processes = Processes.__new__(Processes)  # without its processes
    assert [processes.updates(due) for due in (0, 3, BURST, 10_000)] == [0, 3, BURST, BURST]


def test_a_resumed_run_s_workers_know_its_steps_before_the_learner_first_looks_for_episodes(monkeypatch):
    # Otherwise they collect a warm-up of random actions for as long as the learner makes its overdue updates.
    starts, real = [], mp.get_context("spawn")
    context = SimpleNamespace(**{name: getattr(real, name) for name in ("Lock", "Pipe", "RawArray", "RawValue")})
    context.Process = lambda args, **_: SimpleNamespace(
        start=lambda: starts.append(args[3].value), join=lambda **_: None, is_alive=lambda: False
    )
    monkeypatch.setattr(rollout_workers, "mp", SimpleNamespace(get_context=lambda _: context))
    config = resolve("fast-cpu", {"method": "sac", "env": "hopper", "collection.workers": 2})
    agent = ContextSAC("ContextPolicy", gym.make("MountainCarContinuous-v0"), config)
    agent.num_timesteps = 20_000
    agent._source().close()
    assert starts == [20_000, 20_000]


@pytest.fixture
def processes(monkeypatch):
    """A source with two rollout workers whose rounds are too large for a pipe: each is sent in several parts."""
    monkeypatch.setattr(rollout_workers, "QUEUE_ROUNDS", 1)
    env = gym.make("MountainCarContinuous-v0")
    agent = ContextSAC("ContextPolicy", env, resolve("fast-cpu", {"method": "tesac", "env": "hopper"}))
    source = Processes(env.spec, 6, 2, agent.policy.numpy_weights(), 0, agent.config.exploration, None)
    yield source
    source.patience_s = math.inf
    source.close()


def collected(source, least, seconds=60.0):
    """Episodes as the learner gets them, which looks up every second."""
    episodes, until = [], time.monotonic() + seconds
    while len(episodes) < least:
        start = time.monotonic()
        episodes += source.collect(True, 0)
        assert time.monotonic() - start < 10.0, "the learner hangs"
        assert time.monotonic() < until
    return episodes


def test_rounds_of_all_workers_arrive_whole(processes):
    episodes = collected(processes, 20)
    assert all(episode.observations.shape == (len(episode) + 1, 2) for episode in episodes)


def test_weights_that_a_killed_reader_holds_are_not_waited_for():
    shared = SharedWeights(weights(1.0), mp.get_context("spawn"))
    shared._lock.acquire()
    start = time.monotonic()
    shared.write(weights(2.0))
    assert time.monotonic() - start < 10.0


def test_workers_of_a_cheap_environment_do_not_run_far_ahead_of_the_learner(tmp_path):
    """A short run would learn from the first policy's episodes alone, and do more steps than it was asked for."""
    settings = {"exploration.warmup_steps": 500, "collection.workers": 1, "network.net_arch": [16]}
    pendulum = {"env": "tests.making.user_environments:PENDULUM", "method": "sac", "steps": 4_000}
    agent = start(resolve("fast-cpu", {**pendulum, **settings}), tmp_path / "run", show=False)
    assert 4_000 <= agent.num_timesteps <= 4_320, "a few rounds of two episodes of 40 steps"
