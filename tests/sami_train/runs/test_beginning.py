"""Runs that begin with another's weights or with recordings, and finished runs that go on."""

import shutil
import zipfile

import numpy as np
import pytest
import torch

from sami_runtime.errors import SamiError
from sami_train.config.recordings import recordings_of
from sami_train.config.resolve import resolve
from sami_train.config.weights import WEIGHTS_FILE, read_weights, sha256_of, write_weights
from sami_train.episodes.exploration import Exploration, _Explorer
from sami_train.runs import train
from sami_train.runs.folder import RunError, RunFolder
from sami_train.runs.record import RunRecord
from tests.making.learned import learned
from tests.sami_train.episodes.test_buffer import make_episode

TINY = {
    "steps": 260,
    "checkpoint_every": 10_000,
    "network.net_arch": [16],
    "network.hidden_size": 8,
    "learning.train_every": 20,
    "learning.batch_transitions": 32,
    "learning.buffer_episodes": 40,
    "learning.decay_from": 1.0,
    "exploration.warmup_steps": 100,
    "contrast.every": 2,
    "contrast.trajectories": 8,
    "collection.workers": 0,
}
FINE = {name: value for name, value in TINY.items() if not name.startswith("network")}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "source"
    return folder, train.start(resolve("fast-cpu", TINY), folder, show=False)


@pytest.fixture
def copy(source, tmp_path):
    return shutil.copytree(source[0], tmp_path / "copy")


def weights(agent, but=()):
    return {name: t for name, t in agent.policy.state_dict().items() if name.split(".")[0] not in but}


def same(tensors, other):
    return tensors.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in tensors.items())


def test_a_run_keeps_weights_and_no_pickle(source):
    folder, agent = source
    rest = read_weights(folder / WEIGHTS_FILE)
    assert {name: torch.from_numpy(array) for name, array in rest.arrays.items()}.keys() == weights(agent).keys()
    assert (rest.header.env, rest.header.method, rest.header.steps) == ("panda", "tesac", agent.num_timesteps)
    newest = RunFolder.open(folder).newest_checkpoint()
    assert (newest / WEIGHTS_FILE).read_bytes() == (folder / WEIGHTS_FILE).read_bytes()
    assert {name.split(".")[-1] for name in zipfile.ZipFile(folder / "agent.zip").namelist()} == {"json", "safetensors"}


def test_a_run_that_starts_from_another_acts_as_it_did_before_its_first_update(source):
    folder, before = source
    config = resolve("fast-cpu", FINE | {"init.source": str(folder)})
    after = train.ContextSAC("ContextPolicy", train.make_env(config), config, device="cpu")
    train.start_from(after, config)
    after.learn(60)
    assert after._n_updates == 0 < after.num_timesteps
    assert same(weights(before, ["log_temperature"]), weights(after, ["log_temperature"]))
    first, second = before.policy.numpy_weights().arrays, after.policy.numpy_weights().arrays
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert after.weights().arrays.keys() == before.weights().arrays.keys(), (
        "its critics came along, and stay in its file"
    )
    assert (config.init.source, config.init.sha256) == (str(folder), sha256_of(folder / WEIGHTS_FILE))


def test_a_run_lists_the_commands_of_the_teacher_and_the_student_that_it_began_from(copy, tmp_path):
    student = RunFolder.open(copy)
    student.update(teacher={"folder": "runs/teacher", "steps": 640}, command=["sami", "distil"])
    config = resolve("fast-cpu", FINE | {"init.source": str(copy)})
    RunFolder.create(tmp_path / "run", config, ["sami", "train"])

    def commands():
        return RunRecord.of_folder(tmp_path / "run").commands()

    assert commands() == ["sami teach --out runs/teacher --steps 640", "sami distil", "sami train"]
    (copy / WEIGHTS_FILE).write_bytes(b"of another run")
    assert commands() == ["sami train"], "the folder has another run by now"
    (copy / WEIGHTS_FILE).unlink()
    assert commands() == ["sami train"]


