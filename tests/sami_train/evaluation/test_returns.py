"""Laws of evaluation by return: which tasks come, that a batch plays what the plain environment plays, what is told."""

import dataclasses
import json
from collections import Counter

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("mujoco")

from sami_runtime.errors import SamiError
from sami_runtime.gap.profile import GapProfile
from sami_train import seeds
from sami_train.agent.context_sac import ContextSAC
from sami_train.config.resolve import resolve
from sami_train.envs import ENVIRONMENTS
from sami_train.envs.make import make
from sami_train.episodes.numpy_policy import NumpyPolicy
from sami_train.episodes.rollout import Rollout
from sami_train.evaluation.evaluate import evaluate, in_turn
from sami_train.evaluation.results import Evaluation
from sami_train.runs.folder import RunFolder
from sami_train.studies.sweep.job import status

ENV = "crippled-hopper"
STEPS = 40


@pytest.fixture(scope="module")
def weights():
    config = resolve("fast-cpu", {"env": ENV, "network.net_arch": [16], "network.hidden_size": 8})
    return ContextSAC("ContextPolicy", make(ENVIRONMENTS[ENV]), config, device="cpu").policy.numpy_weights()


@pytest.fixture(autouse=True)
def _short_episodes(monkeypatch):
    monkeypatch.setitem(ENVIRONMENTS, ENV, dataclasses.replace(ENVIRONMENTS[ENV], episode_steps=STEPS))


def test_a_batch_plays_what_the_plain_environment_plays(weights):
    episodes = 6
    tasks = ENVIRONMENTS[ENV].tasks.sets["extreme"]
    turns = in_turn(len(tasks), episodes, seeds.EVALUATION)
    envs = [gym.make(ENVIRONMENTS[ENV].id, max_episode_steps=STEPS) for _ in range(episodes)]
    rollout = Rollout(envs, NumpyPolicy(weights, episodes), seeds.EVALUATION, tasks=[tasks[turn] for turn in turns])
    returns = {json.dumps(dict(episode.task)): episode.ret for episode in rollout.round(range(episodes))}
    evaluation = evaluate(weights, ENV, ["extreme"], episodes)
    assert {json.dumps(result.task): result.ret for result in evaluation.results} == returns
    assert len(set(returns.values())) == episodes
    assert [result.steps for result in evaluation.results] == [STEPS] * episodes


def test_with_a_profile_the_same_episodes_are_played(weights):
    def returns(**gap):
        profile = GapProfile.of(gap) if gap else None
        return evaluate(weights, ENV, ["extreme"], 3, gap=profile).results

    stamps_only, noisy = returns(clock_offset_s=0.1), returns(noise=0.1)
    assert stamps_only == returns()
    assert [result.task for result in noisy] == [result.task for result in stamps_only]
    assert all(a.ret != b.ret for a, b in zip(noisy, stamps_only, strict=True))


def test_with_a_profile_the_simulators_are_given_back(weights, monkeypatch):
    import sami_train.envs.mujoco.env as module

    envs = []
    monkeypatch.setattr(module.MujocoSkillEnv, "close", lambda env: envs.append(env))
    evaluate(weights, ENV, ["training"], 3, gap=GapProfile(dropout=0.5))
    assert len(set(envs)) == 3


@pytest.mark.parametrize(("count", "episodes"), [(25, 100), (16, 100), (240, 100), (7, 3)])
def test_every_task_comes_once_before_any_comes_again(count, episodes):
    turns = in_turn(count, episodes, seeds.EVALUATION)
    times = Counter(turns.tolist())
    assert len(turns) == episodes == sum(times.values())
    assert len(times) == min(count, episodes)
    assert max(times.values()) - min(times[i] for i in range(count)) <= 1
    for lap in np.split(turns, range(count, episodes, count)):
        assert len(set(lap)) == len(lap)
    assert (in_turn(count, episodes + 50, seeds.EVALUATION)[:episodes] == turns).all()


def test_a_sample_of_a_large_set_is_not_its_beginning():
    tasks = ENVIRONMENTS["crippled-half-cheetah"].tasks.sets["extreme"]
    assert len(tasks) == 240
    sample = [tasks[turn] for turn in in_turn(len(tasks), 100, seeds.EVALUATION)]
    assert {task["mass"] for task in sample} == {task["mass"] for task in tasks}
    assert abs(np.mean([task["mass"] for task in sample]) - 1.0) < 0.15


def test_threads_change_nothing_and_more_episodes_go_on_with_the_same_ones(weights):
    first = evaluate(weights, ENV, ["training"], 100, cores=1)
    assert evaluate(weights, ENV, ["training"], 100, cores=2) == first
    more = evaluate(weights, ENV, ["training"], 120)
    assert len(first.returns("training")) == 100
    assert len(more.returns("training")) == 120
    for fewer, longer in zip(first.results, more.results, strict=True):
        assert longer.task == fewer.task
        assert longer.returns[: fewer.episodes] == fewer.returns


def test_a_set_tells_mean_deviation_and_standard_error_of_its_episodes(weights):
    evaluation = evaluate(weights, ENV, ["training", "extreme"], 14)
    plain = evaluation.to_dict()
    for name in ("training", "extreme"):
        returns = np.concatenate([result.returns for result in evaluation.of(name)])
        assert plain["sets"][name] == {
            "ret": pytest.approx(returns.mean()),
            "ret_std": pytest.approx(returns.std(ddof=1)),
            "ret_error": pytest.approx(returns.std(ddof=1) / np.sqrt(14)),
            "episodes": 14,
        }
        assert sum(row["episodes"] for row in plain["tasks"] if row["task_set"] == name) == 14
    assert not {"success", "above_floor", "lifted"} & set(plain["tasks"][0])
    assert Evaluation.from_dict(json.loads(json.dumps(plain))) == evaluation
    summary = evaluate(weights, ENV, ["training"], 1).summary("training")
    assert (summary["ret_std"], summary["ret_error"], summary["episodes"]) == (None, None, 1)


def test_an_evaluation_without_the_returns_of_episodes_is_refused(weights):
    plain = evaluate(weights, ENV, ["training"], 2).to_dict()
    del plain["tasks"][0]["returns"]
    with pytest.raises(SamiError, match="the evaluation lacks 'returns'; measure again"):
        Evaluation.from_dict(plain)


def test_a_cell_is_done_when_every_set_has_its_episodes(weights, tmp_path):
    run = RunFolder.create(tmp_path / "cell", resolve("fast-cpu", {"env": ENV}), [])
    run.agent.touch()
    run.update(steps=1000)
    run.keep_evaluation(evaluate(weights, ENV, ["training", "moderate"], 12).to_dict(), 1000)
    run.metrics.write_text(json.dumps({"step": 1000, "rollout/ep_rew_mean": 123.4, "rollout/success": 0.0}) + "\n")
    state = status(run.path, ENV, 12)
    assert set(state.sets) == {"training", "moderate"}
    assert state.sets["training"] == evaluate(weights, ENV, ["training"], 12).ret("training")
    assert state.exploring == 123.4
    assert status(run.path, ENV, 13).sets == {}
