"""Baselines: SAC that forgets everything, SAC that remembers k steps, and an oracle that is told the task."""

import multiprocessing as mp
import pickle

import gymnasium as gym
import numpy as np
import pytest
import torch

from sami_runtime.errors import SamiError
from sami_train.agent.context_sac import ContextSAC
from sami_train.agent.policy import ContextPolicy
from sami_train.config.resolve import resolve
from sami_train.config.schema import ConfigError
from sami_train.envs.catalog import environment
from sami_train.envs.task_numbers import TaskCode
from sami_train.envs.tasks import Crippled, Feature, TaskError
from sami_train.episodes.numpy_policy import NumpyPolicy
from sami_train.episodes.rollout import Rollout
from sami_train.episodes.rollout_workers import SharedWeights
from sami_train.evaluation.play import _BatchStage, _play_by, _single
from sami_train.runs.train import make_env
from tests.making import toy
from tests.making.networks import small_network

toy.register()

FEATURES, ACTIONS, STEPS = 5, 2, 4
MASS = Feature("mass", "kg", 0.0, low_open=True)
LEGS = Crippled("leg", ("front", "left", "back"), most=2)
CODE = TaskCode.of([MASS, LEGS], [{"mass": 1.0}, {"mass": 5.0, "crippled": [1]}])
SMALL = {
    "network.net_arch": [32, 32],
    "network.encoder_reads_goal": True,
    "network.relative_goal": False,
    "learning.hindsight": 0.0,
    "learning.clip_targets": False,
    "learning.batch_transitions": 96,
    "learning.train_every": 4,
    "learning.discount": 0.9,
    "learning.target_entropy": -1.0,
    "learning.bf16": False,
    "exploration.warmup_steps": 120,
    "exploration.reach_episodes": 0.0,
    "collection.workers": 0,
    "collection.end_on_fall": False,
}


def make_policy(encoder, message=None):
    torch.manual_seed(0)
    policy = ContextPolicy(
        gym.spaces.Box(-10.0, 10.0, (FEATURES,), np.float32),
        gym.spaces.Box(-1.0, 1.0, (ACTIONS,), np.float32),
        network=small_network(net_arch=(16, 16), history_steps=STEPS),
        encoder=encoder,
        task_input=message,
    )
    with torch.no_grad():  # an untrained actor hardly moves
        policy.actor.mean.weight.mul_(20.0)
    return policy


def acts(encoder, observations, executed):
    """The actions (T, A) of a policy that saw these observations (T, D) and did other actions than it chose."""
    policy, actions = NumpyPolicy(make_policy(encoder).numpy_weights(), 1), []
    for observation, action in zip(observations, executed, strict=True):
        actions.append(policy.step(observation[None])[0][0])
        policy.previous_action = action[None]
    return np.stack(actions)


@pytest.fixture
def episode():
    rng = np.random.default_rng(0)
    return rng.normal(size=(12, FEATURES)).astype(np.float32), rng.uniform(-1, 1, (12, ACTIONS)).astype(np.float32)


def test_what_came_before_does_not_change_what_a_memoryless_policy_does(episode):
    observations, executed = episode
    before, other_actions = observations.copy(), executed.copy()
    before[:7], other_actions[:7] = 1.5, -0.5
    assert np.array_equal(acts("none", observations, executed)[7:], acts("none", before, other_actions)[7:])
    remembered = acts("lstm", observations, executed)[7:] - acts("lstm", before, other_actions)[7:]
    assert np.abs(remembered).max() > 1e-4


def test_a_history_forgets_what_is_older_than_its_steps_and_nothing_that_is_not(episode):
    observations, executed = episode
    usual = acts("history", observations, executed)
    for array in (0, 1):
        arrays = [observations.copy(), executed.copy()]
        arrays[array][3] = 0.9
        affected = np.abs(acts("history", *arrays) - usual).max(1) > 1e-6
        # Of k steps the newest is now: it sees observations 0 to k - 1 steps old, and actions 1 to k steps old.
        assert np.flatnonzero(affected).tolist() == list(range(3 + array, 3 + array + STEPS))


def test_before_the_first_step_of_an_episode_a_history_is_zero(episode):
    policy = make_policy("history")
    x = torch.randn(1, 1, FEATURES + ACTIONS)
    context, (history,) = policy.encoder(x)
    assert torch.equal(context[0, 0, : (STEPS - 1) * x.shape[2]], torch.zeros((STEPS - 1) * x.shape[2]))
    assert torch.equal(context[0, 0, -x.shape[2] :], x[0, 0])
    assert torch.equal(history[0, -1], x[0, 0])