def test_critics_that_begin_anew_learn_alone_at_first(source):
    folder, before = source
    config = resolve("fast-cpu", FINE | {"init.source": str(folder), "init.critic_updates": 1_000, "steps": 30_000})
    agent = train.ContextSAC("ContextPolicy", train.make_env(config), config, device="cpu")
    train.start_from(agent, config)
    agent.learn(200)
    assert agent._n_updates > 3
    critics = ["critic", "critic_target", "momentum_encoder", "log_temperature"]
    assert same(weights(before, critics), weights(agent, critics))
    assert not same(weights(before), weights(agent))


@pytest.mark.parametrize("count", [0, 1])
def test_critics_that_come_to_read_more_recent_actions_begin_with_what_they_knew(tmp_path, count):
    path, switches = (
        tmp_path / WEIGHTS_FILE,
        {"gap": '{"latency_s": [0.0, 0.08]}', "with_profile.privileged_critic": True},
    )

    def agent(keys, count):
        config = resolve("fast-cpu", keys | switches | {"with_profile.critic_actions": count})
        return train.ContextSAC("ContextPolicy", train.make_env(config), config, device="cpu"), config

    before, _ = agent(TINY, count)
    write_weights(path, learned(before).weights())
    after, config = agent(FINE | {"init.source": str(path)}, 3)
    train.start_from(after, config)
    rng = torch.Generator().manual_seed(0)
    n, actions = 8, before.policy.action_size
    state, recent, action = (
        torch.rand(n, size, generator=rng)
        for size in (before.policy.critic.q1[0].in_features - (count + 1) * actions, 3 * actions, actions)
    )
    newest = recent[:, (3 - count) * actions :]
    for critic in ("critic", "critic_target"):
        report = getattr(before.policy, critic)(torch.cat([state, newest, action], -1))
        now = getattr(after.policy, critic)(torch.cat([state, recent, action], -1))
        assert all(torch.allclose(value, other, atol=1e-6) for value, other in zip(report, now, strict=True))


def test_an_anchor_holds_the_actor_also_after_its_run_was_read_back(source, tmp_path):
    folder, before = source

    def run_with(anchor):
        values = {"init.source": str(folder), "init.anchor": anchor, "init.keep_encoder": True}
        config = resolve("fast-cpu", FINE | values | {"learning.actor_rate": 1e-2})
        agent = train.ContextSAC("ContextPolicy", train.make_env(config), config, device="cpu")
        train.start_from(agent, config)
        agent.learn(180)
        inputs = torch.rand(64, 31, generator=torch.Generator().manual_seed(0)) * 2.0 - 1.0
        distance = (torch.tanh(agent.policy.actor(inputs)[0]) - torch.tanh(before.policy.actor(inputs)[0])).abs().mean()
        return agent, float(distance.detach())

    (anchored, near), (free, far) = run_with(1_000.0), run_with(0.0)
    assert near < 0.7 * far
    assert free.learner.first_actor is None
    assert same(*({n: t for n, t in weights(item).items() if n.startswith("encoder.")} for item in (before, anchored)))
    anchored.save(tmp_path / "agent.zip")
    again = train.ContextSAC.load(tmp_path / "agent.zip", device="cpu")
    assert same(again.learner.first_actor.state_dict(), before.policy.actor.state_dict())


def test_a_warm_up_by_the_policy_is_not_random():
    def acts(plan):
        rng, low = np.random.default_rng(0), -np.ones(2, np.float32)
        explorer = _Explorer(plan, rng, 0, low, -low, None, {})
        return [explorer.act(step, np.zeros(3), np.full(2, 0.5, np.float32)).tolist() for step in range(5)]

    assert acts(Exploration(warmup_steps=100, warmup_by_policy=True)) == [[0.5, 0.5]] * 5
    assert [0.5, 0.5] not in acts(Exploration(warmup_steps=100))


