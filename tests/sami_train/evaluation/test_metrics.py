"""Laws of an environment's named metrics, and of episodes that end early in a batch."""

import dataclasses
import json

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("mujoco")

from sami_cli.commands.eval import evaluation_table

from sami_train import seeds
from sami_train.agent.context_sac import ContextSAC
from sami_train.config.resolve import resolve
from sami_train.envs import ENVIRONMENTS
from sami_train.envs.make import make
from sami_train.episodes.numpy_policy import NumpyPolicy
from sami_train.episodes.rollout import Rollout
from sami_train.evaluation.evaluate import evaluate, in_turn
from sami_train.evaluation.results import Evaluation

STEPS = 60
EPISODES = 6


@pytest.fixture(scope="module")
def weights():
    """Of a policy that acts wildly, so that some robots fall and others do not."""
    config = resolve("fast-cpu", {"env": "go2", "method": "tesac", "network.net_arch": [16], "network.hidden_size": 8})
    policy = ContextSAC("ContextPolicy", make(ENVIRONMENTS["go2"]), config, device="cpu").policy
    policy.actor.mean.bias.data[:] = 0.2
    policy.actor.mean.weight.data *= 2.0
    return policy.numpy_weights()


@pytest.fixture(autouse=True)
def _short_episodes(monkeypatch):
    monkeypatch.setitem(ENVIRONMENTS, "go2", dataclasses.replace(ENVIRONMENTS["go2"], episode_steps=STEPS))


def test_a_batch_plays_what_single_environments_play_to_the_end_of_each_episode(weights):
    tasks = ENVIRONMENTS["go2"].tasks.sets["extreme"]
    turns = in_turn(len(tasks), EPISODES, seeds.EVALUATION)
    envs = [gym.make("sami/Go2-v0", max_episode_steps=STEPS) for _ in range(EPISODES)]
    rollout = Rollout(envs, NumpyPolicy(weights, EPISODES), seeds.EVALUATION, tasks=[tasks[turn] for turn in turns])
    by_task = {json.dumps(dict(episode.task)): episode for episode in rollout.round(range(EPISODES))}
    results = evaluate(weights, "go2", ["extreme"], EPISODES).results
    assert len(results) == EPISODES
    for result in results:
        episode = by_task[json.dumps(result.task)]
        assert (result.ret, result.steps) == (episode.ret, len(episode))
        assert {name: values[0] for name, values in result.metrics.items()} == episode.metrics
    fallen = [result.metrics["falls"][0] for result in results]
    assert 0.0 < sum(fallen) < EPISODES
    assert [result.steps < STEPS for result in results] == [bool(fall) for fall in fallen]


def test_metrics_are_means_over_episodes_and_stay_in_the_file(weights):
    evaluation = evaluate(weights, "go2", ["extreme"], EPISODES)
    summary = evaluation.summary("extreme")
    for metric in ENVIRONMENTS["go2"].metrics:
        values = [result.metrics[metric.name][0] for result in evaluation.results]
        assert summary[metric.name] == pytest.approx(np.mean(values))
    assert Evaluation.from_dict(json.loads(json.dumps(evaluation.to_dict()))) == evaluation


def test_a_table_shows_what_changed_and_what_was_measured(weights):
    table = evaluation_table(evaluate(weights, "go2", ["single"], EPISODES), "single")
    heads = [str(column.header) for column in table.columns]
    assert heads[0] == "change"
    assert heads[-4:] == [r"tracking error \[m/s]", r"yaw error \[rad/s]", "falls", "power [W]"]
