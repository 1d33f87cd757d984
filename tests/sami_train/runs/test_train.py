"""Training runs on Panda as users start them: what they leave behind, and that interruption changes nothing."""

import json
import os
import shutil
import signal

import pytest
import torch

from sami_train.config.resolve import resolve
from sami_train.envs.catalog import environment
from sami_train.episodes.episode import TaskRecord
from sami_train.export.export_run import export_run
from sami_train.files import read_json_lines
from sami_train.runs import train
from sami_train.runs.folder import RunError, RunFolder
from sami_train.runs.progress import Dashboard, MetricsFile
from sami_train.runs.record import RunRecord

TINY = {
    "steps": 900,
    "checkpoint_every": 300,
    "network.net_arch": [32, 32],
    "learning.train_every": 30,
    "learning.batch_transitions": 64,
    "learning.buffer_episodes": 100,
    "exploration.warmup_steps": 300,
    "contrast.every": 2,
    "contrast.trajectories": 8,
    "collection.workers": 0,
}


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    agent = train.start(resolve("fast-cpu", TINY), folder, show=False)
    return folder, agent


def interrupt_at(monkeypatch, steps):
    """Press Ctrl-C once the run has done so many steps."""
    honest = train.Progress.update

    def update(self, steps_so_far, *rest):
        honest(self, steps_so_far, *rest)
        if steps_so_far >= steps:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(train.Progress, "update", update)


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, 700)
        train.start(resolve("fast-cpu", TINY), folder, show=False)
    return folder


@pytest.fixture
def stopped(cut_off, tmp_path):
    """A run that was cut off with two checkpoints behind it, for a test to break."""
    return RunFolder.open(shutil.copytree(cut_off, tmp_path / "run"))


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize("damage", [cut, os.unlink])
def test_a_damaged_last_checkpoint_falls_back_to_the_one_before_to_the_bit(finished_run, stopped, capsys, damage):
    newest, before, *_ = stopped.checkpoints()
    damage(newest / "agent.zip")
    agent = train.resume(stopped.path, show=False)
    assert f"{newest}/agent.zip cannot be loaded: " in (message := capsys.readouterr().err)
    assert f"It is set aside; the run resumes at {before.name} steps" in message
    expected = finished_run[1].policy.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in agent.policy.state_dict().items())


def test_a_run_is_not_used_once_its_environment_reads_other_numbers(stopped):
    numbers = stopped.facts()["numbers"]
    assert numbers == environment("panda").numbers
    assert numbers[-1] == "25 Hz"
    stopped.update(numbers=[*numbers[:-1], "50 Hz"])
    for use in (train.resume, lambda path: train.load_agent(RunFolder.open(path))):
        with pytest.raises(RunError, match="was trained with 50 Hz, where panda has 25 Hz now; undo that"):
            use(stopped.path)


def test_a_run_is_not_resumed_in_another_physics_engine(stopped):
    assert stopped.facts()["engine"] == environment("panda").engine
    stopped.update(engine="another")
    with pytest.raises(RunError, match="was trained in the engine another, but panda runs in "):
        train.resume(stopped.path, show=False)


def test_where_all_are_damaged_nothing_is_moved_and_each_is_named(stopped):
    for checkpoint in stopped.checkpoints():
        flip(checkpoint / "agent.zip")
    with pytest.raises(RunError, match=r"cannot be loaded: .*; .*cannot be loaded: .*None is left to resume from"):
        train.resume(stopped.path, show=False)
    assert len(stopped.checkpoints()) >= 2