def test_a_task_is_told_by_where_it_lies_among_the_training_tasks_and_by_its_silent_parts():
    report = CODE.encode([{"mass": 1.0}, {"mass": 4.0, "crippled": [2, 0]}, {"mass": 9.0, "crippled": []}])
    # Between 1 and 5 kg: 1 is -1, 4 is (4 - 3) / 2, and 9, which training never saw, (9 - 3) / 2.
    assert report.tolist() == [[-1, 0, 0, 0], [0.5, 1, 0, 1], [3, 0, 0, 0]]
    assert CODE.size == report.shape[1] == 4
    same = TaskCode.of([MASS], [{"mass": 2.0}])
    assert same.encode([{"mass": 2.0}, {"mass": 2.5}]).tolist() == [[0.0], [0.5]]
    with pytest.raises(TaskError, match="mass is None"):
        CODE.encode([{"crippled": [1]}])


def test_the_oracles_action_changes_with_the_task_and_with_nothing_that_was_done():
    policy = NumpyPolicy(make_policy("told", CODE).numpy_weights(), 3)
    policy.reset([{"mass": 1.0}, {"mass": 5.0}, {"mass": 1.0, "crippled": [0]}])
    observation = np.ones((3, FEATURES), np.float32)
    first, context = policy.step(observation)
    assert np.abs(first[0] - first[1]).max() > 1e-3
    assert np.abs(first[0] - first[2]).max() > 1e-3
    assert context.tolist() == CODE.encode([{"mass": 1.0}, {"mass": 5.0}, {"mass": 1.0, "crippled": [0]}]).tolist()
    assert np.array_equal(policy.step(observation)[0], first)
    with pytest.raises(SamiError, match=r"task of each of its 3 episodes, but reset\(\) got 0 tasks\. Pass"):
        policy.reset()


def test_the_oracle_in_numpy_is_the_oracle_in_torch():
    policy = make_policy("told", CODE)
    tasks = [{"mass": 1.0}, {"mass": 4.0, "crippled": [1]}]
    fast, state = NumpyPolicy(policy.numpy_weights(), 2), (CODE.encode(tasks), np.zeros((2, ACTIONS), np.float32))
    fast.reset(tasks)
    for observation in np.random.default_rng(0).normal(size=(20, 2, FEATURES)).astype(np.float32):
        expected, state = policy.predict(observation, state, deterministic=True)
        assert fast.step(observation)[0] == pytest.approx(expected, abs=1e-5)
    with pytest.raises(
        SamiError, match=r"reads the task, which predict\(\) does not know\. Evaluate it with sami eval"
    ):
        policy.predict(observation)


@pytest.mark.parametrize("encoder", ["none", "history", "told"])
def test_what_other_processes_are_sent_acts_alike(encoder):
    """Evaluation pickles weights for its processes, rollout workers read them from shared memory."""
    weights = make_policy(encoder, CODE if encoder == "told" else None).numpy_weights()
    copies = [weights, pickle.loads(pickle.dumps(weights)), SharedWeights(weights, mp.get_context("spawn")).read()]
    observations = np.random.default_rng(0).normal(size=(6, 1, FEATURES)).astype(np.float32)
    actions = []
    for item in copies:
        policy = NumpyPolicy(item, 1)
        policy.reset([{"mass": 2.0, "crippled": [2]}])
        actions.append([policy.step(observation)[0].tolist() for observation in observations])
    assert actions[0] == actions[1] == actions[2]


def agent(method, **changes):
    config = resolve("fast-cpu", SMALL | {"method": method} | changes)
    return ContextSAC("ContextPolicy", gym.make("sami-tests/HiddenSign-v0"), config, device="cpu")


