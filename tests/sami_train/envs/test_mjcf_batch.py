"""A batch of a user's robots is as many single environments: through early ends, resets, blow-ups and own rewards."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco")

import torch

from sami_train.config.resolve import resolve
from sami_train.envs.catalog import environment
from sami_train.envs.make import make_batch
from sami_train.envs.mjcf.batch import MjcfBatch
from sami_train.envs.mjcf.env import MjcfEnv
from sami_train.envs.mjcf.robot import MjcfRobot
from sami_train.export.export_run import export_run
from sami_train.runs.folder import RunFolder
from sami_train.runs.train import start
from sami_train.studies.teacher import student as student_module
from sami_train.studies.teacher.student import distil
from sami_train.studies.teacher.teacher import TeacherConfig, train_teacher
from tests.sami_train.envs.test_mjcf import SERVO, WHOLE

ROWS = 3
REWARD = """
reward = [
  { velocity = "top", axis = "x", command = "speed", width = 0.5, weight = 2 },
  { velocity = "ball", axis = "z", weight = 0.1 },
  { distance = "top", to = "ball", weight = -1 },
  { distance = "ball", to = [0, 0, 1], weight = -0.2 },
  { position = "pole", axis = "z", weight = 1 },
  { sensor = "top-speed", element = 2, weight = 1 },
  { effort = true, weight = -0.1 },
]
"""
ENDING = (
    re.sub("reward = .*", REWARD, WHOLE.replace("mass = [1.0, 2.0]", "mass = { low = 1.0, high = 2.0 }"))
    .replace("training = {", "training = { late = { low = 0.0, high = 0.03 },")
    .replace("[features]", '[features]\nlate = { sets = "actuator_delay", of = ["turn"] }')
    + """