@pytest.mark.parametrize(
    ("bf16", "device", "features", "warns"),
    [
        (True, "cpu", "flags\t: fpu avx2 avx512f", True),
        (True, "cpu", "Features\t: fp asimd i8mm", True),
        (True, "cpu", "flags\t: avx512f avx512_bf16", False),
        (True, "cpu", "flags\t: amx_bf16", False),
        (True, "cpu", "Features\t: asimd bf16", False),
        (True, "cpu", None, False),  # no such file, as on macOS
        (True, "cpu", "hart\t: 0", False),  # a system that lists no features
        (True, "cuda", "flags\t: fpu avx2", False),
        (False, "cpu", "flags\t: fpu avx2", False),
    ],
)
def test_bfloat16_on_a_processor_without_its_instructions_is_warned_of(tmp_path, bf16, device, features, warns):
    processor = tmp_path / "cpuinfo"
    if features is not None:
        processor.write_text(f"processor\t: 0\n{features}\n")
    line = train.bfloat16_warning(resolve("fast-cpu", {"learning.bf16": bf16}), torch.device(device), processor)
    assert warns is ("learning.bf16 is slow without bfloat16 instructions, as here; set it false in a new run" in line)
    assert warns is bool(line)


@pytest.mark.parametrize("at", [400, 900])
def test_an_interrupted_and_resumed_run_equals_an_uninterrupted_one_to_the_bit(finished_run, tmp_path, monkeypatch, at):
    folder, whole = finished_run
    with monkeypatch.context() as patch:
        interrupt_at(patch, at)
        stopped = train.start(resolve("fast-cpu", TINY), tmp_path / "run", show=False)
    # Also at the very last step: the updates that it still owes are not lost.
    assert at <= stopped.num_timesteps
    assert stopped._n_updates < whole._n_updates
    assert RunFolder.open(tmp_path / "run").facts()["state"] == "stopped"
    resumed = train.resume(tmp_path / "run", show=False)
    assert resumed.num_timesteps == whole.num_timesteps
    assert resumed._n_updates == whole._n_updates > 15
    expected = whole.policy.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in resumed.policy.state_dict().items())
    last, last_whole = (read_json_lines(path / "metrics.jsonl")[-1] for path in (tmp_path / "run", folder))
    assert last["rollout/success"] == last_whole["rollout/success"]


