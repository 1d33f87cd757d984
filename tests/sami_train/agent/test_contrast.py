"""The contrast within an agent: what it says of itself, steps of its own, and the controls."""

import math

import numpy as np
import pytest
import torch

from sami_train.agent.contrast import WINDOW, ContrastRecord
from sami_train.agent.networks import TwinCritic
from tests.sami_train.agent.test_context_sac import agent, same, weights


def record_of(bounds, k=33, missing=0):
    record = ContrastRecord()
    for bound in bounds:
        record.add({"contrast_bound": bound, "contrast_log_k": math.log(k)})
    for _ in range(missing):
        record.add({"critic_loss": 1.0})
    return record


def test_a_bound_is_told_as_the_mean_of_many_losses():
    scalars = record_of([0.0, 1.0] * 200).scalars()
    assert scalars == pytest.approx({"contrast/bound": 0.5, "contrast/k": 33.0, "contrast/share": 1.0})
    assert WINDOW >= 50


def test_a_contrast_that_has_nothing_to_compare_says_so():
    silent = record_of([], missing=20)
    assert silent.scalars() == {"contrast/share": 0.0}
    assert silent.summary() == "contrast: nothing to compare yet"
    assert "50% had nothing to compare" in record_of([0.5] * 10, missing=10).summary()


def test_a_bound_that_stays_at_zero_says_so():
    assert "learns nothing" in record_of([0.0] * WINDOW).summary()
    assert "learns nothing" not in record_of([0.4] * WINDOW).summary()
    assert ContrastRecord().summary() == ""


def test_a_contrast_that_taught_nothing_for_long_ends_and_stays_so_when_it_is_loaded():
    patient = ContrastRecord(patience=50)
    for losses in range(1, 400):
        patient.add({"contrast_bound": 0.0, "contrast_log_k": 3.0})
        assert patient.ended == (losses >= WINDOW + 49)
    assert patient.scalars() == {"contrast/ended": 1.0}
    assert ContrastRecord.from_dict(patient.to_dict(), 50).ended
    assert not ContrastRecord.from_dict(patient.to_dict(), 0).ended
    patient.add({"contrast_bound": 2.0, "contrast_log_k": 3.0})
    assert not patient.ended  # it would have gone on, had it taught something


def test_an_agent_whose_contrast_has_ended_draws_no_more_losses(monkeypatch):
    sac = agent(contrast__every=1, contrast__patience=1).learn(200)
    sac.contrast_record.in_vain = 1
    calls = []
    monkeypatch.setattr(sac.learner.contrast, "loss", lambda *_: calls.append(1))
    sac.learn(100, reset_num_timesteps=False)
    assert not calls
    assert "contrast/ended" in sac.contrast_record.scalars()


@pytest.mark.parametrize("ranking", ["return", "advantage", "shuffled", "recency"])
def test_what_a_run_logs_of_its_contrast_is_there_for_every_ranking(ranking):
    sac = agent(contrast__ranking=ranking, contrast__every=1).learn(400)
    scalars = sac.contrast_record.scalars()
    assert set(scalars) == {"contrast/bound", "contrast/k", "contrast/share"}
    assert scalars["contrast/bound"] <= math.log(scalars["contrast/k"]) + 1e-6


def test_steps_of_its_own_move_the_encoder_although_the_coefficient_is_zero():
    plain, stepped = (agent(contrast__coefficient=0.0, contrast__rate=rate).learn(300) for rate in (0.0, 1e-3))
    assert plain.learner.contrast_optimizer is None
    names = [name for name, tensor in weights(stepped).items() if not torch.equal(tensor, weights(plain)[name])]
    assert any(name.startswith("encoder.") for name in names)


def test_a_run_whose_contrast_has_an_optimiser_resumes_to_the_bit(tmp_path):
    changes = {"contrast__rate": 1e-3, "contrast__every": 1}
    whole = agent(**changes).learn(360)
    from tests.sami_train.agent.test_context_sac import ContextSAC, Stop, gym

    interrupted = agent(**changes)
    interrupted.learn(360, Stop(220))
    interrupted.save(tmp_path / "agent.zip")
    interrupted.make_buffer().save(tmp_path / "buffer.npz")
    resumed = ContextSAC.load(tmp_path / "agent.zip", env=gym.make("sami-tests/HiddenSign-v0"), device="cpu")
    resumed.make_buffer().restore(tmp_path / "buffer.npz")
    resumed.learn(360 - resumed.num_timesteps, reset_num_timesteps=False)
    assert same(weights(whole), weights(resumed))
    assert resumed.contrast_record.scalars() == whole.contrast_record.scalars()


def test_values_keep_their_precision_where_the_networks_compute_in_bfloat16():
    torch.manual_seed(0)
    critic = TwinCritic(4, (32,), layer_norm=True)
    with torch.no_grad():
        critic.q1[-1].bias.fill_(700.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        values, _ = critic(torch.randn(64, 4))
    spread = np.ptp(values.detach().numpy())
    assert values.dtype == torch.float32
    assert len(np.unique(values.detach().numpy())) == 64  # bfloat16 has steps of 4 at 700
    assert 0 < spread < 4
