"""A deterministic run on Panda, cut off at each of twenty checkpoints, ends with the weights of one that is not."""

import torch

from sami_train.config.resolve import resolve
from sami_train.runs import train

EVERY, CHECKPOINTS = 120, 20
SETTINGS = {
    "steps": EVERY * CHECKPOINTS,
    "checkpoint_every": EVERY,
    "network.net_arch": [32, 32],
    "learning.train_every": 60,
    "learning.batch_transitions": 64,
    "learning.buffer_episodes": 200,
    "exploration.warmup_steps": 300,
    "contrast.every": 2,
    "contrast.trajectories": 8,
    "collection.workers": 0,
}


def test_twenty_resumptions_change_nothing(tmp_path, monkeypatch, capsys):
    whole = train.start(resolve("fast-cpu", SETTINGS), tmp_path / "whole", show=False)
    honest = train._Keeper._on_step

    def cut(keeper):
        due = keeper._next
        return honest(keeper) and keeper._next == due  # ends after each checkpoint

    monkeypatch.setattr(train._Keeper, "_on_step", cut)
    agent, resumptions = train.start(resolve("fast-cpu", SETTINGS), tmp_path / "cut", show=False), 0
    while not agent.finished:
        agent, resumptions = train.resume(tmp_path / "cut", show=False), resumptions + 1
        ahead = agent.num_timesteps
    with capsys.disabled():
        print(f"\n{resumptions} resumptions, {ahead} steps, {agent._n_updates} updates")
    assert resumptions >= CHECKPOINTS - 2
    assert (agent.num_timesteps, agent._n_updates) == (whole.num_timesteps, whole._n_updates)
    expected = whole.policy.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in agent.policy.state_dict().items())