[observation]
qpos = ["rail", "hinge"]
qvel = "all"
sensors = ["top-speed"]
last_action = true
[privileged]
qpos = ["ball"]
sensors = ["where"]
[commands.speed]
low = -1
high = 2
[reset]
keyframe = "leaning"
qpos_noise = { hinge = 0.3, ball = 0.05 }
qvel_noise = 0.1
[[end]]
upright = "pole"
below = 0.7
[[metric]]
name = "off"
velocity = "cart"
axis = "x"
command = "speed"
"""
)


@pytest.fixture
def file(tmp_path):
    (tmp_path / "robot.xml").write_text(SERVO)

    def write(text=ENDING):
        (tmp_path / "robot.toml").write_text(text)
        return str(tmp_path / "robot.toml")

    return write


def paired(path, steps, between=lambda step, batch, envs: None):
    """Step a batch beside as many environments, compare all, and count early ends, ends by time and blow-ups."""
    batch, envs = MjcfBatch(path, ROWS, threads=2), [MjcfEnv(path) for _ in range(ROWS)]
    rows = batch.reset(seeds=range(ROWS))
    for row, env in enumerate(envs):
        observation, info = env.reset(seed=row)
        np.testing.assert_array_equal(rows[row], observation)
        assert batch.current_tasks[row] == info["task"]
    rng, terminations, late, unstable = np.random.default_rng(0), 0, 0, 0
    for step in range(steps):
        between(step, batch, envs)
        actions = rng.uniform(-1.3, 1.3, (ROWS, 2)).astype(np.float32)
        rows, rewards = batch.step(actions)
        over = batch.terminated | batch.truncated
        for row, env in enumerate(envs):
            observation, reward, terminated, _, info = env.step(actions[row])
            np.testing.assert_array_equal(rows[row], observation)
            np.testing.assert_array_equal(batch.privileged()[row], env.episodes.privileged()[0])
            assert (rewards[row], batch.terminated[row]) == (reward, terminated)
            assert {name: values[row] for name, values in batch.metrics.items()} == info.get("metrics", {})
            assert batch.unstable[row] == info.get("unstable", False)
            unstable += batch.unstable[row]
            if over[row]:
                terminations, late = terminations + bool(terminated), late + (not terminated)
                np.testing.assert_array_equal(batch.reset(rows=[row])[0], env.reset()[0])
                assert batch.current_tasks[row] == env.current_task
    return terminations, late, unstable


def test_rows_go_through_the_episodes_of_single_environments_also_those_that_end_early(file):
    terminations, late, _ = paired(file(), 120)
    assert terminations >= 5
    assert late >= 1
    assert environment(file()).ends_early


def test_rows_whose_simulation_blows_up_begin_where_a_single_environment_does(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its log

    def blow_up(step, batch, envs):
        if step in (0, 7):
            batch._qvel[1, 0] = envs[1].data.qvel[0] = 1e12
        if step == 4:
            batch._qpos[2, 0] = envs[2].data.qpos[0] = np.nan

    assert paired(file(), 20, blow_up)[2] == 3


def test_a_reward_of_a_users_own_function_is_that_of_a_single_environment(file, tmp_path):
    (tmp_path / "my_batch_reward.py").write_text(
        "def height(model, data):\n    return data.site('top').xpos[2] + data.qacc[0] + model.body('cart').mass[0]\n"
    )
    text = re.sub(r"reward = \[.*?\n\]\n", 'reward = "my_batch_reward:height"\n', ENDING, flags=re.DOTALL)
    paired(file(text), 15)


def test_what_only_training_knows_is_no_part_of_the_observation(file):
    path = file()
    spec, batch = environment(path), make_batch(environment(path), 2, 1)
    batch.reset(seeds=[0, 1], tasks=[{"mass": 1.0, "late": 0.0}, {"mass": 2.0, "late": 0.03}])
    names = [reading.signal.name for reading in MjcfRobot(Path(path)).privileged]
    assert names == ["ball_position", "ball_orientation", "where"]
    assert not set(names) & {signal.name for signal in spec.signals}
    privileged = batch.privileged()
    assert privileged.shape == (2, 3 + 4 + 1 + 2)
    np.testing.assert_allclose(privileged[1, :7], batch.data(1).joint("ball").qpos, rtol=1e-6)
    assert privileged[:, -2:].tolist() == [[pytest.approx(-1.0, abs=0.4)] * 2, [pytest.approx(1.0, abs=0.4)] * 2]


def test_critics_of_sac_read_what_is_privileged_and_the_policy_and_its_file_do_not(file, tmp_path):
    path = file()
    keys = {"env": path, "method": "sac", "steps": 400, "checkpoint_every": 400, "with_profile.privileged_critic": True}
    quick = {"collection.workers": 0, "exploration.warmup_steps": 100, "learning.buffer_episodes": 20}
    agent = start(resolve("fast-cpu", {**keys, **quick, "network.net_arch": [8]}), tmp_path / "run", show=False)
    policy, size = agent.policy, environment(path).layout.size
    buffer = agent.make_buffer()
    assert buffer.true_observations.shape[2] == size + 8
    np.testing.assert_array_equal(buffer.true_observations[:3, :2, :size], buffer.observations[:3, :2])
    ball = buffer.true_observations[0, 0, size : size + 3]
    assert ball == pytest.approx([2.0, 0.0, 1.0], abs=0.06)
    features = policy.features(torch.from_numpy(buffer.observations[0, :2]))
    true, empty = torch.from_numpy(buffer.true_observations[0, :2]), torch.zeros(2, 0)
    other = true.clone()
    other[:, size:] += 0.1
    read, other_read = (policy.critic_state(features, state, empty, empty) for state in (true, other))
    assert not torch.equal(read, other_read)
    assert agent._n_updates > 0
    contract = export_run(RunFolder.open(tmp_path / "run"), tmp_path / "it.onnx", atlas_episodes=0, card=False).contract
    assert [signal.name for signal in contract.observation] == [signal.name for signal in environment(path).signals]


def test_a_teacher_of_a_users_robot_knows_what_is_privileged_and_its_student_becomes_a_file(
    file, tmp_path, monkeypatch
):
    path = file()
    config = TeacherConfig(env=path, rows=8, rollout=8, units=16)
    lines = []
    train_teacher(tmp_path / "teacher", config, 128, every=64, on_measured=lines.append)
    assert set(lines[-1]["sets"]["training"]) == {"return", "off"}
    monkeypatch.setattr(student_module, "ROWS", 8)
    distil(tmp_path / "teacher", tmp_path / "run", 2 * 8 * student_module.CHUNK)
    contract = export_run(RunFolder.open(tmp_path / "run"), tmp_path / "it.onnx", atlas_episodes=0, card=False).contract
    assert [signal.name for signal in contract.observation] == [signal.name for signal in environment(path).signals]
