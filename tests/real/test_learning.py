"""Trainings that are long enough to learn something, on the toy and with a profile."""

import pytest
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from tests.sami_train.agent.test_baselines import agent as baseline
from tests.sami_train.agent.test_baselines import mean_return
from tests.sami_train.agent.test_context_sac import agent
from tests.sami_train.agent.test_with_profile import agent as agent_with_profile


def test_a_policy_with_memory_learns_which_way_its_push_works():
    sac = agent(learning__encoder_rate=1e-3, learning__train_every=4, learning__discount=0.9, contrast__every=8)
    sac.learn(9_000)
    mean, _ = evaluate_policy(sac, make_vec_env("sami-tests/HiddenSign-v0", 4), 40, deterministic=True)
    # Without memory nothing beats standing still, -12: what helps with one sign hurts more with the other. Knowing the
    # sign would give -0.5; finding it out costs a first push the wrong way in half of the episodes, -1.75 on average.
    assert mean > -8.0


def test_steps_of_its_own_raise_the_bound_more_than_a_share_of_the_critics_step():
    def reached(rate):
        sac = agent(contrast__coefficient=0.01, contrast__rate=rate, contrast__every=1, learning__train_every=4)
        return sac.learn(2400).contrast_record.scalars()["contrast/bound"]

    assert reached(1e-3) > reached(0.0) + 0.1


@pytest.mark.parametrize(("method", "weight"), [("pearl", 1.0), ("tesac", 10.0)])
def test_contexts_learn_to_carry_the_task(method, weight):
    learnt = agent(method=method, learning__encoder_rate=1e-2, learning__aux_dynamics=weight).learn(400)
    for _ in range(400):
        report = learnt.learner.update(learnt.buffer, learnt.rng, contrasting=False)
    assert report["dynamics_error"].item() < 0.8  # 1 for contexts that carry nothing


def test_the_estimate_comes_nearer_to_the_truth_than_what_arrived():
    late = agent_with_profile(
        '{"latency_s": 0.08, "bias": {"gripper_width": 0.05}}', estimate=1.0, more={"learning.encoder_rate": 1e-2}
    ).learn(400)
    reports = [late.learner.update(late.buffer, late.rng, contrasting=False) for _ in range(300)][-50:]
    estimate, arrived = (sum(report[name].item() for report in reports) for name in ("estimate_error", "arrived_error"))
    assert estimate < 0.8 * arrived  # 0.72 with each of three seeds; one batch alone deviates by more


def test_where_the_task_is_all_that_counts_an_oracle_solves_what_sac_cannot():
    # Of the toy's 12 steps: without memory nothing beats standing still, -12; whoever knows the sign can have -0.5.
    assert mean_return(baseline("oracle").learn(1_200)) > -3.0
    assert mean_return(baseline("sac").learn(1_200)) < -11.0
