"""Training with a profile: the same disturbance as at run time, in every process, and runs that resume exactly."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from sami_runtime.adapters import Gapped
from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.gap.gap import Gap
from sami_runtime.gap.profile import GapProfile
from sami_runtime.safety.limits import AGE_PERIODS
from sami_train.config.resolve import resolve
from sami_train.envs import ENVIRONMENTS, environment
from sami_train.envs.adapter import make_adapter
from sami_train.envs.layout import flatten
from sami_train.envs.make import make
from sami_train.episodes.rollout import Rollout
from sami_train.runs import train
from sami_train.runs.folder import RunFolder

PROFILE = GapProfile.of(
    {
        "latency_s": [0.0, 0.1],
        "dropout": 0.2,
        "noise_relative": [0.0, 0.1],
        "bias": [-0.01, 0.01],
        "action_latency_s": [0.0, 0.1],
        "actuator_lag_s": 0.05,
    }
)
ACTIONS = np.random.default_rng(0).uniform(-1, 1, (15, 6)).astype(np.float32)


def episode(env, seed):
    """Flat observations, rewards and whether each step ended the episode."""
    size = env.action_space.shape[0]
    observations, reports = [flatten(env.reset(seed=seed)[0])], []
    for action in ACTIONS[:, :size]:
        observation, reward, terminated, *_ = env.step(action)
        observations.append(flatten(observation))
        reports.append((float(reward), terminated))
    return np.array(observations), reports


@pytest.mark.parametrize("name", ["panda", "half-cheetah"])
def test_an_empty_gap_is_the_environment_to_the_last_bit(name):
    spec = environment(name)
    bare, gapped = episode(make(spec), 3), episode(make(spec, gap=GapProfile()), 3)
    assert bare[0].tobytes() == gapped[0].tobytes()
    assert bare[1] == gapped[1]


@pytest.mark.parametrize("name", ["panda", "half-cheetah"])
def test_training_and_runtime_disturb_an_episode_alike(name):
    spec = environment(name)
    observations, _ = episode(make(spec, gap=PROFILE), 3)
    robot = Gapped(make_adapter(spec, make(spec)), PROFILE, spec.rate_hz)
    robot.reset(3)
    for tick, action in enumerate(ACTIONS[:, : spec.action.size]):
        values = robot.read().values
        for name_of_signal, value in spec.layout.by_name(observations[tick]).items():
            assert values[name_of_signal].tobytes() == value.tobytes()
        robot.write(action)
    assert not np.array_equal(observations, episode(make(spec), 3)[0])


def test_a_rollout_worker_makes_the_same_environment_from_its_spec():
    env = make(environment("half-cheetah"), gap=PROFILE)
    assert episode(env, 5)[0].tobytes() == episode(gym.make(env.spec), 5)[0].tobytes()


def test_reward_and_success_are_those_of_the_world():
    spec = environment("panda")
    _, report = episode(make(spec, gap=GapProfile(bias=5.0)), 3)
    assert report == episode(make(spec), 3)[1]


def test_the_stored_action_is_the_command():
    class Fixed:
        previous_action, state = np.zeros((1, 6), np.float32), ()

        def reset(self, tasks):
            pass

        def step(self, observation, noise=None):
            return ACTIONS[:1].copy(), np.zeros((1, 0))

    env = make(environment("half-cheetah"), gap=GapProfile(actuator_lag_s=1.0), max_episode_steps=5)
    stored = Rollout([env], Fixed(), seed=0).round([0])[0]
    np.testing.assert_array_equal(stored.actions, np.repeat(ACTIONS[:1], 5, 0))


def test_a_gap_that_does_not_fit_is_refused_before_anything_is_made():
    with pytest.raises(UnknownName, match="unknown observation signal 'cube_positon'"):
        resolve("fast-cpu", {"gap": '{"noise": {"cube_positon": 1}}'})
    with pytest.raises(SamiError, match="gap: dropout is 2; it must be a number from 0 to 1"):
        resolve("fast-cpu", {"gap": '{"dropout": 2}'})


TINY = {
    "steps": 450,
    "checkpoint_every": 150,
    "network.net_arch": [16],
    "network.hidden_size": 16,
    "learning.train_every": 50,
    "learning.batch_transitions": 32,
    "learning.batch_episodes": 4,
    "learning.buffer_episodes": 50,
    "exploration.warmup_steps": 150,
    "contrast.trajectories": 4,
    "collection.workers": 0,
    "gap": PROFILE.dumps(),
}


def test_a_run_with_a_profile_resumes_to_the_bit_and_keeps_its_gap(tmp_path, monkeypatch):
    whole = train.start(resolve("fast-cpu", TINY), tmp_path / "whole", show=False)
    honest = train.Progress.update

    def stop_early(self, steps_so_far, *rest):
        honest(self, steps_so_far, *rest)
        if steps_so_far >= 200:
            train.signal.raise_signal(train.signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(train.Progress, "update", stop_early)
        stopped = train.start(resolve("fast-cpu", TINY), tmp_path / "run", show=False)
    assert stopped.num_timesteps < whole.num_timesteps
    resumed = train.resume(tmp_path / "run", show=False)
    expected = whole.policy.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in resumed.policy.state_dict().items())
    assert GapProfile.loads(RunFolder.open(tmp_path / "run").config().gap) == PROFILE
    # Its episodes were disturbed: a run without the gap saw others.
    bare = train.start(resolve("fast-cpu", TINY | {"gap": ""}), tmp_path / "bare", show=False)
    assert not np.array_equal(bare.buffer.observations[0], whole.buffer.observations[0])


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_with_the_modest_profile_no_observation_is_older_than_a_gate_allows_by_itself(name):
    modest, spec = GapProfile.load("modest"), environment(name)
    period = 1.0 / spec.rate_hz
    gap = Gap(modest.model_copy(update={"dropout": 0.0, "clock_skew": 0.0}), spec.signals, spec.action.size, period)
    oldest = 0.0
    for seed in range(20):
        gap.begin(seed)
        for tick in range(20):
            _, stamp = gap.observe(np.zeros(spec.layout.size, np.float32), tick * period)
            # A simulator's adapter reads one period after it measured.
            oldest = max(oldest, (tick + 1) * period - stamp)
    assert oldest <= AGE_PERIODS * period * (1 + 1e-6)
