"""The loss by which contexts learn to carry the task: off by default, and what it does where it is on."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from sami_train.agent.context_sac import ContextSAC
from sami_train.agent.networks import TaskReadout
from sami_train.config.resolve import resolve
from sami_train.config.schema import ConfigError
from tests.sami_train.agent.test_context_sac import Stop, agent, same, weights

WEIGHT = {"learning__aux_dynamics": 1.0}


def test_it_is_off_by_default():
    assert resolve("fast-cpu", {}).learning.aux_dynamics == resolve("paper", {}).learning.aux_dynamics == 0.0
    assert agent().learner.dynamics is None


def test_without_it_nothing_is_told_of_it():
    assert "dynamics_error" not in agent(method="tesac").learn(300)._last_scalars


@pytest.mark.parametrize("window", [0, 6])
def test_a_run_with_it_resumes_to_the_bit(window, tmp_path):
    changes = {"learning__window": window, "learning__burn_in": window // 3, **WEIGHT}
    whole = agent(**changes).learn(420)
    interrupted = agent(**changes)
    interrupted.learn(420, Stop(250))
    interrupted.save(tmp_path / "agent.zip")
    interrupted.make_buffer().save(tmp_path / "buffer.npz")
    torch.manual_seed(1234)
    resumed = ContextSAC.load(tmp_path / "agent.zip", env=gym.make("sami-tests/HiddenSign-v0"), device="cpu")
    resumed.make_buffer().restore(tmp_path / "buffer.npz")
    resumed.learn(420 - resumed.num_timesteps, reset_num_timesteps=False)
    assert same(weights(whole), weights(resumed))
    assert same(whole.learner.dynamics.state_dict(), resumed.learner.dynamics.state_dict())


def test_its_loss_counts_the_steps_of_known_tasks_alone():
    task_inputs = torch.tensor([[1.0], [-1.0]])
    dynamics = TaskReadout(2, task_inputs)
    with torch.no_grad():
        dynamics.readout.weight.zero_()
        dynamics.readout.bias.fill_(1.0)
    contexts = torch.zeros(3, 5, 2)
    tasks, first_steps, lengths = torch.tensor([0, 1, -1]), torch.tensor([0, 3, 0]), torch.tensor([2, 4, 4])
    # Three steps without an error, two that are off by 2; the recording does not count.
    assert dynamics.loss(contexts, tasks, first_steps, lengths).item() == pytest.approx(2 * 4 / 5)
    loss = dynamics.loss(contexts, torch.tensor([-1, -1, 7]), first_steps, lengths)
    assert loss.item() == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "sac"}, "infers no context"),
        ({"method": "oracle"}, "infers no context"),
        ({"collection.tasks": [0]}, "do not differ in any feature"),
    ],
)
def test_where_there_is_nothing_to_carry_it_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        resolve("fast-cpu", {"learning.aux_dynamics": 1.0, **changes})


def test_a_policy_trained_with_it_acts_and_exports_as_any_other():
    plain, learnt = agent(), agent(**WEIGHT)
    assert weights(plain).keys() == weights(learnt).keys()
    assert plain.policy.numpy_weights().arrays.keys() == learnt.policy.numpy_weights().arrays.keys()
    assert np.isfinite(learnt.predict(np.zeros(3, np.float32))[0]).all()