def test_a_finished_run_that_gets_more_steps_equals_one_that_had_them_from_the_beginning(source, copy, tmp_path):
    whole = train.start(resolve("fast-cpu", TINY | {"steps": 420}), tmp_path / "whole", show=False)
    folder_facts = RunFolder.open(copy).facts()["steps"]
    longer = train.resume(copy, steps=420, show=False)
    assert longer.num_timesteps == whole.num_timesteps >= 420
    assert longer._n_updates == whole._n_updates > source[1]._n_updates
    assert same(weights(whole), weights(longer))
    assert RunFolder.open(copy).config().steps == 420
    facts = RunFolder.open(copy).facts()
    assert (facts["state"], facts["extended"]) == ("finished", [{"from": folder_facts, "to": 420}])


def test_steps_that_add_no_update_are_refused_before_anything_is_written(copy):
    def contents():
        return {path: path.read_bytes() for path in copy.rglob("*") if path.is_file() and path.name != "lock"}

    before = contents()
    assert RunFolder.open(copy).facts()["steps"] == 300
    for steps in (200, 300, 301, 319):  # updates come after 100 steps of warm-up and 20 more each
        reason = rf"has done 300 steps; --steps {steps} is too few for another update: .* needs --steps 320 or more\."
        with pytest.raises(RunError, match=reason):
            train.resume(copy, steps=steps, show=False)
    assert contents() == before
    folder_facts = RunFolder.open(copy).facts()["updates"]
    assert train.resume(copy, steps=320, show=False)._n_updates > folder_facts


def test_a_run_without_its_buffer_goes_on_with_what_it_collects_anew_and_says_so(source, copy, capsys):
    shutil.rmtree(copy / "checkpoints")
    agent = train.resume(copy, steps=480, show=False)
    assert "has no buffer" in capsys.readouterr().err
    before = source[1]
    learned_from = agent.num_timesteps - before.num_timesteps - 100  # the warm-up, anew
    assert agent._n_updates - before._n_updates == learned_from // 20


def test_recorded_episodes_are_learned_from_and_not_counted(source):
    config = resolve("fast-cpu", FINE | {"init.source": str(source[0]), "learning.window": 8, "learning.burn_in": 4})
    agent = train.ContextSAC("ContextPolicy", train.make_env(config), config, device="cpu")
    train.start_from(agent, config)
    statistics = agent.policy.features.count.item()
    episode = make_episode(length=20)
    agent.take_recorded([episode])
    assert (len(agent.buffer), agent.num_timesteps, agent._episode_num) == (1, 0, 0)
    assert agent.policy.features.count.item() == statistics
    # Before each window stands the state that the run's encoder has there.
    previous = torch.tensor(np.concatenate([np.zeros((1, 4), np.float32), episode.actions]))
    x = agent.policy.encoder_input(agent.policy.features(torch.tensor(episode.observations)), previous)
    for window, steps in enumerate((4, 8, 12, 16), start=1):
        expected = agent.policy.encoder(x[None, :steps])[1]
        for stored, state in zip(agent.buffer.states, expected, strict=True):
            assert stored[0, window] == pytest.approx(state[0].detach().numpy(), abs=1e-5)


def test_recordings_are_refused_where_the_run_is_paid_otherwise():
    config = resolve("paper", {"collection.recordings": ["r.mcap"]})
    with pytest.raises(SamiError, match=r"collection\.reward is 'dense', but recordings are rewarded by -1"):
        recordings_of(config)
    with pytest.raises(SamiError, match=r"nothing\.mcap cannot be read"):
        recordings_of(resolve("fast-cpu", {"collection.recordings": ["nothing.mcap"]}))


def test_a_run_whose_recordings_nobody_reads_does_not_begin_without_them(tmp_path):
    config = resolve("fast-cpu", TINY | {"collection.recordings": ["r.mcap"]})
    with pytest.raises(
        SamiError, match=r"recordings is \['r\.mcap'\], but this call has no reader for them; pass reader="
    ):
        train.start(config, tmp_path / "run", show=False)
    assert not (tmp_path / "run").exists()