@pytest.mark.parametrize("window", [0, 6])
def test_the_buffer_remembers_which_task_an_oracle_was_told(window):
    sac = agent("oracle", **{"learning.window": window, "learning.burn_in": window // 3}).learn(300)
    buffer, code = sac.buffer, sac.policy.task_input
    windows = buffer.windows(np.arange(len(buffer)), np.random.default_rng(0))
    (report,) = buffer.sequences(windows).state
    tasks = [{"sign": -1.0}, {"sign": 1.0}]
    assert np.array_equal(report, code.encode([tasks[index] for index in buffer.tasks[: len(buffer)]]))
    assert sorted(set(report.ravel().tolist())) == [-1.0, 1.0]


def mean_return(sac):
    policy = NumpyPolicy(sac.policy.numpy_weights(), 4)
    envs = [gym.make("sami-tests/HiddenSign-v0") for _ in range(4)]
    rollout = Rollout(envs, policy, 1_000_003)
    return np.mean([episode.ret for first in range(0, 40, 4) for episode in rollout.round(range(first, first + 4))])


def test_an_oracle_needs_something_to_be_told():
    env = gym.make("sami-tests/HiddenSign-v0")
    env.unwrapped.tasks = ()
    with pytest.raises(SamiError, match="tasks have no features"):
        ContextSAC("ContextPolicy", env, resolve("fast-cpu", SMALL | {"method": "oracle"}), device="cpu")


class Noted:
    """A policy that does nothing, and notes the tasks that it was told."""

    def __init__(self, rows):
        self.tasks_given, self.state = [], ()
        self.action = np.zeros((rows, 3), np.float32)

    def reset(self, tasks=()):
        self.tasks_given.append([dict(task) for task in tasks])

    def step(self, observation, noise=None):
        return self.action, None


class FewSteps:
    """A batch without physics."""

    rows, episode_steps, metrics = 2, 3, {}
    terminated = np.zeros(2, bool)

    def reset(self, seeds, tasks):
        return np.zeros((2, 4), np.float32)

    def step(self, actions):
        return np.zeros((2, 4), np.float32), np.ones(2, np.float32)


def test_each_row_is_told_its_own_task_in_single_environments_and_in_a_batch():
    tasks = [{"sign": 1.0}, {"sign": -1.0}, {"sign": 1.0}]
    envs = [gym.make("sami-tests/HiddenSign-v0") for _ in range(2)]
    single = Noted(2)
    single.action = single.action[:, :1]
    rollout = Rollout(envs, single, 0, tasks=tasks)
    rollout.round([0, 1])
    rollout.round([2, 3])
    many = Noted(2)
    returns, *_ = _play_by(_single(_BatchStage(FewSteps(), many)), 2, None)(tasks, 0)
    assert single.tasks_given == many.tasks_given == [[tasks[0], tasks[1]], [tasks[2], tasks[0]]]
    assert returns.tolist() == [3.0] * 3


def test_what_the_environment_says_of_its_task_counts_where_it_draws_one_itself():
    class Drawing(toy.HiddenSign):
        def reset(self, *, seed=None, options=None):
            observation, info = super().reset(seed=seed, options=options)
            return observation, {**info, "task": {"sign": self.sign}}

    env = gym.wrappers.TimeLimit(Drawing(), 2)
    env.unwrapped.tasks = ()
    policy = Noted(1)
    policy.action = policy.action[:, :1]
    for k in range(4):
        Rollout([env], policy, 0).round([k])
        assert policy.tasks_given[-1] == [{"sign": env.unwrapped.sign}]


def test_the_code_of_an_environment_that_we_know_follows_from_its_training_set_alone():
    spec = environment("crippled-ant")
    config = resolve("fast-cpu", {"env": "crippled-ant", "method": "oracle"})
    code = TaskCode.of(spec.tasks.features, config.training_tasks())
    sizes = [len(feature.parts) if isinstance(feature, Crippled) else 1 for feature in spec.tasks.features]
    report = code.encode([task for tasks in spec.tasks.sets.values() for task in tasks])
    assert report.shape == (sum(map(len, spec.tasks.sets.values())), sum(sizes))
    assert np.isfinite(report).all()


def test_a_history_of_one_step_is_refused():
    with pytest.raises(ConfigError, match=r"network\.history_steps is 1; it must be at least 2"):
        resolve("fast-cpu", {"network.history_steps": 1})


@pytest.mark.parametrize("draws", [3, 0])
def test_an_oracle_is_told_what_an_environment_of_ones_own_draws(draws, tmp_path):
    """With `draws` 0 each episode has a task that no other one has; only the environment knows it."""
    changes = {"env": "tests.making.user_environments:PENDULUM", "method": "oracle", "collection.draws": draws}
    config = resolve("fast-cpu", changes | {"collection.workers": 0, "network.net_arch": [16]})
    sac = ContextSAC("ContextPolicy", make_env(config), config, device="cpu").learn(200)
    report = sac.buffer.states[0][: len(sac.buffer), 0]
    assert len(np.unique(report[:, 0])) == (draws or len(sac.buffer))
    if draws:
        assert np.array_equal(report[:draws], sac.policy.task_input.encode(config.training_tasks()))
    sac.save(tmp_path / "agent.zip")
    assert ContextSAC.load(tmp_path / "agent.zip", device="cpu").policy.task_input == sac.policy.task_input


def test_an_oracle_of_an_environment_without_tasks_is_refused():
    config = resolve("fast-cpu", {"env": "tests.making.user_environments:TIPPING", "method": "oracle"})
    with pytest.raises(SamiError, match="tasks have no features"):
        ContextSAC("ContextPolicy", make_env(config), config, device="cpu")
