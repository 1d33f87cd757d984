"""Teachers and students: what each may read, that a training goes on where it stopped, and that a student learns."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

pytest.importorskip("mujoco")

from sami_runtime.errors import SamiError
from sami_runtime.session.session import Session
from sami_train.agent.context_sac import ContextSAC
from sami_train.envs import ENVIRONMENTS
from sami_train.envs.go2.batch import Go2Batch
from sami_train.export.export_run import export_run
from sami_train.files import locked
from sami_train.runs.folder import RunError, RunFolder
from sami_train.runs.train import load_agent, make_env, resume
from sami_train.studies.teacher import student as student_module
from sami_train.studies.teacher import teacher as teacher_module
from sami_train.studies.teacher.student import distil
from sami_train.studies.teacher.teacher import TeacherConfig, load_teacher, train_teacher
from sami_train.studies.teacher.vector import ACTION_SCALE, PUSH_EVERY, REWARD_SCALE, training_batch, vector_env

GO2 = ENVIRONMENTS["go2"]
CONFIG = TeacherConfig(env="go2", rows=8, rollout=8, units=16)
ROUND = CONFIG.rows * CONFIG.rollout


def silent(line):
    """Takes a measurement and shows nothing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A teacher of two updates."""
    path = tmp_path_factory.mktemp("teacher")
    train_teacher(path, CONFIG, 2 * ROUND, every=10**9, on_measured=silent)
    return path


def test_rows_that_are_over_begin_anew_and_say_how_it_ended():
    vector = vector_env(GO2, 3, seed=0)
    vector.reset()
    vector.batch.steps[:] = [0, GO2.episode_steps - 1, 0]
    vector.batch._qpos[2, 3:7] = [0.0, 1.0, 0.0, 0.0]  # on its back
    observation, rewards, over, infos = vector.step(np.zeros((3, 12), np.float32))
    assert over.tolist() == [False, True, True]
    assert [info.get("TimeLimit.truncated") for info in infos] == [None, True, False]
    assert infos[2]["metrics"]["falls"] == 1.0
    assert rewards[2] < -5.0 * REWARD_SCALE
    assert vector.batch.steps.tolist() == [1, 0, 0]
    for row in (1, 2):
        assert (infos[row]["terminal_observation"]["observation"] != observation["observation"][row]).any()


def test_an_action_of_a_teacher_is_a_share_of_the_environments():
    vector, batch = vector_env(GO2, 2, seed=0), training_batch(GO2, 2)
    vector.reset()
    batch.reset(seeds=[0, 1])
    actions = np.random.default_rng(0).uniform(-1, 1, (2, 12)).astype(np.float32)
    observation, *_ = vector.step(actions)
    np.testing.assert_array_equal(observation["observation"], batch.step(actions * np.float32(ACTION_SCALE))[0])


def test_easy_episodes_are_nominal():
    vector = vector_env(GO2, 4, seed=0)
    for share in (0.0, 1.0):
        vector.share = share
        for begin_episodes in (vector.reset, lambda: vector.step(np.zeros((4, 12), np.float32))):
            begin_episodes()
            changes = [GO2.tasks.changes(task) for task in vector.batch.current_tasks]
            assert any(changes) == bool(share)
            vector.batch.steps[:] = GO2.episode_steps - 1


def test_a_new_teachers_first_episodes_are_nominal(tmp_path, monkeypatch):
    vector = vector_env(GO2, CONFIG.rows, CONFIG.seed)
    monkeypatch.setattr(teacher_module, "vector_env", lambda *_: vector)
    train_teacher(tmp_path, CONFIG, ROUND, every=10**9, on_measured=silent)
    assert not any(GO2.tasks.changes(task) for task in vector.batch.current_tasks)
    assert [teacher_module.changed_share(CONFIG, k * CONFIG.easy_steps // 2) for k in range(5)] == [0, 0, 0, 0.5, 1]


def test_the_share_of_changed_tasks_grows_while_a_teacher_learns(tmp_path, monkeypatch):
    vector = vector_env(GO2, CONFIG.rows, CONFIG.seed)
    monkeypatch.setattr(teacher_module, "vector_env", lambda *_: vector)
    config = dataclasses.replace(CONFIG, easy_steps=2 * ROUND)
    train_teacher(tmp_path, config, 4 * ROUND, every=10**9, on_measured=silent)  # the last rollout begins after three
    assert vector.share == 0.5


def test_a_push_changes_how_a_trunk_moves_and_no_other_robot():
    batch = training_batch(GO2, 3)
    batch.reset(seeds=[0, 1, 2])
    before = batch._qvel.copy()
    batch.push(np.array([1]), np.random.default_rng(0))
    assert np.flatnonzero((batch._qvel != before).any(axis=1)).tolist() == [1]
    assert np.flatnonzero(batch._qvel[1] != before[1]).tolist() == [*range(6)]


def test_robots_are_pushed_every_few_seconds_while_a_teacher_learns(monkeypatch):
    pushed = []
    vector = vector_env(GO2, 50, seed=0)
    vector.reset()
    monkeypatch.setattr(vector.batch, "push", lambda rows, rng: pushed.extend(rows))
    for _ in range(40):
        vector.step(np.zeros((50, 12), np.float32))
    assert len(pushed) == pytest.approx(50 * 40 / PUSH_EVERY, abs=12)


@pytest.mark.parametrize("blind", [False, True])
def test_a_blind_actor_reads_the_observation_alone_and_the_critic_all(blind):
    vector = vector_env(GO2, 2, seed=0)
    policy = teacher_module.PrivilegedPolicy(
        vector.observation_space, vector.action_space, lambda _: 0.0, units=16, blind=blind
    )
    observation = vector.reset()
    other = {**observation, "privileged": observation["privileged"] + 1.0}
    actions = [policy.act(**parts) for parts in (observation, other)]
    assert (actions[0] == actions[1]).all() == blind
    values = [policy.predict_values(policy.obs_to_tensor(parts)[0]) for parts in (observation, other)]
    assert (values[0] != values[1]).all()


def test_a_teacher_goes_on_where_it_stopped(folder, tmp_path):
    before = load_teacher(folder)
    assert before.steps == 2 * ROUND
    after = train_teacher(folder, CONFIG, 3 * ROUND, every=10**9, on_measured=silent)
    assert after.steps == load_teacher(folder).steps == 3 * ROUND
    flags = [not a.equal(b) for a, b in zip(before.policy.parameters(), after.policy.parameters(), strict=True)]
    assert any(flags)
    with pytest.raises(SamiError, match="was trained with seed=0; give the same option"):
        train_teacher(folder, TeacherConfig(env="go2", rows=8, rollout=8, units=16, seed=1), ROUND, 1, silent)
    with pytest.raises(SamiError, match=r"no teacher\.safetensors; make one: sami teach"):
        load_teacher(tmp_path)
    with pytest.raises(SamiError, match=f"^{folder} was trained in 'go2'; give no --env"):
        load_teacher(folder, "panda")


def test_weights_and_step_count_of_a_killed_teacher_are_of_one_moment(folder, tmp_path, monkeypatch):
    path, rename = shutil.copytree(folder, tmp_path / "teacher"), Path.replace
    before = load_teacher(path)

    def killed(source, target):
        rename(source, target)
        raise KeyboardInterrupt  # nothing is written after the first file

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            train_teacher(path, CONFIG, before.steps + ROUND, every=10**9, on_measured=silent)
    after = load_teacher(path)
    assert not after.policy.action_net.weight.equal(before.policy.action_net.weight)
    assert after.steps == before.steps + ROUND


def test_a_teacher_that_was_killed_before_its_first_save_begins_anew(tmp_path):
    (tmp_path / "teacher.safetensors.here-1.unfinished").touch()
    assert train_teacher(tmp_path, CONFIG, ROUND, every=10**9, on_measured=silent).steps == ROUND


def test_a_teacher_of_two_files_as_older_versions_wrote_goes_on(folder, tmp_path):
    config, facts, tensors = teacher_module.read_teacher(folder)
    safetensors.torch.save_file(tensors, tmp_path / "teacher.safetensors")
    (tmp_path / "teacher.json").write_text(json.dumps(facts))
    assert (load_teacher(tmp_path).config, load_teacher(tmp_path).steps) == (config, facts["steps"])
    steps = facts["steps"] + ROUND
    assert train_teacher(tmp_path, config, steps, every=10**9, on_measured=silent).steps == steps
    assert load_teacher(tmp_path).steps == steps
    assert not (tmp_path / "teacher.json").exists(), "its steps would be wrong"


def test_a_damaged_teacher_is_named(folder, tmp_path):
    data = (folder / "teacher.safetensors").read_bytes()
    (tmp_path / "teacher.safetensors").write_bytes(data[: len(data) // 2])
    for metadata in (None, {"sami.teacher": "{"}, {"sami.teacher": "{}"}):
        if metadata:
            safetensors.torch.save_file({}, tmp_path / "teacher.safetensors", metadata)
        with pytest.raises(SamiError, match=r"teacher.safetensors is damaged: .*another --out"):
            load_teacher(tmp_path)


def test_a_teacher_is_not_trained_in_a_folder_of_something_else(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(SamiError, match="exists and holds no teacher; choose another --out"):
        train_teacher(tmp_path, CONFIG, ROUND, every=10**9, on_measured=silent)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_teacher_in_place_of_a_run_is_named_with_the_command_that_distils_it(folder):
    with pytest.raises(SamiError, match=r"no run.json: it is a teacher. Distil it: sami distil --teacher "):
        RunFolder.open(folder)


def test_a_teacher_of_an_environment_that_gives_other_numbers_by_now_is_refused(folder, monkeypatch):
    monkeypatch.setattr(Go2Batch, "privileged", lambda batch: np.zeros((batch.rows, 3), np.float32))
    with pytest.raises(SamiError, match="reads other numbers than go2 gives now; train a new teacher"):
        load_teacher(folder)


def test_a_teacher_is_not_used_or_continued_once_a_number_means_something_else(folder, monkeypatch):
    first, *rest = GO2.numbers
    monkeypatch.setattr(type(GO2), "numbers", ["another", *rest])
    for use in (load_teacher, lambda path: train_teacher(path, CONFIG, 3 * ROUND, every=10**9, on_measured=silent)):
        with pytest.raises(RunError, match=re.escape(f"was trained with {first}, where go2 has another now")):
            use(folder)


def test_two_processes_do_not_train_one_teacher(folder):
    with locked(folder / "lock"), pytest.raises(SamiError, match="is in use by process"):
        train_teacher(folder, CONFIG, 9 * ROUND, every=10**9, on_measured=silent)


def test_a_measurement_has_every_set_and_metric(folder, monkeypatch):
    monkeypatch.setattr(teacher_module, "MEASURED", 1)
    monkeypatch.setitem(ENVIRONMENTS, "go2", GO2)
    measured = teacher_module.measure_teacher("go2", load_teacher(folder).act)
    assert list(measured) == ["nominal", *GO2.tasks.sets]
    assert set(measured["dead"]) == {"return", *(metric.name for metric in GO2.metrics)}


def test_an_environment_without_privileged_information_is_refused():
    with pytest.raises(SamiError, match=r"has no batch with privileged\(\)"):
        training_batch(ENVIRONMENTS["panda"], 2)


def test_a_teacher_of_a_mujoco_robot_is_told_its_task(tmp_path):
    config = TeacherConfig(env="crippled-hopper", rows=8, rollout=8, units=16)
    teacher = train_teacher(tmp_path / "teacher", config, ROUND, every=10**9, on_measured=silent)
    batch = training_batch(ENVIRONMENTS["crippled-hopper"], 2)
    tasks = [{"mass": 1.25, "damping": 1.0, "crippled": [part]} for part in (0, 1)]
    observation = batch.reset([0, 0], tasks)
    assert (observation[0] == observation[1]).all(), "the same start"
    privileged = batch.privileged()
    assert privileged[:, 0].tolist() == [1.0, 1.0], "the largest mass of the training tasks"
    assert [np.flatnonzero(row[2:]).tolist() for row in privileged] == [[0], [1]], "the part that is dead"
    first, second = teacher.act(observation, privileged)
    assert (first != second).any()


def test_a_student_learns_its_teacher_and_becomes_a_model_file(folder, tmp_path, monkeypatch):
    teacher = load_teacher(folder)
    teacher.policy.action_net.weight.data *= 100.0  # after so few updates it would hardly act
    monkeypatch.setattr(student_module, "load_teacher", lambda *_: teacher)
    monkeypatch.setattr(student_module, "ROWS", 8)
    monkeypatch.setattr(student_module, "UPDATES", 16)
    monkeypatch.setattr(student_module, "LOG_EVERY", 1)
    errors = []
    steps = 16 * 8 * student_module.CHUNK
    agent = distil(folder, tmp_path / "run", steps, on_chunk=lambda line: errors.append(line["train/action_error"]))
    assert np.mean(errors[-8:]) < 0.8 * np.mean(errors[:4])
    run = RunFolder.open(tmp_path / "run")
    assert run.facts()["state"] == "finished"
    assert run.facts()["teacher"]["steps"] == load_teacher(folder).steps
    assert run.facts()["numbers"] == GO2.numbers
    contract = export_run(run, tmp_path / "student.onnx", atlas_episodes=0, card=False).contract
    assert contract.training["method"] == "Student"
    assert [signal.name for signal in contract.observation if signal.command] == [
        *("commanded_velocity", "commanded_yaw_rate", "last_action")
    ]
    session = Session.load(tmp_path / "student.onnx")
    observation = np.random.default_rng(0).normal(size=(1, GO2.layout.size)).astype(np.float32)
    actions, _ = agent.policy.predict(observation, deterministic=True)
    np.testing.assert_allclose(session.step(GO2.layout.by_name(observation)).action, actions[0], atol=1e-5)
    assert len((run.metrics).read_text().splitlines()) == len(errors) == 16
    assert json.loads(run.metrics.read_text().splitlines()[-1])["step"] == steps
    assert load_agent(run).finished
    weights = agent.weights()
    untrained = ("critic", "momentum_encoder", "actor.log_std", "log_temperature")
    assert not [name for name in weights.arrays if name.startswith(untrained)]
    assert weights.header.temperature is None, "it never learned one"
    for more in (2 * steps, None):
        with pytest.raises(RunError, match="is a student; continue it by sami distil"):
            resume(run.path, steps=more)
    assert run.agent.is_file()


def test_noise_is_on_the_actions_of_some_episodes_and_labels_are_the_teachers(folder, monkeypatch):
    monkeypatch.setattr(student_module, "ROWS", 16)
    config = student_module.student_config("go2", "tesac", 10_000, 0)
    agent = ContextSAC("ContextPolicy", make_env(config), config, device="cpu")
    teacher = load_teacher(folder)
    lesson = student_module._Lesson(agent, teacher, training_batch(GO2, 16), 0)
    chunk = lesson._act(student_module.TEACHER_SHARE)  # as in a run that goes on
    with torch.no_grad():
        action, *_ = agent.policy.step(chunk.observations[:, 0], chunk.previous_actions[:, 0], *chunk.state)
    np.testing.assert_allclose(chunk.previous_actions[:, 1], action, atol=1e-6, err_msg="the teacher acts no more")
    lesson.over[:] = True
    chunk = lesson._act(1.0)
    noisy = torch.from_numpy(lesson.deviations > 0.0)
    assert 4 <= noisy.sum() <= 12
    state = chunk.state
    for step in range(student_module.CHUNK - 1):
        action, _, *state = agent.policy.step(chunk.observations[:, step], chunk.previous_actions[:, step], *state)
        off = (action - chunk.previous_actions[:, step + 1]).abs().amax(1)
        assert ((off > 1e-4) == noisy).all()
    # The readout's targets are what the teacher reads, on its own scale.
    inputs = teacher.policy.features_extractor.normalisers["privileged"]
    privileged = chunk.privileged * (inputs.variance + 1e-4).sqrt() + inputs.mean
    actions = teacher.act(chunk.observations[:, 0].numpy(), privileged[:, 0].numpy())
    clipped = (chunk.privileged[:, 0].abs() >= 5.99).any(1).numpy()
    np.testing.assert_allclose(actions[~clipped], chunk.labels[:, 0].numpy()[~clipped], atol=1e-4)


def test_a_student_goes_on_and_one_without_memory_has_no_context(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(student_module, "ROWS", 4)
    chunk = 4 * student_module.CHUNK
    assert distil(folder, tmp_path / "run", chunk, "sac").policy.context_size == 0
    assert distil(folder, tmp_path / "run", 2 * chunk, "sac").num_timesteps == 2 * chunk
    assert RunFolder.open(tmp_path / "run").config().steps == 2 * chunk
    with pytest.raises(SamiError, match="holds a student of method 'sac'"):
        distil(folder, tmp_path / "run", 3 * chunk)
    with pytest.raises(SamiError, match="holds a student of seed 0; give --seed 0"):
        distil(folder, tmp_path / "run", 3 * chunk, "sac", seed=7)
    evaluation = tmp_path / "run" / "evaluation.json"
    evaluation.write_text("{}")
    assert distil(folder, tmp_path / "run", chunk, "sac").num_timesteps == 2 * chunk
    assert evaluation.is_file(), "nothing was left to learn"
    with pytest.raises(SamiError, match="a student has a context"):
        distil(folder, tmp_path / "other", chunk, "oracle")


def test_a_student_goes_on_with_no_other_teacher(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(student_module, "ROWS", 4)
    chunk, out, steps = 4 * student_module.CHUNK, tmp_path / "run", load_teacher(folder).steps
    distil(folder, out, chunk, "sac")
    other = dataclasses.replace(CONFIG, seed=1)
    train_teacher(tmp_path / "other", other, steps, every=10**9, on_measured=silent)
    for more in (chunk, 2 * chunk):  # also where nothing is left to learn
        with pytest.raises(SamiError, match=r"that .*other has after .*Give the same teacher, or another --out"):
            distil(tmp_path / "other", out, more, "sac")
    run = RunFolder.open(out)
    assert run.agent.is_file()
    assert run.facts()["teacher"]["folder"] == str(folder)
    copy = shutil.copytree(folder, tmp_path / "moved")
    run.update(teacher={name: run.facts()["teacher"][name] for name in ("folder", "steps", "blind")})  # an older run
    assert distil(copy, out, 2 * chunk, "sac").num_timesteps == 2 * chunk


def test_a_student_goes_on_from_the_checkpoint_before_a_damaged_one(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(student_module, "ROWS", 4)
    monkeypatch.setattr(student_module, "LOG_EVERY", 1)
    chunk, out = 4 * student_module.CHUNK, tmp_path / "run"
    distil(folder, out, 2 * chunk, "sac")
    for damaged in (out / "agent.zip", out / "checkpoints" / str(2 * chunk) / "agent.zip"):
        damaged.write_bytes(damaged.read_bytes()[:-100])
    assert distil(folder, out, 3 * chunk, "sac").num_timesteps == 3 * chunk
    assert f"It is set aside; the run resumes at {chunk} steps" in capsys.readouterr().err
    assert [row["step"] for row in RunFolder.open(out).rows()] == [chunk, 2 * chunk, 3 * chunk]


def test_a_student_that_was_killed_goes_on_from_its_last_checkpoint(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(student_module, "ROWS", 4)
    monkeypatch.setattr(student_module, "LOG_EVERY", 1)
    out, chunk = tmp_path / "run", 4 * student_module.CHUNK

    def distil_until(death, steps):
        def on_chunk(line):
            if line["step"] == death:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            distil(folder, out, steps, on_chunk=on_chunk)
        return RunFolder.open(out).newest_agent().parent

    distil_until(chunk, 3 * chunk)
    shutil.rmtree(out / "checkpoints")  # as if killed before the first one
    (out / "metrics.jsonl").unlink()
    assert distil_until(2 * chunk, 3 * chunk) == out / "checkpoints" / str(2 * chunk)
    assert distil(folder, out, 3 * chunk).num_timesteps == 3 * chunk
    assert distil_until(4 * chunk, 9 * chunk) == out / "checkpoints" / str(4 * chunk)  # of a finished one, extended
    steps = [json.loads(line)["step"] for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert steps == [chunk, 2 * chunk, 3 * chunk, 4 * chunk]


def test_a_student_replaces_no_other_run(folder, tmp_path):
    config = student_module.student_config("go2", "tesac", ROUND, 0)
    for other in (config, student_module.student_config("half-cheetah", "tesac", ROUND, 0)):
        run = RunFolder.create(tmp_path / other.env, other, [])
        if other is not config:
            run.update(teacher={})
        with pytest.raises(SamiError, match=r"holds no student in 'go2'.*; choose another --out"):
            distil(folder, run.path, ROUND)
        assert run.config() == other