def test_an_interrupt_before_the_first_step_leaves_the_run_stopped_and_not_failed(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "on_stop_signals", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train.start(resolve("fast-cpu", TINY), tmp_path / "run", show=False)
    assert RunFolder.open(tmp_path / "run").facts()["state"] == "stopped"


def test_two_processes_do_not_train_in_one_folder(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_at(patch, 400)
        train.start(resolve("fast-cpu", TINY), tmp_path / "run", show=False)
    run = RunFolder.open(tmp_path / "run")
    with run.locked(), pytest.raises(RunError, match=rf"is in use by process {os.getpid()} on "):
        train.resume(run.path, show=False)
    with run.locked(), pytest.raises(RunError, match=rf"is in use by process {os.getpid()} on "):
        train.start(resolve("fast-cpu", TINY), run.path, show=False)


def test_a_run_folder_tells_what_was_run(finished_run):
    folder, agent = finished_run
    run = RunFolder.open(folder)
    facts = run.facts()
    assert run.config() == agent.config
    assert facts["state"] == "finished"
    assert facts["steps"] == agent.num_timesteps >= 900
    assert facts["versions"]["torch"] == torch.__version__
    assert facts["seconds"] > 0
    assert run.newest_agent() == folder / "agent.zip"
    assert list((folder / "tensorboard").iterdir())
    row = read_json_lines(run.metrics)[-1]
    assert {"step", "time/seconds", "rollout/success", "success/mass=10 friction=0.1", "train/critic_loss"} <= set(row)


def test_only_the_two_newest_checkpoints_keep_their_buffers(finished_run):
    checkpoints = sorted((finished_run[0] / "checkpoints").iterdir(), key=lambda path: int(path.name))
    assert len(checkpoints) > 2
    assert [(path / "buffer.npz").exists() for path in checkpoints] == [False] * (len(checkpoints) - 2) + [True] * 2
    assert all((path / "agent.zip").exists() for path in checkpoints)


def test_a_finished_run_is_not_resumed_and_a_taken_folder_not_overwritten(finished_run):
    folder, _ = finished_run
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match="finished its 900 steps"):
        train.resume(folder, show=False)
    with pytest.raises(RunError, match=r"exists and is not empty; .* Resume it with --resume"):
        train.start(resolve("fast-cpu", TINY), folder, show=False)
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_unfinished_checkpoint_is_as_good_as_none(finished_run, tmp_path):
    run = RunFolder.create(tmp_path / "run", resolve("fast-cpu", TINY), [])
    (run.path / "checkpoints" / "600.unfinished").mkdir(parents=True)
    assert run.newest_checkpoint() is None
    with pytest.raises(RunError, match="has no checkpoint to resume from"):
        train.resume(run.path, show=False)


def test_metrics_are_cut_back_to_the_checkpoint_and_survive_a_torn_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": step}) + "\n" for step in (10, 20, 30)) + '{"step": 4')
    assert [row["step"] for row in read_json_lines(path)] == [10, 20, 30]
    MetricsFile(path, logged_at=25).close()
    assert [row["step"] for row in read_json_lines(path)] == [10, 20]
    MetricsFile(path, logged_at=10).close()
    assert [row["step"] for row in read_json_lines(path)] == [10]


def test_a_run_killed_before_its_agent_was_written_keeps_its_last_line(finished_run, tmp_path):
    folder, _ = finished_run
    run = shutil.copytree(folder, tmp_path / "run")
    for name in ("agent.zip", "weights.safetensors"):
        (run / name).unlink()  # the last checkpoint is there
    train.resume(run, show=False)
    lines, whole = (read_json_lines(path / "metrics.jsonl") for path in (run, folder))
    assert [row["step"] for row in lines] == [row["step"] for row in whole]
    assert (run / "weights.safetensors").read_bytes() == (folder / "weights.safetensors").read_bytes()


@pytest.mark.parametrize("method", ["__init__", "write"])
def test_a_fault_of_tensorboard_is_one_warning_and_training_goes_on(tmp_path, monkeypatch, capsys, method):
    def failing(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(f"sami_train.runs.progress.TensorBoardOutputFormat.{method}", failing)
    dashboard = Dashboard(tmp_path)
    for step in range(3):
        dashboard.write({"x": 1.0}, {"x": ()}, step)
    dashboard.close()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {tmp_path}/tensorboard cannot be written: [Errno 5] Input/output error. Training")


def test_progress_names_no_time_left_before_it_is_known(capsys):
    config = resolve("fast-cpu", TINY)
    progress = train.Progress(config, 0)
    progress._last_line = -1e9
    progress.update(0, 0, TaskRecord())
    assert "nan" not in capsys.readouterr().out.lower()


def test_progress_counts_no_more_steps_than_were_asked_for(capsys):
    progress = train.Progress(resolve("fast-cpu", TINY), 0)
    progress.update(0, 0, TaskRecord())
    progress._last_line = -1e9
    progress.update(8_400, 9, TaskRecord())
    line = capsys.readouterr().out
    assert line.startswith("900 of 900 steps; ")
    assert "min left" not in line


def test_a_checkpoint_is_evaluated_and_exported_like_a_run_and_not_trained_on(finished_run, tmp_path):
    folder, agent = finished_run
    middle = RunFolder.open(RunFolder(folder).checkpoints()[1])
    early = train.load_agent(middle)
    assert early.num_timesteps < agent.num_timesteps
    assert middle.config() == RunFolder.open(folder).config()
    out = tmp_path / "early.onnx"
    artifact = export_run(middle, out, atlas_episodes=0, seen_episodes=0, card=False)
    assert artifact.contract.training["steps"] == early.num_timesteps
    assert artifact.contract.training["minutes"] <= RunFolder.open(folder).facts()["seconds"] / 60 + 0.05
    record = RunRecord.of_folder(middle.path)
    assert record.evaluation is None
    assert (
        max((row["step"] for row in record.metrics), default=0)
        <= middle.checkpointed
        < RunRecord.of_folder(folder).metrics[-1]["step"]
    )
    with pytest.raises(RunError, match=rf"is a checkpoint; resume its run.*--resume {folder}"):
        train.resume(middle.path, show=False)
